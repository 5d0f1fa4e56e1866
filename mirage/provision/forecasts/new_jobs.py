"""Selects the jobs that users have just submitted, for all forecasts of new jobs."""

from collections.abc import Iterator, Sequence

import numpy as np

from mirage.domain.job import Job
from mirage.domain.snapshot import Queue

_LATE_S = 120
"""A job that the queue first shows this many seconds after its submission is not new."""


def sample_new_jobs(queue: Queue, before: Queue, most: int) -> list[Job]:
    """Return at most `most` of the plain jobs that are new since the look before."""
    return sample_evenly([job for job in list_new_jobs(queue, before) if is_plain(job)], most)


def list_new_jobs(queue: Queue, before: Queue) -> Iterator[Job]:
    """Yield the jobs submitted since `before`, whether they wait, run or have ended."""
    fresh = (queue.submit > before.taken_at - _LATE_S) & ~np.isin(queue.job_id, before.job_id)
    return (queue.get_job(int(i)) for i in np.flatnonzero(fresh))


def is_plain(job: Job) -> bool:
    """Return whether the job was eligible from its submission on, without dependency or hold."""
    is_held = bool(job.dependency) or job.priority == 0
    return not is_held and job.eligible is not None and job.eligible <= job.submit + 1


def sample_evenly(jobs: Sequence[Job], most: int) -> list[Job]:
    """Return at most `most` jobs, spread evenly over the job ids: jobs of a burst are alike."""
    ordered = sorted(jobs, key=lambda job: job.job_id)
    indices = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(int))
    return [ordered[i] for i in indices]
