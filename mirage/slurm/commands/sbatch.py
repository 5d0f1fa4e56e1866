"""sbatch: commands that try a submission, and what it prints for a submitted job."""

import re

from mirage.domain.job import JobId
from mirage.errors import MalformedText

_ANSWERS = (
    re.compile(r"([1-9][0-9]*)(?:;\S+)?"),
    re.compile(r"Submitted batch job ([1-9][0-9]*)(?: on cluster \S+)?"),
)


def build_held_argv() -> list[str]:
    """Build the command that submits a held job, on which moves can be tried."""
    words = ["--parsable", "--hold", "--time=1", "--output=/dev/null", "--job-name=mirage-doctor"]
    return ["sbatch", *words, "--wrap=true"]


def build_test_only_argv() -> list[str]:
    """Build the command that asks whether Slurm would take a job.

    No job is submitted, though a job number is used up.
    """
    return ["sbatch", "--test-only", "--time=1", "--output=/dev/null", "--wrap=true"]


def parse_job_id(stdout: str) -> JobId:
    """Return the id from the one line that is sbatch's own answer, in either form.

    Raises MalformedText without such a line, and if a banner of the site holds another one.
    """
    matches = [form.fullmatch(line) for line in stdout.split("\n") for form in _ANSWERS]
    numbers = {int(match[1]) for match in matches if match is not None}
    if len(numbers) != 1:
        raise MalformedText(f"no job id in sbatch's answer, or several: {stdout[:200]!r}")
    return JobId(numbers.pop())
