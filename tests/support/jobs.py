"""Builders of jobs as parsers build them, with defaults for what a test is not about."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mirage.domain.job import Job, JobId, JobState, place_instants


def make_job(job_id: int = 1, state: JobState = JobState.PENDING, **fields: Any) -> Job:
    """Build a job that was submitted at 0, with `fields`; `start` and `end` are as Slurm shows
    them."""
    return change_job(Job(job_id=JobId(job_id), submit=0, state=state), **fields)


def change_job(job: Job, **changes: Any) -> Job:
    """Return the job with changes; `start` and `end` are as Slurm shows them, for the new state."""
    changed = replace(job, **changes)
    instants = place_instants(changed.state, changed.start, changed.end, changed.node_list)
    # What is None besides start and end stays as it was.
    placed: dict[str, Any] = {
        name: value
        for name, value in instants.items()
        if value is not None or name in {"start", "end"}
    }
    return replace(changed, **placed)


def index_jobs(jobs: Iterable[Job]) -> dict[int, Job]:
    """Return the jobs by their ids."""
    return {int(job.job_id): job for job in jobs}
