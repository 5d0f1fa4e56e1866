"""The priority that the successor would have among the jobs that wait, were it eligible now.

docs/simulator.md section 3, in whole points as squeue prints them. Fair share is not shown by
squeue for a job that is not there: what the user's waiting jobs have of it is taken, else what is
usual among all that wait. Where nobody waits it makes no difference.
"""

from dataclasses import dataclass

import numpy as np

from mirage.domain.snapshot import Ints
from mirage.features.link import Link
from mirage.sim.types import Params

_FRACTION_BITS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """Eligible waiting jobs: int64 columns of equal length."""

    nodes: Ints
    age_s: Ints
    """That counts: since eligible, or since submission under ACCRUE_ALWAYS."""
    factor: Ints
    """PriorityJobFactor of the partition."""
    priority: Ints
    own: Ints
    """1 for the jobs of the successor's user."""


def newcomer(params: Params, link: Link, now: int, rivals: Rivals) -> int:
    """Points of the successor at `now`."""
    since = link.submit if params.accrue_always and link.submit is not None else now
    age_s = np.array([max(0, now - since)], dtype=np.int64)
    nodes = np.array([link.nodes], dtype=np.int64)
    factor = np.array([factor_of(params, link.partition)], dtype=np.int64)
    points = int(_points(params, nodes, age_s, factor)[0]) + _qos_points(params, link.qos)
    return points + _fair_share(params, rivals)


def factor_of(params: Params, partition: str) -> int:
    """PriorityJobFactor; of the first of several partitions that is known, else of the default."""
    by_name = {p.name: p.priority_job_factor for p in params.partitions}
    known = (by_name[name] for name in partition.split(",") if name in by_name)
    return next(known, params.partitions[0].priority_job_factor)


def _points(params: Params, nodes: Ints, age_s: Ints, factor: Ints) -> Ints:
    """Size, partition and age, in whole points."""
    size = params.nodes - nodes if params.priority_favor_small else nodes
    scaled = (params.priority_weight_job_size << _FRACTION_BITS) * size // params.nodes
    largest = max(p.priority_job_factor for p in params.partitions)
    if largest > 0:
        scaled = scaled + (params.priority_weight_partition << _FRACTION_BITS) * factor // largest
    rate = (params.priority_weight_age << _FRACTION_BITS) // params.priority_max_age_s
    scaled = scaled + rate * np.minimum(age_s, params.priority_max_age_s)
    points: Ints = np.right_shift(scaled, _FRACTION_BITS)
    return points


def _qos_points(params: Params, qos: str) -> int:
    largest = max((q.priority for q in params.qos), default=0)
    if largest <= 0:
        return 0
    chosen = next((q for q in params.qos if q.name == qos), params.qos[0])
    return params.priority_weight_qos * chosen.priority // largest


def _fair_share(params: Params, rivals: Rivals) -> int:
    if not params.priority_weight_fairshare or not len(rivals.nodes):
        return 0
    rest = rivals.priority - _points(params, rivals.nodes, rivals.age_s, rivals.factor)
    mine = rest[rivals.own == 1]
    told = float(mine.max()) if len(mine) else float(np.median(rest))
    return int(min(max(told, 0.0), params.priority_weight_fairshare))
