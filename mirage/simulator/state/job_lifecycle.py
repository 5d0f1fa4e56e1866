"""Changes the state of one job: submission, start, end, requeue."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
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
    NOT_BEFORE,
    NOW,
    OWN_FIELDS,
    PHASE,
    PHASE_COMING,
    PHASE_FREE,
    PHASE_RUNNING,
    PHASE_WAITING,
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
    SHOWN_PRIORITY,
    SITE_FAIR_WEIGHT,
    SITE_OVER_TIME,
    SLOT_FREE,
    START,
    STATIC,
    SUBMIT,
    USE_ROW,
    VERSION,
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
"""Over MaxSubmitJobsPU. The workload finds all other reasons (workload.REFUSALS)."""


@kernel
def log_event(state: Ints, event: int, slot: int, end_state: int) -> None:
    """Write an event to the log, if events are wanted. There must be room (engine.py)."""
    if not state[LISTENING]:
        return
    live, entries = section(state, LIVE), section(state, LOG)
    record, i = slot * RECORD, state[LOGGED]
    entries[i], entries[i + 1], entries[i + 2] = state[NOW], event, live[record + ID]
    entries[i + 3], entries[i + 4], entries[i + 5] = (
        end_state,
        live[record + SUBMIT],
        live[record + ELIGIBLE],
    )
    entries[i + 6], entries[i + 7] = live[record + START], live[record + ROW]
    names, nexts = section(state, CELL_NODE), section(state, CELL_NEXT)
    n, cell = 0, live[record + ALLOCATED]
    while cell != NONE:
        entries[i + LOG_HEAD + n] = names[cell]
        n += 1
        cell = nexts[cell]
    entries[i + 8] = n
    state[LOGGED] = i + LOG_HEAD + n


@kernel
def write_result(results: Ints, row: int, column: int, value: int) -> None:
    """Store one value of a workload's job, if results are kept. Injected jobs have no row."""
    if row != NONE and results.shape[0]:
        results[row, column] = value


@kernel
def store_record(state: Ints, image: Ints) -> int:
    """Copy a job's record into a free slot, and return the slot. A slot must be free."""
    live = section(state, LIVE)
    slot = state[SLOT_FREE]
    record = slot * RECORD
    next_free = live[record + NEXT_FREE]
    copy_into(image, cut(live, record, record + RECORD))
    state[SLOT_FREE] = next_free
    live[record + PHASE] = PHASE_COMING
    return slot


@kernel
def store_feed_row(state: Ints, site: Ints, feed: Ints, row: int) -> int:
    """Store a job of the feed like `store_record`, and return its slot."""
    image = feed[row, FEED_IMAGE] * RECORD
    slot = store_record(state, cut(section(site, IMAGES), image, image + RECORD))
    live = section(state, LIVE)
    record = slot * RECORD
    for k in range(len(OWN_FIELDS)):
        live[record + OWN_FIELDS[k]] = feed[row, 1 + k]
    live[record + ROW] = row
    return slot


@kernel
def submit_job(state: Ints, site: Ints, results: Ints, slot: int, extras: Ints) -> None:
    """Submit the job in this slot. Slurm's limits may refuse it."""
    live = section(state, LIVE)
    record = slot * RECORD
    refusal = live[record + REFUSAL]
    if not refusal and has_too_many_submitted(
        state, site, live[record + USE_ROW], live[record + QOS]
    ):
        refusal = REFUSAL_TOO_MANY
    if refusal:
        refuse_job(state, results, slot, refusal)
        return
    live[record + PHASE], live[record + SUBMIT] = (
        PHASE_WAITING,
        min(live[record + SUBMIT], state[NOW]),
    )
    if live[record + SHOWN_PRIORITY] != NONE:
        fair = section(state, FAIR_VALUE)[live[record + ASSOCIATION]]
        live[record + STATIC] = (live[record + SHOWN_PRIORITY] << FRACTION_BITS) - fair
    state[LIVE_JOBS] += 1
    state[VERSION] += 1
    count_submitted(state, site, slot, 1)
    log_event(state, EVENT_SUBMITTED, slot, 0)
    if live[record + EXTRA] != NONE:
        apply_extras(state, slot, extras)
    if live[record + BEGIN] > state[NOW]:
        push_event(state, live[record + BEGIN], (AT_BEGIN << RANK_SHIFT) | live[record + ID], slot)
    if live[record + CANCEL] != NONE:
        if live[record + CANCEL] <= state[NOW]:
            finish_job(state, site, results, slot, END_CANCELLED)
            return
        push_event(
            state, live[record + CANCEL], (AT_CANCEL << RANK_SHIFT) | live[record + ID], slot
        )
    try_make_eligible(state, site, slot)


@kernel
def refuse_job(state: Ints, results: Ints, slot: int, reason: int) -> None:
    """Refuse the job: it never enters the queue."""
    live = section(state, LIVE)
    record = slot * RECORD
    log_event(state, EVENT_REFUSED, slot, reason)
    write_result(results, live[record + ROW], 2, REFUSED_STATE)
    state[REFUSED] += 1
    free_slot(state, slot)


@kernel
def free_slot(state: Ints, slot: int) -> None:
    """Free the job's slot for another job."""
    live = section(state, LIVE)
    record = slot * RECORD
    live[record + PHASE], live[record + ID] = PHASE_FREE, NONE
    live[record + NEXT_FREE] = state[SLOT_FREE]
    state[SLOT_FREE] = slot


