"""Decides whether a pending job is eligible: dependencies, holds, begin times
(docs/reference/simulator.md 2)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import (
    ANY_OF,
    AT_BEGIN,
    BACKFILL_AT,
    BEGIN,
    EDGE,
    EDGE_COLUMNS,
    EDGES,
    ELIGIBLE,
    END_COMPLETED,
    FAR,
    HELD,
    ID,
    IN_PASS,
    LAST_BACKFILL,
    LIVE,
    MAIN_DUE,
    NONE,
    NOT_BEFORE,
    NOW,
    ON_END,
    ON_NOT_OK,
    ON_OK,
    ON_START,
    PHASE,
    PHASE_COMING,
    PHASE_ELIGIBLE,
    PHASE_FREE,
    PHASE_RUNNING,
    PHASE_WAITING,
    RANK_SHIFT,
    RECORD,
    SITE_BF_INTERVAL,
    SITE_SCHED_INTERVAL,
    START,
    UNMET,
    VERSION,
    copy_into,
    section,
)
from mirage.simulator.state.priority_queue import dequeue_job, enqueue_job


@kernel
def schedule_passes(state: Ints, site: Ints) -> None:
    """Make passes due after a change: the main pass at once, backfill at its next interval.

    A scheduler that is off has an interval below 0.
    """
    state[VERSION] += 1
    if site[SITE_SCHED_INTERVAL] > 0:
        state[MAIN_DUE] = 1
    interval, last = site[SITE_BF_INTERVAL], state[LAST_BACKFILL]
    if interval < 0:
        return
    # Passes keep the rhythm of the last one. The first pass comes at a multiple of the interval.
    origin = last if last != -FAR else 0
    due_at = origin + (state[NOW] - origin + interval - 1) // interval * interval
    state[BACKFILL_AT] = min(state[BACKFILL_AT], max(due_at, last + interval))


@kernel
def find_slot(state: Ints, job_id: int) -> int:
    """Return the slot of a pending or running job, or NONE."""
    live = section(state, LIVE)
    for slot in range(live.size // RECORD):
        phase = live[slot * RECORD + PHASE]
        if live[slot * RECORD + ID] == job_id and phase not in (PHASE_FREE, PHASE_COMING):
            return slot
    return NONE


@kernel
def add_dependencies(state: Ints, slot: int, dependencies: Ints) -> None:
    """Add dependencies to a job. `dependencies`: kind, job id and delay of each."""
    one_is_met = False
    for k in range(dependencies.size // 3):
        is_waiting = add_dependency(
            state, slot, dependencies[3 * k], dependencies[3 * k + 1], dependencies[3 * k + 2]
        )
        one_is_met = one_is_met or not is_waiting
    if one_is_met and section(state, LIVE)[slot * RECORD + ANY_OF]:
        drop_dependencies(state, slot)


@kernel
def add_dependency(state: Ints, slot: int, kind: int, target_id: int, delay: int) -> bool:
    """Add a dependency on another job. Returns whether the job has to wait for it: False if the
    other job does not exist, or the dependency is met already."""
    live = section(state, LIVE)
    target = find_slot(state, target_id)
    if target in (NONE, slot):
        return False
    if kind == ON_START and live[target * RECORD + PHASE] == PHASE_RUNNING:
        met_at = live[target * RECORD + START] + delay
        if met_at <= state[NOW]:
            return False
        push_event(state, met_at, (AT_BEGIN << RANK_SHIFT) | live[slot * RECORD + ID], slot)
    edges, i = section(state, EDGE), state[EDGES] * EDGE_COLUMNS
    edges[i], edges[i + 1], edges[i + 2], edges[i + 3] = slot, target, kind, delay
    state[EDGES] += 1
    live[slot * RECORD + UNMET] += 1
    return True


@kernel
def drop_dependencies(state: Ints, slot: int) -> None:
    """Remove all dependencies of the job."""
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
    """Return whether a target that has started (`end_state` 0) or ended meets a dependency of this
    kind."""
    if kind == ON_START:
        return True
    if kind == ON_END:
        return end_state != 0
    if kind == ON_OK:
        return end_state == END_COMPLETED
    return kind == ON_NOT_OK and end_state not in (0, END_COMPLETED)


@kernel
def resolve_dependents(state: Ints, site: Ints, target: int, end_state: int) -> None:
    """Resolve the dependencies on a job that has started (`end_state` 0) or ended.

    A met dependency is removed. One that can never be met stays, with NONE in the place of its
    target's slot.
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
    """Remove a met edge. Returns the edge to look at next: edges may have moved, and all before
    this one have been looked at."""
    live, edges = section(state, LIVE), section(state, EDGE)
    slot = edges[k * EDGE_COLUMNS]
    if live[slot * RECORD + ANY_OF]:
        edges_before = 0
        for j in range(k):
            edges_before += edges[j * EDGE_COLUMNS] != slot
        drop_dependencies(state, slot)
        return edges_before
    state[EDGES] -= 1
    i, last = k * EDGE_COLUMNS, state[EDGES] * EDGE_COLUMNS
    copy_into(edges[last : last + EDGE_COLUMNS], edges[i : i + EDGE_COLUMNS])
    live[slot * RECORD + UNMET] -= 1
    return k


@kernel
def resolve_delayed_dependencies(state: Ints, slot: int) -> None:
    """Remove the job's delayed dependencies on a start whose time has come."""
    live, edges = section(state, LIVE), section(state, EDGE)
    if not live[slot * RECORD + UNMET]:
        return
    k = 0
    while k < state[EDGES]:
        i = k * EDGE_COLUMNS
        target = edges[i + 1] * RECORD
        is_delayed_start = edges[i] == slot and edges[i + 1] != NONE and edges[i + 2] == ON_START
        if (
            is_delayed_start
            and live[target + PHASE] == PHASE_RUNNING
            and live[target + START] + edges[i + 3] <= state[NOW]
        ):
            k = drop_edge(state, k)
        else:
            k += 1


@kernel
def try_make_eligible(state: Ints, site: Ints, slot: int) -> None:
    """Make a waiting job eligible if nothing keeps it."""
    live = section(state, LIVE)
    record = slot * RECORD
    if (
        live[record + PHASE] == PHASE_WAITING
        and not live[record + HELD]
        and not live[record + UNMET]
        and max(live[record + BEGIN], live[record + NOT_BEFORE]) <= state[NOW]
    ):
        if state[IN_PASS]:
            # A running pass has its order already. The job becomes eligible after the pass, at the
            # same instant.
            push_event(state, state[NOW], (AT_BEGIN << RANK_SHIFT) | live[record + ID], slot)
            return
        live[record + PHASE] = PHASE_ELIGIBLE
        live[record + ELIGIBLE] = state[NOW]
        enqueue_job(state, site, slot)
        schedule_passes(state, site)


@kernel
def make_ineligible(state: Ints, site: Ints, slot: int) -> None:
    """Take a pending job out of the queue, if it is eligible."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PHASE] == PHASE_ELIGIBLE:
        dequeue_job(state, slot)
        live[record + PHASE], live[record + ELIGIBLE] = PHASE_WAITING, NONE
        schedule_passes(state, site)
