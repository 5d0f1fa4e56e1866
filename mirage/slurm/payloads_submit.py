"""A job submitted in JSON, from sbatch's own words.

Keys of v0.0.38 are sbatch's options, those of later versions the fields of Slurm's job description
(rest_api.html of the release). An option that is not in these tables is refused, never left out:
the job would be another one than its user asked for.
"""

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any

from mirage.domain.job import JobId
from mirage.domain.submission import Submission
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import InputError, MalformedText
from mirage.slurm.dependency import plain
from mirage.slurm.payloads import Dialect, mapping, number

_MINUTE = 60
_SIZE = re.compile(r"(?P<n>\d{1,12})(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_MEGABYTES = {"": 1, "M": 1, "G": 1024, "T": 1024**2}

Field = tuple[str, Callable[[str], Any]]
"""The key, and the option's value as that key takes it."""


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
        "dependency": plain(job.dependency),
        "current_working_directory": _directory(job),
        **_options(job.options, _BOTH),
    }


def _directory(job: Submission) -> str:
    chdir = job.options.get("chdir")
    return posixpath.join(job.directory, chdir) if chdir else job.directory


def _early(job: Submission) -> dict[str, Any]:
    told = {"open_mode": "append", **_both(job), **_options(job.options, _EARLY)}
    _refuse_others(job.options, _EARLY)
    return told | {"environment": dict(job.environment)}


def _late(job: Submission) -> dict[str, Any]:
    told = {"open_mode": ["APPEND"], **_both(job), **_options(job.options, _LATE)}
    _refuse_others(job.options, _LATE)
    return told | {
        "environment": [f"{name}={value}" for name, value in job.environment.items()],
        "argv": list(job.arguments) or None,
    }


def _options(options: Mapping[str, str], table: Mapping[str, Field]) -> dict[str, Any]:
    return {table[n][0]: _value(n, v, table[n][1]) for n, v in options.items() if n in table}


def _value(name: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except (ValueError, KeyError, MalformedText):
        raise InputError(f"sbatch's --{name} is not understood: {text[:60]!r}") from None


def _refuse_others(options: Mapping[str, str], table: Mapping[str, Field]) -> None:
    unknown = sorted(set(options) - set(table) - set(_BOTH) - {"chdir"})
    if unknown:
        raise InputError(f"slurmrestd is not told sbatch's --{', --'.join(unknown)}"[:300])


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _minutes(text: str) -> int:
    """Rounded up, as Slurm does."""
    seconds = parse_time_limit(text)
    if seconds is None or seconds == UNLIMITED:
        raise ValueError
    return -(-seconds // _MINUTE)


def _triple_of_minutes(text: str) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": _minutes(text)}


def _memory(text: str) -> int:
    """Megabytes, rounded up."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError
    size, unit = int(found["n"]), found["unit"].upper()
    return -(-size // 1024) if unit == "K" else size * _MEGABYTES[unit]


def _exclusive(text: str) -> str:
    return {"": "exclusive", "user": "user"}[text]


def _alone(text: str) -> list[str]:
    return [{"": "true", "user": "user"}[text]]


def _append(text: str) -> str:
    return {"append": "append"}[text]


_BOTH: dict[str, Field] = {
    "job-name": ("name", _text),
    "partition": ("partition", _text),
    "account": ("account", _text),
    "qos": ("qos", _text),
    "nodes": ("nodes", _text),
    "ntasks": ("tasks", int),
    "cpus-per-task": ("cpus_per_task", int),
    "output": ("standard_output", _text),
    "error": ("standard_error", _text),
}
_EARLY: dict[str, Field] = {
    "time": ("time_limit", _minutes),
    "time-min": ("time_minimum", _minutes),
    "gres": ("gres", _text),
    "gpus": ("gpus", _text),
    "gpus-per-node": ("gpus_per_node", _text),
    "exclusive": ("exclusive", _exclusive),
    "mem": ("memory_per_node", _memory),
    "mem-per-cpu": ("memory_per_cpu", _memory),
    "ntasks-per-node": ("tasks_per_node", int),
    "constraint": ("constraints", _text),
    "licenses": ("licenses", _text),
    "reservation": ("reservation", _text),
    "nodelist": ("nodelist", _text),
    "input": ("standard_input", _text),
    "nice": ("nice", int),
    "mail-type": ("mail_type", _text),
    "mail-user": ("mail_user", _text),
    "open-mode": ("open_mode", _append),
}
"""Each tried on 22.05.8. It takes `requeue` and does nothing with it, refuses `signal` with B:, and
shows of `signal`, `wckey` and `open_mode: truncate` nowhere whether it did: those are left out."""
_LATE: dict[str, Field] = {
    "open-mode": ("open_mode", lambda text: [_append(text).upper()]),
    "time": ("time_limit", _triple_of_minutes),
    "gres": ("tres_per_node", "gres/{}".format),
    "exclusive": ("exclusive", _alone),
}
