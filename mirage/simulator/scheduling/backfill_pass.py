"""Runs Slurm's backfill pass (docs/reference/simulator.md 7)."""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import expand_inline, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    BACKFILL_AT,
    CHOSEN,
    FAR,
    IDLE,
    LAST_BACKFILL,
    LAST_OLD,
    LAST_YOUNG,
    LIMIT,
    LIVE,
    MARK_ARRAY,
    MARK_PINNED,
    MEMO_STAMP,
    NODES,
    NONE,
    NOW,
    PASS,
    PIN,
    PINNED,
    QUEUE_LIMIT,
    QUEUE_MARK,
    QUEUE_SHAPE,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    SITE_BF_RESOLUTION,
    SITE_BF_TEST,
    SITE_BF_USER,
    SITE_BY_NAME,
    SITE_LIMITS,
    SITE_RELEASE,
    SPARE,
    STAMP,
    UP_BITS,
    WALK_OLD,
    WALK_YOUNG,
    WANTED,
    WHOLE,
    column,
    copy_into,
    section,
)
from mirage.simulator.scheduling import (
    bitmap_backfill,
    bitmap_backfill_2411,
    count_backfill,
    fit_tables,
    node_timeline,
)
from mirage.simulator.scheduling.main_pass import choose_idle_nodes, start_current_job
from mirage.simulator.scheduling.queue_cursor import (
    begin_test_walk,
    begin_walk,
    find_run_end,
    find_turn,
    move_to_place,
    pass_place,
)
from mirage.simulator.slurm_release import V24_11
from mirage.simulator.state.node_selection import copy_node_list, is_node_list_usable
from mirage.simulator.state.priority_queue import refresh_saturated
from mirage.simulator.state.usage_limits import claim_test, count_planned, is_skipped_for_limit

TESTS_BETWEEN_BOUNDS: Final = 32
"""The number of tests after which the pass checks again how far down the queue a job could still
start now."""


