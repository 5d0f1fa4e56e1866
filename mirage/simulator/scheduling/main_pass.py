"""Runs Slurm's main scheduling pass (docs/reference/simulator.md 6)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import count_ones, cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    CAPACITY_CPUS,
    CHOSEN,
    CLOSED,
    FAR,
    FITTING,
    FULL_AT,
    GPUS,
    IDLE,
    IDLE_BITS,
    LIMIT,
    LIVE,
    MAIN_DUE,
    NODE_CPUS,
    NODES,
    NONE,
    NOW,
    OLD_FIRST,
    PARTITION,
    PARTITION_BITS,
    PIN,
    PINNED,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    SITE_BY_NAME,
    SITE_DEPTH,
    SITE_PARTITIONS,
    SITE_SCHED_INTERVAL,
    SITE_WORDS,
    SPARE,
    UP_BITS,
    USABLE,
    WANTED,
    WHOLE,
    YOUNG_FIRST,
    column,
    copy_into,
    section,
)
from mirage.simulator.scheduling import bitmap_backfill
from mirage.simulator.scheduling.queue_cursor import (
    adjust_after_start,
    begin_walk,
    find_turn,
    pass_place,
)
from mirage.simulator.state.job_lifecycle import start_job
from mirage.simulator.state.node_selection import (
    choose_by_name,
    choose_by_number,
    collect_pinned_nodes,
    copy_node_list,
    find_fitting_nodes,
    is_node_list_usable,
    should_count_alike,
)
from mirage.simulator.state.priority_queue import refresh_saturated
from mirage.simulator.state.usage_limits import is_over_limits


@kernel
def run_main_pass(state: Ints, site: Ints, results: Ints, work: Ints) -> None:
    """Start jobs strictly in order of priority. The first job of a partition that does not fit
    closes the partition for this pass.

    A pass tries at most SITE_DEPTH jobs, except the one at each multiple of the interval.
    """
    state[MAIN_DUE] = 0
    is_unbounded = state[NOW] % site[SITE_SCHED_INTERVAL] == 0
    if is_unbounded:
        state[FULL_AT] = FAR
    if not state[QUEUED]:
        return
    refresh_saturated(state, site)
    usable = section(work, SPARE)
    if has_named_nodes(state, site):
        copy_into(section(state, UP_BITS), usable)
    is_closed = section(work, CLOSED)
    is_closed[:] = 0
    live, open_count, attempts = section(state, LIVE), site[SITE_PARTITIONS], 0
    begin_walk(state, work)
    while open_count:
        place = find_turn(state, site, work)
        if place < 0:
            return
        slot = column(state, QUEUE_SLOT)[place]
        partition = live[slot * RECORD + PARTITION]
        if is_closed[partition] or is_over_limits(state, site, slot):
            pass_place(state, work, place)
            continue
        if attempts == site[SITE_DEPTH] and not is_unbounded:
            interval = site[SITE_SCHED_INTERVAL]
            state[FULL_AT] = (state[NOW] // interval + 1) * interval
            return
        attempts += 1
        # If plans are by number, every partition has all nodes, so one closed partition leaves no
        # nodes for the others.
        has_no_nodes = not site[SITE_BY_NAME] and open_count < site[SITE_PARTITIONS]
        if not has_no_nodes and try_start(state, site, work, slot, usable):
            start_current_job(state, site, results, work, place)
            continue
        pass_place(state, work, place)
        if live[slot * RECORD + PIN] == NONE:
            is_closed[partition] = 1
            open_count -= 1
            close_partition(state, site, usable, partition)


@inline_kernel
def has_named_nodes(state: Ints, site: Ints) -> bool:
    """Return whether it matters which nodes are usable, and not only how many are idle."""
    return bool(site[SITE_BY_NAME] or state[PINNED])


@kernel
def close_partition(state: Ints, site: Ints, usable: Ints, partition: int) -> None:
    """Remove a closed partition's nodes from `usable`: no job gets them in this pass."""
    if not has_named_nodes(state, site):
        return
    bits, words = section(site, PARTITION_BITS), site[SITE_WORDS]
    for w in range(words):
        usable[w] &= ~bits[partition * words + w]


