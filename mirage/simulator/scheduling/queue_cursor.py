"""Walks down the queue in order of priority. The queue has two parts (priority_queue.py); a walk
merges them."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    LAST_OLD,
    LAST_YOUNG,
    NOW,
    OLD_FIRST,
    ORIGIN,
    QUEUE_ID,
    QUEUE_KEY,
    QUEUE_MARK,
    QUEUE_SLOT,
    QUEUED,
    QUEUED_ARRAYS,
    SITE_BF_TEST,
    SITE_BF_USER,
    SITE_LIMITS,
    SITE_MAX_AGE,
    SITE_RATE,
    WALK_OLD,
    WALK_YOUNG,
    YOUNG_FIRST,
    column,
)
from mirage.simulator.state.priority_queue import get_part_bounds, refresh_saturated


@kernel
def begin_walk(state: Ints, work: Ints) -> None:
    """Begin a walk of the whole queue, at its first job."""
    work[WALK_OLD], work[WALK_YOUNG] = state[OLD_FIRST], state[YOUNG_FIRST]
    work[LAST_OLD], work[LAST_YOUNG] = (
        get_part_bounds(state, 1)[1] - 1,
        get_part_bounds(state, 0)[1] - 1,
    )


@kernel
def limit_walk(state: Ints, site: Ints, work: Ints, most_jobs: int) -> None:
    """Let a walk that has just begun end after the first `most_jobs` jobs in order."""
    i, j = work[WALK_OLD], work[WALK_YOUNG]
    old, young = work[LAST_OLD] - i + 1, work[LAST_YOUNG] - j + 1
    if old + young <= most_jobs:
        return
    # Find how many of these jobs are old, by halving: each old one more is one young one less.
    low, high = max(0, most_jobs - young), min(most_jobs, old)
    while low < high:
        middle = (low + high) >> 1
        if is_old_first(state, site, i + middle, j + most_jobs - middle - 1):
            low = middle + 1
        else:
            high = middle
    work[LAST_OLD], work[LAST_YOUNG] = i + low - 1, j + most_jobs - low - 1


@kernel
def begin_test_walk(state: Ints, site: Ints, work: Ints) -> None:
    """Begin a walk to the jobs that backfill can test. If no job can be skipped, these are the
    first bf_max_job_test ones."""
    begin_walk(state, work)
    if not (site[SITE_LIMITS] or site[SITE_BF_USER] or state[QUEUED_ARRAYS]):
        limit_walk(state, site, work, site[SITE_BF_TEST])


@inline_kernel
def find_turn(state: Ints, site: Ints, work: Ints) -> int:
    """Return the place of the walk's current job; -1: the walk is over."""
    i, j = work[WALK_OLD], work[WALK_YOUNG]
    if i > work[LAST_OLD] and j > work[LAST_YOUNG]:
        return -1
    if i >= get_part_bounds(state, 1)[1]:
        return j
    if j >= get_part_bounds(state, 0)[1] or is_old_first(state, site, i, j):
        return i
    return j


@inline_kernel
def is_old_first(state: Ints, site: Ints, i: int, j: int) -> bool:
    """Return whether the old job at place i comes before the young one at place j now."""
    keys, ids = column(state, QUEUE_KEY), column(state, QUEUE_ID)
    key = keys[i] + site[SITE_RATE] * (state[NOW] - site[SITE_MAX_AGE] - state[ORIGIN])
    return key < keys[j] or (key == keys[j] and ids[i] < ids[j])


@inline_kernel
def move_to_place(state: Ints, work: Ints, place: int) -> None:
    """Make the job at this place the walk's next one of its part."""
    work[WALK_OLD if place < state[YOUNG_FIRST] else WALK_YOUNG] = place


@inline_kernel
def pass_place(state: Ints, work: Ints, place: int) -> None:
    """Go on to the job after this place."""
    work[WALK_OLD if place < state[YOUNG_FIRST] else WALK_YOUNG] = place + 1


@kernel
def find_run_end(state: Ints, site: Ints, work: Ints, place: int, most_jobs: int) -> int:
    """Return the end of a run of jobs from `place`, the current one: at most `most_jobs` jobs of
    one part whose turns follow each other. No job of the run but the first has a mark."""
    i, j, marks = work[WALK_OLD], work[WALK_YOUNG], column(state, QUEUE_MARK)
    old = int(place < state[YOUNG_FIRST])
    end = min(place + most_jobs, get_part_bounds(state, old)[1])
    if j > work[LAST_YOUNG] if old else i > work[LAST_OLD]:
        end = min(end, (work[LAST_OLD] if old else work[LAST_YOUNG]) + 1)
    has_one_part = j >= get_part_bounds(state, 0)[1] if old else i >= get_part_bounds(state, 1)[1]
    next_place = place + 1
    while next_place < end and not marks[next_place]:
        if (
            not has_one_part
            and is_old_first(state, site, next_place if old else i, j if old else next_place) != old
        ):
            break
        next_place += 1
    return next_place


@inline_kernel
def adjust_after_start(state: Ints, work: Ints, was_old: int, first: int) -> None:
    """Adjust the walk after its current job has left its part of the queue, which began at `first`.

    Either the jobs behind it have moved up by one place, or the jobs ahead of it have moved back.
    """
    if was_old:
        shift = state[OLD_FIRST] - first
        work[WALK_OLD] += shift
        work[LAST_OLD] += shift - 1
    else:
        shift = state[YOUNG_FIRST] - first
        work[WALK_YOUNG] += shift
        work[LAST_YOUNG] += shift - 1


@kernel
def fill_slots_in_order(state: Ints, site: Ints, work: Ints, ordered_slots: Ints) -> None:
    """Fill `ordered_slots` with the slots of the queued jobs in order. It must be at least as long
    as the queue."""
    refresh_saturated(state, site)
    slots = column(state, QUEUE_SLOT)
    begin_walk(state, work)
    for k in range(state[QUEUED]):
        place = find_turn(state, site, work)
        ordered_slots[k] = slots[place]
        pass_place(state, work, place)
