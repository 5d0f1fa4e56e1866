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
"""By key: the field of `Params` (or of a row's class) that the key sets, and its parser."""
Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFile:
    """The contents of a cluster file."""

    params: Params
    node_names: tuple[str, ...]
    """Node names by node number; empty if the file has none."""
    warnings: tuple[str, ...]
    """Sentences on settings that are valid but may not be meant."""

    def get_max_time_s(self) -> dict[str, int]:
        """Return MaxTime by partition, for partitions with a limit for jobs of every QOS."""
        if any(qos.overrides_max_time for qos in self.params.qos):
            return {}
        return {
            partition.name: partition.max_time_s
            for partition in self.params.partitions
            if partition.max_time_s
        }


def load_cluster_params(path: Path) -> Params:
    """Load the Params of a cluster file. Raises ConfigError, which lists all its faults."""
    return load_cluster_file(path).params


def load_cluster_file(path: Path) -> ClusterFile:
    """Load a whole cluster file. Raises ConfigError, which lists every fault of the file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"not TOML: {error}"]) from error
    return parse_cluster_file(text, str(path))


def parse_cluster_file(text: str, source: str) -> ClusterFile:
    """Parse the text of a cluster file. `source` is the name of the file in faults. Raises
    ConfigError, which lists every fault."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: int() in tomllib may raise it
        raise ConfigError(source, [f"not TOML: {error}"]) from error
    reader = _DocumentReader(document)
    values_by_field = reader.parse_fields()
    if reader.faults:
        raise ConfigError(source, reader.faults)
    params = Params(**values_by_field)
    warnings = (
        *_describe_no_scheduler(params),
        *_describe_unchecked_release(params.slurm_version),
        *_describe_reservation_overlaps(params.reservations),
        *_describe_outage_overlaps(params.node_events),
    )
    return ClusterFile(params=params, node_names=reader.node_names, warnings=warnings)


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
    """Parses one document into the fields of Params, and collects all faults in `faults`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.faults = [
            f"[{name}]: no such section" for name in document if name not in _SECTIONS + _LISTS
        ]
        self.node_names: tuple[str, ...] = ()
        self._document = document

    def parse_fields(self) -> Table:
        """Return the fields of Params that the document gives. The result is valid only if `faults`
        is empty."""
        settings = self._parse_section("cluster", _CLUSTER, required=("name", "nodes"))
        settings |= self._parse_section("scheduler", _SCHEDULER)
        self.node_names = settings.pop("node_names", ())
        groups = tuple(
            NodeGroup(**row)
            for row in self._parse_rows("nodes", _NODES, required=("count", "CPUs"))
        )
        total = settings.get("nodes", 0)
        self._check_nodes(total, groups)
        nodes = values.build_node_list_parser(total, self.node_names)
        partitions = self._parse_rows(
            "partitions", _build_partition_keys(nodes), required=("PartitionName",)
        )
        lists: Table = {
            "node_groups": groups,
            "partitions": tuple(Partition(**row) for row in partitions),
            "qos": self._parse_qos(),
            "reservations": self._parse_reservations(nodes),
            "node_events": self._parse_node_events(nodes, total),
            "shares": self._parse_shares(),
        }
        self._check_names("partitions", [p["name"] for p in partitions])
        names = {f.name for f in fields(Params)}
        return {k: v for k, v in settings.items() if k in names} | {
            k: v for k, v in lists.items() if v
        }

    def _parse_qos(self) -> tuple[Qos, ...]:
        rows = self._parse_rows("qos", _QOS, required=("Name",))
        self._check_names("qos", [row["name"] for row in rows])
        return tuple(Qos(**row.pop("tres", {}), **row) for row in rows)

    def _parse_shares(self) -> tuple[tuple[str, int], ...]:
        rows = self._parse_rows("accounts", _ACCOUNT, required=("Account", "Fairshare"))
        self._check_names("accounts", [row["account"] for row in rows])
        return tuple((row["account"], row["shares"]) for row in rows)

    def _parse_reservations(self, nodes: FieldParser) -> tuple[Reservation, ...]:
        keys = {"ReservationName": ("name", values.parse_text)} | dict(_build_period_keys(nodes))
        rows = self._parse_rows("reservations", keys, required=("StartTime", "EndTime"))
        self._check_periods("reservations", rows)
        return tuple(Reservation(**row) for row in rows)

    def _parse_node_events(self, nodes: FieldParser, total: int) -> tuple[NodeEvent, ...]:
        """Return the events sorted. If several events change a node at one instant, the worst one
        comes last."""
        keys = {"State": ("state", values.parse_outage)} | dict(_build_period_keys(nodes))
        rows = self._parse_rows("outages", keys, required=("State", "StartTime", "Nodes"))
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
        earlier_nodes, latest = total, -1
        for i, row in enumerate(
            self._parse_rows("capacity", _CAPACITY, required=("from", "nodes"))
        ):
            instant, nodes = row["at"], row["nodes"]
            if instant <= latest:
                self.faults.append(
                    f"[[capacity]] {i + 1}: `from` must be later than in the section before"
                )
            if nodes > total:
                self.faults.append(f"[[capacity]] {i + 1} nodes = {nodes}: the cluster has {total}")
                continue
            latest = instant
            events |= {
                NodeEvent(instant, node, Outage.DRAIN) for node in range(nodes, earlier_nodes)
            }
            events |= {
                NodeEvent(instant, node, Outage.RESUME) for node in range(earlier_nodes, nodes)
            }
            earlier_nodes = nodes
        return events

    def _parse_section(self, name: str, keys: FieldParsers, required: Sequence[str] = ()) -> Table:
        table = self._document.get(name, {})
        if not isinstance(table, dict):
            self.faults.append(f"{name}: must be a section")
            return {}
        return self._parse_table(f"[{name}]", table, keys, required)

    def _parse_rows(self, name: str, keys: FieldParsers, required: Sequence[str]) -> list[Table]:
        """Parse the rows of a list. Rows with a fault are left out, so the other rows can be
        checked."""
        rows = self._document.get(name, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            self.faults.append(f"{name}: must be written as [[{name}]], one section for each")
            return []
        parsed = []
        for i, row in enumerate(rows):
            fault_count = len(self.faults)
            parsed_row = self._parse_table(f"[[{name}]] {i + 1}", row, keys, required)
            if len(self.faults) == fault_count:
                parsed.append(parsed_row)
        return parsed

    def _parse_table(
        self, prefix: str, table: Mapping[str, Any], keys: FieldParsers, required: Sequence[str]
    ) -> Table:
        parsers = {key.lower(): parser for key, parser in keys.items()}
        parsed: Table = {}
        for key, value in table.items():
            # slurm.conf's keys are known in any case: `scontrol` itself prints FairShare.
            if key.lower() not in parsers:
                self.faults.append(f"{prefix} {key}: no such key")
                continue
            field, parser = parsers[key.lower()]
            if field in parsed:
                self.faults.append(f"{prefix} {key}: is given twice")
            try:
                parsed[field] = parser(value)
            except (ValueError, MalformedText) as error:
                self.faults.append(f"{prefix} {key} = {value!r}: {error}")
        given_keys = {key.lower() for key in table}
        self.faults += [
            f"{prefix} {key}: missing" for key in required if key.lower() not in given_keys
        ]
        return parsed

    def _check_nodes(self, total: int, groups: Sequence[NodeGroup]) -> None:
        group_nodes = sum(group.count for group in groups)
        if total and groups and group_nodes != total:
            self.faults.append(
                f"[[nodes]]: the counts add up to {group_nodes}, and [cluster] nodes is {total}"
            )
        name_count = len(self.node_names)
        if total and name_count and name_count != total:
            self.faults.append(f"[cluster] node_names: has {name_count} names for {total} nodes")

    def _check_names(self, section: str, names: Sequence[str]) -> None:
        self.faults += [
            f"[[{section}]] {name}: the name is given more than once"
            for name, count in Counter(names).items()
            if count > 1
        ]

    def _check_periods(self, section: str, rows: Sequence[Table]) -> None:
        self.faults += [
            f"[[{section}]] with StartTime {row['start']}: EndTime must be later than StartTime"
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
    sentences = []
    for first, second in combinations(reservations, 2):
        if (
            first.start < second.end
            and second.start < first.end
            and _has_common_node(first, second)
        ):
            sentences.append(f"reservations {first.name!r} and {second.name!r} overlap")
    return sentences


def _has_common_node(first: Reservation, second: Reservation) -> bool:
    """Return whether two reservations have a node in common. No nodes named are all nodes."""
    return not first.nodes or not second.nodes or not set(first.nodes).isdisjoint(second.nodes)


def _describe_outage_overlaps(events: Sequence[NodeEvent]) -> list[str]:
    """Describe overlapping outages of one node in one sentence with their number.

    If outages overlap, the node's first return counts.
    """
    nodes_out: set[int] = set()
    returns: list[int] = []
    for event in events:
        if event.outage is not Outage.RESUME:
            nodes_out.add(event.node)
        elif event.node in nodes_out:
            nodes_out.remove(event.node)
        else:
            returns.append(event.node)
    if not returns:
        return []
    return [
        f"{len(returns)} times a node returns that was not out (first node {returns[0]}): "
        "if outages of a node overlap, its first return ends them all"
    ]
