"""Keeps the rows of an answer that could not be read. They are left out, unless they are many."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mirage.domain.job import JobId
from mirage.errors import MalformedText

R = TypeVar("R")
T = TypeVar("T")

_FEW_OWNERS, _FEW_ROWS = 3, 10
_SHARE = 10
"""If the bad rows are those of more than a tenth of the owners, and of more than three, the answer
has another form and is refused. So it is if more than a tenth of all rows, and more than ten, are
bad and without an owner, which no user can make them."""
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
    user: str = ""
    """The owner's name, where the answer has no uid."""

    @property
    def owner(self) -> "Owner":
        return self.user or None if self.uid is None else self.uid


Owner = int | str | None
"""The uid of a job's owner, or the name; None: the row has none."""


@dataclass(slots=True)
class Unread:
    """The rows of one answer that are left out."""

    rows: list[UnreadRow] = field(default_factory=list)
    strict: bool = False
    """If True, no row may be left out: the first one raises MalformedText."""
    without_gpus: list[JobId] = field(default_factory=list)
    """Jobs that are kept, but whose number of GPUs could not be read."""

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
        self.rows.append(replace(row, why=why))

    def check_share(self, read: Iterable[Owner]) -> None:
        """Raise MalformedText if these rows are of too many owners. `read`: the owner of each row
        that could be read.

        One owner has one vote, as one user may put any number of odd jobs into the queue.
        """
        kept = list(read)
        owners = [row.owner for row in self.rows]
        bad, everybody = {*owners} - {None}, {*owners, *kept} - {None}
        many = len(bad) > _FEW_OWNERS and len(bad) * _SHARE > len(everybody)
        ownerless, rows = owners.count(None), len(owners) + len(kept)
        if many or (ownerless > _FEW_ROWS and ownerless * _SHARE > rows):
            raise self._make_error(len(kept))

    def check_queue(self, read: Iterable[Owner]) -> None:
        """Like `check_share`, and raise MalformedText if no job could be read, as an empty queue
        means something."""
        kept = list(read)
        self.check_share(kept)
        if self.rows and not kept:
            raise self._make_error(0)

    def _make_error(self, read: int) -> MalformedText:
        first, bad = self.rows[0], len(self.rows)
        return MalformedText(f"{bad} of {bad + read} rows, such as {first.name}: {first.why}")


def make_strict_unread() -> Unread:
    """Make an `Unread` for callers that need every row."""
    return Unread(strict=True)


def quote_cell(cell: object) -> str:
    """Return a cell as a name shows it: short, and on one line."""
    return repr(str(cell)[:_SHOWN])
