"""Parses a site's nodes, partitions and reservations as scontrol shows them.

Unknown keys are ignored: later releases have more of them.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import MalformedText
from mirage.slurm.text.gres import count_gpus
from mirage.slurm.text.hostlist import expand_hostlist

_ALL = "ALL"
_RESERVED_CPUS = re.compile(r"(?:^|,)cpu=(\d{1,15})(?:,|$)", re.ASCII)
_KEY = re.compile(r"(?:^|\s)(?P<key>[A-Z][A-Za-z_/:]*)=")
"""Values may hold blanks, keys never do: a key begins a line or follows a blank."""
_FREE_TEXT = re.compile(r"\s(?:Reason|Comment|Extra)=")
_UNSET = frozenset({"(null)", "N/A", "NONE"})
_OUT_OF_SERVICE = frozenset(
    {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "ERROR", "MAINT"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node as slurmctld counts it."""

    name: str
    cpus: int
    """CPUs that jobs may have (CPUEfctv, if the release shows it)."""
    memory_mib: int
    """RealMemory minus MemSpecLimit."""
    gpus: int
    """GPUs of all types together."""
    state: str
    threads_per_core: int = 1
    weight: int = 1
    features: str = ""

    @property
    def is_out_of_service(self) -> bool:
        """True if the node is down, drained or draining."""
        return bool(set(self.state.replace("*", "").split("+")) & _OUT_OF_SERVICE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    name: str
    nodes: tuple[str, ...]
    default: bool
    priority_tier: int
    priority_job_factor: int
    max_time_s: int
    """0: no limit."""
    over_subscribe: str
    state: str
    others: Mapping[str, str]
    """Settings that differ from Slurm's default and restrict who may use the partition, and for
    what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationRecord:
    name: str
    start: str
    """Epoch seconds, or local time where SLURM_TIME_FORMAT was not set."""
    end: str
    nodes: tuple[str, ...]
    flags: frozenset[str]
    cpus: int | None
    """CPUs that the reservation keeps over all its nodes; None: Slurm shows neither CPUs nor
    cores."""
    cores: int | None
    beneficiaries: str
    """Its users, accounts and groups; empty: nobody."""


def build_show_nodes_argv() -> list[str]:
    return ["scontrol", "show", "node", "-o"]


def build_show_partitions_argv() -> list[str]:
    return ["scontrol", "show", "partition", "-o"]


def build_show_reservations_argv() -> list[str]:
    return ["scontrol", "show", "reservation", "-o"]


def parse_nodes(answer: str) -> tuple[NodeRecord, ...]:
    """Parse nodes, in slurmctld's order.

    Raises MalformedText if there is no node, or a number cannot be parsed.
    """
    records = [
        r for r in _parse_records(answer, "NodeName") if not r.get("State", "").startswith("FUTURE")
    ]
    if not records:
        raise MalformedText(f"not scontrol's show node: {answer[:80]!r}")
    return tuple(_parse_node(record) for record in records)


def _parse_node(record: Mapping[str, str]) -> NodeRecord:
    name = record["NodeName"]
    cpus = _parse_number(record, "CPUEfctv", 0) or _parse_number(record, "CPUTot", 0)
    if cpus < 1:  # every node has CPUs
        raise MalformedText(f"node {name} without CPUTot: half an answer")
    memory = _parse_number(record, "RealMemory", 0) - _parse_number(record, "MemSpecLimit", 0)
    return NodeRecord(
        name=name,
        cpus=cpus,
        memory_mib=max(memory, 0),
        gpus=count_gpus(record.get("Gres", "")),
        state=record.get("State", "").upper(),
        threads_per_core=_parse_number(record, "ThreadsPerCore", 1),
        weight=_parse_number(record, "Weight", 1),
        features=record.get("AvailableFeatures", ""),
    )


_NEUTRAL_VALUES = {
    "AllowGroups": _ALL,
    "AllowAccounts": _ALL,
    "AllowQos": _ALL,
    "DenyAccounts": "",
    "DenyQos": "",
    "AllocNodes": _ALL,
    "QoS": "",
    "ExclusiveUser": "NO",
    "ExclusiveTopo": "NO",
    "LLN": "NO",
    "MaxNodes": "UNLIMITED",
    "MinNodes": "0",
    "MaxCPUsPerNode": "UNLIMITED",
    "MaxCPUsPerSocket": "UNLIMITED",
    "MaxMemPerNode": "UNLIMITED",
    "ReqResv": "NO",
    "OverTimeLimit": "",
}
"""The value with which each key changes nothing."""


def parse_partitions(answer: str) -> tuple[PartitionRecord, ...]:
    """Parse partitions, in slurmctld's order. Raises MalformedText if there is none."""
    records = _parse_records(answer, "PartitionName")
    if not records:
        raise MalformedText(f"not scontrol's show partition: {answer[:80]!r}")
    return tuple(_parse_partition(record) for record in records)


def _parse_partition(record: Mapping[str, str]) -> PartitionRecord:
    name = record["PartitionName"]
    if "Nodes" not in record or "PriorityTier" not in record:
        raise MalformedText(f"partition {name} without Nodes and PriorityTier: half an answer")
    limit = parse_time_limit(record.get("MaxTime", ""))
    others = {
        key: record[key]
        for key, neutral in _NEUTRAL_VALUES.items()
        if record.get(key, "") not in {"", neutral}
    }
    return PartitionRecord(
        name=name,
        nodes=expand_hostlist(record["Nodes"]),
        default=record.get("Default") == "YES",
        priority_tier=_parse_number(record, "PriorityTier", 1),
        priority_job_factor=_parse_number(record, "PriorityJobFactor", 1),
        max_time_s=0 if limit is None or limit == UNLIMITED else limit,
        over_subscribe=record.get("OverSubscribe", "NO"),
        state=record.get("State", "UP"),
        others=others,
    )


def parse_reservations(answer: str) -> tuple[ReservationRecord, ...]:
    """Parse reservations. There may be none: `No reservations in the system`."""
    return tuple(_parse_reservation(record) for record in _parse_records(answer, "ReservationName"))


def _parse_reservation(record: Mapping[str, str]) -> ReservationRecord:
    names = [record[key] for key in ("Users", "Accounts", "Groups") if record.get(key)]
    return ReservationRecord(
        name=record["ReservationName"],
        start=record.get("StartTime", ""),
        end=record.get("EndTime", ""),
        nodes=expand_hostlist(record.get("Nodes", "")),
        flags=frozenset(filter(None, record.get("Flags", "").split(","))),
        cpus=int(match[1]) if (match := _RESERVED_CPUS.search(record.get("TRES", ""))) else None,
        cores=int(cores) if (cores := record.get("CoreCnt", "")).isdecimal() else None,
        beneficiaries=", ".join(names),
    )


def _parse_number(record: Mapping[str, str], key: str, default: int) -> int:
    text = record.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise MalformedText(f"{key}={text[:40]} is not a number")
    return int(text)


def _parse_records(answer: str, first_key: str) -> list[dict[str, str]]:
    """Parse a text of `Key=value` pairs into one record for each `first_key=`. Unset values are
    empty; other text is ignored.

    With `-o` a record is a line; without it (captured texts) a record ends at a blank line.

    Free text (Reason, Comment) comes after the facts. It may hold anything, also a newline and
    whole records, so no key counts after it. Raises MalformedText if two records have one name.
    """
    lines = answer.split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith(f"{first_key}=")]
    spans = pairwise([*starts, len(lines)])
    records = [_parse_record(_join_lines(lines[i:j])) for i, j in spans]
    for name, count in Counter(record[first_key] for record in records).items():
        if count > 1:
            raise MalformedText(f"{count} records are {first_key}={name[:80]}")
    return records


def _join_lines(lines: list[str]) -> str:
    stripped: list[str] = []
    for line in lines:
        if not line.strip():
            break
        stripped.append(line.strip())
    return " ".join(stripped)


def _parse_record(text: str) -> dict[str, str]:
    text = _FREE_TEXT.split(text, 1)[0]
    keys = list(_KEY.finditer(text))
    ends = [key.start() for key in keys[1:]] + [len(text)]
    values: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=True):
        value = text[key.end() : end].strip()
        values.setdefault(key["key"], "" if value in _UNSET else value)
    return values