@kernel
def try_start(state: Ints, site: Ints, work: Ints, slot: int, usable: Ints) -> bool:
    """Return whether the job can start now; if so, section CHOSEN holds its nodes."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PIN] != NONE:
        return try_start_pinned(state, site, work, slot, usable)
    need, chosen = live[record + NODES], section(work, CHOSEN)
    if not site[SITE_BY_NAME]:
        if need > state[IDLE] or (
            state[PINNED] and not has_room_beside_pinned(state, work, slot, usable)
        ):
            return False
        choose_idle_nodes(state, work, need, usable)
        return True
    allowed_nodes, fitting = section(work, USABLE), section(work, FITTING)
    filter_allowed_nodes(site, state, slot, usable, allowed_nodes)
    if find_fitting_nodes(state, site, live, record, allowed_nodes, fitting) < need:
        return False
    if live[record + WHOLE]:
        choose_by_name(site, fitting, section(site, CAPACITY_CPUS), False, need, chosen)
    else:
        counts_alike = should_count_alike(site, live[record + GPUS])
        choose_by_name(site, fitting, section(state, NODE_CPUS), counts_alike, need, chosen)
    return True


@kernel
def has_room_beside_pinned(state: Ints, work: Ints, slot: int, usable: Ints) -> bool:
    """Return whether the pinned jobs ahead leave enough idle nodes."""
    idle, available = section(state, IDLE_BITS), section(work, FITTING)
    n = 0
    for w in range(idle.size):
        available[w] = idle[w] & usable[w]
        n += count_ones(available[w])
    return n >= section(state, LIVE)[slot * RECORD + NODES]


@kernel
def choose_idle_nodes(state: Ints, work: Ints, need: int, usable: Ints) -> None:
    """Fill section CHOSEN with idle nodes of `usable`. Nodes that pinned jobs ask for come last."""
    chosen = section(work, CHOSEN)
    if not state[PINNED]:
        choose_by_number(section(state, IDLE_BITS), need, cut(chosen, 0, 0), chosen, chosen)
        return
    idle, available, wanted_nodes = (
        section(state, IDLE_BITS),
        section(work, USABLE),
        section(work, WANTED),
    )
    for w in range(idle.size):
        available[w] = idle[w] & usable[w]
    collect_pinned_nodes(state, wanted_nodes)
    choose_by_number(available, need, wanted_nodes, section(work, FITTING), chosen)


@kernel
def try_start_pinned(state: Ints, site: Ints, work: Ints, slot: int, usable: Ints) -> bool:
    """Return whether a job with a node list can start now, like `try_start`.

    If it cannot, its nodes leave `usable`.
    """
    live, wanted_nodes, allowed_nodes = (
        section(state, LIVE),
        section(work, WANTED),
        section(work, USABLE),
    )
    copy_node_list(state, slot, wanted_nodes)
    filter_allowed_nodes(site, state, slot, usable, allowed_nodes)
    fits = is_node_list_usable(state, site, live, slot * RECORD, allowed_nodes, wanted_nodes)
    if fits:
        copy_into(wanted_nodes, section(work, CHOSEN))
    else:
        for w in range(site[SITE_WORDS]):
            usable[w] &= ~wanted_nodes[w]
    return fits


@kernel
def filter_allowed_nodes(
    site: Ints, state: Ints, slot: int, usable: Ints, allowed_nodes: Ints
) -> None:
    """Fill `allowed_nodes` with the usable nodes of the job's partition that no reservation keeps
    from it."""
    live, bits = section(state, LIVE), section(site, PARTITION_BITS)
    record, words = slot * RECORD, site[SITE_WORDS]
    for w in range(words):
        allowed_nodes[w] = usable[w] & bits[live[record + PARTITION] * words + w]
    bitmap_backfill.remove_reserved_nodes(
        site, state[NOW], state[NOW] + live[record + LIMIT], allowed_nodes
    )


@kernel
def start_current_job(state: Ints, site: Ints, results: Ints, work: Ints, place: int) -> None:
    """Start the walk's current job on the nodes of section CHOSEN."""
    was_old = place < state[YOUNG_FIRST]
    first = state[OLD_FIRST] if was_old else state[YOUNG_FIRST]
    start_job(state, site, results, column(state, QUEUE_SLOT)[place], section(work, CHOSEN))
    adjust_after_start(state, work, was_old, first)
