"""Cluster files (C.toml): a machine and its scheduler's settings under slurm.conf's own names.

One key is the replay's own. Every key, with its unit and default: docs/admin/clusters.md.
"""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from mirage.errors import ConfigError, MalformedText
from mirage.history.cluster_files import field_parsers as values
from mirage.history.cluster_files.field_parsers import FieldParser
from mirage.simulator.slurm_release import describe_planner, is_unchecked
from mirage.simulator.types import (
    OFF,
    NodeEvent,
    NodeGroup,
    Outage,
    Params,
    Partition,
    Qos,
    Reservation,
)
from mirage.slurm.text.hostlist import MOST_HOSTS

FieldParsers = Mapping[str, tuple[str, FieldParser]]
"""By key: the field it becomes, and its reader."""
Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The contents of a cluster file."""

    params: Params
    node_names: tuple[str, ...]
    """By node number; empty where the file has none."""
    warnings: tuple[str, ...]
    """Sentences on settings that are valid but may not be meant."""

    def get_max_time_s(self) -> dict[str, int]:
        """Return MaxTime by partition, for partitions with a limit for jobs of every QOS."""
        if any(qos.overrides_max_time for qos in self.params.qos):
            return {}
        return {one.name: one.max_time_s for one in self.params.partitions if one.max_time_s}


def load_cluster_params(path: Path) -> Params:
    """Load the Params of a cluster file. Raises ConfigError, which lists all its faults."""
    return load_cluster_file(path).params


def load_cluster_file(path: Path) -> ClusterFile:
    """Load a whole cluster file. Raises ConfigError, which lists every fault of the file."""
    try:
        written = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"not TOML: {error}"]) from error
    return parse_cluster_file(written, str(path))


def parse_cluster_file(written: str, source: str) -> ClusterFile:
    """Parse the text of a cluster file. `source` is the name of the file in faults. Raises
    ConfigError, which lists every fault."""
    try:
        document = tomllib.loads(written)
    except (ValueError, RecursionError) as error:  # tomllib lets through what int() says
        raise ConfigError(source, [f"not TOML: {error}"]) from error
    reading = _DocumentReader(document)
    given = reading.parse_fields()
    if reading.faults:
        raise ConfigError(source, reading.faults)
    params = Params(**given)
    warnings = (
        *_describe_no_scheduler(params),
        *_describe_unchecked_release(params.slurm_version),
        *_describe_reservation_overlaps(params.reservations),
        *_describe_outage_overlaps(params.node_events),
    )
    return ClusterFile(params=params, node_names=reading.node_names, warnings=warnings)


_CLUSTER: FieldParsers = {
    "name": ("name", values.parse_cluster_name),
    "nodes": ("nodes", values.build_count_parser(1, MOST_HOSTS)),
    "gpus_per_node": ("gpus_per_node", values.build_count_parser(0)),
    "cpus_per_node": ("cpus_per_node", values.build_count_parser(1)),
    "memory_mib_per_node": ("memory_mib_per_node", values.build_count_parser(0)),
    "node_names": ("node_names", values.parse_host_names),
    "cancelled_jobs_run": ("cancelled_jobs_run", values.parse_yes_no),
}
_SCHEDULER: FieldParsers = {
    "SLURM_VERSION": ("slurm_version", values.parse_slurm_version),
    "PriorityWeightAge": ("priority_weight_age", values.parse_weight),
    "PriorityMaxAge": ("priority_max_age_s", values.parse_duration),
    "PriorityWeightJobSize": ("priority_weight_job_size", values.parse_weight),
    "PriorityFavorSmall": ("priority_favor_small", values.parse_yes_no),
    "PriorityWeightPartition": ("priority_weight_partition", values.parse_weight),
    "PriorityWeightQOS": ("priority_weight_qos", values.parse_weight),
    "PriorityWeightFairshare": ("priority_weight_fairshare", values.parse_weight),
    "PriorityDecayHalfLife": ("priority_decay_half_life_s", values.parse_duration),
    "PriorityCalcPeriod": ("priority_calc_period_s", values.parse_duration),
    "PriorityFlags": ("accrue_always", values.parse_priority_flags),
    "SelectType": ("select_type", values.parse_select_type),
    "MaxJobsPU": ("max_jobs_pu", values.build_count_parser(0)),
    "OverTimeLimit": ("over_time_limit_s", values.build_minutes_parser(0)),
    "sched_interval": ("sched_interval_s", values.parse_interval),
    "default_queue_depth": ("default_queue_depth", values.build_count_parser(1)),
    "bf_interval": ("bf_interval_s", values.parse_interval),
    "bf_window": ("bf_window_s", values.build_minutes_parser(1)),
    "bf_resolution": ("bf_resolution_s", values.build_count_parser(1)),
    "bf_max_job_test": ("bf_max_job_test", values.build_count_parser(1)),
    "bf_max_job_user": ("bf_max_job_user", values.build_count_parser(0)),
    "bf_continue": ("", values.require_true),
}
_NODES: FieldParsers = {
    "count": ("count", values.build_count_parser(1)),
    "CPUs": ("cpus", values.build_count_parser(1)),
    "RealMemory": ("memory_mib", values.build_count_parser(0)),
    "Gres": ("gpus", values.parse_gpus),
}
_QOS: FieldParsers = {
    "Name": ("name", values.parse_name),
    "Priority": ("priority", values.build_count_parser(0)),
    "Flags": ("overrides_max_time", values.parse_qos_flags),
    "MaxJobsPU": ("max_jobs_pu", values.build_count_parser(0)),
    "MaxSubmitJobsPU": ("max_submit_pu", values.build_count_parser(0)),
    "MaxTRESPU": ("tres", values.parse_tres_limits),
}
_ACCOUNT: FieldParsers = {
    "Account": ("account", values.parse_text),
    "Fairshare": ("shares", values.build_count_parser(0)),
}
_CAPACITY: FieldParsers = {
    "from": ("at", values.parse_instant),
    "nodes": ("nodes", values.build_count_parser(0)),
}
_SECTIONS = ("cluster", "scheduler")
_LISTS = ("nodes", "partitions", "qos", "reservations", "outages", "capacity", "accounts")


def _build_partition_keys(nodes: FieldParser) -> FieldParsers:
    return {
        "PartitionName": ("name", values.parse_name),
        "Nodes": ("nodes", nodes),
        "PriorityTier": ("priority_tier", values.build_count_parser(0)),
        "PriorityJobFactor": ("priority_job_factor", values.build_count_parser(0)),
        "MaxTime": ("max_time_s", values.parse_max_time),
        "OverSubscribe": ("exclusive", values.parse_over_subscribe),
    }


def _build_period_keys(nodes: FieldParser) -> FieldParsers:
    return {
        "StartTime": ("start", values.parse_instant),
        "EndTime": ("end", values.parse_instant),
        "Nodes": ("nodes", nodes),
    }


class _DocumentReader:
    """One document on its way to Params; faults gather in `faults`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.faults = [
            f"[{name}]: no such section" for name in document if name not in _SECTIONS + _LISTS
        ]
        self.node_names: tuple[str, ...] = ()
        self._document = document

    def parse_fields(self) -> Table:
        """Return the fields of Params that the document gives. The result is valid only if `faults`
        is empty."""
        given = self._parse_section("cluster", _CLUSTER, needed=("name", "nodes"))
        given |= self._parse_section("scheduler", _SCHEDULER)
        self.node_names = given.pop("node_names", ())
        groups = tuple(
            NodeGroup(**row) for row in self._parse_rows("nodes", _NODES, needed=("count", "CPUs"))
        )
        total = given.get("nodes", 0)
        self._check_nodes(total, groups)
        nodes = values.build_node_list_parser(total, self.node_names)
        partitions = self._parse_rows(
            "partitions", _build_partition_keys(nodes), needed=("PartitionName",)
        )
        found: Table = {
            "node_groups": groups,
            "partitions": tuple(Partition(**row) for row in partitions),
            "qos": self._parse_qos(),
            "reservations": self._parse_reservations(nodes),
            "node_events": self._parse_node_events(nodes, total),
            "shares": self._parse_shares(),
        }
        self._check_names("partitions", [p["name"] for p in partitions])
        known = {f.name for f in fields(Params)}
        return {k: v for k, v in given.items() if k in known} | {
            k: v for k, v in found.items() if v
        }

    def _parse_qos(self) -> tuple[Qos, ...]:
        rows = self._parse_rows("qos", _QOS, needed=("Name",))
        self._check_names("qos", [row["name"] for row in rows])
        return tuple(Qos(**row.pop("tres", {}), **row) for row in rows)

    def _parse_shares(self) -> tuple[tuple[str, int], ...]:
        rows = self._parse_rows("accounts", _ACCOUNT, needed=("Account", "Fairshare"))
        self._check_names("accounts", [row["account"] for row in rows])
        return tuple((row["account"], row["shares"]) for row in rows)

    def _parse_reservations(self, nodes: FieldParser) -> tuple[Reservation, ...]:
        keys = {"ReservationName": ("name", values.parse_text)} | dict(_build_period_keys(nodes))
        rows = self._parse_rows("reservations", keys, needed=("StartTime", "EndTime"))
        self._check_periods("reservations", rows)
        return tuple(Reservation(**row) for row in rows)

    def _parse_node_events(self, nodes: FieldParser, total: int) -> tuple[NodeEvent, ...]:
        """Return the events sorted. If several events change a node at one instant, the worst one
        comes last."""
        keys = {"State": ("state", values.parse_outage)} | dict(_build_period_keys(nodes))
        rows = self._parse_rows("outages", keys, needed=("State", "StartTime", "Nodes"))
        self._check_periods("outages", rows)
        events: set[NodeEvent] = set()
        for row in rows:
            numbers = row["nodes"] or range(total)
            events |= {NodeEvent(row["start"], node, row["state"]) for node in numbers}
            if "end" in row:
                events |= {NodeEvent(row["end"], node, Outage.RESUME) for node in numbers}
        events |= self._parse_capacity(total)
        return tuple(sorted(events, key=_build_sort_key))

    def _parse_capacity(self, total: int) -> set[NodeEvent]:
        events: set[NodeEvent] = set()
        before, last = total, -1
        for i, row in enumerate(self._parse_rows("capacity", _CAPACITY, needed=("from", "nodes"))):
            at, now = row["at"], row["nodes"]
            if at <= last:
                self.faults.append(
                    f"[[capacity]] {i + 1}: `from` must be later than in the section before"
                )
            if now > total:
                self.faults.append(f"[[capacity]] {i + 1} nodes = {now}: the cluster has {total}")
                continue
            last = at
            events |= {NodeEvent(at, node, Outage.DRAIN) for node in range(now, before)}
            events |= {NodeEvent(at, node, Outage.RESUME) for node in range(before, now)}
            before = now
        return events

    def _parse_section(self, name: str, keys: FieldParsers, needed: Sequence[str] = ()) -> Table:
        table = self._document.get(name, {})
        if not isinstance(table, dict):
            self.faults.append(f"{name}: must be a section")
            return {}
        return self._parse_table(f"[{name}]", table, keys, needed)

    def _parse_rows(self, name: str, keys: FieldParsers, needed: Sequence[str]) -> list[Table]:
        """Parse the rows of a list. Rows with a fault are left out, so the other rows can be
        checked."""
        listed = self._document.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
            self.faults.append(f"{name}: must be written as [[{name}]], one section for each")
            return []
        found = []
        for i, row in enumerate(listed):
            faults = len(self.faults)
            read = self._parse_table(f"[[{name}]] {i + 1}", row, keys, needed)
            if len(self.faults) == faults:
                found.append(read)
        return found

    def _parse_table(
        self, where: str, table: Mapping[str, Any], keys: FieldParsers, needed: Sequence[str]
    ) -> Table:
        known = {key.lower(): reading for key, reading in keys.items()}
        found: Table = {}
        for key, value in table.items():
            # slurm.conf's keys are known in any case: `scontrol` itself prints FairShare.
            if key.lower() not in known:
                self.faults.append(f"{where} {key}: no such key")
                continue
            field, reader = known[key.lower()]
            if field in found:
                self.faults.append(f"{where} {key}: is given twice")
            try:
                found[field] = reader(value)
            except (ValueError, MalformedText) as error:
                self.faults.append(f"{where} {key} = {value!r}: {error}")
        written = {key.lower() for key in table}
        self.faults += [f"{where} {key}: missing" for key in needed if key.lower() not in written]
        return found

    def _check_nodes(self, total: int, groups: Sequence[NodeGroup]) -> None:
        counted = sum(group.count for group in groups)
        if total and groups and counted != total:
            self.faults.append(
                f"[[nodes]]: the counts add up to {counted}, and [cluster] nodes is {total}"
            )
        named = len(self.node_names)
        if total and named and named != total:
            self.faults.append(f"[cluster] node_names: has {named} names for {total} nodes")

    def _check_names(self, what: str, names: Sequence[str]) -> None:
        self.faults += [
            f"[[{what}]] {name}: the name is given more than once"
            for name, times in Counter(names).items()
            if times > 1
        ]

    def _check_periods(self, what: str, rows: Sequence[Table]) -> None:
        self.faults += [
            f"[[{what}]] with StartTime {row['start']}: EndTime must be later than StartTime"
            for row in rows
            if "end" in row and row["end"] <= row["start"]
        ]


