"""Decides whether a pending job is eligible: dependencies, holds, begin times
(docs/reference/simulator.md 2)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import (
    AFTER,
    ANY_OF,
    AT_BEGIN,
    BACKFILL_AT,
    BEGIN,
    COMING,
    EDGE,
    EDGE_COLUMNS,
    EDGES,
    ELIGIBLE,
    ELIGIBLE_NOW,
    END_COMPLETED,
    FAR,
    GONE,
    HELD,
    ID,
    IN_PASS,
    LAST_BACKFILL,
    LIVE,
    MAIN_DUE,
    NONE,
    NOW,
    ON_END,
    ON_NOT_OK,
    ON_OK,
    ON_START,
    PHASE,
    RANK_SHIFT,
    RECORD,
    RUNS,
    SITE_BF_INTERVAL,
    SITE_SCHED_INTERVAL,
    START,
    UNMET,
    VERSION,
    WAITING,
    copy_into,
    section,
)
from mirage.simulator.state.priority_queue import dequeue_job, enqueue_job


@kernel
def schedule_passes(state: Ints, site: Ints) -> None:
    """Something changed: the main pass is due at once, the backfill at its next interval.

    A scheduler that is off has an interval below 0.
    """
    state[VERSION] += 1
    if site[SITE_SCHED_INTERVAL] > 0:
        state[MAIN_DUE] = 1
    interval, last = site[SITE_BF_INTERVAL], state[LAST_BACKFILL]
    if interval < 0:
        return
    # Passes keep the beat of the last one; the first comes at a multiple of the interval.
    beat = last if last != -FAR else 0
    due = beat + (state[NOW] - beat + interval - 1) // interval * interval
    state[BACKFILL_AT] = min(state[BACKFILL_AT], max(due, last + interval))


@kernel
def find_slot(state: Ints, job_id: int) -> int:
    """The slot of a pending or running job, or NONE."""
    live = section(state, LIVE)
    for slot in range(live.size // RECORD):
        phase = live[slot * RECORD + PHASE]
        if live[slot * RECORD + ID] == job_id and phase not in (GONE, COMING):
            return slot
    return NONE


@kernel
def add_dependencies(state: Ints, slot: int, wanted: Ints) -> None:
    """Wait for these: kind, job id and delay of each."""
    one_is_met = False
    for k in range(wanted.size // 3):
        waits = add_dependency(state, slot, wanted[3 * k], wanted[3 * k + 1], wanted[3 * k + 2])
        one_is_met = one_is_met or not waits
    if one_is_met and section(state, LIVE)[slot * RECORD + ANY_OF]:
        drop_dependencies(state, slot)


@kernel
def add_dependency(state: Ints, slot: int, kind: int, target_id: int, delay: int) -> bool:
    """Wait for another job; whether it is there and can be waited for."""
    live = section(state, LIVE)
    target = find_slot(state, target_id)
    if target in (NONE, slot):
        return False
    if kind == ON_START and live[target * RECORD + PHASE] == RUNS:
        ripe = live[target * RECORD + START] + delay
        if ripe <= state[NOW]:
            return False
        push_event(state, ripe, (AT_BEGIN << RANK_SHIFT) | live[slot * RECORD + ID], slot)
    edges, i = section(state, EDGE), state[EDGES] * EDGE_COLUMNS
    edges[i], edges[i + 1], edges[i + 2], edges[i + 3] = slot, target, kind, delay
    state[EDGES] += 1
    live[slot * RECORD + UNMET] += 1
    return True


@kernel
def drop_dependencies(state: Ints, slot: int) -> None:
    """The job depends on nothing any more."""
    if not section(state, LIVE)[slot * RECORD + UNMET]:
        return
    edges = section(state, EDGE)
    n = 0
    for k in range(state[EDGES]):
        i, j = k * EDGE_COLUMNS, n * EDGE_COLUMNS
        if edges[i] != slot:
            copy_into(edges[i : i + EDGE_COLUMNS], edges[j : j + EDGE_COLUMNS])
            n += 1
    state[EDGES] = n
    section(state, LIVE)[slot * RECORD + UNMET] = 0


@kernel
def is_dependency_met(kind: int, end_state: int) -> bool:
    """Return whether a target meets a dependency of this kind by its start (0) or such an end."""
    if kind == ON_START:
        return True
    if kind == ON_END:
        return end_state != 0
    if kind == ON_OK:
        return end_state == END_COMPLETED
    return kind == ON_NOT_OK and end_state not in (0, END_COMPLETED)


@kernel
def resolve_dependents(state: Ints, site: Ints, target: int, end_state: int) -> None:
    """Dependents of a job that started (0) or ended: what is met goes, what never can be stays.

    An edge that can never be met points at no slot from then on.
    """
    if not state[EDGES]:
        return
    live, edges = section(state, LIVE), section(state, EDGE)
    k = 0
    while k < state[EDGES]:
        i = k * EDGE_COLUMNS
        slot, kind, delay = edges[i], edges[i + 2], edges[i + 3]
        if edges[i + 1] != target:
            k += 1
        elif kind == ON_START and delay and not end_state:
            push_event(
                state, state[NOW] + delay, (AT_BEGIN << RANK_SHIFT) | live[slot * RECORD + ID], slot
            )
            k += 1
        elif is_dependency_met(kind, end_state):
            k = drop_edge(state, k)
            try_make_eligible(state, site, slot)
        else:
            if end_state:
                edges[i + 1] = NONE
            k += 1


@kernel
def drop_edge(state: Ints, k: int) -> int:
    """An edge is met; which one is to be looked at next, all before it having been looked at."""
    live, edges = section(state, LIVE), section(state, EDGE)
    slot = edges[k * EDGE_COLUMNS]
    if live[slot * RECORD + ANY_OF]:
        before = 0
        for j in range(k):
            before += edges[j * EDGE_COLUMNS] != slot
        drop_dependencies(state, slot)
        return before
    state[EDGES] -= 1
    i, last = k * EDGE_COLUMNS, state[EDGES] * EDGE_COLUMNS
    copy_into(edges[last : last + EDGE_COLUMNS], edges[i : i + EDGE_COLUMNS])
    live[slot * RECORD + UNMET] -= 1
    return k


@kernel
def resolve_delayed_dependencies(state: Ints, slot: int) -> None:
    """Mark the job's delayed dependencies on a start as met where their time has come."""
    live, edges = section(state, LIVE), section(state, EDGE)
    if not live[slot * RECORD + UNMET]:
        return
    k = 0
    while k < state[EDGES]:
        i = k * EDGE_COLUMNS
        at = edges[i + 1] * RECORD
        mine = edges[i] == slot and edges[i + 1] != NONE and edges[i + 2] == ON_START
        if mine and live[at + PHASE] == RUNS and live[at + START] + edges[i + 3] <= state[NOW]:
            k = drop_edge(state, k)
        else:
            k += 1


@kernel
def try_make_eligible(state: Ints, site: Ints, slot: int) -> None:
    """Make a waiting job eligible if nothing keeps it."""
    live = section(state, LIVE)
    at = slot * RECORD
    if (
        live[at + PHASE] == WAITING
        and not live[at + HELD]
        and not live[at + UNMET]
        and max(live[at + BEGIN], live[at + AFTER]) <= state[NOW]
    ):
        if state[IN_PASS]:
            # The pass's order is made: this job comes after it, at the same instant.
            push_event(state, state[NOW], (AT_BEGIN << RANK_SHIFT) | live[at + ID], slot)
            return
        live[at + PHASE] = ELIGIBLE_NOW
        live[at + ELIGIBLE] = state[NOW]
        enqueue_job(state, site, slot)
        schedule_passes(state, site)


@kernel
def make_ineligible(state: Ints, site: Ints, slot: int) -> None:
    """A pending job is not eligible any more, if it was."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PHASE] == ELIGIBLE_NOW:
        dequeue_job(state, slot)
        live[at + PHASE], live[at + ELIGIBLE] = WAITING, NONE
        schedule_passes(state, site)
