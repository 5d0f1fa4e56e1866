"""What the OpenAPI document says beside the routes themselves: their errors."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mirage.api.problems import KINDS, MEDIA_TYPE
from mirage.api.schemas import FaultView, Problem

_REF = {"$ref": "#/components/schemas/Problem"}

_READ = (422, 500, 503)
_WRITE = (401, 403, 413, *_READ)


def read_errors(*more: int) -> dict[int | str, dict[str, Any]]:
    return _errors((*_READ, *more))


def write_errors(*more: int) -> dict[int | str, dict[str, Any]]:
    return _errors((*_WRITE, *more))


def _errors(statuses: tuple[int, ...]) -> dict[int | str, dict[str, Any]]:
    return {
        status: {
            "description": "; ".join(k.title for k in KINDS.values() if k.status == status),
            "content": {MEDIA_TYPE: {"schema": _REF}},
        }
        for status in sorted(statuses)
    }


def install(app: FastAPI) -> None:
    """Serve a document that knows the schema of a problem, which no route names as its answer."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            template = "#/components/schemas/{model}"
            problem = Problem.model_json_schema(ref_template=template)
            problem.pop("$defs", None)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = problem
            schemas["FaultView"] = FaultView.model_json_schema()
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign] # FastAPI's own way to extend it
