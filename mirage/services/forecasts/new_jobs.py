"""Jobs that users have just submitted: whatever is foretold of new jobs is foretold of these."""

from collections.abc import Iterator, Sequence

import numpy as np

from mirage.domain.job import Job
from mirage.domain.snapshot import Queue

_LATE_S = 120
"""A job that the queue shows so long after its submission was not new in it."""


def sample_new_jobs(queue: Queue, before: Queue, most: int) -> list[Job]:
    """Return at most `most` of the plain jobs that are new since the look before."""
    return sample_evenly([job for job in list_new_jobs(queue, before) if is_plain(job)], most)


def list_new_jobs(queue: Queue, before: Queue) -> Iterator[Job]:
    """Submitted since `before`, whatever has become of them by now."""
    fresh = (queue.submit > before.taken_at - _LATE_S) & ~np.isin(queue.job_id, before.job_id)
    return (queue.get_job(int(i)) for i in np.flatnonzero(fresh))


def is_plain(job: Job) -> bool:
    """Eligible from its submission on: nothing that its user asked for keeps it waiting."""
    held = bool(job.dependency) or job.priority == 0
    return not held and job.eligible is not None and job.eligible <= job.submit + 1


def sample_evenly(found: Sequence[Job], most: int) -> list[Job]:
    """Evenly over their numbers: a burst is like itself."""
    ordered = sorted(found, key=lambda job: job.job_id)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(int))
    return [ordered[place] for place in places]
