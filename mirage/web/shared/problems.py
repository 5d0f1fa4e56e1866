"""Answers every error as problem+json (RFC 9457): the kinds, and how an exception becomes one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from mirage.errors import (
    ClusterRefused,
    ClusterUnavailable,
    IllegalTransition,
    InputError,
    MirageError,
    NotAllowed,
    NotFound,
    NotIdentified,
    StoreError,
    TooMany,
)
from mirage.web.shared import denied_requests
from mirage.web.shared.route_list import list_routes

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem. Its type URI is /problems/<name>, where a caller can read `advice`."""

    name: str
    status: int
    title: str
    advice: str


INVALID = ProblemKind(
    "invalid-input",
    422,
    "The request is not valid",
    "Each entry of `errors` says what is wrong and where: `pointer` leads into the body, "
    "`parameter` names a parameter. Correct the request and send it again.",
)
KEY_REUSED = ProblemKind(
    "idempotency-key-reused",
    422,
    "The Idempotency-Key was used for another request",
    "A key stands for one request and its repeats. Use a new key for a new request.",
)
NOT_IDENTIFIED = ProblemKind(
    "not-identified",
    401,
    "The request needs a credential",
    "Send `Authorization: Bearer <token>`, with a token of `mirage token create` or `scontrol "
    "token`. Or send `Authorization: MUNGE <credential>`: munge(1) makes the credential for this "
    "one request, with the payload `<METHOD> <path?query> <SHA-256 of the body in hex> <cluster> "
    "mirage`. If Slurm has `AuthType=auth/slurm`, send `Authorization: SACK <credential>`, which "
    "Slurm's own socket makes with the same payload (docs/admin/without-munge.md).",
)
NOT_ALLOWED = ProblemKind(
    "not-allowed",
    403,
    "You may not do this",
    "A chain's owner, the coordinators of its accounts and the service's admins may change the "
    "chain. Only admins may set modes, use the kill switch and read the audit. A token may allow "
    "less (docs/admin/identity.md).",
)
NOT_FOUND = ProblemKind(
    "not-found",
    404,
    "Not found",
    "Check the address, and look up the name or number in its list (chains: `GET /api/v1/chains`). "
    "Whatever you may not see is reported as not found, too.",
)
NO_METHOD = ProblemKind(
    "method-not-allowed",
    405,
    "This address does not take that method",
    "The header `Allow` names the methods that this address takes.",
)
CHANGED = ProblemKind(
    "changed-meanwhile",
    412,
    "It has changed since you read it",
    "`If-Match` names the ETag of an older answer. Read the newest, and decide anew.",
)
CONFLICT = ProblemKind(
    "conflict",
    409,
    "The present state does not allow this",
    "Read the state first. A chain that is finished, cancelled or failed stays so.",
)
REFUSED = ProblemKind(
    "refused-by-slurm",
    409,
    "Slurm refused",
    "`detail` has Slurm's own words. Slurm would refuse the same request again.",
)
TOO_MANY = ProblemKind(
    "too-many",
    429,
    "You have too much under way",
    "`detail` names the limit. The header `Retry-After`, if there is one, says after how many "
    "seconds to try again. A chain that could not be registered runs all the same: Mirage finds it "
    "in the queue by its mark.",
)
NOT_JSON = ProblemKind(
    "unsupported-media-type",
    415,
    "The body's media type is not supported",
    "Send JSON with the header `Content-Type: application/json`.",
)
TOO_LARGE = ProblemKind("too-large", 413, "The body is too large", "Bodies are at most 64 KiB.")
BROKEN = ProblemKind(
    "internal-error",
    500,
    "Mirage made a mistake",
    "The service's log has the traceback. Chains continue, because Slurm runs them. Report the "
    "error with its `request_id`.",
)
NO_STORE = ProblemKind(
    "database-unavailable",
    503,
    "The database cannot be used",
    "`detail` says why, and `mirage doctor` on the service's host says more. Repeat the request "
    "later.",
)
NO_CLUSTER = ProblemKind(
    "cluster-unavailable",
    503,
    "The cluster does not answer",
    "slurmctld, munged or Slurm's own socket gave no answer. Repeat the request later.",
)
NOT_READY = ProblemKind(
    "not-ready",
    503,
    "The service is not ready",
    "`detail` says why. Until the service is ready, Mirage changes nothing in Slurm, and chains "
    "continue as under plain Slurm.",
)
MISDIRECTED = ProblemKind(
    "misdirected",
    421,
    "The service does not answer to that host name",
    "The service answers to its IP addresses, to the names of its machine and to the names in "
    "`service.origins`. Use one of these names, or ask an admin to add yours. Without this check, "
    "a foreign name that points here could make a browser read what only its user may see.",
)
HTTP = ProblemKind("http-error", 400, "The request cannot be served", "`detail` says why.")

KINDS = {
    kind.name: kind
    for kind in (
        *(INVALID, KEY_REUSED, NOT_IDENTIFIED, NOT_ALLOWED, NOT_FOUND, NO_METHOD, CONFLICT),
        *(CHANGED, REFUSED, TOO_LARGE, NOT_JSON, TOO_MANY, BROKEN, NO_STORE, NO_CLUSTER, NOT_READY),
        *(MISDIRECTED, HTTP),
    )
}

