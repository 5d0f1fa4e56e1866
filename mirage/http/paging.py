"""Pages of rows: where one begins, how long it is, and where the next one is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel

from mirage.http.context import ApiContext
from mirage.http.dependencies import Context, Reading, read_freshness
from mirage.http.problems import build_invalid_error
from mirage.store.database.engine import Transaction

MAX_LIMIT = 500
NO_SUCH_CURSOR = "no such cursor: begin again without it"
_DIGITS = 18  # of what fits a column

PagedRow = TypeVar("PagedRow")
PageModel = TypeVar("PageModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A page as it was asked for."""

    request: Request
    response: Response
    given: ApiContext
    tx: Transaction
    cursor: str | None
    """The key of the last row of the page before, as `build_page` was told it."""
    size: int

    @property
    def limit(self) -> int:
        """Rows to look up: one more than is shown tells whether a page follows."""
        return self.size + 1

    @property
    def after(self) -> int | None:
        """The cursor where it is a row's number."""
        return None if self.cursor is None else parse_row_cursor(self.cursor)

    @property
    def after_pair(self) -> tuple[int, int] | None:
        """The cursor where it is two numbers, of `format_pair_cursor`."""
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
        """`rows`: up to `limit` of them. `cursor`: where the page after that row begins."""
        fresh = read_freshness(self.tx, self.given)
        following = (
            self._build_next_link(cursor(rows[self.size - 1])) if len(rows) > self.size else None
        )
        if following is not None:
            self.response.headers["Link"] = f'<{following}>; rel="next"'
        return page(
            items=[view(row) for row in rows[: self.size]],
            next=following,
            as_of=fresh.as_of,
            stale=fresh.stale,
        )

    def _build_next_link(self, key: str) -> str:
        url = self.request.url.include_query_params(cursor=f"{_get_list_name(self.request)}.{key}")
        return f"{url.path}?{url.query}"


def _build_page_request(
    request: Request,
    response: Response,
    given: Context,
    tx: Reading,
    cursor: Annotated[
        str | None, Query(max_length=64, description="From `next` of the answer before; opaque.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows in one answer.")] = 100,
) -> PageRequest:
    return PageRequest(request, response, given, tx, _extract_key(request, cursor), limit)


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
    """A cursor that is a row's number."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _DIGITS:
        raise build_cursor_error()
    return int(cursor)


def format_pair_cursor(first: int, second: int) -> str:
    """Return the cursor of a row that two numbers identify."""
    return f"{first}-{second}"


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Epoch seconds; None: without that end."""

    since: int | None
    until: int | None


def _build_time_range(
    since: Annotated[datetime | None, Query(description="Then or later.")] = None,
    until: Annotated[datetime | None, Query(description="Before.")] = None,
) -> TimeRange:
    return TimeRange(_to_epoch(since), _to_epoch(until))


TimeRangeQuery = Annotated[TimeRange, Depends(_build_time_range)]
"""A span of time that a list is narrowed to; without a zone it is UTC."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def _to_epoch(instant: datetime | None) -> int | None:
    if instant is None:
        return None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return int((aware - _BEGIN).total_seconds())