@expand_inline
def run_backfill_pass(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """Plan jobs in order of priority, and start those that are planned for now.

    The pass ends early when no later job could start now. If `plans`, [slots], is not empty, the
    pass goes on to the end, and stores each planned start in `plans[slot]`.
    """
    state[BACKFILL_AT] = FAR
    state[LAST_BACKFILL] = state[NOW]
    if not state[QUEUED]:
        return
    refresh_saturated(state, site)
    work[STAMP] += 1
    work[PASS] += 1
    if site[SITE_BY_NAME]:
        backfill_by_name(state, site, results, work, plans)
    else:
        backfill_by_number(state, site, results, work, plans)


@inline_kernel
def bound_walk_by_number(state: Ints, site: Ints, work: Ints, steps: int) -> None:
    """Move the walk's last places up, past jobs that cannot start now by their number of nodes or
    by limits."""
    most_nodes = count_backfill.compute_reach(work, steps, state[NOW])
    for part_last, part_first in ((LAST_OLD, WALK_OLD), (LAST_YOUNG, WALK_YOUNG)):
        last = count_backfill.find_last_startable(
            state, work, most_nodes, work[part_first], work[part_last]
        )
        while last >= work[part_first] and is_skipped_for_limit(state, site, work, last):
            last = count_backfill.find_last_startable(
                state, work, most_nodes, work[part_first], last - 1
            )
        work[part_last] = last


@kernel
def backfill_by_number(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """Run the pass over the profile of free nodes (count_backfill.py)."""
    if not state[IDLE] and not plans.size:
        return
    steps = count_backfill.build_profile(state, site, work)
    begin_test_walk(state, site, work)
    if not plans.size:
        bound_walk_by_number(state, site, work, steps)
    section(work, SPARE)[:] = 0
    tests, slots = 0, column(state, QUEUE_SLOT)
    while tests < site[SITE_BF_TEST]:
        place = find_turn(state, site, work)
        if place < 0:
            return
        if is_skipped_for_limit(state, site, work, place) or not claim_test(
            state, site, work, slots[place]
        ):
            pass_place(state, work, place)
            continue
        end = find_run_end(
            state,
            site,
            work,
            place,
            1 if plans.size else count_plannable_at_once(state, site, place, tests),
        )
        place, planned, steps, tests = plan_by_number(state, site, work, place, end, steps, tests)
        if plans.size and planned != count_backfill.NEVER:
            plans[slots[place]] = planned
        should_bound = tests % TESTS_BETWEEN_BOUNDS == 0
        if planned == state[NOW] and choose_nodes_now(state, site, work, slots[place]):
            mark_chosen_nodes(state, work)
            start_current_job(state, site, results, work, place)
            should_bound = True
        else:
            if planned != count_backfill.NEVER:
                count_planned(state, site, work, place)
            pass_place(state, work, place)
        if should_bound and not plans.size:
            bound_walk_by_number(state, site, work, steps)


@inline_kernel
def count_plannable_at_once(state: Ints, site: Ints, place: int, tests: int) -> int:
    """Return how many jobs can be planned in one call before limits or bounds must be checked."""
    if site[SITE_LIMITS] or site[SITE_BF_USER] or column(state, QUEUE_MARK)[place] & MARK_ARRAY:
        return 1
    return min(TESTS_BETWEEN_BOUNDS - tests % TESTS_BETWEEN_BOUNDS, site[SITE_BF_TEST] - tests)


@inline_kernel
def mark_chosen_nodes(state: Ints, work: Ints) -> None:
    """Note in section SPARE that the chosen nodes are allocated, if a pinned job may ask for
    them."""
    if not state[PINNED]:
        return
    allocated, chosen = section(work, SPARE), section(work, CHOSEN)
    for w in range(allocated.size):
        allocated[w] |= chosen[w]


@inline_kernel
def plan_by_number(
    state: Ints, site: Ints, work: Ints, place: int, end: int, steps: int, tests: int
) -> tuple[int, int, int, int]:
    """Plan the jobs from `place` up to `end`, or up to the first one that starts now.

    Returns the last planned job's place and start, the number of steps of the profile, and the
    number of tests so far.
    """
    earliest = 0
    if column(state, QUEUE_MARK)[place] & MARK_PINNED:
        copy_node_list(state, column(state, QUEUE_SLOT)[place], section(work, WANTED))
        earliest, end = (
            count_backfill.find_pinned_start(state, site, work, section(work, SPARE)),
            place + 1,
        )
    last, planned, steps = count_backfill.plan_queue_places(
        state, site, work, place, end, steps, earliest
    )
    move_to_place(state, work, last)
    return last, planned, steps, tests + last + 1 - place


@kernel
def choose_nodes_now(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Fill section CHOSEN with the nodes on which the job would start now. Returns whether they are
    free: the nodes of a pinned job may not be."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + PIN] == NONE:
        choose_idle_nodes(state, work, live[record + NODES], section(state, UP_BITS))
        return True
    copy_node_list(state, slot, section(work, WANTED))
    wanted_nodes = section(work, WANTED)
    copy_into(wanted_nodes, section(work, CHOSEN))
    return is_node_list_usable(state, site, live, record, section(state, UP_BITS), wanted_nodes)


@kernel
def bound_walk_by_name(state: Ints, site: Ints, work: Ints) -> int:
    """Move the walk's last places up to the last jobs that could start now.

    Returns an instant: only plans that begin before it can keep one of these jobs from starting.
    """
    until = state[NOW]
    for part_last, part_first in ((LAST_OLD, WALK_OLD), (LAST_YOUNG, WALK_YOUNG)):
        last = work[part_last]
        while last >= work[part_first] and not can_place_start(state, site, work, last):
            last -= 1
        work[part_last] = last
        if last >= work[part_first]:
            until = max(until, state[NOW] + column(state, QUEUE_LIMIT)[last])
    return until


@inline_kernel
def can_place_start(state: Ints, site: Ints, work: Ints, place: int) -> bool:
    """Return whether the job at this place could start now.

    Once one job of a shape could not, the other jobs of this shape are not tested any more.
    """
    stamps, shape = section(work, MEMO_STAMP), column(state, QUEUE_SHAPE)[place]
    if stamps[shape] == work[STAMP]:
        return False
    if bitmap_backfill.can_start_now(state, site, work, column(state, QUEUE_SLOT)[place]):
        return not is_skipped_for_limit(state, site, work, place)
    stamps[shape] = work[STAMP]
    return False


@inline_kernel
def start_by_name(state: Ints, site: Ints, results: Ints, work: Ints, place: int) -> None:
    """Start the walk's current job on the nodes of section CHOSEN, and update groups and maps."""
    live, record = section(state, LIVE), column(state, QUEUE_SLOT)[place] * RECORD
    start_current_job(state, site, results, work, place)
    fit_tables.begin_groups(state, work)
    if live[record + WHOLE] and site[SITE_RELEASE] >= V24_11:
        node_timeline.book_running_job(state, site, work, live[record + LIMIT])


@kernel
def backfill_by_name(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """Run the pass over maps of nodes (bitmap_backfill.py)."""
    node_timeline.begin_maps(state, site, work)
    fit_tables.begin_groups(state, work)
    begin_walk(state, work)
    until = FAR if plans.size else bound_walk_by_name(state, site, work)
    # If the whole queue can be tested, it does not matter whether a hopeless job counts as a test.
    all_are_tested = state[QUEUED] <= site[SITE_BF_TEST] and not site[SITE_BF_USER]
    tests = 0
    while tests < site[SITE_BF_TEST]:
        place = find_turn(state, site, work)
        if place < 0:
            return
        slot = column(state, QUEUE_SLOT)[place]
        is_hopeless = bitmap_backfill.is_hopeless(state, work, slot)
        if all_are_tested and is_hopeless:
            pass_place(state, work, place)
            continue
        if is_skipped_for_limit(state, site, work, place) or not claim_test(
            state, site, work, slot
        ):
            pass_place(state, work, place)
            continue
        tests += 1
        planned = bitmap_backfill.NEVER
        if not is_hopeless:
            planned = bitmap_backfill_2411.plan_start_by_release(state, site, work, slot)
        if planned == bitmap_backfill.NEVER:
            pass_place(state, work, place)
            continue
        if plans.size:
            plans[slot] = planned
        if planned == state[NOW]:
            start_by_name(state, site, results, work, place)
        else:
            count_planned(state, site, work, place)
            pass_place(state, work, place)
            node_timeline.book_plan(
                site, work, planned, section(state, LIVE)[slot * RECORD + LIMIT]
            )
        # The new plan may have taken nodes from jobs that could have started now.
        if not plans.size and planned - site[SITE_BF_RESOLUTION] <= until:
            until = bound_walk_by_name(state, site, work)
