"""Parsers of single values of a cluster file, from TOML's value to that of `Params`.

A parser raises ValueError (or MalformedText) with a text on what the value must be.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.domain.tres import parse_tres
from mirage.simulator.types import OFF, Outage, SelectType
from mirage.slurm.text.gres import count_gpus
from mirage.slurm.text.hostlist import expand_hostlist
from mirage.slurm.text.releases import parse_version

FieldParser = Callable[[Any], Any]

_LONGEST_NAME = 40
"""The most characters of a ClusterName in Slurm, and so in the database."""
_LARGEST = 1 << 40
"""The largest number of a file. Sums and products of such numbers fit into 64 bits."""
_NUMBERS = re.compile(r"[\d\s,-]+")
HARMLESS_FLAGS = frozenset({"FAIR_TREE", "CALCULATE_RUNNING", "NO_NORMAL_ASSOC", "NO_NORMAL_TRES"})
"""Words of PriorityFlags that the simulator obeys anyway, or that change nothing in it."""


def build_count_parser(least: int, most: int = _LARGEST) -> FieldParser:
    def parse_count(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"must be a whole number, at least {least}")
        if value > most:
            raise ValueError(f"must be at most {most}")
        return value

    return parse_count


def parse_interval(value: Any) -> int:
    """Parse the seconds between two passes of a scheduler. -1 turns the scheduler off in Slurm."""
    if value == OFF and not isinstance(value, bool):
        return OFF
    try:
        return int(build_count_parser(1)(value))
    except ValueError as error:
        raise ValueError(f"{error}, or -1 for off") from None


def parse_weight(value: Any) -> int:
    """Parse a weight. Slurm keeps weights in 32 bits."""
    return int(build_count_parser(0, (1 << 32) - 1)(value))


def build_minutes_parser(least: int) -> Callable[[Any], int]:
    """Build a parser of whole minutes, at least `least`. The parser returns seconds."""
    return lambda value: int(build_count_parser(least)(value)) * MINUTE_S


def parse_cluster_name(value: Any) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError("must be a name of letters, digits and underscores")
    if len(value) > _LONGEST_NAME:
        raise ValueError(f"must be at most {_LONGEST_NAME} characters long")
    return value


def parse_name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a name: a string that is not empty")
    return value


def parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004 - a fault of the file, told with others
    return value


def parse_duration(value: Any) -> int:
    seconds = parse_time_limit(str(value))
    if not seconds or seconds == UNLIMITED:
        raise ValueError('must be a number of minutes, or a time such as "7-0"')
    return int(build_count_parser(1)(seconds))


def parse_max_time(value: Any) -> int:
    """Parse a time limit into seconds. 0 is no limit."""
    if str(value).upper() in {"UNLIMITED", "INFINITE"}:
        return 0
    return parse_duration(value)


def parse_yes_no(value: Any) -> bool:
    word = str(value).upper()
    if word not in {"YES", "NO", "TRUE", "FALSE"}:
        raise ValueError('must be "YES" or "NO"')
    return word in {"YES", "TRUE"}


def require_true(value: Any) -> bool:
    if value is not True:
        raise ValueError(
            "not simulated: must be true, since a pass takes no time and is never interrupted"
        )
    return value


def parse_priority_flags(value: Any) -> bool:
    words = {w.strip() for w in str(value).split(",")}
    unknown = sorted(words - HARMLESS_FLAGS - {"ACCRUE_ALWAYS", ""})
    if unknown:
        raise ValueError(f"not simulated: {', '.join(unknown)}")
    return "ACCRUE_ALWAYS" in words


def parse_select_type(value: Any) -> SelectType:
    try:
        return SelectType(value)
    except ValueError:
        choices = " or ".join(f'"{s}"' for s in SelectType)
        raise ValueError(f"not simulated: must be {choices}") from None


def parse_slurm_version(value: Any) -> str:
    """Parse a release of Slurm. Empty: the release is not known."""
    if value != "" and parse_version(parse_text(value)) is None:
        raise ValueError('must be a release of Slurm such as "24.11.5"')
    return parse_text(value)


def parse_over_subscribe(value: Any) -> bool:
    word = str(value).upper()
    if word not in {"NO", "EXCLUSIVE"}:
        raise ValueError('not simulated: must be "EXCLUSIVE" or "NO"')
    return word == "EXCLUSIVE"


_PARTITION_TIME_LIMIT = "PartitionTimeLimit"


def parse_qos_flags(value: Any) -> bool:
    """Return whether a QOS's Flags contain PartitionTimeLimit, the one flag that is simulated.

    Raises ValueError for any other flag.
    """
    words = {w.strip() for w in parse_text(value).split(",")} - {""}
    unknown = sorted(w for w in words if w.lower() != _PARTITION_TIME_LIMIT.lower())
    if unknown:
        raise ValueError(f"not simulated: {', '.join(unknown)}; only {_PARTITION_TIME_LIMIT} is")
    return bool(words)


_TRES = {
    "cpu": "max_cpus_pu",
    "mem": "max_memory_mib_pu",
    "gres/gpu": "max_gpus_pu",
    "node": "max_nodes_pu",
}


def parse_tres_limits(value: Any) -> dict[str, int]:
    """Parse limits such as `cpu=64,gres/gpu=8` into the fields of `Qos` by name. Raises ValueError
    for a resource that is not simulated."""
    try:
        limits = parse_tres(parse_text(value))
    except OverflowError:
        raise ValueError("is too large for any cluster") from None
    unknown = sorted(set(limits) - set(_TRES))
    if unknown:
        raise ValueError(f"not simulated: {', '.join(unknown)}; only {', '.join(_TRES)} are")
    return {_TRES[tres]: int(build_count_parser(1)(amount)) for tres, amount in limits.items()}


def parse_gpus(value: Any) -> int:
    """Count the GPUs of a Gres text: `gpu:a100:8` gives 8."""
    return int(build_count_parser(0)(count_gpus(parse_text(value))))


def parse_instant(value: Any) -> int:
    """Parse an instant into epoch seconds. It is given as epoch seconds, or as a date and time with
    its offset from UTC."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("needs its offset from UTC, such as 2026-01-31T12:00:00Z")
        value = int(value.timestamp())
    try:
        return int(build_count_parser(0)(value))
    except ValueError:
        raise ValueError("must be a time such as 2026-01-31T12:00:00Z, or epoch seconds") from None


