"""Keeps the jobs of the last weeks: the material that the twin's futures are made of.

The history is fed only with past events, from a simulator's events or from accounting alike.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Final

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.job import Job, JobState
from mirage.simulator.from_queue import build_submitted_job
from mirage.simulator.types import Event, EventKind, Params, SimJob
from mirage.twin.futures.run_time_distribution import RunTimeDistribution

KEPT_S: Final = 29 * 86400
"""Submissions are remembered this many seconds, and a little longer."""
NONE: Final = -1

_AT, _KIND, _START, _END, _COLUMNS = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Submissions:
    """Submissions of a span, oldest first; columns of equal length, epoch seconds."""

    at: Ints
    kind: Ints
    """The place of the job's kind in `SubmissionHistory.kinds`."""
    start: Ints
    """NONE: the job has not started."""
    end: Ints
    """NONE: the job has not ended. An end without a start: it was cancelled while it waited."""


class JobKinds:
    """The submitted jobs by the requests of their users, without instants. Forks share one."""

    __slots__ = ("_numbers", "groups", "jobs")

    def __init__(self) -> None:
        self._numbers: dict[SimJob, int] = {}
        self.jobs: list[SimJob] = []
        self.groups: list[tuple[int, int, int]] = []
        """The groups of each job (`RunTimeDistribution.assign_groups`)."""

    def assign_number(self, job: SimJob, run_times: RunTimeDistribution) -> int:
        kind = _build_kind(job)
        number = self._numbers.setdefault(kind, len(self.jobs))
        if number == len(self.jobs):
            self.jobs.append(kind)
            self.groups.append(run_times.assign_groups(job.user, job.time_limit_s, job.nodes))
        return number


