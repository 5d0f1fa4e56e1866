"""sbatch's options as the fields of a job that slurmrestd is told.

Keys of v0.0.38 are sbatch's options, those of later versions the fields of Slurm's job description
(the OpenAPI document of the release). An option that is not in a table is not told at all.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import InputError, MalformedText
from mirage.slurm.text import hostlist

OptionConverter = Callable[[str], dict[str, Any]]
"""Converts an option's value to the fields of the job."""

_NO_LIMIT = frozenset({UNLIMITED, 0})
"""The values of no limit. To sbatch, 0 means no limit too."""
_SIZE = re.compile(r"(?P<n>\d{1,12})(?P<unit>[KMGT]?)B?", re.IGNORECASE)
_MEGABYTES = {"": 1, "M": 1, "G": 1024, "T": 1024**2}
_SIGNAL = re.compile(
    r"(?:(?P<whom>[BR]{1,2}):)?(?:SIG)?(?P<signal>[A-Z0-9+]{1,12})(?:@(?P<before>\d{1,5}))?",
    re.IGNORECASE,
)
_SECONDS_BEFORE = 60
"""sbatch's default time of a signal."""
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
"""The value of `--nice` without a value."""


def convert_options(
    options: Mapping[str, str], table: Mapping[str, OptionConverter]
) -> dict[str, Any]:
    """Build the fields of all options.

    Raises InputError for an option that is not in the table, or whose value cannot be read: the job
    would differ from what its user wants.
    """
    unknown = sorted(set(options) - set(table))
    if unknown:
        raise InputError(f"slurmrestd is not told sbatch's --{', --'.join(unknown)}"[:300])
    found: dict[str, Any] = {}
    for name, value in options.items():
        for key, part in _convert_option(name, value, table[name]).items():
            # --gres and --gpus-per-node add up; of --exclusive and --oversubscribe the last counts.
            adds_up = key in found and isinstance(part, str) and part
            found[key] = f"{found[key]},{part}" if adds_up else part
    return found


def _convert_option(name: str, text: str, read: OptionConverter) -> dict[str, Any]:
    try:
        return read(text)
    except (ValueError, KeyError, MalformedText):
        raise InputError(f"sbatch's --{name} is not understood: {text[:60]!r}") from None


def _map_to_field(key: str, read: Callable[[str], Any]) -> OptionConverter:
    return lambda text: {key: read(text)}


def _require_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _parse_flag(text: str) -> bool:
    return {"": True, "yes": True, "no": False}[text]


