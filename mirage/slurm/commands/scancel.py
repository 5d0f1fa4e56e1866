"""scancel: builds the command that ends one job, and reads its answer."""

import re

from mirage.domain.job import JobId

_OVER = re.compile(r"already completing or completed")


def build_argv(job_id: JobId) -> list[str]:
    """Build the command. Without --verbose, scancel of 22.05 exits silently with 0 for an unknown
    job."""
    return ["scancel", "--verbose", str(job_id)]


def filter_remarks(stderr: str) -> str:
    """Return what scancel said, without the line that the job is over already.

    A job that is over is what was wanted.
    """
    return "\n".join(line for line in stderr.splitlines() if not _OVER.search(line))
