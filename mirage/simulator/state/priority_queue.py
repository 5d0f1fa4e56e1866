"""Keeps the eligible pending jobs in priority order, packed for the passes
(docs/reference/simulator.md 3).

The order of two jobs whose ages still grow never changes. Nor does the order of two jobs whose ages
have reached the maximum. The queue therefore has two parts, each ascending by a key that does not
change. The *old* jobs, with ages at the maximum, come first: their key is the negative of the
priority without age. The key of the *young* jobs also counts the instant from which they age. A
walk merges both parts: it adds to an old job's key the priority of an age that reaches the maximum
just then. The tier stands above everything.

Both parts lie in the same columns, the old before the young, with free places ahead, between and
behind. A job that comes or goes moves only the jobs between its place and the nearer end of its
part.
"""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ARRAY_LIMIT,
    ASSOCIATION,
    ELIGIBLE,
    FAIR_VALUE,
    FAR,
    ID,
    KEY,
    LEAST_VALUE,
    LIMIT,
    LIVE,
    MARK_ARRAY,
    MARK_PINNED,
    NODES,
    NONE,
    NOW,
    OLD_FIRST,
    ORIGIN,
    PARTITION,
    PARTITION_TIER,
    PIN,
    QUEUE_ID,
    QUEUE_KEY,
    QUEUE_LIMIT,
    QUEUE_MARK,
    QUEUE_NODES,
    QUEUE_SHAPE,
    QUEUE_SINCE,
    QUEUE_SLOT,
    QUEUED,
    QUEUED_ARRAYS,
    QUEUED_NODES,
    RECORD,
    SATURATED,
    SATURATES_AT,
    SHAPE,
    SITE_ACCRUE,
    SITE_MAX_AGE,
    SITE_RATE,
    STATIC,
    SUBMIT,
    TIER_SHIFT,
    YOUNG_FIRST,
    column,
    section,
    shift_ahead,
    shift_back,
)


@inline_kernel
def get_age_start(live: Ints, site: Ints, record: int) -> int:
    """Return the instant from which the age of the job whose record begins at `record` counts."""
    return live[record + SUBMIT] if site[SITE_ACCRUE] else live[record + ELIGIBLE]


@inline_kernel
def is_saturated(state: Ints, site: Ints, slot: int) -> bool:
    """Return whether the job's age is at its maximum."""
    since = get_age_start(section(state, LIVE), site, slot * RECORD)
    return state[NOW] - since >= site[SITE_MAX_AGE]


@inline_kernel
def compute_key(state: Ints, site: Ints, slot: int, is_old: int) -> int:
    """Compute the job's key in one of the two parts; `is_old` is 1 or 0, here and below."""
    live = section(state, LIVE)
    record = slot * RECORD
    value = live[record + STATIC] + section(state, FAIR_VALUE)[live[record + ASSOCIATION]]
    value += section(site, PARTITION_TIER)[live[record + PARTITION]] << TIER_SHIFT
    state[LEAST_VALUE] = min(state[LEAST_VALUE], value)
    key = -value
    if not is_old:
        key += site[SITE_RATE] * (get_age_start(live, site, record) - state[ORIGIN])
    return key


@inline_kernel
def get_part_bounds(state: Ints, is_old: int) -> tuple[int, int]:
    """Return the first place of one part, and the place after its last."""
    if is_old:
        return state[OLD_FIRST], state[OLD_FIRST] + state[SATURATED]
    return state[YOUNG_FIRST], state[YOUNG_FIRST] + state[QUEUED] - state[SATURATED]


@inline_kernel
def find_place(state: Ints, key: int, job_id: int, is_old: int) -> int:
    """Return the first place in one part of the queue that is not before (key, job id)."""
    keys, ids = column(state, QUEUE_KEY), column(state, QUEUE_ID)
    low, high = get_part_bounds(state, is_old)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key or (keys[middle] == key and ids[middle] < job_id):
            low = middle + 1
        else:
            high = middle
    return low


@inline_kernel
def get_marks(live: Ints, record: int) -> int:
    """Return the MARK_ bits of the job whose record begins at `record`."""
    mark = 0
    if live[record + PIN] != NONE:
        mark |= MARK_PINNED
    if live[record + ARRAY_LIMIT]:
        mark |= MARK_ARRAY
    return mark


