"""Rows of an answer that do not read: each is left out and named, unless they are many."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from mirage.domain.job import JobId
from mirage.errors import MalformedText

R = TypeVar("R")
T = TypeVar("T")

_FEW = 10
_SHARE = 10
"""More bad rows than a tenth, and more than ten: the answer is of another form, and is none."""
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that does not read."""

    name: str
    """What it is about, as far as that reads: `job 4711`, `node gpu01`."""
    why: str = ""
    job_id: JobId | None = None
    """The job that is there all the same; None where its id does not read."""
    uid: int | None = None
    """Its owner's."""


@dataclass(slots=True)
class Unread:
    """The rows of one answer that are left out."""

    rows: list[UnreadRow] = field(default_factory=list)
    strict: bool = False
    """No row is left out: the first raises MalformedText."""

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
        """Raise MalformedText where these of `total` rows are too many to be left out."""
        bad = len(self.rows)
        if bad > _FEW and bad * _SHARE > total:
            raise self._make_error(total)

    def check_queue(self, total: int) -> None:
        """The same; a queue of which no job reads is none either: an empty one says something."""
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
    """A cell as a name shows it: on one line, and not long."""
    return repr(str(cell)[:_SHOWN])
