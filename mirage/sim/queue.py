"""The eligible pending jobs in priority order, packed for the passes (docs/simulator.md 3).

The order of two jobs whose ages still grow never changes, nor that of two whose ages are at their
maximum. So the queue is two parts, each ascending by a key that stands still: first the *old*,
whose key is what of priority does not depend on age, negated, then the *young*, whose key also
counts since when they age. A walk merges the two: an old job's key at an instant is its own plus
what a job would have that reached the maximum there and then. The tier stands above everything.
"""

from mirage.sim.jit import inner, kernel
from mirage.sim.layout import (
    ARRAY_LIMIT,
    ASSOCIATION,
    ELIGIBLE,
    FAIR_VALUE,
    FAR,
    ID,
    KEY,
    LAST_OLD,
    LAST_YOUNG,
    LEAST_VALUE,
    LIMIT,
    LIVE,
    MARK_ARRAY,
    MARK_PINNED,
    NODES,
    NONE,
    NOW,
    ORIGIN,
    PARTITION,
    PARTITION_TIER,
    PIN,
    QUEUE_FIRST,
    QUEUE_ID,
    QUEUE_KEY,
    QUEUE_LIMIT,
    QUEUE_MARK,
    QUEUE_NODES,
    QUEUE_SHAPE,
    QUEUE_SLOT,
    QUEUED,
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
    WALK_OLD,
    WALK_YOUNG,
    Ints,
    column,
    section,
)


@inner
def age_from(live: Ints, site: Ints, at: int) -> int:
    """The instant from which the age of the job whose record begins at `at` counts."""
    return live[at + SUBMIT] if site[SITE_ACCRUE] else live[at + ELIGIBLE]


@inner
def saturated(state: Ints, site: Ints, slot: int) -> bool:
    """Whether the job's age is at its maximum."""
    since = age_from(section(state, LIVE), site, slot * RECORD)
    return state[NOW] - since >= site[SITE_MAX_AGE]


@inner
def key_of(state: Ints, site: Ints, slot: int, old: int) -> int:
    """The job's key as one of the old or of the young."""
    live = section(state, LIVE)
    at = slot * RECORD
    value = live[at + STATIC] + section(state, FAIR_VALUE)[live[at + ASSOCIATION]]
    value += section(site, PARTITION_TIER)[live[at + PARTITION]] << TIER_SHIFT
    state[LEAST_VALUE] = min(state[LEAST_VALUE], value)
    key = -value
    if not old:
        key += site[SITE_RATE] * (age_from(live, site, at) - state[ORIGIN])
    return key


@inner
def place_of(state: Ints, key: int, job_id: int, old: int) -> int:
    """The first place in its part of the queue that is not before (key, job id)."""
    keys, ids = column(state, QUEUE_KEY), column(state, QUEUE_ID)
    low, high = (0, state[SATURATED]) if old else (state[SATURATED], state[QUEUED])
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key or (keys[middle] == key and ids[middle] < job_id):
            low = middle + 1
        else:
            high = middle
    return low


@inner
def mark_of(live: Ints, at: int) -> int:
    """The MARK_ bits of the job whose record begins at `at`."""
    mark = 0
    if live[at + PIN] != NONE:
        mark |= MARK_PINNED
    if live[at + ARRAY_LIMIT]:
        mark |= MARK_ARRAY
    return mark


@kernel
def put(state: Ints, site: Ints, slot: int, old: int) -> None:
    """Into one part of the queue."""
    live = section(state, LIVE)
    at = slot * RECORD
    key = key_of(state, site, slot, old)
    place = place_of(state, key, live[at + ID], old)
    make_gap(state, place)
    column(state, QUEUE_KEY)[place] = key
    column(state, QUEUE_ID)[place] = live[at + ID]
    column(state, QUEUE_SLOT)[place] = slot
    column(state, QUEUE_NODES)[place] = live[at + NODES]
    column(state, QUEUE_LIMIT)[place] = live[at + LIMIT]
    column(state, QUEUE_SHAPE)[place] = live[at + SHAPE]
    column(state, QUEUE_MARK)[place] = mark_of(live, at)
    live[at + KEY] = key
    state[SATURATED] += old


@kernel
def move(state: Ints, first: int, end: int, by: int) -> None:
    """Move the jobs at the places [first, end) of all columns by so many places."""
    base = state[QUEUE_FIRST]
    for which in range(QUEUE_KEY, QUEUE_MARK + 1):
        values = section(state, which)
        if by > 0:
            for i in range(base + end - 1, base + first - 1, -1):
                values[i + by] = values[i]
        else:
            for i in range(base + first, base + end):
                values[i + by] = values[i]


@kernel
def make_gap(state: Ints, place: int) -> None:
    """Room for one more at this place: the shorter side moves, where it can."""
    n = state[QUEUED]
    if state[QUEUE_FIRST] and (place < n - place):
        move(state, 0, place, -1)
        state[QUEUE_FIRST] -= 1
    else:
        if state[QUEUE_FIRST] + n == section(state, QUEUE_KEY).size:
            move(state, 0, n, -state[QUEUE_FIRST])
            state[QUEUE_FIRST] = 0
        move(state, place, n, 1)
    state[QUEUED] = n + 1


@kernel
def cut(state: Ints, place: int) -> None:
    """Close the gap of the job that leaves this place: the shorter side moves."""
    n = state[QUEUED]
    if place < n - place:
        move(state, 0, place, 1)
        state[QUEUE_FIRST] += 1
    else:
        move(state, place + 1, n, -1)
    state[QUEUED] = n - 1
    if place < state[SATURATED]:
        state[SATURATED] -= 1


