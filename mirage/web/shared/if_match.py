"""Checks If-Match: a change is made only to what its caller has seen (RFC 9110, 13.1.1)."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from mirage.errors import NotFound
from mirage.web.shared.middleware.etag import build_tag, has_tag
from mirage.web.shared.problems import CHANGED, NOT_FOUND, ProblemError

_HEADER = "if-match"
_READS = frozenset({"GET", "HEAD", "OPTIONS"})

RequireMatch = Callable[[Callable[[], BaseModel]], None]


def _build_requirement(
    if_match: Annotated[
        str | None,
        Header(
            max_length=255,
            description="The ETag of the answer to GET that you have seen. The status is 412, and "
            "nothing changes, if it is not the newest.",
        ),
    ] = None,
) -> RequireMatch:
    def require_match(read: Callable[[], BaseModel]) -> None:
        if if_match is None:
            return
        try:
            tag = build_tag(read().model_dump_json().encode())
        except (NotFound, ProblemError) as error:
            hidden = error.refusal if isinstance(error, ProblemError) else None
            if isinstance(error, ProblemError) and error.kind is not NOT_FOUND:
                raise
            says = "If-Match names an answer, and there is none yet"
            raise ProblemError(CHANGED, says, refusal=hidden) from None
        if not has_tag(if_match, tag):
            raise ProblemError(CHANGED, "it has changed since the answer that If-Match names")

    return require_match


IfMatch = Annotated[RequireMatch, Depends(_build_requirement)]
"""A function that takes a reader of the present answer.

It raises a problem if `If-Match` names another answer."""


def reject_unheeded_if_match(request: Request) -> None:
    """Raise a problem for If-Match where a change has no answer that it could name: a caller who
    sends it must not think that it was heeded."""
    route = request.scope.get("route")
    if request.method in _READS or _HEADER not in request.headers:
        return
    if isinstance(route, APIRoute) and not _takes_if_match(route.dependant):
        raise ProblemError(
            CHANGED, "no answer of this address has an ETag that If-Match could name: leave it out"
        )


def _takes_if_match(dependant: Dependant) -> bool:
    own = any(field.alias == _HEADER for field in dependant.header_params)
    return own or any(map(_takes_if_match, dependant.dependencies))
