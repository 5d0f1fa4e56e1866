"""sbatch: commands that try a submission, and what it prints for a submitted job."""

import re

from mirage.domain.job import JobId
from mirage.errors import MalformedText

_PARSABLE = re.compile(r"(\d+)(?:;\S+)?")
_SENTENCE = re.compile(r"Submitted batch job (\d+)(?: on cluster \S+)?")


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
    """Return the job's id from either form of answer. Plugins of the site may print more lines."""
    for form in (_SENTENCE, _PARSABLE):
        for line in stdout.splitlines():
            match = form.fullmatch(line.strip())
            if match is not None:
                return JobId(int(match[1]))
    raise MalformedText(f"no job id in sbatch's answer: {stdout[:200]!r}")