@kernel
def apply_extras(state: Ints, slot: int, extras: Ints) -> None:
    """Apply the job's extras: its dependencies after their number, then its nodes after theirs."""
    i = section(state, LIVE)[slot * RECORD + EXTRA]
    n = 3 * extras[i]
    add_dependencies(state, slot, extras[i + 1 : i + 1 + n])
    i += 1 + n
    for k in range(extras[i], 0, -1):
        pin_node(state, slot, extras[i + k])


@kernel
def pin_node(state: Ints, slot: int, node: int) -> None:
    """Add one node to the job's node list."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PIN] == NONE:
        state[PINNED] += 1
    live[record + PIN] = push_cell(state, live[record + PIN], node)


@kernel
def unpin_nodes(state: Ints, slot: int) -> None:
    """Clear the job's node list."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PIN] != NONE:
        state[PINNED] -= 1
        free_cells(state, live[record + PIN])
        live[record + PIN] = NONE


@kernel
def start_job(state: Ints, site: Ints, results: Ints, slot: int, chosen: Ints) -> None:
    """Start a queued job now on the chosen nodes."""
    live = section(state, LIVE)
    record = slot * RECORD
    dequeue_job(state, slot)
    live[record + PHASE], live[record + START] = PHASE_RUNNING, state[NOW]
    allocate_nodes(state, site, slot, chosen)
    if live[record + WHOLE] and site[SITE_FAIR_WEIGHT]:
        live[record + CHARGE] = sum_chain_capacity(
            state, live[record + ALLOCATED], section(site, CAPACITY_CPUS)
        )
    if live[record + PIN] != NONE:
        state[PINNED] -= 1
    count_running(state, site, slot, 1)
    insert_running(state, slot)
    end = state[NOW] + min(live[record + RUN], live[record + LIMIT] + site[SITE_OVER_TIME])
    live[record + KEY] = end
    push_event(state, end, (AT_END << RANK_SHIFT) | live[record + ID], slot)
    state[VERSION] += 1
    write_result(results, live[record + ROW], 0, state[NOW])
    if live[record + ID] == state[WATCHED]:
        state[WATCHED_START] = state[NOW]
    log_event(state, EVENT_STARTED, slot, 0)
    resolve_dependents(state, site, slot, 0)


@inline_kernel
def find_place_after_end(state: Ints, end: int) -> int:
    """Return the first place among the running jobs whose end by the time limit is after `end`."""
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
    """Insert the job into the running jobs, by its end by the time limit, then by job id."""
    live, ends, slots = section(state, LIVE), section(state, RUN_END), section(state, RUN_SLOT)
    record = slot * RECORD
    end, job_id, n = live[record + START] + live[record + LIMIT], live[record + ID], state[RUNNING]
    i = find_place_after_end(state, end)
    while i > 0 and ends[i - 1] == end and live[slots[i - 1] * RECORD + ID] > job_id:
        i -= 1
    shift_back(cut(ends, i, n + 1))
    shift_back(cut(slots, i, n + 1))
    ends[i], slots[i] = end, slot
    state[RUNNING] = n + 1


@kernel
def remove_running(state: Ints, slot: int) -> None:
    """Remove the job from the running jobs."""
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
    """Stop a running job: charge its usage and free its nodes and limits."""
    charge_usage(state, site, slot, state[NOW])
    remove_running(state, slot)
    count_running(state, site, slot, -1)
    deallocate_nodes(state, site, slot)


@kernel
def end_due_job(state: Ints, site: Ints, results: Ints, slot: int) -> None:
    """End a running job whose end is due, in the state that it ends in."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + RUN] >= live[record + LIMIT] + site[SITE_OVER_TIME]:
        finish_job(state, site, results, slot, END_TIMEOUT)
    elif live[record + FAILS]:
        finish_job(state, site, results, slot, END_FAILED)
    else:
        finish_job(state, site, results, slot, END_COMPLETED)


@kernel
def finish_job(state: Ints, site: Ints, results: Ints, slot: int, end_state: int) -> None:
    """End a pending or running job, and resolve the dependencies on it."""
    live = section(state, LIVE)
    record = slot * RECORD
    was_pending = live[record + PHASE] != PHASE_RUNNING
    log_event(state, EVENT_ENDED, slot, end_state)
    if was_pending:
        make_ineligible(state, site, slot)
    else:
        stop_job(state, site, slot)
    if was_pending:
        unpin_nodes(state, slot)
    elif live[record + PIN] != NONE:
        free_cells(state, live[record + PIN])
        live[record + PIN] = NONE
    schedule_passes(state, site)
    count_submitted(state, site, slot, -1)
    write_result(results, live[record + ROW], 1, state[NOW])
    write_result(results, live[record + ROW], 2, end_state)
    drop_dependencies(state, slot)
    resolve_dependents(state, site, slot, end_state)
    state[LIVE_JOBS] -= 1
    free_slot(state, slot)


@kernel
def return_to_waiting(state: Ints, site: Ints, slot: int) -> None:
    """Requeue a running job. It is not eligible for REQUEUE_WAIT_S."""
    live = section(state, LIVE)
    record = slot * RECORD
    log_event(state, EVENT_REQUEUED, slot, 0)
    stop_job(state, site, slot)
    live[record + PHASE], live[record + ELIGIBLE], live[record + START] = PHASE_WAITING, NONE, NONE
    live[record + NOT_BEFORE] = state[NOW] + REQUEUE_WAIT_S
    live[record + CANCEL] = NONE
    if live[record + PIN] != NONE:
        state[PINNED] += 1
    push_event(state, live[record + NOT_BEFORE], (AT_BEGIN << RANK_SHIFT) | live[record + ID], slot)
    schedule_passes(state, site)
