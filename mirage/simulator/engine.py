"""The event loop: it moves the state from one event to the next (docs/reference/simulator.md 1)."""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.event_heap import pop_event
from mirage.simulator.arrays.jit import expand_inline, kernel
from mirage.simulator.arrays.layout import (
    ALLOCATED,
    AT_ARRIVAL,
    AT_BEGIN,
    AT_CANCEL,
    AT_END,
    AT_NODE,
    BACKFILL_AT,
    CANCEL,
    CELL_NEXT,
    CELL_NODE,
    CELLS_LEFT,
    COMING,
    CURSOR,
    DOWN,
    EDGE,
    EDGE_COLUMNS,
    EDGES,
    END_CANCELLED,
    END_NODE_FAIL,
    EVENTS,
    EXTRA,
    FAR,
    FEED_EXTRA,
    FEED_SUBMIT,
    FULL_AT,
    HEAP_AT,
    HEAP_RANK,
    HEAP_WHAT,
    ID,
    IDLE,
    IDLE_BITS,
    IN_PASS,
    KEY,
    LISTENING,
    LIVE,
    LIVE_JOBS,
    LOG,
    LOG_HEAD,
    LOGGED,
    MAIN_DUE,
    NODE_JOBS,
    NODE_STATE,
    NONE,
    NOT_UP,
    NOW,
    PHASE,
    QUEUED,
    QUEUED_NODES,
    RANK_SHIFT,
    RECORD,
    REQUEUES,
    ROOM_CELLS,
    ROOM_EDGES,
    ROOM_EVENTS,
    ROOM_LOG,
    ROOM_SLOTS,
    RUN_SLOT,
    RUNNING,
    RUNS,
    SHORT,
    SITE_CALC_PERIOD,
    SITE_FAIR_WEIGHT,
    SITE_NODES,
    SITE_SHARED,
    SLOT_FREE,
    TICK_AT,
    UP,
    UP_BITS,
    WATCHED_START,
    section,
)
from mirage.simulator.scheduling.backfill_pass import run_backfill_pass
from mirage.simulator.scheduling.main_pass import run_main_pass
from mirage.simulator.state.eligibility import (
    resolve_delayed_dependencies,
    schedule_passes,
    try_make_eligible,
)
from mirage.simulator.state.fairtree import apply_tick
from mirage.simulator.state.job_lifecycle import (
    end_due_job,
    finish_job,
    return_to_waiting,
    store_feed_row,
    submit_job,
)
from mirage.simulator.state.node_selection import add_node, drop_node
from mirage.simulator.state.priority_queue import recompute_keys

_ID_MASK: Final = (1 << RANK_SHIFT) - 1


@kernel
def find_next_instant(state: Ints, site: Ints, feed: Ints) -> int:
    """Return when something happens next; FAR: never."""
    at = min(state[BACKFILL_AT], state[FULL_AT])
    if state[MAIN_DUE]:
        at = state[NOW]
    if state[EVENTS]:
        at = min(at, section(state, HEAP_AT)[0])
    if state[CURSOR] < feed.shape[0]:
        at = min(at, feed[state[CURSOR], FEED_SUBMIT])
    # With nothing to run and nothing to come a tick changes nothing, and there would be no end.
    if site[SITE_FAIR_WEIGHT] and (state[RUNNING] or (state[QUEUED] and at < FAR)):
        at = min(at, state[TICK_AT])
    return max(at, state[NOW])


@kernel
def check_arrival_room(state: Ints, extra: int, extras: Ints) -> int:
    """Return the room that is short for a job with these extras: a ROOM_ constant or 0."""
    if state[SLOT_FREE] == NONE:
        return ROOM_SLOTS
    return check_extras_room(state, extra, extras)


@kernel
def check_extras_room(state: Ints, extra: int, extras: Ints) -> int:
    """Return the room that is short for a job's extras: a ROOM_ constant or 0.

    The extras are its dependencies and its node list.
    """
    if extra == NONE:
        return 0
    n = extras[extra]
    if (state[EDGES] + n) * EDGE_COLUMNS > section(state, EDGE).size:
        return ROOM_EDGES
    if state[EVENTS] + n + 4 > section(state, HEAP_AT).size:
        return ROOM_EVENTS
    return ROOM_CELLS if extras[extra + 1 + 3 * n] > state[CELLS_LEFT] else 0