@kernel
def enqueue(state: Ints, site: Ints, slot: int) -> None:
    """Put an eligible job into the queue."""
    live = section(state, LIVE)
    at = slot * RECORD
    old = int(saturated(state, site, slot))
    put(state, site, slot, old)
    state[QUEUED_NODES] += live[at + NODES]
    if not old:
        full = age_from(live, site, at) + site[SITE_MAX_AGE]
        state[SATURATES_AT] = min(state[SATURATES_AT], full)


@kernel
def dequeue(state: Ints, slot: int) -> None:
    """Take a job out of the queue."""
    live, slots = section(state, LIVE), column(state, QUEUE_SLOT)
    at = slot * RECORD
    key, job_id = live[at + KEY], live[at + ID]
    place = place_of(state, key, job_id, 0)
    if place == state[QUEUED] or slots[place] != slot:
        place = place_of(state, key, job_id, 1)
    cut(state, place)
    state[QUEUED_NODES] -= live[at + NODES]


@kernel
def refresh(state: Ints, site: Ints) -> None:
    """Before a pass: jobs whose age has reached its maximum join the old.

    They stand near the head of the young: of those with a key above `bound` none can be so old.
    """
    if state[NOW] < state[SATURATES_AT] or not site[SITE_RATE]:
        return
    live = section(state, LIVE)
    rate, full = site[SITE_RATE], site[SITE_MAX_AGE]
    bound = rate * (state[NOW] - full - state[ORIGIN]) - state[LEAST_VALUE]
    soonest, i = FAR, state[SATURATED]
    while i < state[QUEUED] and column(state, QUEUE_KEY)[i] <= bound:
        slot = column(state, QUEUE_SLOT)[i]
        if saturated(state, site, slot):
            cut(state, i)
            put(state, site, slot, 1)
        else:
            soonest = min(soonest, age_from(live, site, slot * RECORD) + full)
        i += 1
    if i < state[QUEUED]:
        since = (column(state, QUEUE_KEY)[i] + state[LEAST_VALUE]) // rate + state[ORIGIN]
        soonest = min(soonest, since + full)
    state[SATURATES_AT] = soonest


@kernel
def rekey(state: Ints, site: Ints) -> bool:
    """New keys for all, and the order mended by insertion; whether a key changed."""
    changed = mend(state, site, 0, state[SATURATED], 1)
    return mend(state, site, state[SATURATED], state[QUEUED], 0) or changed


@kernel
def mend(state: Ints, site: Ints, first: int, end: int, old: int) -> bool:
    """One part of it."""
    live = section(state, LIVE)
    keys, ids, slots = (
        column(state, QUEUE_KEY),
        column(state, QUEUE_ID),
        column(state, QUEUE_SLOT),
    )
    nodes, limits = column(state, QUEUE_NODES), column(state, QUEUE_LIMIT)
    shapes, marks = column(state, QUEUE_SHAPE), column(state, QUEUE_MARK)
    changed = False
    for i in range(first, end):
        slot = slots[i]
        key = key_of(state, site, slot, old)
        changed = changed or key != keys[i]
        live[slot * RECORD + KEY] = key
        job_id, size, limit = ids[i], nodes[i], limits[i]
        shape, mark = shapes[i], marks[i]
        j = i
        while j > first and (keys[j - 1] > key or (keys[j - 1] == key and ids[j - 1] > job_id)):
            keys[j], ids[j], slots[j] = keys[j - 1], ids[j - 1], slots[j - 1]
            nodes[j], limits[j] = nodes[j - 1], limits[j - 1]
            shapes[j], marks[j] = shapes[j - 1], marks[j - 1]
            j -= 1
        keys[j], ids[j], slots[j], nodes[j], limits[j] = key, job_id, slot, size, limit
        shapes[j], marks[j] = shape, mark
    return changed


@kernel
def begin_walk(state: Ints, work: Ints) -> None:
    """Go to the first job; the last is the last of the queue."""
    work[WALK_OLD], work[WALK_YOUNG] = 0, state[SATURATED]
    work[LAST_OLD], work[LAST_YOUNG] = state[SATURATED] - 1, state[QUEUED] - 1


@inner
def walk(state: Ints, site: Ints, work: Ints) -> int:
    """The place of the job whose turn it is, or -1 where nobody is left up to the last places."""
    i, j = work[WALK_OLD], work[WALK_YOUNG]
    if i > work[LAST_OLD] and j > work[LAST_YOUNG]:
        return -1
    if i >= state[SATURATED]:
        return j
    if j >= state[QUEUED]:
        return i
    keys, ids = column(state, QUEUE_KEY), column(state, QUEUE_ID)
    key = keys[i] + site[SITE_RATE] * (state[NOW] - site[SITE_MAX_AGE] - state[ORIGIN])
    if key < keys[j] or (key == keys[j] and ids[i] < ids[j]):
        return i
    return j


@inner
def pass_by(state: Ints, work: Ints, place: int) -> None:
    """Go on behind the job at this place."""
    if place < state[SATURATED]:
        work[WALK_OLD] += 1
    else:
        work[WALK_YOUNG] += 1


@inner
def note_taken(work: Ints, was_old: int) -> None:
    """The job whose turn it was has left the queue: those behind moved up by one."""
    work[LAST_YOUNG] -= 1
    if was_old:
        work[WALK_YOUNG] -= 1
        work[LAST_OLD] -= 1


@kernel
def in_order(state: Ints, site: Ints, work: Ints, found: Ints) -> None:
    """`found` becomes the slots in order; at least as long as the queue."""
    refresh(state, site)
    slots = column(state, QUEUE_SLOT)
    begin_walk(state, work)
    for k in range(state[QUEUED]):
        place = walk(state, site, work)
        found[k] = slots[place]
        pass_by(state, work, place)
