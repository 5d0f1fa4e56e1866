"""Divides lists into pages: where a page begins, how long it is, and where the next one is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from mirage.database.schema.engine import Transaction
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import Context, Reading, read_freshness
from mirage.web.shared.problems import build_invalid_error

MAX_LIMIT = 500
NO_SUCH_CURSOR = "there is no such cursor: begin again without `cursor`"
_DIGITS = 18  # that fit a column of the database

PagedRow = TypeVar("PagedRow")
PageModel = TypeVar("PageModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for one page of a list."""

    request: Request
    response: Response
    context: ApiContext
    tx: Transaction
    cursor: str | None
    """The key of the last row of the page before, as passed to `build_page`."""
    size: int

    @property
    def limit(self) -> int:
        """Return how many rows to read: one more than is shown, to know whether a page follows."""
        return self.size + 1

    @property
    def after(self) -> int | None:
        """Return the cursor as a row's number; None on the first page."""
        return None if self.cursor is None else parse_row_cursor(self.cursor)

    @property
    def after_pair(self) -> tuple[int, int] | None:
        """Return the cursor as the two numbers of `format_pair_cursor`; None on the first page."""
        if self.cursor is None:
            return None
        first, dash, second = self.cursor.partition("-")
        return parse_row_cursor(first), parse_row_cursor(second if dash else "")

    def build_page(
        self,
        page: Callable[..., PageModel],
        rows: Sequence[PagedRow],
        *,
        view: Callable[[PagedRow], object],
        cursor: Callable[[PagedRow], str],
    ) -> PageModel:
        """Build the page from up to `limit` rows, and set the header Link if another page follows.

        `view` serializes a row; `cursor` returns the key of the page that begins after a row.
        """
        freshness = read_freshness(self.tx, self.context)
        next_link = (
            self._build_next_link(cursor(rows[self.size - 1])) if len(rows) > self.size else None
        )
        if next_link is not None:
            self.response.headers["Link"] = f'<{next_link}>; rel="next"'
        return page(
            items=[view(row) for row in rows[: self.size]],
            next=next_link,
            as_of=freshness.as_of,
            stale=freshness.stale,
        )

    def _build_next_link(self, key: str) -> str:
        url = self.request.url.include_query_params(cursor=f"{_get_list_name(self.request)}.{key}")
        return f"{url.path}?{url.query}"


def _build_page_request(
    request: Request,
    response: Response,
    context: Context,
    tx: Reading,
    cursor: Annotated[
        str | None, Query(max_length=64, description="From `next` of the page before.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows in one answer.")] = 100,
) -> PageRequest:
    return PageRequest(request, response, context, tx, _extract_key(request, cursor), limit)


Paging = Annotated[PageRequest, Depends(_build_page_request)]


def _extract_key(request: Request, cursor: str | None) -> str | None:
    """Return the part of the cursor after the list's name; None without a cursor.

    Raises a problem for a cursor of another list, which would lead to any place of this one.
    """
    if cursor is None:
        return None
    name, _, key = cursor.partition(".")
    if name != _get_list_name(request) or not key:
        raise build_cursor_error()
    return key


def _get_list_name(request: Request) -> str:
    return request.url.path.rpartition("/")[2]


def build_cursor_error() -> Exception:
    return build_invalid_error(NO_SUCH_CURSOR, parameter="cursor")


def parse_row_cursor(cursor: str) -> int:
    """Parse a cursor that is a row's number. Raises a problem for anything else."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _DIGITS:
        raise build_cursor_error()
    return int(cursor)


def format_pair_cursor(first: int, second: int) -> str:
    """Return the cursor of a row that two numbers identify."""
    return f"{first}-{second}"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A span of time in epoch seconds; None: the span has no such end."""

    since: int | None
    until: int | None


def _build_time_range(
    since: Annotated[datetime | None, Query(description="At this instant or later.")] = None,
    until: Annotated[datetime | None, Query(description="Before this instant.")] = None,
) -> TimeRange:
    return TimeRange(_to_epoch(since), _to_epoch(until))


TimeRangeQuery = Annotated[TimeRange, Depends(_build_time_range)]
"""The span of time that a list is narrowed to; an instant without a time zone is in UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _to_epoch(instant: datetime | None) -> int | None:
    if instant is None:
        return None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return int((aware - _EPOCH).total_seconds())
