"""Changes the state of one job: it arrives, becomes eligible, starts, ends, waits again."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    AFTER,
    ALLOCATED,
    ASSOCIATION,
    AT_BEGIN,
    AT_CANCEL,
    AT_END,
    BEGIN,
    CANCEL,
    CAPACITY_CPUS,
    CELL_NEXT,
    CELL_NODE,
    CHARGE,
    COMING,
    ELIGIBLE,
    END_CANCELLED,
    END_COMPLETED,
    END_FAILED,
    END_TIMEOUT,
    EVENT_ENDED,
    EVENT_REFUSED,
    EVENT_REQUEUED,
    EVENT_STARTED,
    EVENT_SUBMITTED,
    EXTRA,
    FAILS,
    FAIR_VALUE,
    FEED_IMAGE,
    FRACTION_BITS,
    GONE,
    ID,
    IMAGES,
    KEY,
    LIMIT,
    LISTENING,
    LIVE,
    LIVE_JOBS,
    LOG,
    LOG_HEAD,
    LOGGED,
    NEXT_FREE,
    NONE,
    NOW,
    OWN,
    PHASE,
    PIN,
    PINNED,
    QOS,
    RANK_SHIFT,
    RECORD,
    REFUSAL,
    REFUSED,
    REFUSED_STATE,
    REQUEUE_WAIT_S,
    ROW,
    RUN,
    RUN_END,
    RUN_SLOT,
    RUNNING,
    RUNS,
    SHOWN,
    SITE_FAIR_WEIGHT,
    SITE_OVER_TIME,
    SLOT_FREE,
    START,
    STATIC,
    SUBMIT,
    USE_ROW,
    VERSION,
    WAITING,
    WATCHED,
    WATCHED_START,
    WHOLE,
    copy_into,
    section,
    shift_ahead,
    shift_back,
)
from mirage.simulator.state.eligibility import (
    add_dependencies,
    drop_dependencies,
    make_ineligible,
    resolve_dependents,
    schedule_passes,
    try_make_eligible,
)
from mirage.simulator.state.fairtree import charge_usage
from mirage.simulator.state.node_selection import (
    allocate_nodes,
    deallocate_nodes,
    free_cells,
    push_cell,
    sum_chain_capacity,
)
from mirage.simulator.state.priority_queue import dequeue_job
from mirage.simulator.state.usage_limits import (
    count_running,
    count_submitted,
    has_too_many_submitted,
)

REFUSAL_TOO_MANY = 1
"""Over MaxSubmitJobsPU; the others are found when the workload is made (workload.REFUSALS)."""


@kernel
def log_event(state: Ints, event: int, slot: int, end_state: int) -> None:
    """Tell the listener, if there is one; there is room (engine.py)."""
    if not state[LISTENING]:
        return
    live, entries = section(state, LIVE), section(state, LOG)
    at, i = slot * RECORD, state[LOGGED]
    entries[i], entries[i + 1], entries[i + 2] = state[NOW], event, live[at + ID]
    entries[i + 3], entries[i + 4], entries[i + 5] = (
        end_state,
        live[at + SUBMIT],
        live[at + ELIGIBLE],
    )
    entries[i + 6], entries[i + 7] = live[at + START], live[at + ROW]
    names, nexts = section(state, CELL_NODE), section(state, CELL_NEXT)
    n, cell = 0, live[at + ALLOCATED]
    while cell != NONE:
        entries[i + LOG_HEAD + n] = names[cell]
        n += 1
        cell = nexts[cell]
    entries[i + 8] = n
    state[LOGGED] = i + LOG_HEAD + n


@kernel
def write_result(results: Ints, row: int, column: int, value: int) -> None:
    """Note an instant of a job of the workload, where the caller wants it."""
    if row != NONE and results.shape[0]:
        results[row, column] = value


@kernel
def store_record(state: Ints, record: Ints) -> int:
    """Put a job's image into a free slot, which there is; its slot."""
    live = section(state, LIVE)
    slot = state[SLOT_FREE]
    at = slot * RECORD
    following = live[at + NEXT_FREE]
    copy_into(record, cut(live, at, at + RECORD))
    state[SLOT_FREE] = following
    live[at + PHASE] = COMING
    return slot


