"""Computes the priority that the successor would have in the queue if it were eligible now.

The formulas are in docs/reference/simulator.md, section 3, in whole points as squeue prints them.
squeue shows no fair share of a job that is not in the queue. The fair share is therefore taken from
the user's waiting jobs, or else from the median of all waiting jobs. If nobody waits, fair share
makes no difference.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mirage.domain.arrays import Ints
from mirage.observation.compute import PendingColumns
from mirage.observation.handover_input import HandoverInput
from mirage.simulator.types import Params

_FRACTION_BITS = 24

Whole = TypeVar("Whole", int, Ints)
"""A number of one job, or a column of many jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """The eligible waiting jobs, with two more int64 columns."""

    pending: PendingColumns
    age_s: Ints
    """The age that counts for priority, seconds: since eligible, or since submission under
    ACCRUE_ALWAYS."""
    factor: Ints
    """PriorityJobFactor of the partition."""


def compute_successor_points(params: Params, link: HandoverInput, now: int) -> int:
    """Compute the points of the successor at `now` (epoch seconds), without fair share."""
    since = link.submit if params.accrue_always and link.submit is not None else now
    age_s = min(max(0, now - since), params.priority_max_age_s)
    factor = find_job_factor(params, link.partition)
    return _compute_points(params, link.nodes, age_s, factor) + _compute_qos_points(
        params, link.qos
    )


def estimate_fair_share(params: Params, rivals: Rivals, user: int) -> int:
    """Estimate the fair-share points of a user's next job, 0 to PriorityWeightFairshare."""
    pending = rivals.pending
    if not len(pending.nodes):
        return 0
    age_s = np.minimum(rivals.age_s, params.priority_max_age_s)
    share = pending.priority - _compute_points(params, pending.nodes, age_s, rivals.factor)
    own_share = share[pending.user == user]
    points = float(own_share.max()) if len(own_share) else float(np.median(share))
    return int(min(max(points, 0.0), params.priority_weight_fairshare))


def find_job_factor(params: Params, partition: str) -> int:
    """Find PriorityJobFactor of the job's first known partition; of the default partition if none
    is known."""
    if len(params.partitions) == 1:
        return params.partitions[0].priority_job_factor
    by_name = {p.name: p.priority_job_factor for p in params.partitions}
    factors = (by_name[name] for name in partition.split(",") if name in by_name)
    return next(factors, params.partitions[0].priority_job_factor)


def _compute_points(params: Params, nodes: Whole, age_s: Whole, factor: Whole) -> Whole:
    """Compute the points for size, partition and age, in whole points."""
    size = params.nodes - nodes if params.priority_favor_small else nodes
    scaled = (params.priority_weight_job_size << _FRACTION_BITS) * size // params.nodes
    largest = max(p.priority_job_factor for p in params.partitions)
    if largest > 0:
        scaled = scaled + (params.priority_weight_partition << _FRACTION_BITS) * factor // largest
    rate = (params.priority_weight_age << _FRACTION_BITS) // params.priority_max_age_s
    return (scaled + rate * age_s) >> _FRACTION_BITS


def _compute_qos_points(params: Params, qos: str) -> int:
    largest = max((q.priority for q in params.qos), default=0)
    if largest <= 0:
        return 0
    chosen = next((q for q in params.qos if q.name == qos), params.qos[0])
    return params.priority_weight_qos * chosen.priority // largest