@kernel
def insert_job(state: Ints, site: Ints, slot: int, is_old: int) -> None:
    """Insert the job into one part of the queue."""
    live = section(state, LIVE)
    record = slot * RECORD
    key = compute_key(state, site, slot, is_old)
    place = make_gap(state, find_place(state, key, live[record + ID], is_old), is_old)
    column(state, QUEUE_KEY)[place] = key
    column(state, QUEUE_ID)[place] = live[record + ID]
    column(state, QUEUE_SLOT)[place] = slot
    column(state, QUEUE_NODES)[place] = live[record + NODES]
    column(state, QUEUE_LIMIT)[place] = live[record + LIMIT]
    column(state, QUEUE_SHAPE)[place] = live[record + SHAPE]
    column(state, QUEUE_MARK)[place] = get_marks(live, record)
    column(state, QUEUE_SINCE)[place] = get_age_start(live, site, record)
    live[record + KEY] = key


@kernel
def shift_places_back(state: Ints, first: int, end: int) -> None:
    """Move the jobs at the places [first, end) of all columns by one place towards the end."""
    for section_number in range(QUEUE_KEY, QUEUE_SINCE + 1):
        shift_back(cut(section(state, section_number), first, end + 1))


@kernel
def shift_places_ahead(state: Ints, first: int, end: int) -> None:
    """Move the jobs at the places [first, end) of all columns by one place towards the
    beginning."""
    for section_number in range(QUEUE_KEY, QUEUE_SINCE + 1):
        shift_ahead(cut(section(state, section_number), first - 1, end))


@kernel
def move_places(state: Ints, first: int, end: int, shift: int) -> None:
    """Move the jobs at the places [first, end) of all columns by `shift` places."""
    for section_number in range(QUEUE_KEY, QUEUE_SINCE + 1):
        values = section(state, section_number)
        if shift > 0:
            for i in range(end - 1, first - 1, -1):
                values[i + shift] = values[i]
        else:
            for i in range(first, end):
                values[i + shift] = values[i]


@kernel
def spread_parts(state: Ints) -> None:
    """Divide the free room evenly: before the old part, between the parts, after the young part."""
    old_first, young_first, old_count = state[OLD_FIRST], state[YOUNG_FIRST], state[SATURATED]
    young_count = state[QUEUED] - old_count
    gap = (section(state, QUEUE_KEY).size - state[QUEUED]) // 3
    state[OLD_FIRST], state[YOUNG_FIRST] = gap, 2 * gap + old_count
    # Move first the part that shifts away, so that neither part overwrites the other.
    if state[YOUNG_FIRST] > young_first:
        move_places(state, young_first, young_first + young_count, state[YOUNG_FIRST] - young_first)
        move_places(state, old_first, old_first + old_count, gap - old_first)
    else:
        move_places(state, old_first, old_first + old_count, gap - old_first)
        move_places(state, young_first, young_first + young_count, state[YOUNG_FIRST] - young_first)


@kernel
def make_gap(state: Ints, place: int, is_old: int) -> int:
    """Make room for one more job at this place of one part, by moving the shorter side of the part.
    Returns the place of the gap."""
    first, end = get_part_bounds(state, is_old)
    moves_ahead = place - first < end - place
    if not has_free_place(state, is_old, moves_ahead):
        spread_parts(state)
        place += get_part_bounds(state, is_old)[0] - first
        first, end = get_part_bounds(state, is_old)
    if moves_ahead:
        shift_places_ahead(state, first, place)
        state[OLD_FIRST if is_old else YOUNG_FIRST] -= 1
        place -= 1
    else:
        shift_places_back(state, place, end)
    state[QUEUED] += 1
    state[SATURATED] += is_old
    return place


@inline_kernel
def has_free_place(state: Ints, is_old: int, ahead: int) -> bool:
    """Return whether the place before one part (`ahead`), or the place after it, is free."""
    if is_old:
        return state[OLD_FIRST] > 0 if ahead else get_part_bounds(state, 1)[1] < state[YOUNG_FIRST]
    if ahead:
        return state[YOUNG_FIRST] > get_part_bounds(state, 1)[1]
    return get_part_bounds(state, 0)[1] < section(state, QUEUE_KEY).size


@kernel
def close_gap(state: Ints, place: int, is_old: int) -> None:
    """Close the gap of a job that leaves this place, by moving the shorter side of its part."""
    first, end = get_part_bounds(state, is_old)
    if place - first < end - place:
        shift_places_back(state, first, place)
        state[OLD_FIRST if is_old else YOUNG_FIRST] += 1
    else:
        shift_places_ahead(state, place + 1, end)
    state[QUEUED] -= 1
    state[SATURATED] -= is_old


