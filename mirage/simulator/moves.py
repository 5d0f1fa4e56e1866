"""Kernels for changes of a cluster from outside (docs/reference/simulator.md 8)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.event_heap import push_event
from mirage.simulator.arrays.jit import kernel
from mirage.simulator.arrays.layout import (
    AT_ARRIVAL,
    AT_END,
    BACKFILL_AT,
    ELIGIBLE,
    FAIR_VALUE,
    HELD,
    ID,
    KEY,
    LIVE,
    NONE,
    NOW,
    PHASE,
    PHASE_ELIGIBLE,
    PHASE_WAITING,
    QUEUE_SLOT,
    QUEUED,
    RANK_SHIFT,
    RECORD,
    RUN_END,
    RUN_SLOT,
    RUNNING,
    SITE_MAX_AGE,
    SITE_RATE,
    STATIC,
    SUBMIT,
    column,
    get_queue_place,
    section,
)
from mirage.simulator.scheduling.backfill_pass import run_backfill_pass
from mirage.simulator.scheduling.queue_cursor import fill_slots_in_order
from mirage.simulator.state.eligibility import (
    add_dependencies,
    drop_dependencies,
    find_slot,
    make_ineligible,
    schedule_passes,
    try_make_eligible,
)
from mirage.simulator.state.job_lifecycle import (
    finish_job,
    pin_node,
    return_to_waiting,
    start_job,
    store_record,
    submit_job,
    unpin_nodes,
)
from mirage.simulator.state.priority_queue import dequeue_job, enqueue_job, get_age_start


@kernel
def inject_job(state: Ints, site: Ints, results: Ints, record: Ints, extras: Ints, at: int) -> int:
    """Submit a job now or at the later instant `at`, and return its slot. A slot must be free."""
    slot = store_record(state, record)
    if at <= state[NOW]:
        section(state, LIVE)[slot * RECORD + SUBMIT] = state[NOW]
        submit_job(state, site, results, slot, extras)
    else:
        section(state, LIVE)[slot * RECORD + SUBMIT] = at
        push_event(state, at, (AT_ARRIVAL << RANK_SHIFT) | record[ID], slot)
    return slot


@kernel
def cancel_job(state: Ints, site: Ints, results: Ints, slot: int) -> None:
    """End a pending or running job as cancelled, as scancel does."""
    finish_job(state, site, results, slot, layout.END_CANCELLED)


@kernel
def requeue_job(state: Ints, site: Ints, slot: int) -> None:
    """Requeue a running job."""
    return_to_waiting(state, site, slot)


@kernel
def set_dependencies(state: Ints, site: Ints, slot: int, dependencies: Ints, any_of: bool) -> None:
    """Replace a pending job's dependencies. `dependencies`: kind, job id and delay of each."""
    drop_dependencies(state, slot)
    live = section(state, LIVE)
    live[slot * RECORD + layout.ANY_OF] = any_of
    add_dependencies(state, slot, dependencies)
    if live[slot * RECORD + layout.UNMET]:
        make_ineligible(state, site, slot)
    else:
        try_make_eligible(state, site, slot)


@kernel
def set_node_list(state: Ints, site: Ints, slot: int, nodes: Ints) -> None:
    """Let a pending job ask for these nodes, descending; empty: any nodes."""
    is_queued = section(state, LIVE)[slot * RECORD + PHASE] == PHASE_ELIGIBLE
    if is_queued:
        dequeue_job(state, slot)
    unpin_nodes(state, slot)
    for node in nodes:
        pin_node(state, slot, node)
    if is_queued:
        enqueue_job(state, site, slot)
    schedule_passes(state, site)


@kernel
def clear_restrictions(state: Ints, site: Ints, slot: int) -> None:
    """Remove all that keeps a pending job from being eligible: dependencies, node list, hold, begin
    time."""
    drop_dependencies(state, slot)
    unpin_nodes(state, slot)
    live = section(state, LIVE)
    record = slot * RECORD
    live[record + HELD] = live[record + layout.BEGIN] = live[record + layout.NOT_BEFORE] = 0
    try_make_eligible(state, site, slot)


