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

TESTS_BETWEEN_LOOKS: Final = 32
"""How many jobs are planned before looking again whether anybody behind could still start."""


@expand_inline
def run_backfill_pass(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """Plan in order and start who is planned for now; ends when nobody behind could start.

    Where `plans` has room it goes on to the end, and `plans[slot]` becomes each planned start.
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
    """Nobody behind the last places could start now, by number or by limits."""
    most = count_backfill.compute_reach(work, steps, state[NOW])
    for which, first in ((LAST_OLD, WALK_OLD), (LAST_YOUNG, WALK_YOUNG)):
        last = count_backfill.find_last_startable(state, work, most, work[first], work[which])
        while last >= work[first] and is_skipped_for_limit(state, site, work, last):
            last = count_backfill.find_last_startable(state, work, most, work[first], last - 1)
        work[which] = last


@kernel
def backfill_by_number(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """The pass over the profile of free nodes."""
    if not state[IDLE] and not plans.size:
        return
    steps = count_backfill.build_profile(state, site, work)
    begin_test_walk(state, site, work)
    if not plans.size:
        bound_walk_by_number(state, site, work, steps)
    section(work, SPARE)[:] = 0
    tests, slots = 0, column(state, QUEUE_SLOT)
    while tests < site[SITE_BF_TEST]:
        at = find_turn(state, site, work)
        if at < 0:
            return
        if is_skipped_for_limit(state, site, work, at) or not claim_test(
            state, site, work, slots[at]
        ):
            pass_place(state, work, at)
            continue
        end = find_run_end(
            state,
            site,
            work,
            at,
            1 if plans.size else count_plannable_at_once(state, site, at, tests),
        )
        at, planned, steps, tests = plan_by_number(state, site, work, at, end, steps, tests)
        if plans.size and planned != count_backfill.NEVER:
            plans[slots[at]] = planned
        look = tests % TESTS_BETWEEN_LOOKS == 0
        if planned == state[NOW] and choose_nodes_now(state, site, work, slots[at]):
            mark_given_nodes(state, work)
            start_current_job(state, site, results, work, at)
            look = True
        else:
            if planned != count_backfill.NEVER:
                count_planned(state, site, work, at)
            pass_place(state, work, at)
        if look and not plans.size:
            bound_walk_by_number(state, site, work, steps)


@inline_kernel
def count_plannable_at_once(state: Ints, site: Ints, at: int, tests: int) -> int:
    """Return how many jobs can be planned before anything else is to be looked at."""
    if site[SITE_LIMITS] or site[SITE_BF_USER] or column(state, QUEUE_MARK)[at] & MARK_ARRAY:
        return 1
    return min(TESTS_BETWEEN_LOOKS - tests % TESTS_BETWEEN_LOOKS, site[SITE_BF_TEST] - tests)


@inline_kernel
def mark_given_nodes(state: Ints, work: Ints) -> None:
    """Note in section SPARE that the chosen nodes are given away, where a pinned job may ask."""
    if not state[PINNED]:
        return
    given, chosen = section(work, SPARE), section(work, CHOSEN)
    for w in range(given.size):
        given[w] |= chosen[w]


@inline_kernel
def plan_by_number(
    state: Ints, site: Ints, work: Ints, at: int, end: int, steps: int, tests: int
) -> tuple[int, int, int, int]:
    """Plan those from the one whose turn it is up to `end`, or to one that starts now: its place,
    its start, the steps of the profile and the tests then."""
    earliest = 0
    if column(state, QUEUE_MARK)[at] & MARK_PINNED:
        copy_node_list(state, column(state, QUEUE_SLOT)[at], section(work, WANTED))
        earliest, end = (
            count_backfill.find_pinned_start(state, site, work, section(work, SPARE)),
            at + 1,
        )
    last, planned, steps = count_backfill.plan_queue_places(
        state, site, work, at, end, steps, earliest
    )
    move_to_place(state, work, last)
    return last, planned, steps, tests + last + 1 - at


@kernel
def choose_nodes_now(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Section CHOSEN becomes its nodes now; whether it has them: a pinned one may not."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PIN] == NONE:
        choose_idle_nodes(state, work, live[at + NODES], section(state, UP_BITS))
        return True
    copy_node_list(state, slot, section(work, WANTED))
    wanted = section(work, WANTED)
    copy_into(wanted, section(work, CHOSEN))
    return is_node_list_usable(state, site, live, at, section(state, UP_BITS), wanted)


@kernel
def bound_walk_by_name(state: Ints, site: Ints, work: Ints) -> int:
    """The last places become those of the last jobs that would start now, were it their turn; no
    plan for after the instant that is returned keeps them from it."""
    until = state[NOW]
    for which, first in ((LAST_OLD, WALK_OLD), (LAST_YOUNG, WALK_YOUNG)):
        last = work[which]
        while last >= work[first] and not can_place_start(state, site, work, last):
            last -= 1
        work[which] = last
        if last >= work[first]:
            until = max(until, state[NOW] + column(state, QUEUE_LIMIT)[last])
    return until


@inline_kernel
def can_place_start(state: Ints, site: Ints, work: Ints, at: int) -> bool:
    """Return whether the job at this place would start now.

    A shape is asked about only until one of its jobs would not start.
    """
    stamps, shape = section(work, MEMO_STAMP), column(state, QUEUE_SHAPE)[at]
    if stamps[shape] == work[STAMP]:
        return False
    if bitmap_backfill.can_start_now(state, site, work, column(state, QUEUE_SLOT)[at]):
        return not is_skipped_for_limit(state, site, work, at)
    stamps[shape] = work[STAMP]
    return False


@inline_kernel
def start_by_name(state: Ints, site: Ints, results: Ints, work: Ints, at: int) -> None:
    """The job whose turn it is starts on section CHOSEN; what runs is looked at anew."""
    live, slot = section(state, LIVE), column(state, QUEUE_SLOT)[at] * RECORD
    start_current_job(state, site, results, work, at)
    fit_tables.begin_groups(state, work)
    if live[slot + WHOLE] and site[SITE_RELEASE] >= V24_11:
        node_timeline.book_running_job(state, site, work, live[slot + LIMIT])


@kernel
def backfill_by_name(state: Ints, site: Ints, results: Ints, work: Ints, plans: Ints) -> None:
    """The pass over maps of nodes."""
    node_timeline.begin_maps(state, site, work)
    fit_tables.begin_groups(state, work)
    begin_walk(state, work)
    until = FAR if plans.size else bound_walk_by_name(state, site, work)
    # Where all of the queue may have a test, nobody need know who is skipped for a limit.
    all_tested = state[QUEUED] <= site[SITE_BF_TEST] and not site[SITE_BF_USER]
    tests = 0
    while tests < site[SITE_BF_TEST]:
        at = find_turn(state, site, work)
        if at < 0:
            return
        slot = column(state, QUEUE_SLOT)[at]
        hopeless = bitmap_backfill.is_hopeless(state, work, slot)
        if all_tested and hopeless:
            pass_place(state, work, at)
            continue
        if is_skipped_for_limit(state, site, work, at) or not claim_test(state, site, work, slot):
            pass_place(state, work, at)
            continue
        tests += 1
        planned = bitmap_backfill.NEVER
        if not hopeless:
            planned = bitmap_backfill_2411.plan_start_by_release(state, site, work, slot)
        if planned == bitmap_backfill.NEVER:
            pass_place(state, work, at)
            continue
        if plans.size:
            plans[slot] = planned
        if planned == state[NOW]:
            start_by_name(state, site, results, work, at)
        else:
            count_planned(state, site, work, at)
            pass_place(state, work, at)
            node_timeline.book_plan(
                site, work, planned, section(state, LIVE)[slot * RECORD + LIMIT]
            )
        # Whoever might have started now may have lost the nodes for it.
        if not plans.size and planned - site[SITE_BF_RESOLUTION] <= until:
            until = bound_walk_by_name(state, site, work)
