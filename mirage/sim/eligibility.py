"""Whether a pending job is eligible: dependencies, holds, begin times (docs/simulator.md 2)."""

from mirage.sim.heap import push
from mirage.sim.jit import kernel
from mirage.sim.layout import (
    AFTER,
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
    UNMET,
    VERSION,
    WAITING,
    Ints,
    section,
)
from mirage.sim.queue import dequeue, enqueue


@kernel
def touch(state: Ints, site: Ints) -> None:
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
def find(state: Ints, job_id: int) -> int:
    """The slot of a pending or running job, or NONE."""
    live = section(state, LIVE)
    for slot in range(live.size // RECORD):
        phase = live[slot * RECORD + PHASE]
        if live[slot * RECORD + ID] == job_id and phase not in (GONE, COMING):
            return slot
    return NONE


@kernel
def depend(state: Ints, slot: int, kind: int, target_id: int) -> None:
    """Wait for another job, if it is still there and can be waited for."""
    live = section(state, LIVE)
    target = find(state, target_id)
    if target in (NONE, slot):
        return
    if kind == ON_START and live[target * RECORD + PHASE] == RUNS:
        return
    edges, i = section(state, EDGE), state[EDGES] * EDGE_COLUMNS
    edges[i], edges[i + 1], edges[i + 2] = slot, target, kind
    state[EDGES] += 1
    live[slot * RECORD + UNMET] += 1


@kernel
def drop_edges_of(state: Ints, slot: int) -> None:
    """The job depends on nothing any more."""
    edges = section(state, EDGE)
    n = 0
    for k in range(state[EDGES]):
        i, j = k * EDGE_COLUMNS, n * EDGE_COLUMNS
        if edges[i] != slot:
            edges[j], edges[j + 1], edges[j + 2] = edges[i], edges[i + 1], edges[i + 2]
            n += 1
    state[EDGES] = n
    section(state, LIVE)[slot * RECORD + UNMET] = 0


@kernel
def meets(kind: int, end_state: int) -> bool:
    """Whether a target that starts (0) or ends so meets a dependency of this kind."""
    if kind == ON_START:
        return True
    if kind == ON_END:
        return end_state != 0
    if kind == ON_OK:
        return end_state == END_COMPLETED
    return kind == ON_NOT_OK and end_state not in (0, END_COMPLETED)


@kernel
def meet(state: Ints, site: Ints, target: int, end_state: int) -> None:
    """Dependents of a job that started (0) or ended: what is met goes, what never can be stays.

    An edge that can never be met points at no slot from then on.
    """
    if not state[EDGES]:
        return
    live, edges = section(state, LIVE), section(state, EDGE)
    k = 0
    while k < state[EDGES]:
        i = k * EDGE_COLUMNS
        if edges[i + 1] != target:
            k += 1
        elif meets(edges[i + 2], end_state):
            slot = edges[i]
            last = (state[EDGES] - 1) * EDGE_COLUMNS
            edges[i], edges[i + 1], edges[i + 2] = edges[last], edges[last + 1], edges[last + 2]
            state[EDGES] -= 1
            live[slot * RECORD + UNMET] -= 1
            consider(state, site, slot)
        else:
            if end_state:
                edges[i + 1] = NONE
            k += 1


@kernel
def consider(state: Ints, site: Ints, slot: int) -> None:
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
            push(state, state[NOW], (AT_BEGIN << RANK_SHIFT) | live[at + ID], slot)
            return
        live[at + PHASE] = ELIGIBLE_NOW
        live[at + ELIGIBLE] = state[NOW]
        enqueue(state, site, slot)
        touch(state, site)


@kernel
def withdraw(state: Ints, site: Ints, slot: int) -> None:
    """A pending job is not eligible any more, if it was."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PHASE] == ELIGIBLE_NOW:
        dequeue(state, slot)
        live[at + PHASE], live[at + ELIGIBLE] = WAITING, NONE
        touch(state, site)
