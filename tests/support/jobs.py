"""The builder of a job as Slurm tells of one: what a test is not about stands here."""

from collections.abc import Iterable
from typing import Any

from mirage.domain.job import Job, JobId, JobState


def make_job(job_id: int = 1, state: JobState = JobState.PENDING, **fields: Any) -> Job:
    """It was submitted at 0 and nothing else is known of it, but for what `fields` say."""
    return Job(job_id=JobId(job_id), state=state, **{"submit": 0, **fields})


def index_jobs(jobs: Iterable[Job]) -> dict[int, Job]:
    """Return the jobs by their ids."""
    return {int(job.job_id): job for job in jobs}
