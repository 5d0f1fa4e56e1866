"""Collects the rows of an answer that could not be parsed.

Such rows are left out, so that one odd job costs no other job. If they are too many, the whole
answer is refused.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mirage.domain.job import JobId
from mirage.errors import MalformedText

R = TypeVar("R")
T = TypeVar("T")

_MOST_UNREAD_OWNERS, _MOST_OWNERLESS_ROWS = 3, 10
_ONE_IN = 10
"""An answer is refused, since its form must have changed, in two cases. One: the unread rows belong
to more than three owners, and to more than a tenth of all owners. Two: more than ten unread rows,
and more than a tenth of all rows, have no owner. No user can cause the second case."""
_QUOTED_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A row that could not be read."""

    name: str
    """The job, node or record of the row, as far as it can be read: `job 4711`, `node gpu01`."""
    why: str = ""
    job_id: JobId | None = None
    """The job of the row. The job does exist; None: its id could not be read."""
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
        self, rows: Iterable[R], parse_row: Callable[[R], T], name_row: Callable[[R], UnreadRow]
    ) -> list[T]:
        """Parse each row with `parse_row`. Rows that raise MalformedText are added to this object,
        under the name that `name_row` gives them."""
        parsed = []
        for row in rows:
            try:
                parsed.append(parse_row(row))
            except MalformedText as error:
                self.add_row(name_row(row), str(error))
        return parsed

    def add_row(self, row: UnreadRow, why: str) -> None:
        if self.strict:
            raise MalformedText(f"{row.name}: {why}")
        self.rows.append(replace(row, why=why))

    def check_share(self, read_owners: Iterable[Owner]) -> None:
        """Raise MalformedText if these rows are of too many owners, or too many have no owner.

        `read_owners`: the owner of each row that could be parsed. Owners are counted, not rows,
        because one user may put any number of odd jobs into the queue.
        """
        read_owners = list(read_owners)
        owners = [row.owner for row in self.rows]
        unread, everybody = {*owners} - {None}, {*owners, *read_owners} - {None}
        too_many = len(unread) > _MOST_UNREAD_OWNERS and len(unread) * _ONE_IN > len(everybody)
        ownerless, rows = owners.count(None), len(owners) + len(read_owners)
        if too_many or (ownerless > _MOST_OWNERLESS_ROWS and ownerless * _ONE_IN > rows):
            raise self._make_error(len(read_owners))

    def check_queue(self, read_owners: Iterable[Owner]) -> None:
        """Check like `check_share`. Raise MalformedText also if no job could be parsed: an empty
        queue would mean that all jobs are gone."""
        owners = list(read_owners)
        self.check_share(owners)
        if self.rows and not owners:
            raise self._make_error(0)

    def _make_error(self, read_count: int) -> MalformedText:
        first, unread = self.rows[0], len(self.rows)
        return MalformedText(
            f"{unread} of {unread + read_count} rows, such as {first.name}: {first.why}"
        )


def make_strict_unread() -> Unread:
    """Make an `Unread` for callers that need every row."""
    return Unread(strict=True)


def quote_cell(cell: object) -> str:
    """Return a cell as a name shows it: short, and on one line."""
    return repr(str(cell)[:_QUOTED_CHARACTERS])
