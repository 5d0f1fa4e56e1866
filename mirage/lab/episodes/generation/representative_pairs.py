"""Finds the pairs that stand for a site: those of its partitions' most used long jobs."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mirage.domain.time_units import HOUR_S
from mirage.history.workloads.asked_resources import get_partition
from mirage.simulator.packing.packed_params import list_partition_nodes
from mirage.simulator.types import Params, Partition, SimJob

MOST_PARTITIONS = 3
MOST_WIDTHS = 2
LEAST_SHARE = 0.1
"""A partition with a smaller share of all node-hours gets no pair of its own."""
LONG = 0.5
"""A job is long if it asks for at least this share of the longest limit in use."""
RARE = 0.01
"""A limit is in use if longer limits have at least this share of the partition's node-hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepresentativePair:
    """The pair that a partition's long jobs suggest."""

    partition: str
    time_limit_s: int
    nodes: tuple[int, ...]
    """Widths, the most used first."""
    share: float
    """Share of the partition's node-hours of the jobs that are as long and as wide as these."""


def list_busy_partitions(jobs: Iterable[SimJob], params: Params) -> list[str]:
    """List the partitions with most of the node-hours, busiest first."""
    used = _sum_node_hours((get_partition(job, params).name, job) for job in jobs)
    least = LEAST_SHARE * used.total()
    return [name for name, hours in used.most_common(MOST_PARTITIONS) if hours >= least > 0]


def find_representative_pair(
    jobs: Iterable[SimJob], params: Params, partition: str
) -> RepresentativePair | None:
    """Find the request that most node-hours of the partition's long jobs have.

    None if the partition had no long job. Long is half of the longest limit in use, or of MaxTime
    if that is less.
    """
    place = _find_partition(params, partition)
    mine = [
        j
        for j in jobs
        if get_partition(j, params).name == place.name and _compute_node_hours(j) > 0
    ]
    if not mine:
        return None
    least_s = LONG * _find_longest_s(mine, place)
    long = [job for job in mine if job.time_limit_s >= least_s]
    limit_s = _rank_by_node_hours(long, lambda job: job.time_limit_s)[0]
    room = len(list_partition_nodes(params, place))
    widths = _rank_by_node_hours(
        [j for j in long if j.time_limit_s == limit_s], lambda job: job.nodes
    )
    nodes = tuple(width for width in widths if width <= room)[:MOST_WIDTHS]
    if not nodes:
        return None
    like = sum(
        _compute_node_hours(j) for j in long if j.time_limit_s == limit_s and j.nodes in nodes
    )
    return RepresentativePair(
        partition=place.name,
        time_limit_s=limit_s,
        nodes=nodes,
        share=like / sum(map(_compute_node_hours, mine)),
    )


def find_heaviest_user(
    jobs: Iterable[SimJob], params: Params, partition: str
) -> tuple[str, str] | None:
    """Return (user, account) with most node-hours in the partition; None if the trace names no
    user."""
    place = _find_partition(params, partition)
    mine = (j for j in jobs if j.user and get_partition(j, params).name == place.name)
    used = _sum_node_hours(((job.user, job.account), job) for job in mine)
    return used.most_common(1)[0][0] if used.total() > 0 else None


_Key = TypeVar("_Key")


def _sum_node_hours(keyed: "Iterable[tuple[_Key, SimJob]]") -> "Counter[_Key]":
    used: Counter[_Key] = Counter()
    for key, job in keyed:
        used[key] += _compute_node_hours(job)  # type: ignore[assignment]  # hours are no whole numbers
    return used


def _rank_by_node_hours(jobs: Sequence[SimJob], key: Callable[[SimJob], int]) -> list[int]:
    """Rank values by the node-hours of the jobs that have them. Of equals the smaller value
    comes first."""
    used = _sum_node_hours((key(job), job) for job in jobs)
    return sorted(used, key=lambda value: (-used[value], value))


def _find_longest_s(jobs: Sequence[SimJob], partition: Partition) -> int:
    """Find the longest limit in use: all longer limits together have RARE of the node-hours."""
    used = _sum_node_hours((job.time_limit_s, job) for job in jobs)
    rare = RARE * used.total()
    above = 0.0
    longest = 0
    for longest in sorted(used, reverse=True):
        above += used[longest]
        if above >= rare:
            break
    return min(longest, partition.max_time_s or longest)


def _compute_node_hours(job: SimJob) -> float:
    """Compute the node-hours of a job; None if its user cancels it before it starts."""
    if job.cancel_at is not None:
        return 0.0
    return job.nodes * min(job.run_s, job.time_limit_s) / HOUR_S


def _find_partition(params: Params, name: str) -> Partition:
    return next((p for p in params.partitions if p.name == name), params.partitions[0])