@kernel
def check_instant_room(state: Ints, site: Ints) -> int:
    """Return the room that one instant's passes and events might lack: a ROOM_ constant or 0.

    An instant pushes at most one end a queued job and one begin a running one and a dependency, and
    uses a cell a node given away.
    """
    if (
        state[EVENTS] + state[QUEUED] + state[RUNNING] + state[EDGES] + 4
        > section(state, HEAP_AT).size
    ):
        return ROOM_EVENTS
    most = state[QUEUED_NODES] if site[SITE_SHARED] else min(site[SITE_NODES], state[QUEUED_NODES])
    if most > state[CELLS_LEFT]:
        return ROOM_CELLS
    if state[LISTENING]:
        cells = section(state, CELL_NODE).size
        if (
            state[LOGGED] + (2 * state[LIVE_JOBS] + 4) * LOG_HEAD + 2 * cells
            > section(state, LOG).size
        ):
            return ROOM_LOG
    return 0


@kernel
def set_node_state(state: Ints, site: Ints, results: Ints, node: int, outage: int) -> None:
    """A node goes down (DOWN), drains (DRAINED) or comes back (UP)."""
    states, idle, up = (
        section(state, NODE_STATE),
        section(state, IDLE_BITS),
        section(state, UP_BITS),
    )
    if states[node] == outage:
        return
    was_up = states[node] == UP
    states[node] = outage
    empty = section(state, NODE_JOBS)[node] == 0
    if outage == UP:
        add_node(up, node)
        state[NOT_UP] -= 1
        if empty:
            add_node(idle, node)
            state[IDLE] += 1
    elif was_up:
        drop_node(up, node)
        state[NOT_UP] += 1
        if empty:
            drop_node(idle, node)
            state[IDLE] -= 1
    schedule_passes(state, site)
    if outage == DOWN:
        end_jobs_on_node(state, site, results, node)


@kernel
def end_jobs_on_node(state: Ints, site: Ints, results: Ints, node: int) -> None:
    """The jobs on a node that went down, by job id."""
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    while True:
        found, first = NONE, FAR
        for i in range(state[RUNNING]):
            if is_job_on_node(state, slots[i], node) and live[slots[i] * RECORD + ID] < first:
                found, first = slots[i], live[slots[i] * RECORD + ID]
        if found == NONE:
            return
        if live[found * RECORD + REQUEUES]:
            return_to_waiting(state, site, found)
        else:
            finish_job(state, site, results, found, END_NODE_FAIL)


@kernel
def is_job_on_node(state: Ints, slot: int, node: int) -> bool:
    """Return whether a running job has the node."""
    names, nexts = section(state, CELL_NODE), section(state, CELL_NEXT)
    cell = section(state, LIVE)[slot * RECORD + ALLOCATED]
    while cell != NONE:
        if names[cell] == node:
            return True
        cell = nexts[cell]
    return False


@kernel
def handle_event(
    state: Ints, site: Ints, results: Ints, extras: Ints, rank: int, what: int
) -> None:
    """One event of the heap, unless it is out of date."""
    live = section(state, LIVE)
    kind, number = rank >> RANK_SHIFT, rank & _ID_MASK
    if kind == AT_NODE:
        if what == NONE:
            schedule_passes(state, site)
        else:
            set_node_state(state, site, results, number, what)
        return
    at = what * RECORD
    if live[at + ID] != number:
        return
    if kind == AT_END:
        if live[at + PHASE] == RUNS and live[at + KEY] == state[NOW]:
            end_due_job(state, site, results, what)
    elif kind == AT_CANCEL:
        if live[at + PHASE] != RUNS and live[at + CANCEL] == state[NOW]:
            finish_job(state, site, results, what, END_CANCELLED)
    elif kind == AT_BEGIN:
        resolve_delayed_dependencies(state, what)
        try_make_eligible(state, site, what)
    elif live[at + PHASE] == COMING:
        submit_job(state, site, results, what, extras)


