"""Keeps statistics of the recent past: arrivals, waits, and how users use their time limits.

The statistics learn from past events only: from those of a simulator, or from accounting.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.job import Job, compute_wait_s
from mirage.domain.recent_history import RecentHistory
from mirage.observation.compute import RecentPast, find_rows_between
from mirage.simulator.arrays.jit import allocating_kernel
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Event, EventKind, JobRecord

KEPT_S = 86400
"""The length of the longest window, seconds."""
STARTS_KEPT = 256
"""The most starts, the latest ones, from which the numbers about waits are computed."""

_FORGET_OWN = 0.95
"""The weight that an older run of the same user keeps when a new run ends. About 20 runs count."""
_FORGET_ALL = 0.999
_INITIAL_SHARE = 0.5
"""The expected share of the time limit before any job has ended."""


class UserNumbers:
    """Numbers for user names. A name gets its number when it is first met, and keeps the number.
    Forks share the numbers."""

    __slots__ = ("_mapped", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._mapped: tuple[Mapping[tuple[str, str], int], Ints] = ({}, np.zeros(0, dtype=np.int64))

    def map_associations(self, associations: Mapping[tuple[str, str], int]) -> Ints:
        """Return the user number of each (account, user), in the order of the mapping.

        The mapping may only grow between calls.
        """
        mapped, numbers = self._mapped
        if mapped is not associations or len(numbers) != len(associations):
            users = [self.assign_number(user) for _, user in associations]
            numbers = np.array(users, dtype=np.int64)
            self._mapped = (associations, numbers)
        return numbers

    def assign_number(self, user: str) -> int:
        return self._numbers.setdefault(user, len(self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)


class TimedRows:
    """Rows of integers, ascending by the instant in the first column.

    Rows older than `KEPT_S` may have been dropped.
    """

    __slots__ = ("_first", "_last", "_rows")

    def __init__(self, columns: int) -> None:
        self._rows: Ints = np.empty((64, columns), dtype=np.int64)
        self._first = 0
        self._last = 0

    @classmethod
    def from_rows(cls, rows: Ints) -> "TimedRows":
        """Build the log from rows that ascend: int64[n, columns]."""
        log = cls(rows.shape[1])
        if len(rows):
            log._rows, log._last = rows.copy(), len(rows)
        return log

    def add_row(self, row: tuple[int, ...]) -> None:
        if self._last == len(self._rows):
            self._make_room(row[0])
        rows, place = self._rows, self._last
        # Accounting may report an event after later events.
        while place > self._first and rows[place - 1, 0] > row[0]:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row
        self._last += 1

    def slice_since(self, at: int, until: int) -> Ints:
        """Return the rows in (at, until], oldest first: int64[n, columns]. The result is a view: do
        not write to it."""
        rows = self._rows[self._first : self._last]
        first, last = find_rows_between(rows, at, until)
        return rows[first:last]

    def fork(self) -> "TimedRows":
        copy = TimedRows.__new__(TimedRows)
        copy._rows = self._rows[self._first :].copy()  # noqa: SLF001 - of its own kind
        copy._first, copy._last = 0, self._last - self._first  # noqa: SLF001
        return copy

    def _make_room(self, now: int) -> None:
        """Drop old rows. If the rest still fills more than half of the space, double the space."""
        recent = self._rows[self._first : self._last]
        recent = recent[recent[:, 0] > now - KEPT_S]
        size = max(len(self._rows), 4 * len(recent) if 2 * len(recent) > len(self._rows) else 0)
        self._rows = np.empty((size, recent.shape[1]), dtype=np.int64)
        self._rows[: len(recent)] = recent
        self._first, self._last = 0, len(recent)


class RunningStats:
    """The recent past of one cluster.

    `utc_offset_s`: local time on the cluster minus UTC, seconds, for the time of day.
    """

    __slots__ = ("_all", "_arrivals", "_runs", "_starts", "users", "utc_offset_s")

    def __init__(self, utc_offset_s: int = 0) -> None:
        self.users = UserNumbers()
        self.utc_offset_s = utc_offset_s
        self._arrivals = TimedRows(3)
        self._starts = TimedRows(4)
        self._runs: NDArray[np.float64] = np.zeros((64, 2))
        """One row for each user: decayed sum of run time / time limit, and decayed count."""
        self._all: NDArray[np.float64] = np.array([_INITIAL_SHARE, 1.0])

    @classmethod
    def from_accounting(
        cls, jobs: Iterable[Job], now: int, utc_offset_s: int = 0
    ) -> "RunningStats":
        """Build the statistics from accounting, with the events of each job up to `now` (epoch
        seconds)."""
        return cls.from_recent_history(RecentHistory.from_jobs(jobs, now), utc_offset_s)

    @classmethod
    def from_recent_history(cls, history: RecentHistory, utc_offset_s: int = 0) -> "RunningStats":
        """Build the statistics that watching the same history live would have given."""
        memory = cls(utc_offset_s)
        memory._arrivals, memory._starts = (
            TimedRows.from_rows(history.submitted),
            TimedRows.from_rows(history.started),
        )
        users = np.array(
            [memory.users.assign_number(u) for u in history.ended_user], dtype=np.int64
        )
        memory._runs = np.zeros((max(64, len(memory.users)), 2))
        add_ended_runs(memory._runs, memory._all, users, history.ended)
        return memory

    def record_submit(self, at: int, *, nodes: int, time_limit_s: int, user: str) -> None:
        self.users.assign_number(user)
        self._arrivals.add_row((at, nodes, time_limit_s))

    def record_start(self, at: int, *, wait_s: int, nodes: int, time_limit_s: int) -> None:
        """Record the start of a job. `wait_s`: start - eligible, seconds."""
        self._starts.add_row((at, wait_s, nodes, time_limit_s))

    def record_end(self, *, run_s: int, time_limit_s: int, user: str) -> None:
        """Record the end of a job that had started, however it ended."""
        number = self.users.assign_number(user)
        if number >= len(self._runs):
            larger = np.zeros((max(number + 1, 2 * len(self._runs)), 2))
            larger[: len(self._runs)] = self._runs
            self._runs = larger
        add_ended_runs(
            self._runs,
            self._all,
            np.array([number], dtype=np.int64),
            np.array([[run_s, time_limit_s]], dtype=np.int64),
        )

    def record_events(self, simulator: Simulator, events: Sequence[Event]) -> None:
        """Record the events that one call of a simulator returned, in their order."""
        ended_jobs = (
            {r.job_id: r for r in simulator.list_ended_since(events[0].at)} if events else {}
        )
        for event in events:
            record = ended_jobs.get(event.job_id) or simulator.find(event.job_id)
            if record is not None:
                self._record_event(event, record)

    def _record_event(self, event: Event, record: JobRecord) -> None:
        job = record.job
        if event.kind is EventKind.SUBMITTED:
            self.record_submit(
                event.at, nodes=job.nodes, time_limit_s=job.time_limit_s, user=job.user
            )
        elif event.kind is EventKind.STARTED:
            self.record_start(
                event.at,
                wait_s=compute_wait_s(event.at, record.submit, record.eligible),
                nodes=job.nodes,
                time_limit_s=job.time_limit_s,
            )
        elif event.kind is EventKind.ENDED and record.start is not None:
            run_s = event.at - record.start
            self.record_end(run_s=run_s, time_limit_s=job.time_limit_s, user=job.user)

    def get_past(self, now: int) -> RecentPast:
        """Return the arrays at `now` (epoch seconds) from which the numbers are computed. They are
        views: do not write to them."""
        return RecentPast(
            arrivals=self._arrivals.slice_since(now - KEPT_S, now),
            starts=self._starts.slice_since(now - KEPT_S, now)[-STARTS_KEPT:],
            runs=self._runs,
            all_runs=self._all,
        )

    def fork(self) -> "RunningStats":
        """Return an independent copy. The copy shares the user numbers."""
        copy = RunningStats.__new__(RunningStats)
        copy.users, copy.utc_offset_s = self.users, self.utc_offset_s
        copy._arrivals, copy._starts = self._arrivals.fork(), self._starts.fork()  # noqa: SLF001 - of its own kind
        copy._runs, copy._all = self._runs.copy(), self._all.copy()  # noqa: SLF001
        return copy


@allocating_kernel
def add_ended_runs(runs: Floats, all_runs: Floats, users: Ints, ended: Ints) -> None:
    """Add runs that have ended, in order, to the sums.

    `users` int64[n]: user numbers. `ended` int64[n, 2]: run time and time limit, seconds. Changes
    `runs` [users, 2] and `all_runs` [2].
    """
    for i in range(len(ended)):
        run_s, limit_s = ended[i]
        if limit_s < 1:
            continue
        share = min(1.0, max(0.0, run_s / limit_s))
        own = runs[users[i]]
        own[0] = own[0] * _FORGET_OWN + share
        own[1] = own[1] * _FORGET_OWN + 1.0
        all_runs[0] = all_runs[0] * _FORGET_ALL + share
        all_runs[1] = all_runs[1] * _FORGET_ALL + 1.0
