"""The eligible pending jobs in priority order, packed for the passes (docs/simulator.md 3).

While no age is at its maximum the order of two jobs never changes: a job's key is its priority
less the part of age that all share, negated, so the queue is ascending. The tier stands above it.
"""

from mirage.sim.jit import kernel
from mirage.sim.layout import (
    ASSOCIATION,
    ELIGIBLE,
    FAIR_VALUE,
    FAR,
    ID,
    KEY,
    LIMIT,
    LIVE,
    NODES,
    NOW,
    ORIGIN,
    PARTITION,
    PARTITION_TIER,
    QUEUE_ID,
    QUEUE_KEY,
    QUEUE_LIMIT,
    QUEUE_NODES,
    QUEUE_SLOT,
    QUEUED,
    QUEUED_NODES,
    RECORD,
    SATURATES_AT,
    SITE_ACCRUE,
    SITE_MAX_AGE,
    SITE_RATE,
    STATIC,
    SUBMIT,
    TIER_SHIFT,
    section,
)


@kernel
def age_from(live, site, at):  # type: ignore[no-untyped-def]
    """The instant from which the age of the job whose record begins at `at` counts."""
    return live[at + SUBMIT] if site[SITE_ACCRUE] else live[at + ELIGIBLE]


@kernel
def key_of(state, site, slot):  # type: ignore[no-untyped-def]
    """Its place in the order now."""
    live = section(state, LIVE)
    at = slot * RECORD
    since = max(age_from(live, site, at), state[NOW] - site[SITE_MAX_AGE])
    value = live[at + STATIC] + section(state, FAIR_VALUE)[live[at + ASSOCIATION]]
    tier = section(site, PARTITION_TIER)[live[at + PARTITION]]
    return site[SITE_RATE] * (since - state[ORIGIN]) - value - (tier << TIER_SHIFT)


@kernel
def place_of(state, key, job_id):  # type: ignore[no-untyped-def]
    """The first place in the queue that is not before (key, job id)."""
    keys, ids = section(state, QUEUE_KEY), section(state, QUEUE_ID)
    low, high = 0, state[QUEUED]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key or (keys[middle] == key and ids[middle] < job_id):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def enqueue(state, site, slot):  # type: ignore[no-untyped-def]
    """Put an eligible job into the queue."""
    live = section(state, LIVE)
    at = slot * RECORD
    key = key_of(state, site, slot)
    live[at + KEY] = key
    keys, ids, slots = (
        section(state, QUEUE_KEY),
        section(state, QUEUE_ID),
        section(state, QUEUE_SLOT),
    )
    nodes, limits = section(state, QUEUE_NODES), section(state, QUEUE_LIMIT)
    place = place_of(state, key, live[at + ID])
    for i in range(state[QUEUED], place, -1):
        keys[i], ids[i], slots[i] = keys[i - 1], ids[i - 1], slots[i - 1]
        nodes[i], limits[i] = nodes[i - 1], limits[i - 1]
    keys[place], ids[place], slots[place] = key, live[at + ID], slot
    nodes[place], limits[place] = live[at + NODES], live[at + LIMIT]
    state[QUEUED] += 1
    state[QUEUED_NODES] += live[at + NODES]
    state[SATURATES_AT] = min(state[SATURATES_AT], age_from(live, site, at) + site[SITE_MAX_AGE])


@kernel
def dequeue(state, slot):  # type: ignore[no-untyped-def]
    """Take a job out of the queue."""
    live = section(state, LIVE)
    at = slot * RECORD
    keys, ids, slots = (
        section(state, QUEUE_KEY),
        section(state, QUEUE_ID),
        section(state, QUEUE_SLOT),
    )
    nodes, limits = section(state, QUEUE_NODES), section(state, QUEUE_LIMIT)
    last = state[QUEUED] - 1
    for i in range(place_of(state, live[at + KEY], live[at + ID]), last):
        keys[i], ids[i], slots[i] = keys[i + 1], ids[i + 1], slots[i + 1]
        nodes[i], limits[i] = nodes[i + 1], limits[i + 1]
    state[QUEUED] = last
    state[QUEUED_NODES] -= live[at + NODES]


@kernel
def rekey(state, site):  # type: ignore[no-untyped-def]
    """New keys for all, and the order mended (insertion: it is nearly sorted); whether it changed."""
    live = section(state, LIVE)
    keys, ids, slots = (
        section(state, QUEUE_KEY),
        section(state, QUEUE_ID),
        section(state, QUEUE_SLOT),
    )
    nodes, limits = section(state, QUEUE_NODES), section(state, QUEUE_LIMIT)
    changed = False
    for i in range(state[QUEUED]):
        slot = slots[i]
        key = key_of(state, site, slot)
        live[slot * RECORD + KEY] = key
        job_id, size, limit = ids[i], nodes[i], limits[i]
        j = i
        while j > 0 and (keys[j - 1] > key or (keys[j - 1] == key and ids[j - 1] > job_id)):
            keys[j], ids[j], slots[j] = keys[j - 1], ids[j - 1], slots[j - 1]
            nodes[j], limits[j] = nodes[j - 1], limits[j - 1]
            j -= 1
        keys[j], ids[j], slots[j], nodes[j], limits[j] = key, job_id, slot, size, limit
        changed = changed or j != i
    return changed


@kernel
def refresh(state, site):  # type: ignore[no-untyped-def]
    """Before a pass: where ages are at their maximum the order moves with the clock."""
    if state[NOW] < state[SATURATES_AT] or not site[SITE_RATE]:
        return
    live = section(state, LIVE)
    slots = section(state, QUEUE_SLOT)
    oldest = FAR
    for i in range(state[QUEUED]):
        oldest = min(oldest, age_from(live, site, slots[i] * RECORD))
    state[SATURATES_AT] = oldest + site[SITE_MAX_AGE]
    if state[NOW] >= state[SATURATES_AT]:
        rekey(state, site)
