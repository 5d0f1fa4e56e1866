"""sbatch's options as the fields of a job that slurmrestd is told.

Keys of v0.0.38 are sbatch's options, those of later versions the fields of Slurm's job description
(the OpenAPI document of the release). An option that is not in a table is not told at all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import InputError, MalformedText
from mirage.slurm.text import hostlist

Told = Callable[[str], dict[str, Any]]
"""From an option's value to what it is told as."""

_MINUTE = 60
_NO_LIMIT = frozenset({UNLIMITED, 0})
"""To sbatch 0 is no limit as well."""
_SIZE = re.compile(r"(?P<n>\d{1,12})(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_MEGABYTES = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_SIGNAL = re.compile(
    r"(?:(?P<whom>[BR]{1,2}):)?(?:SIG)?(?P<signal>[A-Z0-9+]{1,12})(?:@(?P<before>\d{1,5}))?",
    re.IGNORECASE,
)
_SECONDS_BEFORE = 60
"""sbatch's, where a signal comes without its time."""
_WHOM = {"B": "BATCH_JOB", "R": "RESERVATION_JOB"}
_MAIL = {
    "ALL": ["BEGIN", "END", "FAIL", "REQUEUE", "INVALID_DEPENDENCY", "STAGE_OUT"],
    "INVALID_DEPEND": ["INVALID_DEPENDENCY"],
    "NONE": [],
    "TIME_LIMIT": ["TIME=100%"],
    **{f"TIME_LIMIT_{part}": [f"TIME={part}%"] for part in (50, 80, 90)},
    **{name: [name] for name in ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")},
}
_NICE = 100
"""What `--nice` without a value comes to."""


def told(options: Mapping[str, str], table: Mapping[str, Told]) -> dict[str, Any]:
    """The fields of all options. Raises InputError for one that the table does not have, or whose
    value does not read: the job would be another one than its user asked for."""
    unknown = sorted(set(options) - set(table))
    if unknown:
        raise InputError(f"slurmrestd is not told sbatch's --{', --'.join(unknown)}"[:300])
    found: dict[str, Any] = {}
    for name, value in options.items():
        for key, part in _read(name, value, table[name]).items():
            # --gres and --gpus-per-node add up; of --exclusive and --oversubscribe the last counts.
            adds_up = key in found and isinstance(part, str) and part
            found[key] = f"{found[key]},{part}" if adds_up else part
    return found


def _read(name: str, text: str, read: Told) -> dict[str, Any]:
    try:
        return read(text)
    except (ValueError, KeyError, MalformedText):
        raise InputError(f"sbatch's --{name} is not understood: {text[:60]!r}") from None


def _as(key: str, read: Callable[[str], Any]) -> Told:
    return lambda text: {key: read(text)}


def _text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _flag(text: str) -> bool:
    return {"": True, "yes": True, "no": False}[text]


def _minutes(text: str) -> int:
    """Rounded up, as Slurm does."""
    seconds = parse_time_limit(text)
    if seconds is None or seconds in _NO_LIMIT:
        raise ValueError
    return -(-seconds // _MINUTE)


def _triple(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


def _limit(text: str) -> dict[str, Any]:
    if parse_time_limit(text) in _NO_LIMIT:
        return {"set": True, "infinite": True, "number": 0}
    return _triple(_minutes(text))


def _memory(text: str) -> int:
    """Megabytes, rounded up."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError
    size, unit = int(found["n"]), found["unit"].upper()
    return -(-size // 1024) if unit == "K" else size * _MEGABYTES[unit]


def _triple_of_memory(text: str) -> dict[str, Any]:
    return _triple(_memory(text))


def _nice(text: str) -> int:
    return int(text) if text else _NICE


def _gres(text: str) -> str:
    """Each with its kind, as sbatch sends them; none are none."""
    if text.lower() == "none":
        return ""
    kinds = (each.removeprefix("gres:").removeprefix("gres/") for each in text.split(","))
    return ",".join(f"gres/{_text(each)}" for each in kinds)


def _gpus(text: str) -> str:
    return ",".join(f"gres/gpu:{_text(each)}" for each in text.split(","))


def _mail(text: str) -> list[str]:
    found = [flag for word in text.split(",") for flag in _MAIL[word.strip().upper()]]
    return list(dict.fromkeys(found))


def _hosts(text: str) -> str:
    """With a slash it is a file of them, which sbatch alone reads."""
    if not text or "/" in text:
        raise ValueError
    return text


def _nodelist(text: str) -> dict[str, Any]:
    """sbatch asks for as many nodes as it names; `--nodes` is told beside it and goes before."""
    return {"required_nodes": [_hosts(text)], "minimum_nodes": len(set(hostlist.expand(text)))}


def _signal(text: str) -> dict[str, Any]:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        raise ValueError
    whom = [_WHOM[letter] for letter in (found["whom"] or "").upper()]
    before = int(found["before"] or _SECONDS_BEFORE)
    return {
        "kill_warning_signal": found["signal"].upper(),
        "kill_warning_delay": _triple(before),
        **({"kill_warning_flags": whom} if whom else {}),
    }


def _append(text: str) -> str:
    return {"append": "append"}[text]


def _alone(text: str) -> str:
    return {"": "exclusive", "user": "user"}[text]


def _shared(text: str) -> list[str]:
    return [{"": "none", "user": "user", "mcs": "mcs"}[text]]


_BOTH: dict[str, Told] = {
    "job-name": _as("name", _text),
    "partition": _as("partition", _text),
    "account": _as("account", _text),
    "qos": _as("qos", _text),
    "nodes": _as("nodes", _text),
    "ntasks": _as("tasks", int),
    "output": _as("standard_output", _text),
    "error": _as("standard_error", _text),
    "input": _as("standard_input", _text),
    "constraint": _as("constraints", _text),
    "licenses": _as("licenses", _text),
    "reservation": _as("reservation", _text),
    "mail-user": _as("mail_user", _text),
    "nice": _as("nice", _nice),
}
EARLIEST: dict[str, Told] = {
    **_BOTH,
    "cpus-per-task": _as("cpus_per_task", int),
    # Of more than one it makes a job of one task, with a CPU for one.
    "ntasks-per-node": lambda text: {"tasks_per_node": {"1": 1}[text]},
    "time": _as("time_limit", _minutes),
    "time-min": _as("time_minimum", _minutes),
    "gres": _as("gres", _text),
    "gpus": _as("gpus", _text),
    "gpus-per-node": _as("gpus_per_node", _text),
    "exclusive": _as("exclusive", _alone),
    "mem": _as("memory_per_node", _memory),
    "mem-per-cpu": _as("memory_per_cpu", _memory),
    "nodelist": _as("nodelist", _hosts),
    "mail-type": _as("mail_type", _text),
    "open-mode": _as("open_mode", _append),
}
"""Of v0.0.38, each tried on 22.05.8. It takes `requeue` and does nothing with it, refuses `signal`
with B:, and shows of `signal`, `wckey` and `open_mode: truncate` nowhere whether it did: those are
left out."""
LATER: dict[str, Told] = {
    **_BOTH,
    "cpus-per-task": lambda text: {"cpus_per_task": int(text), "tres_per_task": f"cpu={int(text)}"},
    "ntasks-per-node": _as("tasks_per_node", int),
    "time": _as("time_limit", _limit),
    "time-min": _as("time_minimum", _limit),
    "gres": _as("tres_per_node", _gres),
    "gpus": _as("tres_per_job", _gpus),
    "gpus-per-node": _as("tres_per_node", _gpus),
    "gpus-per-socket": _as("tres_per_socket", _gpus),
    "exclusive": _as("shared", _shared),
    "oversubscribe": lambda _: {"shared": ["oversubscribe"]},
    "mem": _as("memory_per_node", _triple_of_memory),
    "mem-per-cpu": _as("memory_per_cpu", _triple_of_memory),
    "mem-per-gpu": _as("memory_per_tres", lambda text: f"gres/gpu:{_memory(text)}"),
    "cpus-per-gpu": _as("cpus_per_tres", lambda text: f"gres/gpu:{int(text)}"),
    "ntasks-per-socket": _as("tasks_per_socket", int),
    "ntasks-per-core": _as("tasks_per_core", int),
    "threads-per-core": _as("threads_per_core", int),
    "mincpus": _as("minimum_cpus_per_node", int),
    "tmp": _as("temporary_disk_per_node", _memory),
    "nodelist": _nodelist,
    "exclude": lambda text: {"excluded_nodes": [_hosts(text)]},
    "contiguous": _as("contiguous", _flag),
    "requeue": _as("requeue", _flag),
    "signal": _signal,
    "wckey": _as("wckey", _text),
    "prefer": _as("prefer", _text),
    "network": _as("network", _text),
    "mail-type": _as("mail_type", _mail),
    "open-mode": _as("open_mode", lambda text: [_append(text).upper()]),
}
"""Of v0.0.39 and later; tests/cluster/test_rest_submits_real.py holds each against sbatch's job."""