# The first that fits; NotFound is a StoreError.
_KIND_OF_ERROR: tuple[tuple[type[MirageError], ProblemKind], ...] = (
    (NotFound, NOT_FOUND),
    (StoreError, NO_STORE),
    (NotIdentified, NOT_IDENTIFIED),
    (NotAllowed, NOT_ALLOWED),
    (IllegalTransition, CONFLICT),
    (TooMany, TOO_MANY),
    (InputError, INVALID),
    (ClusterUnavailable, NO_CLUSTER),
    (ClusterRefused, REFUSED),
)
_KIND_OF_STATUS = {kind.status: kind for kind in (NOT_FOUND, NO_METHOD, TOO_LARGE)}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a request, and where.

    `pointer` is a JSON Pointer into the body (RFC 6901); `parameter` is a parameter's name.
    """

    detail: str
    pointer: str | None = None
    parameter: str | None = None

    def to_dict(self) -> dict[str, str]:
        location = {"pointer": self.pointer, "parameter": self.parameter}
        return {"detail": self.detail} | {k: v for k, v in location.items() if v is not None}


@dataclass
class ProblemError(Exception):
    """A problem found by a route itself."""

    kind: ProblemKind
    detail: str
    errors: Sequence[Fault] = field(default_factory=tuple)
    refusal: NotAllowed | None = None
    """What the audit records and the caller does not learn: the thing exists and is another's."""


def build_invalid_error(
    detail: str,
    *,
    pointer: str | None = None,
    parameter: str | None = None,
    refusal: NotAllowed | None = None,
) -> Exception:
    """Return the problem for invalid input; `pointer` or `parameter` says where the fault is."""
    return ProblemError(INVALID, detail, (Fault(detail, pointer, parameter),), refusal)


def install_handlers(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem."""
    app.add_exception_handler(ProblemError, _handle_problem)
    app.add_exception_handler(MirageError, _handle_mirage_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(ClientDisconnect, _handle_disconnect)
    app.add_exception_handler(Exception, _handle_unforeseen)


def build_response(
    request: Request,
    kind: ProblemKind,
    detail: str,
    *,
    errors: Sequence[Fault] = (),
    headers: Mapping[str, str] | None = None,
    status: int | None = None,
) -> JSONResponse:
    request_id = str(getattr(request.state, "request_id", ""))
    body: dict[str, Any] = {
        "type": f"{request.scope.get('root_path', '')}/problems/{kind.name}",
        "title": kind.title,
        "status": status or kind.status,
        "detail": detail,
        "instance": request.url.path,
        "request_id": request_id,
    }
    if errors:
        body["errors"] = [fault.to_dict() for fault in errors]
    response_headers = {"X-Request-Id": request_id} | dict(headers or {})
    if kind is NOT_IDENTIFIED:
        response_headers["WWW-Authenticate"] = "MUNGE, SACK, Bearer"
    return JSONResponse(body, body["status"], headers=response_headers, media_type=MEDIA_TYPE)


def _handle_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 - installed for it alone
    if error.refusal is not None:
        denied_requests.record_denial(request, error.refusal)
    return build_response(request, error.kind, error.detail, errors=error.errors)


def _handle_mirage_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MirageError)  # noqa: S101 - installed for it alone
    kind = next((kind for family, kind in _KIND_OF_ERROR if isinstance(error, family)), BROKEN)
    if kind in {NOT_IDENTIFIED, NOT_ALLOWED}:
        denied_requests.record_denial(request, error)
    errors = (Fault(str(error)),) if kind is INVALID else ()
    return build_response(
        request, kind, str(error), errors=errors, headers=_build_retry_header(error)
    )


def _build_retry_header(error: MirageError) -> dict[str, str]:
    """Return the header that says when to ask again, if that is known (RFC 9110, 10.2.3)."""
    after_s = error.after_s if isinstance(error, TooMany) else None
    return {} if after_s is None else {"Retry-After": str(after_s)}


def _handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - installed for it alone
    faults = [_build_fault(entry) for entry in error.errors()]
    detail = "; ".join(f"{f.pointer or f.parameter or 'body'}: {f.detail}" for f in faults)
    return build_response(request, INVALID, detail, errors=faults)


def _build_fault(error: Mapping[str, Any]) -> Fault:
    part, *keys = [str(key) for key in error["loc"]]
    if error["type"] == "json_invalid":
        return Fault(
            f"the body is not JSON: {error.get('ctx', {}).get('error', error['msg'])}", pointer="#"
        )
    if part == "body":
        return Fault(error["msg"], pointer="/".join(["#", *map(_escape_pointer, keys)]))
    return Fault(error["msg"], parameter=keys[0] if keys else part)


def _escape_pointer(key: str) -> str:
    """Escape a key for a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - installed for it alone
    kind = _KIND_OF_STATUS.get(error.status_code, HTTP)
    detail = f"{error.detail}: {request.method} {request.url.path}"
    headers = dict(error.headers or {})
    if kind is NO_METHOD:
        headers["Allow"] = ", ".join(_list_methods(request))
    return build_response(request, kind, detail, headers=headers, status=error.status_code)


def _list_methods(request: Request) -> list[str]:
    """List the methods that any route takes at this address (RFC 9110, 15.5.6).

    Starlette itself names those of the first route alone.
    """
    allowed: set[str] = set()
    for route in list_routes(request.app):
        methods = getattr(route, "methods", None) or set()
        if methods and route.matches(request.scope)[0] is not Match.NONE:
            allowed |= methods
    return sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))


def _handle_disconnect(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Answer a client that left in the middle of its body; nobody reads this answer.

    The handler keeps the log free of a traceback, because the service made no error.
    """
    return build_response(request, INVALID, "the connection ended before the body was complete")


def _handle_unforeseen(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Answer an unforeseen error. The server logs the traceback; the caller does not see it."""
    detail = "an error that Mirage did not foresee: report it with its request_id"
    return build_response(request, BROKEN, detail)
