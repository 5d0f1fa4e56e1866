"""Checks If-Match: a change is made only to what its caller has seen (RFC 9110, 13.1.1)."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header
from pydantic import BaseModel

from mirage.web.shared.middleware.etag import build_tag, has_tag
from mirage.web.shared.problems import CHANGED, ProblemError

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
        if if_match is not None and not has_tag(
            if_match, build_tag(read().model_dump_json().encode())
        ):
            raise ProblemError(CHANGED, "it has changed since the answer that If-Match names")

    return require_match


IfMatch = Annotated[RequireMatch, Depends(_build_requirement)]
"""A function that takes a reader of the present answer.

It raises a problem if `If-Match` names another answer."""
