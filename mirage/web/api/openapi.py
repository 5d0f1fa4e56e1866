"""Completes the OpenAPI document with the errors of the routes and the parts that all share."""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi

from mirage.web.api.schemas.problem_schemas import FaultView, LiveEvent, Problem
from mirage.web.shared.auth.cookie_auth import COOKIE
from mirage.web.shared.dependencies import authorize_reader, require_identified
from mirage.web.shared.problems import KINDS, MEDIA_TYPE
from mirage.web.shared.route_list import list_routes

_REF = {"$ref": "#/components/schemas/Problem"}

_READ = (401, 403, 413, 422, 500, 503)
_WITH_BODY, _CHANGES = 400, (415, 429)
_TOO_MANY = 429

_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": "The ETag of the answer that you have. The status is 304 if nothing has "
    "changed since.",
}
_TAG = {"description": "The ETag of this answer.", "schema": {"type": "string"}}
_NEXT = {
    "description": 'The address of the next page: `<...>; rel="next"`. The last page has no such '
    "header.",
    "schema": {"type": "string"},
}
_RETRY_AFTER = {
    "description": "The number of seconds after which to try again.",
    "schema": {"type": "integer"},
}
_UNCHANGED = {
    "description": "The answer that you have is still the newest.",
    "headers": {"ETag": _TAG},
}


_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `mirage token create`, or a JSON web token of Slurm.",
    },
    "munge": {
        "type": "http",
        "scheme": "munge",
        "description": "A MUNGE credential for this one request: its payload is `<METHOD> "
        "<path?query> <SHA-256 of the body> <cluster> mirage`.",
    },
    "sack": {
        "type": "http",
        "scheme": "sack",
        "description": "A credential of Slurm's own socket (`AuthType=auth/slurm`) for this one "
        "request, with the payload of MUNGE's. A blank and 16 hexadecimal digits may follow the "
        "payload.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "A browser's session, which begins at /login.",
    },
}
"""A connection to the service's unix socket needs none: the kernel says whose it is."""
_NOBODY: dict[str, list[str]] = {}


def _list_credentials(route: Any) -> list[dict[str, list[str]]]:
    """List the credentials that the route accepts, each alone; an empty one: none is needed."""
    dependant = getattr(route, "dependant", None)
    calls = set() if dependant is None else set(_iter_calls(dependant))
    if authorize_reader not in calls:
        return []
    optional = [] if require_identified in calls else [_NOBODY]
    return [*({name: list[str]()} for name in _SCHEMES), *optional]


def _iter_calls(dependant: Dependant) -> Iterator[object]:
    yield dependant.call
    for dependency in dependant.dependencies:
        yield from _iter_calls(dependency)


def describe_read_errors(*further_statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a reading route, by status: those of all, and further ones."""
    return describe_errors(*_READ, *further_statuses)


def describe_write_errors(*further_statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a writing route, by status: those of all, and further ones."""
    return describe_errors(*_READ, *further_statuses)


def describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {
        status: {
            "description": "; ".join(k.title for k in KINDS.values() if k.status == status),
            "content": {MEDIA_TYPE: {"schema": _REF}},
        }
        | ({"headers": {"Retry-After": _RETRY_AFTER}} if status == _TOO_MANY else {})
        for status in sorted(set(statuses))
    }


def install_document(app: FastAPI, prefix: str) -> None:
    """Serve a document with the schema of a problem and the parts that all routes under `prefix`
    share."""

    def build_document() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            template = "#/components/schemas/{model}"
            problem = Problem.model_json_schema(ref_template=template)
            problem.pop("$defs", None)
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = problem
            schemas["FaultView"] = FaultView.model_json_schema()
            schemas["LiveEvent"] = LiveEvent.model_json_schema()
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            document["components"]["securitySchemes"] = _SCHEMES
            needs = {
                (route.path, method.lower()): _list_credentials(route)
                for route in list_routes(app)
                for method in route.methods or ()
            }
            for path, method, operation in _iter_operations(document):
                _complete_operation(operation, method, is_ours=path.startswith(prefix))
                operation["security"] = needs.get((path, method), [])
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = build_document  # type: ignore[method-assign] # FastAPI's own way to extend it


def _iter_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _complete_operation(operation: dict[str, Any], method: str, *, is_ours: bool) -> None:
    answers = operation["responses"]
    invalid_content = answers.get("422", {}).get("content", {})
    if MEDIA_TYPE not in invalid_content:  # FastAPI's own answer, which it adds for any parameter
        answers.pop("422", None)
    if not is_ours:
        return
    shared = [*_READ]
    if "requestBody" in operation:
        shared.append(_WITH_BODY)
    if method != "get":
        shared += _CHANGES
    for status, answer in describe_errors(*shared).items():
        answers.setdefault(str(status), answer)
    if method == "get" and "application/json" in answers["200"].get("content", {}):
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        answers["304"] = _UNCHANGED
        headers = answers["200"].setdefault("headers", {})
        headers["ETag"] = _TAG
        if any(parameter["name"] == "cursor" for parameter in operation["parameters"]):
            headers["Link"] = _NEXT
    operation["responses"] = dict(sorted(answers.items()))