@kernel
def enqueue_job(state: Ints, site: Ints, slot: int) -> None:
    """Put an eligible job into the queue."""
    live = section(state, LIVE)
    record = slot * RECORD
    is_old = int(is_saturated(state, site, slot))
    insert_job(state, site, slot, is_old)
    state[QUEUED_NODES] += live[record + NODES]
    state[QUEUED_ARRAYS] += live[record + ARRAY_LIMIT] > 0
    if not is_old:
        saturates_at = get_age_start(live, site, record) + site[SITE_MAX_AGE]
        state[SATURATES_AT] = min(state[SATURATES_AT], saturates_at)


@kernel
def dequeue_job(state: Ints, slot: int) -> None:
    """Take a job out of the queue."""
    live, slots = section(state, LIVE), column(state, QUEUE_SLOT)
    record = slot * RECORD
    key, job_id = live[record + KEY], live[record + ID]
    is_old, place = 0, find_place(state, key, job_id, 0)
    if place == get_part_bounds(state, 0)[1] or slots[place] != slot:
        is_old, place = 1, find_place(state, key, job_id, 1)
    close_gap(state, place, is_old)
    state[QUEUED_NODES] -= live[record + NODES]
    state[QUEUED_ARRAYS] -= live[record + ARRAY_LIMIT] > 0


@kernel
def refresh_saturated(state: Ints, site: Ints) -> None:
    """Move jobs whose age has reached its maximum to the old part. Call it before each pass.

    Such jobs are near the head of the young part: no job with a key above `bound` can be so old.
    """
    if state[NOW] < state[SATURATES_AT] or not site[SITE_RATE]:
        return
    rate, max_age_s = site[SITE_RATE], site[SITE_MAX_AGE]
    keys, since = column(state, QUEUE_KEY), column(state, QUEUE_SINCE)
    bound = rate * (state[NOW] - max_age_s - state[ORIGIN]) - state[LEAST_VALUE]
    soonest, k = FAR, 0
    while k < state[QUEUED] - state[SATURATED]:
        # Count from YOUNG_FIRST at each turn, since `close_gap` may move the part's first place.
        i = state[YOUNG_FIRST] + k
        if keys[i] > bound:
            earliest = (keys[i] + state[LEAST_VALUE]) // rate + state[ORIGIN]
            soonest = min(soonest, earliest + max_age_s)
            break
        if state[NOW] - since[i] >= max_age_s:
            slot = column(state, QUEUE_SLOT)[i]
            close_gap(state, i, 0)
            insert_job(state, site, slot, 1)
        else:
            soonest = min(soonest, since[i] + max_age_s)
            k += 1
    state[SATURATES_AT] = soonest


@kernel
def recompute_keys(state: Ints, site: Ints) -> bool:
    """Compute the keys of all queued jobs anew, and sort by insertion. Returns whether a key has
    changed."""
    has_changed = recompute_part_keys(state, site, 1)
    return recompute_part_keys(state, site, 0) or has_changed


@kernel
def recompute_part_keys(state: Ints, site: Ints, is_old: int) -> bool:
    """Compute the keys of one part like `recompute_keys`."""
    first, end = get_part_bounds(state, is_old)
    live = section(state, LIVE)
    keys, ids, slots = (
        column(state, QUEUE_KEY),
        column(state, QUEUE_ID),
        column(state, QUEUE_SLOT),
    )
    nodes, limits = column(state, QUEUE_NODES), column(state, QUEUE_LIMIT)
    shapes, marks = column(state, QUEUE_SHAPE), column(state, QUEUE_MARK)
    sinces = column(state, QUEUE_SINCE)
    has_changed = False
    for i in range(first, end):
        slot = slots[i]
        key = compute_key(state, site, slot, is_old)
        has_changed = has_changed or key != keys[i]
        live[slot * RECORD + KEY] = key
        job_id, size, limit = ids[i], nodes[i], limits[i]
        shape, mark, since = shapes[i], marks[i], sinces[i]
        j = i
        while j > first and (keys[j - 1] > key or (keys[j - 1] == key and ids[j - 1] > job_id)):
            keys[j], ids[j], slots[j] = keys[j - 1], ids[j - 1], slots[j - 1]
            nodes[j], limits[j] = nodes[j - 1], limits[j - 1]
            shapes[j], marks[j], sinces[j] = shapes[j - 1], marks[j - 1], sinces[j - 1]
            j -= 1
        keys[j], ids[j], slots[j], nodes[j], limits[j] = key, job_id, slot, size, limit
        shapes[j], marks[j], sinces[j] = shape, mark, since
    return has_changed