@kernel
def hold_job(state: Ints, site: Ints, slot: int, holder: int) -> None:
    """Make the job ineligible until it is released. `holder`: USER_HOLDS or ADMIN_HOLDS."""
    section(state, LIVE)[slot * RECORD + HELD] = holder
    make_ineligible(state, site, slot)


@kernel
def release_job(state: Ints, site: Ints, slot: int) -> None:
    """End the job's hold."""
    section(state, LIVE)[slot * RECORD + HELD] = 0
    try_make_eligible(state, site, slot)


@kernel
def restore_running(
    state: Ints, site: Ints, results: Ints, slot: int, bitmap: Ints, since: int
) -> None:
    """Turn a job that has just been injected into one that has run on these nodes since `since`."""
    live = section(state, LIVE)
    record = slot * RECORD
    now = state[NOW]
    if live[record + PHASE] == PHASE_WAITING:
        live[record + PHASE], live[record + ELIGIBLE] = PHASE_ELIGIBLE, now
        enqueue_job(state, site, slot)
    state[NOW] = since
    start_job(state, site, results, slot, bitmap)
    state[NOW] = now
    if live[record + KEY] <= now:
        # The job is over its limit, but Slurm has not stopped it yet: it ends at the next second.
        live[record + KEY] = now + 1
        push_event(state, now + 1, (AT_END << RANK_SHIFT) | live[record + ID], slot)


@kernel
def restore_pending(state: Ints, site: Ints, slot: int, priority: int, eligible: int) -> None:
    """Give a job that has just been injected this priority, and the instant since which it is
    eligible. NONE leaves either as it is."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PHASE] != PHASE_ELIGIBLE:
        return
    dequeue_job(state, slot)
    if eligible != NONE:
        live[record + ELIGIBLE] = eligible
    if priority != NONE:
        age = min(site[SITE_MAX_AGE], state[NOW] - get_age_start(live, site, record))
        fair = section(state, FAIR_VALUE)[live[record + layout.ASSOCIATION]]
        live[record + STATIC] = (priority << layout.FRACTION_BITS) - fair - site[SITE_RATE] * age
    enqueue_job(state, site, slot)


@kernel
def settle_cluster(state: Ints, site: Ints, planned_at: int) -> None:
    """Complete a cluster that was built from a real queue: the jobs that were put into it do not
    count as changes, so passes keep the rhythm of the last real one.

    `planned_at`: the last backfill pass, or NONE.
    """
    state[BACKFILL_AT] = layout.FAR
    if planned_at != NONE:
        state[layout.LAST_BACKFILL] = planned_at
    schedule_passes(state, site)


@kernel
def plan_starts(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """Fill `plans`, [slots], with each job's planned start or NONE. The state is changed: pass a
    copy."""
    plans[:] = NONE
    if site[layout.SITE_BF_INTERVAL] < 0:
        return
    state[layout.IN_PASS] = 1
    run_backfill_pass(state, site, results, work, plans)


@kernel
def set_time_limits(state: Ints, limits: Ints) -> None:
    """Set every live job's time limit to `limits[slot]`, [slots] in seconds, where positive."""
    live = section(state, LIVE)
    slots, queue_limits = column(state, QUEUE_SLOT), column(state, layout.QUEUE_LIMIT)
    shapes = column(state, layout.QUEUE_SHAPE)
    for k in range(state[QUEUED]):
        i = get_queue_place(state, k)
        if limits[slots[i]] > 0:
            queue_limits[i] = limits[slots[i]]
            live[slots[i] * RECORD + layout.LIMIT] = limits[slots[i]]
            live[slots[i] * RECORD + layout.SHAPE] = NONE
            live[slots[i] * RECORD + layout.FORM] = NONE
            shapes[i] = NONE
    ends, slots_running = section(state, RUN_END), section(state, RUN_SLOT)
    for i in range(state[RUNNING]):
        slot = slots_running[i]
        if limits[slot] > 0:
            live[slot * RECORD + layout.LIMIT] = limits[slot]
        end = max(
            live[slot * RECORD + layout.START] + live[slot * RECORD + layout.LIMIT], state[NOW] + 1
        )
        j = i
        while j > 0 and ends[j - 1] > end:
            ends[j], slots_running[j] = ends[j - 1], slots_running[j - 1]
            j -= 1
        ends[j], slots_running[j] = end, slot


__all__ = ["fill_slots_in_order", "find_slot"]