def parse_outage(value: Any) -> Outage:
    try:
        return Outage(parse_text(value).lower())
    except ValueError:
        choices = ", ".join(f'"{o.value.upper()}"' for o in Outage)
        raise ValueError(f"must be one of {choices}") from None


def build_node_list_parser(total: int, names: Sequence[str] = ()) -> FieldParser:
    """Build a parser of node numbers. It returns them ascending, each once, or () for "ALL".
    Numbers must be below `total` if `total` is known.

    The parser takes a list of numbers, a text of numbers (`0-3,7`), or a host list of `names`.
    """
    numbers_by_name = {host: number for number, host in enumerate(names)}

    def parse_node_list(value: Any) -> tuple[int, ...]:
        if value == "ALL":
            return ()
        numbers = _parse_node_numbers(value, numbers_by_name)
        if not numbers:
            raise ValueError('must be node numbers such as "0-3,7", a host list, or "ALL"')
        too_large = [n for n in numbers if total and n >= total]
        if too_large:
            raise ValueError(f"there is no node {too_large[0]}: the nodes are 0 to {total - 1}")
        return tuple(sorted(set(numbers)))

    return parse_node_list


def _parse_node_numbers(value: Any, numbers_by_name: Mapping[str, int]) -> list[int]:
    if isinstance(value, list):
        return [int(build_count_parser(0)(n)) for n in value]
    text = parse_text(value)
    if _NUMBERS.fullmatch(text):
        return [int(n) for n in expand_hostlist(f"[{text}]")]
    hosts = expand_hostlist(text)
    unknown = [host for host in hosts if host not in numbers_by_name]
    if unknown and not numbers_by_name:
        raise ValueError("host names are known only if [cluster] node_names is set")
    if unknown:
        raise ValueError(f"[cluster] node_names does not name {', '.join(unknown[:3])}")
    return [numbers_by_name[host] for host in hosts]


def parse_host_names(value: Any) -> tuple[str, ...]:
    """Parse a host list into its names, in the order of their numbers."""
    names = expand_hostlist(parse_text(value))
    if not names or len(set(names)) < len(names):
        raise ValueError("must be a host list that names each node once")
    return names
