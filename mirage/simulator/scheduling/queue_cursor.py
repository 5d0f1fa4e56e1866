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
    """Go to the first job; the last is the last of the queue."""
    work[WALK_OLD], work[WALK_YOUNG] = state[OLD_FIRST], state[YOUNG_FIRST]
    work[LAST_OLD], work[LAST_YOUNG] = (
        get_part_bounds(state, 1)[1] - 1,
        get_part_bounds(state, 0)[1] - 1,
    )


@kernel
def limit_walk(state: Ints, site: Ints, work: Ints, most: int) -> None:
    """A walk that has just begun ends with the first `most` in order, if not before."""
    i, j = work[WALK_OLD], work[WALK_YOUNG]
    old, young = work[LAST_OLD] - i + 1, work[LAST_YOUNG] - j + 1
    if old + young <= most:
        return
    # How many of them are old: halving, as the more are taken of one part, the fewer of the other.
    low, high = max(0, most - young), min(most, old)
    while low < high:
        middle = (low + high) >> 1
        if is_old_first(state, site, i + middle, j + most - middle - 1):
            low = middle + 1
        else:
            high = middle
    work[LAST_OLD], work[LAST_YOUNG] = i + low - 1, j + most - low - 1


@kernel
def begin_test_walk(state: Ints, site: Ints, work: Ints) -> None:
    """A walk to those who can have a test: where nobody can be skipped, the first ones."""
    begin_walk(state, work)
    if not (site[SITE_LIMITS] or site[SITE_BF_USER] or state[QUEUED_ARRAYS]):
        limit_walk(state, site, work, site[SITE_BF_TEST])


@inline_kernel
def find_turn(state: Ints, site: Ints, work: Ints) -> int:
    """The place of the job whose turn it is, or -1 where nobody is left up to the last places."""
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
    """Pass by those of one part up to this place, whose turn it is then."""
    work[WALK_OLD if place < state[YOUNG_FIRST] else WALK_YOUNG] = place


@inline_kernel
def pass_place(state: Ints, work: Ints, place: int) -> None:
    """Go on behind the job at this place."""
    work[WALK_OLD if place < state[YOUNG_FIRST] else WALK_YOUNG] = place + 1


@kernel
def find_run_end(state: Ints, site: Ints, work: Ints, place: int, most: int) -> int:
    """Behind the last of at most so many jobs that follow the one whose turn it is, in its part and
    in turn; none but the first has a mark."""
    i, j, marks = work[WALK_OLD], work[WALK_YOUNG], column(state, QUEUE_MARK)
    old = int(place < state[YOUNG_FIRST])
    end = min(place + most, get_part_bounds(state, old)[1])
    if j > work[LAST_YOUNG] if old else i > work[LAST_OLD]:
        end = min(end, (work[LAST_OLD] if old else work[LAST_YOUNG]) + 1)
    alone = j >= get_part_bounds(state, 0)[1] if old else i >= get_part_bounds(state, 1)[1]
    at = place + 1
    while at < end and not marks[at]:
        if not alone and is_old_first(state, site, at if old else i, j if old else at) != old:
            break
        at += 1
    return at


@inline_kernel
def adjust_after_start(state: Ints, work: Ints, was_old: int, first: int) -> None:
    """The job whose turn it was has left its part, which began at `first`: those behind moved up
    by one, or those ahead back."""
    if was_old:
        moved = state[OLD_FIRST] - first
        work[WALK_OLD] += moved
        work[LAST_OLD] += moved - 1
    else:
        moved = state[YOUNG_FIRST] - first
        work[WALK_YOUNG] += moved
        work[LAST_YOUNG] += moved - 1


@kernel
def fill_slots_in_order(state: Ints, site: Ints, work: Ints, found: Ints) -> None:
    """`found` becomes the slots in order; at least as long as the queue."""
    refresh_saturated(state, site)
    slots = column(state, QUEUE_SLOT)
    begin_walk(state, work)
    for k in range(state[QUEUED]):
        place = find_turn(state, site, work)
        found[k] = slots[place]
        pass_place(state, work, place)
