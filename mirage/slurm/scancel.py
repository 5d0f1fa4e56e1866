"""scancel: one job ended. In 22.05 it answers 0 without a word when there is no such job."""

from mirage.domain.job import JobId


def argv(job_id: JobId) -> list[str]:
    return ["scancel", str(job_id)]
