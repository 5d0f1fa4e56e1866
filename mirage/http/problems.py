"""Every error is problem+json (RFC 9457): the kinds, and how an exception becomes one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

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
from mirage.http import denied_requests

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem; its type URI is /problems/<name> below the service's root, where `advice`
    is to be read."""

    name: str
    status: int
    title: str
    advice: str


INVALID = ProblemKind(
    "invalid-input",
    422,
    "The request is not valid",
    "Each entry of `errors` names what is wrong: `pointer` into the body, or `parameter`. Change "
    "it and ask again.",
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
    "Send `Authorization: MUNGE <credential>`, made by munge(1) for this very request: its payload "
    "is `<METHOD> <path?query> <SHA-256 of the body in hex>`, and it is good for one request. Or "
    "`Authorization: Bearer <token>`, with a token of `mirage token create` or `scontrol token`.",
)
NOT_ALLOWED = ProblemKind(
    "not-allowed",
    403,
    "You may not do this",
    "A chain obeys its owner, the coordinators of its accounts and the service's admins; modes, "
    "the kill switch and the audit are the admins'. A token may allow less "
    "(docs/admin/identity.md).",
)
NOT_FOUND = ProblemKind(
    "not-found", 404, "There is no such thing", "Look at the list it should be in."
)
NO_METHOD = ProblemKind(
    "method-not-allowed",
    405,
    "This address does not take that method",
    "The header `Allow` names those that it takes.",
)
CONFLICT = ProblemKind(
    "conflict",
    409,
    "It is not in a state that allows this",
    "Look at its state first: a chain that is over stays over.",
)
REFUSED = ProblemKind(
    "refused-by-slurm", 409, "Slurm refused", "Slurm's own words are in `detail`. Do not repeat it."
)
TOO_MANY = ProblemKind(
    "too-many",
    429,
    "You have too much under way",
    "`detail` says of what, and the header `Retry-After`, where there is one, when to ask again. A "
    "chain that is not registered runs all the same, and is found in the queue by its mark.",
)
NOT_JSON = ProblemKind(
    "unsupported-media-type",
    415,
    "The body is not of a type that is read here",
    "Send JSON with the header `Content-Type: application/json`.",
)
TOO_LARGE = ProblemKind("too-large", 413, "The body is too large", "Bodies are at most 64 KiB.")
BROKEN = ProblemKind(
    "internal-error",
    500,
    "Mirage made a mistake",
    "The service's log has the traceback. Chains go on: Slurm keeps them. Report it with the "
    "`request_id`.",
)
NO_STORE = ProblemKind(
    "database-unavailable",
    503,
    "The database cannot be used",
    "`detail` says why, and `mirage doctor` on the service's host more. Repeat it later.",
)
NO_CLUSTER = ProblemKind(
    "cluster-unavailable",
    503,
    "The cluster does not answer",
    "Slurm's or munge's daemon gave no answer. Repeat it later.",
)
NOT_READY = ProblemKind(
    "not-ready",
    503,
    "The service is not ready",
    "`detail` says why. Until it is ready Mirage moves nothing; chains go on as Slurm has them.",
)
MISDIRECTED = ProblemKind(
    "misdirected",
    421,
    "The service is not called by that name",
    "It answers to its addresses, to the names of its machine and to those of `service.origins`: "
    "another name may have been pointed here to have a browser read what is shown to it alone.",
)
HTTP = ProblemKind("http-error", 400, "The request cannot be served", "`detail` says why.")

KINDS = {
    kind.name: kind
    for kind in (
        *(INVALID, KEY_REUSED, NOT_IDENTIFIED, NOT_ALLOWED, NOT_FOUND, NO_METHOD, CONFLICT),
        *(REFUSED, TOO_LARGE, NOT_JSON, TOO_MANY, BROKEN, NO_STORE, NO_CLUSTER, NOT_READY),
        *(MISDIRECTED, HTTP),
    )
}

# The first that fits; NotFound is a StoreError.
_OF_ERROR: tuple[tuple[type[MirageError], ProblemKind], ...] = (
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
_OF_STATUS = {kind.status: kind for kind in (NOT_FOUND, NO_METHOD, TOO_LARGE)}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a request. `pointer`: into the body; `parameter`: by its name."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None

    def to_dict(self) -> dict[str, str]:
        where = {"pointer": self.pointer, "parameter": self.parameter}
        return {"detail": self.detail} | {k: v for k, v in where.items() if v is not None}


@dataclass
class ProblemError(Exception):
    """A problem found by a route itself."""

    kind: ProblemKind
    detail: str
    errors: Sequence[Fault] = field(default_factory=tuple)
    refusal: NotAllowed | None = None
    """What the audit is told, and the caller is not: that there is such a thing, of others."""


def build_invalid_error(
    detail: str,
    *,
    pointer: str | None = None,
    parameter: str | None = None,
    refusal: NotAllowed | None = None,
) -> Exception:
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
    sent = {"X-Request-Id": request_id} | dict(headers or {})
    if kind is NOT_IDENTIFIED:
        sent["WWW-Authenticate"] = "MUNGE, Bearer"
    return JSONResponse(body, body["status"], headers=sent, media_type=MEDIA_TYPE)


def _handle_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 - installed for it alone
    if error.refusal is not None:
        denied_requests.record_denial(request, error.refusal)
    return build_response(request, error.kind, error.detail, errors=error.errors)


def _handle_mirage_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MirageError)  # noqa: S101 - installed for it alone
    kind = next((kind for family, kind in _OF_ERROR if isinstance(error, family)), BROKEN)
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
    faults = [_build_fault(found) for found in error.errors()]
    detail = "; ".join(f"{f.pointer or f.parameter or 'body'}: {f.detail}" for f in faults)
    return build_response(request, INVALID, detail, errors=faults)


def _build_fault(found: Mapping[str, Any]) -> Fault:
    place, *keys = [str(key) for key in found["loc"]]
    if found["type"] == "json_invalid":
        return Fault(f"not JSON: {found.get('ctx', {}).get('error', found['msg'])}", pointer="#")
    if place == "body":
        return Fault(found["msg"], pointer="/".join(["#", *map(_escape_pointer, keys)]))
    return Fault(found["msg"], parameter=keys[0] if keys else place)


def _escape_pointer(key: str) -> str:
    """Escape a key for a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - installed for it alone
    kind = _OF_STATUS.get(error.status_code, HTTP)
    detail = f"{error.detail}: {request.method} {request.url.path}"
    return build_response(request, kind, detail, headers=error.headers, status=error.status_code)


def _handle_disconnect(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """Nobody reads it. Who leaves in the middle of a body is no error of ours, and no traceback."""
    return build_response(request, INVALID, "the body did not come to its end")


def _handle_unforeseen(request: Request, error: Exception) -> JSONResponse:  # noqa: ARG001
    """The server logs the traceback; the caller learns nothing of our insides."""
    return build_response(request, BROKEN, "an error that Mirage did not foresee")
