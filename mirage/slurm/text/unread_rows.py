"""Keeps the rows of an answer that could not be read. They are left out, unless they are many."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from mirage.domain.job import JobId
from mirage.errors import MalformedText

R = TypeVar("R")
T = TypeVar("T")

_FEW = 10
_SHARE = 10
"""If more than a tenth of the rows, and more than ten, are bad, the answer has another form and is
refused."""
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that could not be read."""

    name: str
    """What the row is about, as far as it can be read: `job 4711`, `node gpu01`."""
    why: str = ""
    job_id: JobId | None = None
    """The job of the row, which exists; None: its id could not be read."""
    uid: int | None = None
    """The uid of the job's owner."""


@dataclass(slots=True)
class Unread:
    """The rows of one answer that are left out."""

    rows: list[UnreadRow] = field(default_factory=list)
    strict: bool = False
    """If True, no row may be left out: the first one raises MalformedText."""

    @property
    def job_ids(self) -> frozenset[JobId]:
        return frozenset(row.job_id for row in self.rows if row.job_id is not None)

    def iter_owners(self) -> Iterator[tuple[JobId, int | None]]:
        """Iterate over the owners of these rows' jobs, for `refuse_two_owners`."""
        return ((row.job_id, row.uid) for row in self.rows if row.job_id is not None)

    def parse_rows(
        self, rows: Iterable[R], read: Callable[[R], T], named: Callable[[R], UnreadRow]
    ) -> list[T]:
        """Return what `read` makes of each row, leaving out rows that raise MalformedText."""
        found = []
        for row in rows:
            try:
                found.append(read(row))
            except MalformedText as error:
                self.add_row(named(row), str(error))
        return found

    def add_row(self, row: UnreadRow, why: str) -> None:
        if self.strict:
            raise MalformedText(f"{row.name}: {why}")
        self.rows.append(UnreadRow(row.name, why, row.job_id, row.uid))

    def check_share(self, total: int) -> None:
        """Raise MalformedText if too many of `total` rows would be left out."""
        bad = len(self.rows)
        if bad > _FEW and bad * _SHARE > total:
            raise self._make_error(total)

    def check_queue(self, total: int) -> None:
        """Like `check_share`, and raise MalformedText if no job could be read, as an empty queue
        means something."""
        self.check_share(total)
        if self.rows and len(self.rows) >= total:
            raise self._make_error(total)

    def _make_error(self, total: int) -> MalformedText:
        first = self.rows[0]
        return MalformedText(f"{len(self.rows)} of {total} rows, such as {first.name}: {first.why}")


def make_strict_unread() -> Unread:
    """Make an `Unread` for callers that need every row."""
    return Unread(strict=True)


def quote_cell(cell: object) -> str:
    """Return a cell as a name shows it: short, and on one line."""
    return repr(str(cell)[:_SHOWN])
