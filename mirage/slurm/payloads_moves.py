"""What slurmrestd is told: the moves of a standby, and a job submitted in JSON.

Keys of v0.0.38 are sbatch's options, those of later versions the fields of Slurm's job description
(rest_api.html of the release).
"""

from typing import Any

from mirage.domain.job import JobId
from mirage.domain.submission import Submission
from mirage.errors import InputError, MalformedText
from mirage.slurm.dependency import plain
from mirage.slurm.payloads import Dialect, mapping, number

_MINUTE = 60


def update(dialect: Dialect, dependency: str, node_list: str | None) -> dict[str, Any]:
    """The body of a job's update; None leaves the node list alone, empty text takes it away."""
    body: dict[str, Any] = {"dependency": plain(dependency)}
    if node_list is not None:
        if dialect.triples:
            body["required_nodes"] = [node_list] if node_list else []
        else:
            body["nodelist"] = node_list
    return body


def release() -> dict[str, Any]:
    """Takes a hold away, whoever set it (22.05.8)."""
    return {"hold": False}


def submit(dialect: Dialect, job: Submission) -> dict[str, Any]:
    """The body of a submission.

    Raises InputError for what this version cannot take: slurmrestd of 22.05.8 dies of `argv`.
    """
    if job.arguments and not dialect.triples:
        raise InputError(
            f"slurmrestd {dialect.version} ends when a script comes with arguments: "
            "submit this chain with mode standby, or without arguments"
        )
    described = _late(job) if dialect.triples else _early(job)
    return {
        "job": {k: v for k, v in described.items() if v not in ("", None)},
        "script": job.script,
    }


def submitted(answer: Any) -> JobId:
    """The new job's id."""
    found = number(mapping(answer).get("job_id"))
    if not found:
        raise MalformedText("no job id in the answer to a submission")
    return JobId(found)


def _both(job: Submission) -> dict[str, Any]:
    return {
        "name": job.name,
        "comment": job.comment,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "dependency": plain(job.dependency),
        "nodes": str(job.nodes),
        "tasks": job.tasks,
        "cpus_per_task": job.cpus_per_task,
        "current_working_directory": job.directory,
        "standard_output": job.output,
        "standard_error": job.error,
    }


def _early(job: Submission) -> dict[str, Any]:
    return _both(job) | {
        "time_limit": _minutes(job),
        "gres": job.gres,
        "exclusive": "exclusive" if job.exclusive else None,
        "open_mode": "append",
        "environment": dict(job.environment),
    }


def _late(job: Submission) -> dict[str, Any]:
    minutes = _minutes(job)
    limit = None if minutes is None else {"set": True, "infinite": False, "number": minutes}
    return _both(job) | {
        "time_limit": limit,
        "tres_per_node": f"gres/{job.gres}" if job.gres else None,
        "exclusive": ["true"] if job.exclusive else None,
        "open_mode": ["APPEND"],
        "environment": [f"{name}={value}" for name, value in job.environment.items()],
        "argv": list(job.arguments) or None,
    }


def _minutes(job: Submission) -> int | None:
    return None if job.time_limit_s is None else -(-job.time_limit_s // _MINUTE)
