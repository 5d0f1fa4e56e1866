"""Writes cluster files: the text can be read back into equal Params."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from textwrap import TextWrapper

from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import format_time_limit
from mirage.simulator.types import NodeEvent, Params, Partition, Qos, Reservation

_COMMENT = TextWrapper(
    width=118,
    initial_indent="# ",
    subsequent_indent="#   ",
    break_long_words=False,
    break_on_hyphens=False,
)
_LATEST = 253402300799
"""The last second of the year 9999: TOML has no later dates."""

Value = str | int | bool
"""A value in TOML. A str is written unchanged, so it must be quoted already."""


def render_cluster_file(
    params: Params, comments: Sequence[str] = (), *, node_names: str = ""
) -> str:
    """Render the text of a cluster file, with `comments` at its head, each on a line or more.

    `node_names` is a host list of the nodes in the order of their numbers. bf_window is written in
    whole minutes, rounded up, since slurm.conf has minutes.
    """
    blocks = [
        *([_render_comments(comments)] if comments else []),
        _render_block("[cluster]", _build_cluster(params, node_names)),
        _render_block("[scheduler]", _build_scheduler(params)),
        *(_render_block("[[nodes]]", row) for row in _iter_node_groups(params)),
        *(_render_block("[[partitions]]", _build_partition(p)) for p in params.partitions),
        *(_render_block("[[qos]]", _build_qos(q)) for q in params.qos),
        *(_render_block("[[accounts]]", _build_account(*pair)) for pair in params.shares),
        *(_render_block("[[reservations]]", _build_reservation(r)) for r in params.reservations),
        *(_render_block("[[outages]]", row) for row in _iter_outages(params.node_events)),
    ]
    return "\n".join(blocks)


def format_numbers(numbers: Sequence[int]) -> str:
    """Format ascending numbers as ranges, such as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _build_cluster(params: Params, node_names: str) -> Mapping[str, Value]:
    names = {"node_names": _quote_text(node_names)} if node_names else {}
    return {
        "name": _quote_text(params.name),
        "nodes": params.nodes,
        "gpus_per_node": params.gpus_per_node,
        "cpus_per_node": params.cpus_per_node,
        "memory_mib_per_node": params.memory_mib_per_node,
        **names,
        # A setting of replays, not of the machine, so it is written only if it is set.
        **({"cancelled_jobs_run": _quote_text("YES")} if params.cancelled_jobs_run else {}),
    }


def _build_scheduler(params: Params) -> Mapping[str, Value]:
    release = params.slurm_version
    return {
        **({"SLURM_VERSION": _quote_text(release)} if release else {}),
        "SelectType": _quote_text(params.select_type),
        "PriorityWeightAge": params.priority_weight_age,
        "PriorityMaxAge": _format_duration(params.priority_max_age_s),
        "PriorityWeightJobSize": params.priority_weight_job_size,
        "PriorityFavorSmall": _quote_text("YES" if params.priority_favor_small else "NO"),
        "PriorityWeightPartition": params.priority_weight_partition,
        "PriorityWeightQOS": params.priority_weight_qos,
        "PriorityWeightFairshare": params.priority_weight_fairshare,
        "PriorityDecayHalfLife": _format_duration(params.priority_decay_half_life_s),
        "PriorityCalcPeriod": _format_duration(params.priority_calc_period_s),
        "PriorityFlags": _quote_text("ACCRUE_ALWAYS" if params.accrue_always else ""),
        "MaxJobsPU": params.max_jobs_pu,
        "OverTimeLimit": -(-params.over_time_limit_s // MINUTE_S),
        "sched_interval": params.sched_interval_s,
        "default_queue_depth": params.default_queue_depth,
        "bf_interval": params.bf_interval_s,
        "bf_window": -(-params.bf_window_s // MINUTE_S),
        "bf_resolution": params.bf_resolution_s,
        "bf_max_job_test": params.bf_max_job_test,
        "bf_max_job_user": params.bf_max_job_user,
    }


def _iter_node_groups(params: Params) -> Iterator[Mapping[str, Value]]:
    for group in params.node_groups:
        yield {
            "count": group.count,
            "CPUs": group.cpus,
            "RealMemory": group.memory_mib,
            "Gres": _quote_text(f"gpu:{group.gpus}"),
        }


def _build_partition(partition: Partition) -> Mapping[str, Value]:
    limit = partition.max_time_s
    return {
        "PartitionName": _quote_text(partition.name),
        "Nodes": _format_node_list(partition.nodes),
        "PriorityTier": partition.priority_tier,
        "PriorityJobFactor": partition.priority_job_factor,
        "MaxTime": _format_duration(limit) if limit else _quote_text("UNLIMITED"),
        "OverSubscribe": _quote_text("EXCLUSIVE" if partition.exclusive else "NO"),
    }


def _build_qos(qos: Qos) -> Mapping[str, Value]:
    amounts = {
        "cpu": qos.max_cpus_pu,
        "mem": qos.max_memory_mib_pu,
        "gres/gpu": qos.max_gpus_pu,
        "node": qos.max_nodes_pu,
    }
    limits = ",".join(
        f"{tres}={amount}{'M' * (tres == 'mem')}" for tres, amount in amounts.items() if amount
    )
    return {
        "Name": _quote_text(qos.name),
        "Priority": qos.priority,
        **({"Flags": _quote_text("PartitionTimeLimit")} if qos.overrides_max_time else {}),
        "MaxJobsPU": qos.max_jobs_pu,
        "MaxSubmitJobsPU": qos.max_submit_pu,
        "MaxTRESPU": _quote_text(limits),
    }


def _build_account(account: str, shares: int) -> Mapping[str, Value]:
    return {"Account": _quote_text(account), "Fairshare": shares}


def _build_reservation(reservation: Reservation) -> Mapping[str, Value]:
    return {
        "ReservationName": _quote_text(reservation.name),
        "StartTime": _format_instant(reservation.start),
        "EndTime": _format_instant(reservation.end),
        "Nodes": _format_node_list(reservation.nodes),
    }


def _iter_outages(events: Sequence[NodeEvent]) -> Iterator[Mapping[str, Value]]:
    """Group events of one kind at one instant into one entry. A return is an entry of its own."""
    ordered = sorted(events, key=lambda e: (e.at, e.outage, e.node))
    for (at, outage), group in groupby(ordered, key=lambda e: (e.at, e.outage)):
        nodes = tuple(event.node for event in group)
        yield {
            "StartTime": _format_instant(at),
            "State": _quote_text(outage.value.upper()),
            "Nodes": _format_node_list(nodes),
        }


def _format_node_list(nodes: Sequence[int]) -> str:
    return _quote_text(format_numbers(nodes) if nodes else "ALL")


def _format_duration(seconds: int) -> str:
    return _quote_text(format_time_limit(seconds))


def _format_instant(epoch: int) -> str:
    if epoch > _LATEST:
        return str(epoch)
    return datetime.fromtimestamp(epoch, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quote_text(value: str) -> str:
    """Format a basic string of TOML. It is JSON's string, except that TOML needs DEL escaped
    too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _render_block(head: str, rows: Mapping[str, Value]) -> str:
    lines = [f"{key} = {value}" for key, value in rows.items()]
    return "\n".join([head, *lines, ""])


def _render_comments(comments: Sequence[str]) -> str:
    lines = [_COMMENT.fill(_clean_comment(comment)) or "#" for comment in comments]
    return "\n".join([*lines, ""])


def _clean_comment(comment: str) -> str:
    """Replace control characters, which TOML's comments cannot hold. Node reasons and names may
    have any character."""
    return "".join(char if char.isprintable() else " " for char in comment)