def _parse_minutes(text: str) -> int:
    """Convert a time to minutes, rounded up as Slurm does."""
    seconds = parse_time_limit(text)
    if seconds is None or seconds in _NO_LIMIT:
        raise ValueError
    return -(-seconds // MINUTE_S)


def _build_triple(number: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": number}


def _convert_limit(text: str) -> dict[str, Any]:
    if parse_time_limit(text) in _NO_LIMIT:
        return {"set": True, "infinite": True, "number": 0}
    return _build_triple(_parse_minutes(text))


def _parse_megabytes(text: str) -> int:
    """Convert a size to megabytes, rounded up."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError
    size, unit = int(found["n"]), found["unit"].upper()
    return -(-size // 1024) if unit == "K" else size * _MEGABYTES[unit]


def _convert_memory(text: str) -> dict[str, Any]:
    return _build_triple(_parse_megabytes(text))


def _parse_nice(text: str) -> int:
    return int(text) if text else _NICE


def _convert_gres(text: str) -> str:
    """Convert generic resources, each with its kind, as sbatch sends them."""
    if text.lower() == "none":
        return ""
    kinds = (each.removeprefix("gres:").removeprefix("gres/") for each in text.split(","))
    return ",".join(f"gres/{_require_text(each)}" for each in kinds)


def _convert_gpus(text: str) -> str:
    return ",".join(f"gres/gpu:{_require_text(each)}" for each in text.split(","))


def _expand_mail_types(text: str) -> list[str]:
    found = [flag for word in text.split(",") for flag in _MAIL[word.strip().upper()]]
    return list(dict.fromkeys(found))


def _require_hosts(text: str) -> str:
    """Return the host list. Raises ValueError for an empty one, or one with a slash.

    A slash names a file of hosts, which sbatch alone reads.
    """
    if not text or "/" in text:
        raise ValueError
    return text


def _convert_nodelist(text: str) -> dict[str, Any]:
    """Convert a node list. sbatch asks for as many nodes as the list names, unless `--nodes` is
    given."""
    return {
        "required_nodes": [_require_hosts(text)],
        "minimum_nodes": len(set(hostlist.expand_hostlist(text))),
    }


def _convert_signal(text: str) -> dict[str, Any]:
    found = _SIGNAL.fullmatch(text)
    if found is None:
        raise ValueError
    whom = [_WHOM[letter] for letter in (found["whom"] or "").upper()]
    before = int(found["before"] or _SECONDS_BEFORE)
    return {
        "kill_warning_signal": found["signal"].upper(),
        "kill_warning_delay": _build_triple(before),
        **({"kill_warning_flags": whom} if whom else {}),
    }


def _require_append(text: str) -> str:
    return {"append": "append"}[text]


def _convert_exclusive(text: str) -> str:
    return {"": "exclusive", "user": "user"}[text]


def _convert_shared(text: str) -> list[str]:
    return [{"": "none", "user": "user", "mcs": "mcs"}[text]]


_BOTH: dict[str, OptionConverter] = {
    "job-name": _map_to_field("name", _require_text),
    "partition": _map_to_field("partition", _require_text),
    "account": _map_to_field("account", _require_text),
    "qos": _map_to_field("qos", _require_text),
    "nodes": _map_to_field("nodes", _require_text),
    "ntasks": _map_to_field("tasks", int),
    "output": _map_to_field("standard_output", _require_text),
    "error": _map_to_field("standard_error", _require_text),
    "input": _map_to_field("standard_input", _require_text),
    "constraint": _map_to_field("constraints", _require_text),
    "licenses": _map_to_field("licenses", _require_text),
    "reservation": _map_to_field("reservation", _require_text),
    "mail-user": _map_to_field("mail_user", _require_text),
    "nice": _map_to_field("nice", _parse_nice),
}
EARLIEST: dict[str, OptionConverter] = {
    **_BOTH,
    "cpus-per-task": _map_to_field("cpus_per_task", int),
    # Of more than one it makes a job of one task, with a CPU for one.
    "ntasks-per-node": lambda text: {"tasks_per_node": {"1": 1}[text]},
    "time": _map_to_field("time_limit", _parse_minutes),
    "time-min": _map_to_field("time_minimum", _parse_minutes),
    "gres": _map_to_field("gres", _require_text),
    "gpus": _map_to_field("gpus", _require_text),
    "gpus-per-node": _map_to_field("gpus_per_node", _require_text),
    "exclusive": _map_to_field("exclusive", _convert_exclusive),
    "mem": _map_to_field("memory_per_node", _parse_megabytes),
    "mem-per-cpu": _map_to_field("memory_per_cpu", _parse_megabytes),
    "nodelist": _map_to_field("nodelist", _require_hosts),
    "mail-type": _map_to_field("mail_type", _require_text),
    "open-mode": _map_to_field("open_mode", _require_append),
}
"""Options of v0.0.38, each tried on 22.05.8. It ignores `requeue`, refuses `signal` with B:, and
never shows the effect of `signal`, `wckey` and `open_mode: truncate`: these are left out."""
LATER: dict[str, OptionConverter] = {
    **_BOTH,
    "cpus-per-task": lambda text: {"cpus_per_task": int(text), "tres_per_task": f"cpu={int(text)}"},
    "ntasks-per-node": _map_to_field("tasks_per_node", int),
    "time": _map_to_field("time_limit", _convert_limit),
    "time-min": _map_to_field("time_minimum", _convert_limit),
    "gres": _map_to_field("tres_per_node", _convert_gres),
    "gpus": _map_to_field("tres_per_job", _convert_gpus),
    "gpus-per-node": _map_to_field("tres_per_node", _convert_gpus),
    "gpus-per-socket": _map_to_field("tres_per_socket", _convert_gpus),
    "exclusive": _map_to_field("shared", _convert_shared),
    "oversubscribe": lambda _: {"shared": ["oversubscribe"]},
    "mem": _map_to_field("memory_per_node", _convert_memory),
    "mem-per-cpu": _map_to_field("memory_per_cpu", _convert_memory),
    "mem-per-gpu": _map_to_field(
        "memory_per_tres", lambda text: f"gres/gpu:{_parse_megabytes(text)}"
    ),
    "cpus-per-gpu": _map_to_field("cpus_per_tres", lambda text: f"gres/gpu:{int(text)}"),
    "ntasks-per-socket": _map_to_field("tasks_per_socket", int),
    "ntasks-per-core": _map_to_field("tasks_per_core", int),
    "threads-per-core": _map_to_field("threads_per_core", int),
    "mincpus": _map_to_field("minimum_cpus_per_node", int),
    "tmp": _map_to_field("temporary_disk_per_node", _parse_megabytes),
    "nodelist": _convert_nodelist,
    "exclude": lambda text: {"excluded_nodes": [_require_hosts(text)]},
    "contiguous": _map_to_field("contiguous", _parse_flag),
    "requeue": _map_to_field("requeue", _parse_flag),
    "signal": _convert_signal,
    "wckey": _map_to_field("wckey", _require_text),
    "prefer": _map_to_field("prefer", _require_text),
    "network": _map_to_field("network", _require_text),
    "mail-type": _map_to_field("mail_type", _expand_mail_types),
    "open-mode": _map_to_field("open_mode", lambda text: [_require_append(text).upper()]),
}
"""Options that slurmrestd takes since v0.0.39; tests/acceptance/cluster/test_rest_submits_real.py
compares the job of each with the one that sbatch makes."""
