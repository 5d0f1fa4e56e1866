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
    MISSING_ROOM,
    NODE_JOBS,
    NODE_STATE,
    NONE,
    NOT_UP,
    NOW,
    PHASE,
    PHASE_COMING,
    PHASE_RUNNING,
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
    instant = min(state[BACKFILL_AT], state[FULL_AT])
    if state[MAIN_DUE]:
        instant = state[NOW]
    if state[EVENTS]:
        instant = min(instant, section(state, HEAP_AT)[0])
    if state[CURSOR] < feed.shape[0]:
        instant = min(instant, feed[state[CURSOR], FEED_SUBMIT])
    # If nothing runs and nothing will come, a tick changes nothing. Without this check ticks alone
    # would go on for ever.
    if site[SITE_FAIR_WEIGHT] and (state[RUNNING] or (state[QUEUED] and instant < FAR)):
        instant = min(instant, state[TICK_AT])
    return max(instant, state[NOW])


@kernel
def check_arrival_room(state: Ints, extra: int, extras: Ints) -> int:
    """Return which array is too small for a job with these extras: a ROOM_ constant or 0."""
    if state[SLOT_FREE] == NONE:
        return ROOM_SLOTS
    return check_extras_room(state, extra, extras)


@kernel
def check_extras_room(state: Ints, extra: int, extras: Ints) -> int:
    """Return which array is too small for a job's extras: a ROOM_ constant or 0.

    The extras are the job's dependencies and its node list. `extra`: their place in `extras`.
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
    """Return which array may be too small for one instant's passes and events: a ROOM_ constant or
    0.

    In one instant each queued job may push its end, each running job and each dependency a begin,
    and each node that is allocated takes a cell.
    """
    if (
        state[EVENTS] + state[QUEUED] + state[RUNNING] + state[EDGES] + 4
        > section(state, HEAP_AT).size
    ):
        return ROOM_EVENTS
    most_cells = (
        state[QUEUED_NODES] if site[SITE_SHARED] else min(site[SITE_NODES], state[QUEUED_NODES])
    )
    if most_cells > state[CELLS_LEFT]:
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
    """Set a node's state: DOWN, DRAINED or UP. DOWN ends or requeues the node's jobs."""
    states, idle_nodes, up_nodes = (
        section(state, NODE_STATE),
        section(state, IDLE_BITS),
        section(state, UP_BITS),
    )
    if states[node] == outage:
        return
    was_up = states[node] == UP
    states[node] = outage
    is_empty = section(state, NODE_JOBS)[node] == 0
    if outage == UP:
        add_node(up_nodes, node)
        state[NOT_UP] -= 1
        if is_empty:
            add_node(idle_nodes, node)
            state[IDLE] += 1
    elif was_up:
        drop_node(up_nodes, node)
        state[NOT_UP] += 1
        if is_empty:
            drop_node(idle_nodes, node)
            state[IDLE] -= 1
    schedule_passes(state, site)
    if outage == DOWN:
        end_jobs_on_node(state, site, results, node)


@kernel
def end_jobs_on_node(state: Ints, site: Ints, results: Ints, node: int) -> None:
    """End or requeue the jobs on a node that went down, in the order of their ids."""
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    while True:
        slot, lowest_id = NONE, FAR
        for i in range(state[RUNNING]):
            if is_job_on_node(state, slots[i], node) and live[slots[i] * RECORD + ID] < lowest_id:
                slot, lowest_id = slots[i], live[slots[i] * RECORD + ID]
        if slot == NONE:
            return
        if live[slot * RECORD + REQUEUES]:
            return_to_waiting(state, site, slot)
        else:
            finish_job(state, site, results, slot, END_NODE_FAIL)


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
    state: Ints, site: Ints, results: Ints, extras: Ints, rank: int, subject: int
) -> None:
    """Handle one event of the heap. An event that is out of date is ignored: its job is gone, or
    the instant that it was pushed for has changed."""
    live = section(state, LIVE)
    kind, number = rank >> RANK_SHIFT, rank & _ID_MASK
    if kind == AT_NODE:
        if subject == NONE:
            schedule_passes(state, site)
        else:
            set_node_state(state, site, results, number, subject)
        return
    record = subject * RECORD
    if live[record + ID] != number:
        return
    if kind == AT_END:
        if live[record + PHASE] == PHASE_RUNNING and live[record + KEY] == state[NOW]:
            end_due_job(state, site, results, subject)
    elif kind == AT_CANCEL:
        if live[record + PHASE] != PHASE_RUNNING and live[record + CANCEL] == state[NOW]:
            finish_job(state, site, results, subject, END_CANCELLED)
    elif kind == AT_BEGIN:
        resolve_delayed_dependencies(state, subject)
        try_make_eligible(state, site, subject)
    elif live[record + PHASE] == PHASE_COMING:
        submit_job(state, site, results, subject, extras)


@expand_inline
def process_instant(
    state: Ints, site: Ints, feed: Ints, extras: Ints, results: Ints, work: Ints
) -> int:
    """Let everything happen that happens at `now`.

    Returns a ROOM_ constant if the caller must make room first and call again; otherwise 0.
    """
    if site[SITE_FAIR_WEIGHT] and state[TICK_AT] < state[NOW]:
        merge_missed_ticks(state, site)
    missing = process_due_events(state, site, results, extras)
    if not missing:
        missing = process_arrivals(state, site, feed, extras, results)
    if missing:
        return missing
    if site[SITE_FAIR_WEIGHT] and state[TICK_AT] == state[NOW]:
        process_tick(state, site)
    missing = check_instant_room(state, site)
    if not missing:
        run_due_passes(state, site, results, work)
    return missing


@kernel
def process_due_events(state: Ints, site: Ints, results: Ints, extras: Ints) -> int:
    """Handle the events of the heap that are due. Returns a ROOM_ constant or 0."""
    times, ranks = section(state, HEAP_AT), section(state, HEAP_RANK)
    subjects = section(state, HEAP_WHAT)
    while state[EVENTS] and times[0] <= state[NOW]:
        missing = check_instant_room(state, site)
        rank, subject = ranks[0], subjects[0]
        if not missing and rank >> RANK_SHIFT == AT_ARRIVAL:
            missing = check_extras_room(
                state, section(state, LIVE)[subject * RECORD + EXTRA], extras
            )
        if missing:
            return missing
        pop_event(state)
        handle_event(state, site, results, extras, rank, subject)
    return 0


@kernel
def process_arrivals(state: Ints, site: Ints, feed: Ints, extras: Ints, results: Ints) -> int:
    """Submit the jobs of the feed whose submission is due. Returns a ROOM_ constant or 0."""
    while state[CURSOR] < feed.shape[0] and feed[state[CURSOR], FEED_SUBMIT] <= state[NOW]:
        row = state[CURSOR]
        missing = max(
            check_arrival_room(state, feed[row, FEED_EXTRA], extras),
            check_instant_room(state, site),
        )
        if missing:
            return missing
        state[CURSOR] += 1
        submit_job(state, site, results, store_feed_row(state, site, feed, row), extras)
    return 0


@kernel
def process_tick(state: Ints, site: Ints) -> None:
    """Apply the fair-share tick. If it changes the order of the queue, passes become due."""
    has_changed = apply_tick(state, site, state[NOW])
    if has_changed and recompute_keys(state, site):
        schedule_passes(state, site)


@expand_inline
def run_due_passes(state: Ints, site: Ints, results: Ints, work: Ints) -> None:
    """Run the passes that are due."""
    state[IN_PASS] = 1
    if state[MAIN_DUE] or state[FULL_AT] <= state[NOW]:
        run_main_pass(state, site, results, work)
    if state[BACKFILL_AT] <= state[NOW]:
        run_backfill_pass(state, site, results, work, work[:0])
    state[IN_PASS] = 0


@kernel
def merge_missed_ticks(state: Ints, site: Ints) -> None:
    """Apply one tick in the place of all ticks that were left out while nothing ran or waited."""
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
    """Advance the state up to and including `until`; with `once` only to the next instant with an
    event.

    Stops early with MISSING_ROOM set if an array is too small: the caller makes room and calls
    again, and nothing is lost. Stops also at the start of the watched job.
    """
    state[MISSING_ROOM] = 0
    while True:
        instant = find_next_instant(state, site, feed)
        if instant > until:
            if until < FAR - 1:
                state[NOW] = max(state[NOW], until)
            return
        state[NOW] = instant
        state[MISSING_ROOM] = process_instant(state, site, feed, extras, results, work)
        if state[MISSING_ROOM] or once or state[WATCHED_START] != NONE:
            return
