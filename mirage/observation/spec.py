"""The numbers of an observation: names, order, unit, scale, and a fingerprint of all of them.

A model is trained on these numbers in this order. Its card keeps `FINGERPRINT`, and the service
refuses a model with another fingerprint. docs/reference/features.md gives the meaning of each
number.
"""

import hashlib
from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

COMPUTATION = 1
"""Increase this when a number is computed in a new way under its old name."""

HORIZONS_H = (1, 2, 4, 8, 16, 24, 48)
"""Horizons of the profile of running jobs, hours: how many nodes come free within each."""

ARRIVALS_H = (1, 6, 24)
"""The windows over which arrivals are counted, hours."""


class Scaling(IntEnum):
    """The ways to turn a raw number into an input of order one. `invert_scaling` undoes each."""

    PLAIN = 0
    """Unchanged: shares, sines, flags."""
    LOG = 1
    """log(1 + x), for counts, nodes and node hours; x >= 0."""
    LOG_HOURS = 2
    """log(1 + x / 3600), for seconds; x >= 0."""
    SIGNED_LOG_HOURS = 3
    """sign(x) log(1 + |x| / 3600), for seconds."""


def _list_percentiles(name: str) -> tuple[tuple[str, Scaling], ...]:
    """List the names of the percentiles 0, 25, 50, 75 and 100 of a duration."""
    return tuple((f"{name}_p{p}", Scaling.LOG_HOURS) for p in (0, 25, 50, 75, 100))


_PAPER = (
    ("pending_jobs", Scaling.LOG),
    ("pending_nodes", Scaling.LOG),
    *_list_percentiles("pending_limit"),
    *_list_percentiles("pending_age"),
    *_list_percentiles("pending_run"),
    ("running_jobs", Scaling.LOG),
    ("running_nodes", Scaling.LOG),
    *_list_percentiles("running_limit"),
    *_list_percentiles("running_wait"),
    *_list_percentiles("running_elapsed"),
    ("predecessor_limit", Scaling.LOG_HOURS),
    ("predecessor_nodes", Scaling.LOG),
    ("predecessor_wait", Scaling.LOG_HOURS),
    ("predecessor_elapsed", Scaling.LOG_HOURS),
    ("successor_limit", Scaling.LOG_HOURS),
    ("successor_nodes", Scaling.LOG),
    ("successor_wait", Scaling.LOG_HOURS),
    ("successor_elapsed", Scaling.LOG_HOURS),
)

_WAITS = ("mean", "p50", "p90")

GROUPS: dict[str, tuple[tuple[str, Scaling], ...]] = {
    "paper": _PAPER,
    "nodes": (
        ("nodes_up", Scaling.LOG),
        ("nodes_down", Scaling.LOG),
        ("nodes_free", Scaling.LOG),
        ("nodes_free_share", Scaling.PLAIN),
        ("nodes_short", Scaling.LOG),
        ("cpus_free_share", Scaling.PLAIN),
        ("gpus_free_share", Scaling.PLAIN),
    ),
    "profile": (
        *((f"freed_by_limit_{h}h", Scaling.LOG) for h in HORIZONS_H),
        *((f"freed_as_usual_{h}h", Scaling.LOG) for h in HORIZONS_H),
        ("room_by_limit", Scaling.LOG_HOURS),
        ("room_as_usual", Scaling.LOG_HOURS),
    ),
    "ahead": (
        ("ahead_jobs", Scaling.LOG),
        ("ahead_nodes", Scaling.LOG),
        ("ahead_node_hours", Scaling.LOG),
        ("ahead_node_hours_as_usual", Scaling.LOG),
        ("ahead_open_node_hours", Scaling.LOG),
        ("ahead_machine_time", Scaling.LOG_HOURS),
        ("ahead_no_wider_jobs", Scaling.LOG),
        ("pending_node_hours", Scaling.LOG),
    ),
    "users": (
        ("own_running_jobs", Scaling.LOG),
        ("own_pending_jobs", Scaling.LOG),
        ("own_limit_share", Scaling.PLAIN),
        ("capped_pending_jobs", Scaling.LOG),
        ("capped_node_hours", Scaling.LOG),
        ("own_usual_share", Scaling.PLAIN),
        ("all_usual_share", Scaling.PLAIN),
    ),
    "lately": (
        *((f"arrived_jobs_{h}h", Scaling.LOG) for h in ARRIVALS_H),
        *((f"arrived_node_hours_{h}h", Scaling.LOG) for h in ARRIVALS_H),
        ("started_jobs", Scaling.LOG),
        *((f"waited_{w}", Scaling.LOG_HOURS) for w in _WAITS),
        ("started_like_jobs", Scaling.LOG),
        *((f"waited_like_{w}", Scaling.LOG_HOURS) for w in _WAITS),
    ),
    "clock": tuple((n, Scaling.PLAIN) for n in ("day_sin", "day_cos", "week_sin", "week_cos")),
    "predecessor": (
        ("predecessor_left", Scaling.LOG_HOURS),
        ("predecessor_left_share", Scaling.PLAIN),
    ),
    "plan": (
        ("plan_wait", Scaling.LOG_HOURS),
        ("plan_missing", Scaling.PLAIN),
        ("plan_gap", Scaling.SIGNED_LOG_HOURS),
        ("usual_plan_wait", Scaling.LOG_HOURS),
        ("usual_plan_missing", Scaling.PLAIN),
        ("usual_plan_gap", Scaling.SIGNED_LOG_HOURS),
    ),
}
"""Every number with its scale, by group, in order."""

FEATURE_NAMES: tuple[str, ...] = tuple(name for group in GROUPS.values() for name, _ in group)
SCALES: NDArray[np.int64] = np.array([s for g in GROUPS.values() for _, s in g], dtype=np.int64)
"""The `Scaling` of each number."""

PLACES: dict[str, int] = {name: i for i, name in enumerate(FEATURE_NAMES)}
"""The place of each number by name."""


def _compute_starts() -> NDArray[np.int64]:
    return np.cumsum([0, *(len(group) for group in GROUPS.values())], dtype=np.int64)


STARTS: NDArray[np.int64] = _compute_starts()
"""The first place of each group, and the total length: int64[groups + 1]."""


def compute_fingerprint(
    groups: Mapping[str, tuple[tuple[str, Scaling], ...]], computation: int
) -> str:
    """Compute the sha256 of groups, names, order, scales and the version of the computation."""
    digest = hashlib.sha256(f"{computation}".encode())
    for group, numbers in groups.items():
        digest.update(f"\n{group}".encode())
        for name, scale in numbers:
            digest.update(f"\n{name} {scale.name}".encode())
    return digest.hexdigest()


FINGERPRINT = compute_fingerprint(GROUPS, COMPUTATION)
"""The fingerprint of this module, hexadecimal."""


def invert_scaling(observations: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the numbers before scaling: seconds, counts, shares. Input and result have the same
    shape [..., F]."""
    x = observations.astype(np.float64)
    is_plain = Scaling.PLAIN == SCALES
    logs = np.sign(x) * np.expm1(np.where(is_plain, 0.0, np.abs(x)))
    hours = (Scaling.LOG_HOURS, Scaling.SIGNED_LOG_HOURS)
    unscaled = np.where(np.isin(SCALES, hours), logs * 3600.0, logs)
    return np.where(is_plain, x, unscaled)
