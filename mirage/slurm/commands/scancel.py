"""scancel: builds the command that ends one job, and reads its answer."""

import re

from mirage.domain.job import JobId

_ALREADY_OVER = re.compile(r"already completing or completed")


def build_argv(job_id: JobId) -> list[str]:
    """Build the command. Without --verbose, scancel of 22.05 exits silently with 0 for an unknown
    job."""
    return ["scancel", "--verbose", str(job_id)]


def filter_remarks(stderr: str) -> str:
    """Return scancel's messages without the one that the job is over already.

    That message is no error: the purpose of the cancel is reached.
    """
    return "\n".join(line for line in stderr.splitlines() if not _ALREADY_OVER.search(line))
