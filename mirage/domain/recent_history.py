"""The recent history of a cluster's jobs up to an instant: columns, oldest first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Self

import numpy as np

from mirage.domain.arrays import Ints, Texts
from mirage.domain.job import Job, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentHistory:
    """Recent submissions, starts and ends. Times are epoch seconds and seconds; an unknown time
    limit is 0."""

    submitted: Ints
    """[n, 3]: instant, nodes, time limit."""
    started: Ints
    """[n, 4]: instant, wait (`Job.wait_s`), nodes, time limit."""
    ended: Ints
    """[n, 2]: run time and time limit, of jobs that had started, in the order of their ends."""
    ended_user: Texts
    """[n]: the user of each run in `ended`."""

    @classmethod
    def from_jobs(cls, jobs: Iterable[Job], now: int) -> Self:
        """Build the history from what had happened to every job by `now`."""
        submitted = sorted((j for j in jobs if j.submit <= now), key=lambda j: int(j.job_id))
        started = [j for j in submitted if _find_start(j, now) is not None]
        ended = sorted(
            ((j.end or 0, j) for j in started if _has_ended(j, now)),
            key=itemgetter(0),
        )
        return cls(
            submitted=_sort_rows([(j.submit, j.nodes, j.time_limit_s or 0) for j in submitted], 3),
            started=_sort_rows(
                [(j.start or 0, j.wait_s or 0, j.nodes, j.time_limit_s or 0) for j in started], 4
            ),
            ended=_to_row_array(
                [(end - (j.start or 0), j.time_limit_s or 0) for end, j in ended], 2
            ),
            ended_user=to_text_column([j.user for _, j in ended]),
        )


def to_text_column(values: Sequence[str]) -> Texts:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _find_start(job: Job, now: int) -> int | None:
    """Return when the job started; None if it had not by `now`, or never did."""
    return None if job.start is None or job.start > now else job.start


def _has_ended(job: Job, now: int) -> bool:
    """Return whether the job had ended by `now`. A requeued run has not, as its job continues."""
    ended = job.state.has_ended and job.state is not JobState.REQUEUED
    return ended and job.end is not None and job.end <= now


def _sort_rows(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return _to_row_array(sorted(rows, key=itemgetter(0)), width)


def _to_row_array(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, width)
