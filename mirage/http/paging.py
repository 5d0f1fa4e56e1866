"""Pages of rows: where one begins, how long it is, and where the next one is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request, Response

from mirage.api.schemas import chain_schemas
from mirage.http.context import ApiContext
from mirage.http.dependencies import Context, Reading, freshness
from mirage.http.problems import invalid
from mirage.store.database.engine import Transaction

MAX_LIMIT = 500
NO_SUCH_CURSOR = "no such cursor: begin again without it"
_DIGITS = 18  # of what fits a column

Row = TypeVar("Row")
Page = TypeVar("Page", bound=chain_schemas.Page)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A page as it was asked for."""

    request: Request
    response: Response
    given: ApiContext
    tx: Transaction
    cursor: str | None
    """The key of the last row of the page before, as `answer` was told it."""
    size: int

    @property
    def limit(self) -> int:
        """Rows to look up: one more than is shown tells whether a page follows."""
        return self.size + 1

    @property
    def after(self) -> int | None:
        """The cursor where it is a row's number."""
        return None if self.cursor is None else row_cursor(self.cursor)

    @property
    def after_pair(self) -> tuple[int, int] | None:
        """The cursor where it is two numbers, of `pair_cursor`."""
        if self.cursor is None:
            return None
        first, dash, second = self.cursor.partition("-")
        return row_cursor(first), row_cursor(second if dash else "")

    def answer(
        self,
        page: Callable[..., Page],
        rows: Sequence[Row],
        *,
        view: Callable[[Row], object],
        cursor: Callable[[Row], str],
    ) -> Page:
        """`rows`: up to `limit` of them. `cursor`: where the page after that row begins."""
        fresh = freshness(self.tx, self.given)
        following = self._next(cursor(rows[self.size - 1])) if len(rows) > self.size else None
        if following is not None:
            self.response.headers["Link"] = f'<{following}>; rel="next"'
        return page(
            items=[view(row) for row in rows[: self.size]],
            next=following,
            as_of=fresh.as_of,
            stale=fresh.stale,
        )

    def _next(self, key: str) -> str:
        url = self.request.url.include_query_params(cursor=f"{_list(self.request)}.{key}")
        return f"{url.path}?{url.query}"


def _wanted(
    request: Request,
    response: Response,
    given: Context,
    tx: Reading,
    cursor: Annotated[
        str | None, Query(max_length=64, description="From `next` of the answer before; opaque.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows in one answer.")] = 100,
) -> Wanted:
    return Wanted(request, response, given, tx, _key(request, cursor), limit)


Paging = Annotated[Wanted, Depends(_wanted)]


def _key(request: Request, cursor: str | None) -> str | None:
    """What follows the list's name: a cursor of another list would lead to any place of this."""
    if cursor is None:
        return None
    name, _, key = cursor.partition(".")
    if name != _list(request) or not key:
        raise no_such_cursor()
    return key


def _list(request: Request) -> str:
    return request.url.path.rpartition("/")[2]


def no_such_cursor() -> Exception:
    return invalid(NO_SUCH_CURSOR, parameter="cursor")


def row_cursor(cursor: str) -> int:
    """A cursor that is a row's number."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _DIGITS:
        raise no_such_cursor()
    return int(cursor)


def pair_cursor(first: int, second: int) -> str:
    """Of a row that two numbers name."""
    return f"{first}-{second}"


@dataclass(frozen=True, slots=True)
class Lapse:
    """Epoch seconds; None: without that end."""

    since: int | None
    until: int | None


def _lapse(
    since: Annotated[datetime | None, Query(description="Then or later.")] = None,
    until: Annotated[datetime | None, Query(description="Before.")] = None,
) -> Lapse:
    return Lapse(_epoch(since), _epoch(until))


Between = Annotated[Lapse, Depends(_lapse)]
"""A span of time that a list is narrowed to; without a zone it is UTC."""

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def _epoch(instant: datetime | None) -> int | None:
    if instant is None:
        return None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return int((aware - _BEGIN).total_seconds())