@kernel
def store_feed_row(state: Ints, site: Ints, feed: Ints, row: int) -> int:
    """Store a job of the feed like `store_record`, and return its slot."""
    image = feed[row, FEED_IMAGE] * RECORD
    slot = store_record(state, cut(section(site, IMAGES), image, image + RECORD))
    live = section(state, LIVE)
    at = slot * RECORD
    for k in range(len(OWN)):
        live[at + OWN[k]] = feed[row, 1 + k]
    live[at + ROW] = row
    return slot


@kernel
def submit_job(state: Ints, site: Ints, results: Ints, slot: int, extras: Ints) -> None:
    """The job in this slot is submitted."""
    live = section(state, LIVE)
    at = slot * RECORD
    refusal = live[at + REFUSAL]
    if not refusal and has_too_many_submitted(state, site, live[at + USE_ROW], live[at + QOS]):
        refusal = REFUSAL_TOO_MANY
    if refusal:
        refuse_job(state, results, slot, refusal)
        return
    live[at + PHASE], live[at + SUBMIT] = WAITING, min(live[at + SUBMIT], state[NOW])
    if live[at + SHOWN] != NONE:
        fair = section(state, FAIR_VALUE)[live[at + ASSOCIATION]]
        live[at + STATIC] = (live[at + SHOWN] << FRACTION_BITS) - fair
    state[LIVE_JOBS] += 1
    state[VERSION] += 1
    count_submitted(state, site, slot, 1)
    log_event(state, EVENT_SUBMITTED, slot, 0)
    if live[at + EXTRA] != NONE:
        apply_extras(state, slot, extras)
    if live[at + BEGIN] > state[NOW]:
        push_event(state, live[at + BEGIN], (AT_BEGIN << RANK_SHIFT) | live[at + ID], slot)
    if live[at + CANCEL] != NONE:
        if live[at + CANCEL] <= state[NOW]:
            finish_job(state, site, results, slot, END_CANCELLED)
            return
        push_event(state, live[at + CANCEL], (AT_CANCEL << RANK_SHIFT) | live[at + ID], slot)
    try_make_eligible(state, site, slot)


@kernel
def refuse_job(state: Ints, results: Ints, slot: int, reason: int) -> None:
    """The job never was in the queue."""
    live = section(state, LIVE)
    at = slot * RECORD
    log_event(state, EVENT_REFUSED, slot, reason)
    write_result(results, live[at + ROW], 2, REFUSED_STATE)
    state[REFUSED] += 1
    free_slot(state, slot)


@kernel
def free_slot(state: Ints, slot: int) -> None:
    """The record's place is free for another job."""
    live = section(state, LIVE)
    at = slot * RECORD
    live[at + PHASE], live[at + ID] = GONE, NONE
    live[at + NEXT_FREE] = state[SLOT_FREE]
    state[SLOT_FREE] = slot


@kernel
def apply_extras(state: Ints, slot: int, extras: Ints) -> None:
    """Read the extras: how many dependencies, these; how many nodes, these."""
    i = section(state, LIVE)[slot * RECORD + EXTRA]
    n = 3 * extras[i]
    add_dependencies(state, slot, extras[i + 1 : i + 1 + n])
    i += 1 + n
    for k in range(extras[i], 0, -1):
        pin_node(state, slot, extras[i + k])


@kernel
def pin_node(state: Ints, slot: int, node: int) -> None:
    """Ask for one node more by name."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PIN] == NONE:
        state[PINNED] += 1
    live[at + PIN] = push_cell(state, live[at + PIN], node)


@kernel
def unpin_nodes(state: Ints, slot: int) -> None:
    """Ask for no node by name."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PIN] != NONE:
        state[PINNED] -= 1
        free_cells(state, live[at + PIN])
        live[at + PIN] = NONE


@kernel
def start_job(state: Ints, site: Ints, results: Ints, slot: int, chosen: Ints) -> None:
    """A queued job gets the chosen nodes now."""
    live = section(state, LIVE)
    at = slot * RECORD
    dequeue_job(state, slot)
    live[at + PHASE], live[at + START] = RUNS, state[NOW]
    allocate_nodes(state, site, slot, chosen)
    if live[at + WHOLE] and site[SITE_FAIR_WEIGHT]:
        live[at + CHARGE] = sum_chain_capacity(
            state, live[at + ALLOCATED], section(site, CAPACITY_CPUS)
        )
    if live[at + PIN] != NONE:
        state[PINNED] -= 1
    count_running(state, site, slot, 1)
    insert_running(state, slot)
    end = state[NOW] + min(live[at + RUN], live[at + LIMIT] + site[SITE_OVER_TIME])
    live[at + KEY] = end
    push_event(state, end, (AT_END << RANK_SHIFT) | live[at + ID], slot)
    state[VERSION] += 1
    write_result(results, live[at + ROW], 0, state[NOW])
    if live[at + ID] == state[WATCHED]:
        state[WATCHED_START] = state[NOW]
    log_event(state, EVENT_STARTED, slot, 0)
    resolve_dependents(state, site, slot, 0)