@expand_inline
def process_instant(
    state: Ints, site: Ints, feed: Ints, extras: Ints, results: Ints, work: Ints
) -> int:
    """Everything that happens at `now`; a ROOM_ constant where the caller must make room first."""
    if site[SITE_FAIR_WEIGHT] and state[TICK_AT] < state[NOW]:
        merge_missed_ticks(state, site)
    short = process_due_events(state, site, results, extras)
    if not short:
        short = process_arrivals(state, site, feed, extras, results)
    if short:
        return short
    if site[SITE_FAIR_WEIGHT] and state[TICK_AT] == state[NOW]:
        process_tick(state, site)
    short = check_instant_room(state, site)
    if not short:
        run_due_passes(state, site, results, work)
    return short


@kernel
def process_due_events(state: Ints, site: Ints, results: Ints, extras: Ints) -> int:
    """The events of the heap that are due."""
    times, ranks = section(state, HEAP_AT), section(state, HEAP_RANK)
    whats = section(state, HEAP_WHAT)
    while state[EVENTS] and times[0] <= state[NOW]:
        short = check_instant_room(state, site)
        rank, what = ranks[0], whats[0]
        if not short and rank >> RANK_SHIFT == AT_ARRIVAL:
            short = check_extras_room(state, section(state, LIVE)[what * RECORD + EXTRA], extras)
        if short:
            return short
        pop_event(state)
        handle_event(state, site, results, extras, rank, what)
    return 0


@kernel
def process_arrivals(state: Ints, site: Ints, feed: Ints, extras: Ints, results: Ints) -> int:
    """The jobs of the feed whose submission has come."""
    while state[CURSOR] < feed.shape[0] and feed[state[CURSOR], FEED_SUBMIT] <= state[NOW]:
        row = state[CURSOR]
        short = max(
            check_arrival_room(state, feed[row, FEED_EXTRA], extras),
            check_instant_room(state, site),
        )
        if short:
            return short
        state[CURSOR] += 1
        submit_job(state, site, results, store_feed_row(state, site, feed, row), extras)
    return 0


@kernel
def process_tick(state: Ints, site: Ints) -> None:
    """The fair-share tick, which may change the order."""
    changed = apply_tick(state, site, state[NOW])
    if changed and recompute_keys(state, site):
        schedule_passes(state, site)


@expand_inline
def run_due_passes(state: Ints, site: Ints, results: Ints, work: Ints) -> None:
    """The passes that are due."""
    state[IN_PASS] = 1
    if state[MAIN_DUE] or state[FULL_AT] <= state[NOW]:
        run_main_pass(state, site, results, work)
    if state[BACKFILL_AT] <= state[NOW]:
        run_backfill_pass(state, site, results, work, work[:0])
    state[IN_PASS] = 0


@kernel
def merge_missed_ticks(state: Ints, site: Ints) -> None:
    """Nothing ran or waited since: one tick stands for all that were left out."""
    apply_tick(state, site, state[TICK_AT])
    period = site[SITE_CALC_PERIOD]
    state[TICK_AT] = (state[NOW] + period - 1) // period * period


@kernel
def advance_until(
    state: Ints,
    site: Ints,
    feed: Ints,
    extras: Ints,
    results: Ints,
    work: Ints,
    until: int,
    once: bool,
) -> None:
    """Let everything happen up to and including `until`; with `once` only the next instant's.

    Stops short with SHORT set where an array is too small: the caller makes room and calls again,
    nothing is lost. Stops at the start of the watched job.
    """
    state[SHORT] = 0
    while True:
        at = find_next_instant(state, site, feed)
        if at > until:
            if until < FAR - 1:
                state[NOW] = max(state[NOW], until)
            return
        state[NOW] = at
        state[SHORT] = process_instant(state, site, feed, extras, results, work)
        if state[SHORT] or once or state[WATCHED_START] != NONE:
            return
