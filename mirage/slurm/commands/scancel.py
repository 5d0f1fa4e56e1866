"""scancel: one job ended."""

import re

from mirage.domain.job import JobId

_OVER = re.compile(r"already completing or completed")


def build_argv(job_id: JobId) -> list[str]:
    """Verbose: otherwise scancel of 22.05 says nothing, and exits with 0, of an unknown job."""
    return ["scancel", "--verbose", str(job_id)]


def filter_remarks(stderr: str) -> str:
    """Return what scancel said, without the line that the job is over already.

    A job that is over is what was wanted.
    """
    return "\n".join(line for line in stderr.splitlines() if not _OVER.search(line))
