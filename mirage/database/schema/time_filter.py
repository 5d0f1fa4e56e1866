"""Spans of time to which a list is narrowed."""

from collections.abc import Iterator
from typing import Protocol

from sqlalchemy import ColumnElement


class TimeBounds(Protocol):
    """The bounds of a time span, from `since` to before `until`; None: without that end."""

    @property
    def since(self) -> int | None: ...
    @property
    def until(self) -> int | None: ...


def filter_within(instant: ColumnElement[int], span: TimeBounds) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that `instant` is in the span."""
    if span.since is not None:
        yield instant >= span.since
    if span.until is not None:
        yield instant < span.until