_WEAKEST_FIRST = (Outage.RESUME, Outage.DRAIN, Outage.DOWN)
"""Order of events of one node at one instant: the simulator obeys the last one."""


def _build_sort_key(event: NodeEvent) -> tuple[int, int, int]:
    return event.at, event.node, _WEAKEST_FIRST.index(event.outage)


def _describe_no_scheduler(params: Params) -> list[str]:
    if params.sched_interval_s == OFF and params.bf_interval_s == OFF:
        return ["sched_interval and bf_interval are both -1, so no job ever starts"]
    return []


def _describe_unchecked_release(version: str) -> list[str]:
    return [f"SLURM_VERSION: {describe_planner(version)}"] if is_unchecked(version) else []


def _describe_reservation_overlaps(reservations: Sequence[Reservation]) -> list[str]:
    """Describe each pair of reservations that reserve a node at the same time. The simulator
    reserves the node for both."""
    said = []
    for one, other in combinations(reservations, 2):
        if one.start < other.end and other.start < one.end and _has_common_node(one, other):
            said.append(f"reservations {one.name!r} and {other.name!r} overlap")
    return said


def _has_common_node(one: Reservation, other: Reservation) -> bool:
    """Return whether two reservations have a node in common. No nodes named are all nodes."""
    return not one.nodes or not other.nodes or not set(one.nodes).isdisjoint(other.nodes)


def _describe_outage_overlaps(events: Sequence[NodeEvent]) -> list[str]:
    """Describe overlapping outages of one node in one sentence with their number.

    If outages overlap, the node's first return counts.
    """
    out: set[int] = set()
    early: list[int] = []
    for event in events:
        if event.outage is not Outage.RESUME:
            out.add(event.node)
        elif event.node in out:
            out.remove(event.node)
        else:
            early.append(event.node)
    if not early:
        return []
    return [
        f"{len(early)} times a node returns that was not out (first node {early[0]}): "
        "if outages of a node overlap, its first return ends them all"
    ]
