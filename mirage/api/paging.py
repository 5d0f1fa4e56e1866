"""Pages of rows: where one begins, how long it is, and where the next one is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Request

from mirage.api import schemas
from mirage.api.context import ApiContext
from mirage.api.deps import Context, Reading, freshness
from mirage.api.problems import invalid
from mirage.store.engine import Transaction

MAX_LIMIT = 500
_DIGITS = 18  # of what fits a column

Row = TypeVar("Row")
Page = TypeVar("Page", bound=schemas.Page)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A page as it was asked for."""

    request: Request
    given: ApiContext
    tx: Transaction
    cursor: str | None
    size: int

    @property
    def limit(self) -> int:
        """Rows to look up: one more than is shown tells whether a page follows."""
        return self.size + 1

    @property
    def after(self) -> int | None:
        """The cursor where it is a row's number."""
        return None if self.cursor is None else row_cursor(self.cursor)

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
        return page(
            items=[view(row) for row in rows[: self.size]],
            next=self._next(cursor(rows[self.size - 1])) if len(rows) > self.size else None,
            as_of=fresh.as_of,
            stale=fresh.stale,
        )

    def _next(self, cursor: str) -> str:
        url = self.request.url.include_query_params(cursor=cursor)
        return f"{url.path}?{url.query}"


def _wanted(
    request: Request,
    given: Context,
    tx: Reading,
    cursor: Annotated[
        str | None, Query(max_length=64, description="From `next` of the answer before; opaque.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows in one answer.")] = 100,
) -> Wanted:
    return Wanted(request, given, tx, cursor, limit)


Paging = Annotated[Wanted, Depends(_wanted)]


def row_cursor(cursor: str) -> int:
    """A cursor that is a row's number."""
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > _DIGITS:
        raise invalid("no such cursor: begin again without it", parameter="cursor")
    return int(cursor)