@inline_kernel
def find_place_after_end(state: Ints, end: int) -> int:
    """The first place among the running jobs whose end by the limit is after an instant."""
    ends = section(state, RUN_END)
    low, high = 0, state[RUNNING]
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] > end:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def insert_running(state: Ints, slot: int) -> None:
    """Into the running jobs, by end by the limit, then job id."""
    live, ends, slots = section(state, LIVE), section(state, RUN_END), section(state, RUN_SLOT)
    at = slot * RECORD
    end, job_id, n = live[at + START] + live[at + LIMIT], live[at + ID], state[RUNNING]
    i = find_place_after_end(state, end)
    while i > 0 and ends[i - 1] == end and live[slots[i - 1] * RECORD + ID] > job_id:
        i -= 1
    shift_back(cut(ends, i, n + 1))
    shift_back(cut(slots, i, n + 1))
    ends[i], slots[i] = end, slot
    state[RUNNING] = n + 1


@kernel
def remove_running(state: Ints, slot: int) -> None:
    """Out of the running jobs."""
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    n = state[RUNNING]
    i = find_place_after_end(state, live[slot * RECORD + START] + live[slot * RECORD + LIMIT]) - 1
    while slots[i] != slot:
        i -= 1
    shift_ahead(cut(section(state, RUN_END), i, n))
    shift_ahead(cut(slots, i, n))
    state[RUNNING] = n - 1


@kernel
def stop_job(state: Ints, site: Ints, slot: int) -> None:
    """A running job gives everything back."""
    charge_usage(state, site, slot, state[NOW])
    remove_running(state, slot)
    count_running(state, site, slot, -1)
    deallocate_nodes(state, site, slot)


@kernel
def end_due_job(state: Ints, site: Ints, results: Ints, slot: int) -> None:
    """A running job's end has come."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + RUN] >= live[at + LIMIT] + site[SITE_OVER_TIME]:
        finish_job(state, site, results, slot, END_TIMEOUT)
    elif live[at + FAILS]:
        finish_job(state, site, results, slot, END_FAILED)
    else:
        finish_job(state, site, results, slot, END_COMPLETED)


@kernel
def finish_job(state: Ints, site: Ints, results: Ints, slot: int, end_state: int) -> None:
    """A pending or running job is over; those that waited for it may go on."""
    live = section(state, LIVE)
    at = slot * RECORD
    was_pending = live[at + PHASE] != RUNS
    log_event(state, EVENT_ENDED, slot, end_state)
    if was_pending:
        make_ineligible(state, site, slot)
    else:
        stop_job(state, site, slot)
    if was_pending:
        unpin_nodes(state, slot)
    elif live[at + PIN] != NONE:
        free_cells(state, live[at + PIN])
        live[at + PIN] = NONE
    schedule_passes(state, site)
    count_submitted(state, site, slot, -1)
    write_result(results, live[at + ROW], 1, state[NOW])
    write_result(results, live[at + ROW], 2, end_state)
    drop_dependencies(state, slot)
    resolve_dependents(state, site, slot, end_state)
    state[LIVE_JOBS] -= 1
    free_slot(state, slot)


@kernel
def return_to_waiting(state: Ints, site: Ints, slot: int) -> None:
    """A running job is requeued."""
    live = section(state, LIVE)
    at = slot * RECORD
    log_event(state, EVENT_REQUEUED, slot, 0)
    stop_job(state, site, slot)
    live[at + PHASE], live[at + ELIGIBLE], live[at + START] = WAITING, NONE, NONE
    live[at + AFTER] = state[NOW] + REQUEUE_WAIT_S
    live[at + CANCEL] = NONE
    if live[at + PIN] != NONE:
        state[PINNED] += 1
    push_event(state, live[at + AFTER], (AT_BEGIN << RANK_SHIFT) | live[at + ID], slot)
    schedule_passes(state, site)
