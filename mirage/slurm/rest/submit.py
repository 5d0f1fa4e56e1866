"""Builds the submission of a job in JSON from sbatch's options."""

import posixpath
from typing import Any

from mirage.domain.job import JobId
from mirage.domain.submission import Submission
from mirage.errors import InputError, MalformedText
from mirage.slurm.rest import submit_options
from mirage.slurm.rest.envelope import Dialect, expect_mapping, parse_number
from mirage.slurm.text.dependency import normalize_dependency


def build_submission(dialect: Dialect, job: Submission) -> dict[str, Any]:
    """Build the body of a submission.

    Raises InputError for what this version cannot take: `argv` crashes slurmrestd of 22.05.8.
    """
    if job.arguments and not dialect.has_triples:
        raise InputError(
            f"slurmrestd {dialect.version} ends when a script comes with arguments: "
            "submit this chain with mode standby, or without arguments"
        )
    described = _build_later_job(job) if dialect.has_triples else _build_earliest_job(job)
    return {
        "job": {k: v for k, v in described.items() if v not in ("", None, [])},
        "script": job.script,
    }


def has_job_id(answer: Any) -> bool:
    return bool(parse_number(expect_mapping(answer).get("job_id")))


def parse_job_id(answer: Any) -> JobId:
    """Return the new job's id. Raises MalformedText if the answer has none."""
    found = parse_number(expect_mapping(answer).get("job_id"))
    if not found:
        raise MalformedText("no job id in the answer to a submission")
    return JobId(found)


def _build_earliest_job(job: Submission) -> dict[str, Any]:
    told = submit_options.convert_options(_drop_chdir(job), submit_options.EARLIEST)
    told = {"open_mode": "append", **_describe_job(job), **told}
    return told | {"environment": dict(job.environment)}


def _build_later_job(job: Submission) -> dict[str, Any]:
    told = submit_options.convert_options(_drop_chdir(job), submit_options.LATER)
    return {
        "open_mode": ["APPEND"],
        **_describe_job(job),
        **told,
        "environment": [f"{name}={value}" for name, value in job.environment.items()],
        # The first is the place of the script's own path, which slurmstepd fills in.
        "argv": [job.name or "script", *job.arguments] if job.arguments else None,
    }


def _describe_job(job: Submission) -> dict[str, Any]:
    chdir = job.options.get("chdir")
    return {
        "name": job.name,
        "comment": job.comment,
        "dependency": normalize_dependency(job.dependency),
        "current_working_directory": (
            posixpath.join(job.directory, chdir) if chdir else job.directory
        ),
    }


def _drop_chdir(job: Submission) -> dict[str, str]:
    return {name: value for name, value in job.options.items() if name != "chdir"}
