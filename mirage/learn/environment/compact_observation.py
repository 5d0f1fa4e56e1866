"""A small observation: sixteen numbers of order one, cheap enough for every step of many.

Read straight from a simulator's state (sim/arrays/layout.py). Nothing after the instant enters:
time limits, never run times.
"""

import math

from mirage.domain.arrays import Ints, Observations
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.learn.environment.handover_kernel import BEGINS, ENDS, POSITION, SLOT
from mirage.learn.environment.protocols import PositionAction
from mirage.sim.arrays.jit import kernel
from mirage.sim.arrays.layout import (
    ELIGIBLE,
    ELIGIBLE_NOW,
    ID,
    IDLE,
    LIVE,
    NODES,
    NONE,
    NOW,
    ORIGIN,
    PHASE,
    QUEUE_ID,
    QUEUE_KEY,
    QUEUE_LIMIT,
    QUEUE_NODES,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    RUN_END,
    RUN_SLOT,
    RUNNING,
    SATURATED,
    SITE_ACCRUE,
    SITE_MAX_AGE,
    SITE_NODES,
    SITE_RATE,
    column,
    get_queue_place,
    section,
)
from mirage.sim.state.priority_queue import compute_key, get_age_start, refresh_saturated

FREED_WITHIN_H = (1, 6, 24)
FEATURES: tuple[str, ...] = (
    "predecessor_left_days",
    "predecessor_left_share",
    "held",
    "free",
    "pinned",
    "eligible_days",
    "day_sin",
    "day_cos",
    "nodes_free_share",
    "running_jobs_log",
    *(f"freed_{h}h_share" for h in FREED_WITHIN_H),
    "pending_jobs_log",
    "pending_machine_days_log",
    "ahead_machine_days_log",
)
"""docs/reference/environment.md says what each is. `_log`: log(1 + x). Shares are of all nodes."""

_HELD, _FREE, _PINNED = (int(p) for p in PositionAction)
_WITHIN_0, _WITHIN_1, _WITHIN_2 = (h * HOUR_S for h in FREED_WITHIN_H)


@kernel
def fill_observation(state: Ints, site: Ints, hand: Ints, out: Observations) -> None:
    """Fill `out`, float32[16], for the hand-over `hand` (handover_kernel.py) in this state."""
    refresh_saturated(state, site)
    _fill_standby(state, hand, out)
    _fill_running(state, site, out)
    _fill_pending(state, site, hand, out)


@kernel
def _fill_standby(state: Ints, hand: Ints, out: Observations) -> None:
    now, position = state[NOW], hand[POSITION]
    left = max(0, hand[ENDS] - now)
    out[0] = left / DAY_S
    out[1] = left / max(1, hand[ENDS] - hand[BEGINS])
    out[2] = 1.0 if position == _HELD else 0.0
    out[3] = 1.0 if position == _FREE else 0.0
    out[4] = 1.0 if position == _PINNED else 0.0
    eligible = section(state, LIVE)[hand[SLOT] * RECORD + ELIGIBLE]
    out[5] = (now - eligible) / DAY_S if eligible != NONE else 0.0
    angle = 2.0 * math.pi * (now % DAY_S) / DAY_S
    out[6] = math.sin(angle)
    out[7] = math.cos(angle)


@kernel
def _fill_running(state: Ints, site: Ints, out: Observations) -> None:
    """Free nodes, running jobs, and what these give back by their limits."""
    now, share = state[NOW], 1.0 / site[SITE_NODES]
    out[8] = state[IDLE] * share
    out[9] = math.log1p(state[RUNNING])
    live, ends, slots = section(state, LIVE), section(state, RUN_END), section(state, RUN_SLOT)
    first, second, third = 0, 0, 0
    for i in range(state[RUNNING]):
        left = ends[i] - now
        if left > _WITHIN_2:
            break
        nodes = live[slots[i] * RECORD + NODES]
        third += nodes
        second += nodes if left <= _WITHIN_1 else 0
        first += nodes if left <= _WITHIN_0 else 0
    out[10], out[11], out[12] = first * share, second * share, third * share


@kernel
def _fill_pending(state: Ints, site: Ints, hand: Ints, out: Observations) -> None:
    """Eligible rivals, and those of them before the standby, were it free now."""
    keys, ids, slots = (
        column(state, QUEUE_KEY),
        column(state, QUEUE_ID),
        column(state, QUEUE_SLOT),
    )
    nodes, limits = column(state, QUEUE_NODES), column(state, QUEUE_LIMIT)
    key, job_id = (
        _compute_queue_key(state, site, hand[SLOT]),
        section(state, LIVE)[hand[SLOT] * RECORD + ID],
    )
    oldest = state[NOW] - site[SITE_MAX_AGE] - state[ORIGIN]
    before, work, rivals = 0, 0, 0
    for k in range(state[QUEUED]):
        i = get_queue_place(state, k)
        if slots[i] == hand[SLOT]:
            continue
        theirs = keys[i] + (site[SITE_RATE] * oldest if k < state[SATURATED] else 0)
        asked = nodes[i] * limits[i]
        rivals += 1
        work += asked
        if theirs < key or (theirs == key and ids[i] < job_id):
            before += asked
    machine_day = site[SITE_NODES] * DAY_S
    out[13] = math.log1p(rivals)
    out[14] = math.log1p(work / machine_day)
    out[15] = math.log1p(before / machine_day)


@kernel
def _compute_queue_key(state: Ints, site: Ints, slot: int) -> int:
    """The standby's key among the young ones of the queue, as if it became eligible now."""
    live = section(state, LIVE)
    at = slot * RECORD
    since = get_age_start(live, site, at)
    if live[at + PHASE] != ELIGIBLE_NOW and not site[SITE_ACCRUE]:
        since = state[NOW]
    since = max(since, state[NOW] - site[SITE_MAX_AGE])
    return int(compute_key(state, site, slot, 1) + site[SITE_RATE] * (since - state[ORIGIN]))