class SubmissionHistory:
    """Submissions and their fates on one cluster, and how long jobs run there."""

    __slots__ = ("_count", "_first_id", "_rows", "_under_way", "kinds", "run_times", "since")

    def __init__(self, since: int) -> None:
        """`since`: epoch seconds. The caller records every job that was submitted after it."""
        self.since = since
        self.kinds = JobKinds()
        self.run_times = RunTimeDistribution()
        self._rows: Ints = np.full((64, _COLUMNS), NONE, dtype=np.int64)
        self._count = 0
        self._first_id = 0
        """Rows forgotten so far: a row's number less this is its place."""
        self._under_way: dict[int, int] = {}
        """The row of each job that has not ended, by job id."""

    @classmethod
    def from_accounting(
        cls, params: Params, jobs: Iterable[Job], since: int, now: int
    ) -> "SubmissionHistory":
        """Build the history of every job from accounting: all events up to `now`, in order."""
        history = cls(since)
        for at, _, job_id, kind, job in sorted(_iterate_events(jobs, now), key=itemgetter(0, 1, 2)):
            if kind is EventKind.SUBMITTED:
                history.record_submit(at, job_id, build_submitted_job(params, job))
            elif kind is EventKind.STARTED:
                history.record_start(at, job_id)
            elif kind is EventKind.REQUEUED:
                history.record_start(NONE, job_id)
            else:
                history.record_end(at, job_id)
        return history

    def record_events(
        self, events: Sequence[Event], job_of: Callable[[int], SimJob | None]
    ) -> None:
        """Record the events of a simulator, in its order, for the jobs that `job_of` knows."""
        for at, kind, job_id in events:
            if kind is EventKind.SUBMITTED:
                job = job_of(job_id)
                if job is not None:
                    self.record_submit(at, job_id, job)
            elif kind is EventKind.STARTED:
                self.record_start(at, job_id)
            elif kind is EventKind.REQUEUED:
                self.record_start(NONE, job_id)
            elif kind is EventKind.ENDED:
                self.record_end(at, job_id)

    def record_submit(self, at: int, job_id: int, job: SimJob) -> None:
        """Record a submitted job. Facts of the job that only the future knows are not looked at."""
        if self._count == len(self._rows):
            self._make_room(at)
        self._rows[self._count] = (at, self.kinds.assign_number(job, self.run_times), NONE, NONE)
        self._under_way[job_id] = self._first_id + self._count
        self._count += 1

    def record_start(self, at: int, job_id: int) -> None:
        place = self._find_place(job_id)
        if place is not None:
            self._rows[place, _START] = at

    def record_end(self, at: int, job_id: int) -> None:
        """Record the end of a job, however it ended. A job that had not started was cancelled."""
        place = self._find_place(job_id)
        if place is None:
            return
        del self._under_way[job_id]
        row = self._rows[place]
        row[_END] = at
        if row[_START] != NONE:
            kind = int(row[_KIND])
            limit_s = self.kinds.jobs[kind].time_limit_s
            run_s = at - int(row[_START])
            self.run_times.record_end(self.kinds.groups[kind], run_s=run_s, time_limit_s=limit_s)

    def list_submissions(self, since: int, until: int) -> Submissions:
        """Return the submissions in (since, until] that are still remembered."""
        rows = self._rows[: self._count]
        first, last = np.searchsorted(rows[:, _AT], (since, until), side="right")
        rows = rows[first:last]
        return Submissions(rows[:, _AT], rows[:, _KIND], rows[:, _START], rows[:, _END])

    def fork(self) -> "SubmissionHistory":
        """Return an independent copy. Both share the numbers of kinds."""
        copy = SubmissionHistory.__new__(SubmissionHistory)
        copy.since, copy.kinds, copy.run_times = self.since, self.kinds, self.run_times.fork()
        copy._rows, copy._count = self._rows.copy(), self._count  # noqa: SLF001 - of its own kind
        copy._first_id, copy._under_way = self._first_id, dict(self._under_way)  # noqa: SLF001
        return copy

    def _find_place(self, job_id: int) -> int | None:
        row = self._under_way.get(job_id)
        return None if row is None else row - self._first_id

    def _make_room(self, now: int) -> None:
        """Forget jobs that are old and over. If the arrays are still more than half full, double
        their size."""
        old_rows = int(np.searchsorted(self._rows[:, _AT], now - KEPT_S))
        under_way = (
            min(self._under_way.values(), default=self._first_id + old_rows) - self._first_id
        )
        forgotten = min(old_rows, under_way)
        remaining = self._rows[forgotten:]
        size = len(self._rows) * (2 if 2 * len(remaining) > len(self._rows) else 1)
        self._rows = np.full((size, _COLUMNS), NONE, dtype=np.int64)
        self._rows[: len(remaining)] = remaining
        self._first_id, self._count = self._first_id + forgotten, len(remaining)


def _build_kind(job: SimJob) -> SimJob:
    """Build a job that has only the fields its user asked for."""
    return SimJob(
        nodes=job.nodes,
        cpus=job.cpus,
        memory_mib=job.memory_mib,
        gpus=job.gpus,
        exclusive=job.exclusive,
        time_limit_s=job.time_limit_s,
        run_s=job.time_limit_s,
        user=job.user,
        account=job.account,
        partition=job.partition,
        qos=job.qos,
        nice=job.nice,
    )


def _iterate_events(
    jobs: Iterable[Job], now: int
) -> Iterable[tuple[int, int, int, EventKind, Job]]:
    """Iterate over (instant, order within the instant, job id, kind, job).

    Accounting has a record for each run of a requeued job. The job was submitted once, and only its
    last run is its end.
    """
    requeued = set[int]()
    for job in sorted(jobs, key=attrgetter("submit")):
        job_id = int(job.job_id)
        if job.submit <= now and job_id not in requeued:
            yield job.submit, 0, job_id, EventKind.SUBMITTED, job
        if job.start is not None and job.start <= now:
            yield job.start, 1, job_id, EventKind.STARTED, job
        if job.state.has_ended and job.end is not None and job.end <= now:
            is_requeue = job.state is JobState.REQUEUED
            kind = EventKind.REQUEUED if is_requeue else EventKind.ENDED
            (requeued.add if is_requeue else requeued.discard)(job_id)
            yield job.end, 2, job_id, kind, job
