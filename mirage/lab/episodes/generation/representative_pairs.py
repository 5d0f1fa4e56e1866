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
    node_hours = _sum_node_hours((get_partition(job, params).name, job) for job in jobs)
    least_hours = LEAST_SHARE * node_hours.total()
    return [
        name for name, hours in node_hours.most_common(MOST_PARTITIONS) if hours >= least_hours > 0
    ]


def find_representative_pair(
    jobs: Iterable[SimJob], params: Params, partition: str
) -> RepresentativePair | None:
    """Find the time limit, and the widths, that have most node-hours of the partition's long jobs.

    A job is long if it asks for half of the longest limit in use, or of MaxTime if that is less.
    None if the partition had no long job.
    """
    pair_partition = _find_partition(params, partition)
    partition_jobs = [
        j
        for j in jobs
        if get_partition(j, params).name == pair_partition.name and _compute_node_hours(j) > 0
    ]
    if not partition_jobs:
        return None
    least_s = LONG * _find_longest_s(partition_jobs, pair_partition)
    long_jobs = [job for job in partition_jobs if job.time_limit_s >= least_s]
    limit_s = _rank_by_node_hours(long_jobs, lambda job: job.time_limit_s)[0]
    partition_size = len(list_partition_nodes(params, pair_partition))
    widths = _rank_by_node_hours(
        [j for j in long_jobs if j.time_limit_s == limit_s], lambda job: job.nodes
    )
    nodes = tuple(width for width in widths if width <= partition_size)[:MOST_WIDTHS]
    if not nodes:
        return None
    pair_hours = sum(
        _compute_node_hours(j) for j in long_jobs if j.time_limit_s == limit_s and j.nodes in nodes
    )
    return RepresentativePair(
        partition=pair_partition.name,
        time_limit_s=limit_s,
        nodes=nodes,
        share=pair_hours / sum(map(_compute_node_hours, partition_jobs)),
    )


def find_heaviest_user(
    jobs: Iterable[SimJob], params: Params, partition: str
) -> tuple[str, str] | None:
    """Return (user, account) with most node-hours in the partition; None if the trace names no
    user."""
    pair_partition = _find_partition(params, partition)
    partition_jobs = (
        j for j in jobs if j.user and get_partition(j, params).name == pair_partition.name
    )
    node_hours = _sum_node_hours(((job.user, job.account), job) for job in partition_jobs)
    return node_hours.most_common(1)[0][0] if node_hours.total() > 0 else None


_Key = TypeVar("_Key")


def _sum_node_hours(jobs_by_key: "Iterable[tuple[_Key, SimJob]]") -> "Counter[_Key]":
    node_hours: Counter[_Key] = Counter()
    for key, job in jobs_by_key:
        node_hours[key] += _compute_node_hours(job)  # type: ignore[assignment]  # hours are no whole numbers
    return node_hours


def _rank_by_node_hours(jobs: Sequence[SimJob], key: Callable[[SimJob], int]) -> list[int]:
    """Rank values by the node-hours of the jobs that have them. Of equals the smaller value
    comes first."""
    node_hours = _sum_node_hours((key(job), job) for job in jobs)
    return sorted(node_hours, key=lambda value: (-node_hours[value], value))


def _find_longest_s(jobs: Sequence[SimJob], partition: Partition) -> int:
    """Find the longest limit in use: all longer limits together have RARE of the node-hours."""
    node_hours = _sum_node_hours((job.time_limit_s, job) for job in jobs)
    rare_hours = RARE * node_hours.total()
    hours_above = 0.0
    longest = 0
    for longest in sorted(node_hours, reverse=True):
        hours_above += node_hours[longest]
        if hours_above >= rare_hours:
            break
    return min(longest, partition.max_time_s or longest)


def _compute_node_hours(job: SimJob) -> float:
    """Compute the node-hours of a job; 0 if its user cancels it before it starts."""
    if job.cancel_at is not None:
        return 0.0
    return job.nodes * min(job.run_s, job.time_limit_s) / HOUR_S


def _find_partition(params: Params, name: str) -> Partition:
    return next((p for p in params.partitions if p.name == name), params.partitions[0])
