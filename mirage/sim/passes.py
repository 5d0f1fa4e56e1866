"""Slurm's two scheduling passes (docs/simulator.md 6 and 7)."""

from typing import Final

from mirage.sim import by_name, by_number
from mirage.sim.jit import kernel
from mirage.sim.layout import (
    ASSOCIATION,
    BACKFILL_AT,
    CAPACITY_CPUS,
    CHOSEN,
    CLOSED,
    FAR,
    FOUND,
    FULL_AT,
    IDLE,
    IDLE_BITS,
    LAST_BACKFILL,
    LIMIT,
    LIVE,
    MAIN_DUE,
    NODE_CPUS,
    NODES,
    NONE,
    NOW,
    PARTITION,
    PARTITION_BITS,
    PASS,
    PIN,
    PINNED,
    QUEUE_NODES,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    RESERVATION_BITS,
    RESERVATION_SPAN,
    SITE_BF_TEST,
    SITE_BF_USER,
    SITE_BY_NAME,
    SITE_DEPTH,
    SITE_PARTITIONS,
    SITE_RESERVATIONS,
    SITE_SCHED_INTERVAL,
    SITE_WORDS,
    SPARE,
    STAMP,
    TESTS,
    TESTS_STAMP,
    UP_BITS,
    USABLE,
    WANTED,
    WHOLE,
    copy,
    section,
)
from mirage.sim.lifecycle import start
from mirage.sim.limits import over_limits
from mirage.sim.nodes import (
    all_pins,
    choose_by_name,
    choose_by_number,
    fitting,
    pinned_fit,
    pins,
)
from mirage.sim.queue import refresh

TESTS_BETWEEN_LOOKS: Final = 32
"""How many jobs are planned before looking again whether anybody behind could still start."""


@kernel
def main_pass(state, site, results, work):  # type: ignore[no-untyped-def]
    """Start jobs strictly in order; the first of a partition that does not fit closes it."""
    state[MAIN_DUE] = 0
    full = state[NOW] % site[SITE_SCHED_INTERVAL] == 0
    if full:
        state[FULL_AT] = FAR
    if not state[QUEUED]:
        return
    refresh(state, site)
    slots, usable = section(state, QUEUE_SLOT), section(work, SPARE)
    copy(section(state, UP_BITS), usable)
    closed = section(work, CLOSED)
    closed[:] = 0
    live, open_left, attempts, i = section(state, LIVE), site[SITE_PARTITIONS], 0, 0
    while i < state[QUEUED] and open_left:
        slot = slots[i]
        partition = live[slot * RECORD + PARTITION]
        if closed[partition] or over_limits(state, site, slot):
            i += 1
            continue
        if attempts == site[SITE_DEPTH] and not full:
            interval = site[SITE_SCHED_INTERVAL]
            state[FULL_AT] = (state[NOW] // interval + 1) * interval
            return
        attempts += 1
        if attempt(state, site, work, slot, usable):
            start(state, site, results, slot, section(work, CHOSEN))
            continue
        i += 1
        if live[slot * RECORD + PIN] == NONE:
            if not site[SITE_BY_NAME]:
                return
            closed[partition] = 1
            open_left -= 1
            close(site, usable, partition)


@kernel
def close(site, usable, partition):  # type: ignore[no-untyped-def]
    """A closed partition's nodes are nobody's in this pass."""
    bits, words = section(site, PARTITION_BITS), site[SITE_WORDS]
    for w in range(words):
        usable[w] &= ~bits[partition * words + w]


@kernel
def attempt(state, site, work, slot, usable):  # type: ignore[no-untyped-def]
    """Whether the job can start now, on section CHOSEN then."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PIN] != NONE:
        return attempt_pinned(state, site, work, slot, usable)
    need, chosen = live[at + NODES], section(work, CHOSEN)
    if not site[SITE_BY_NAME]:
        if need > state[IDLE] or (state[PINNED] and not fits_beside(state, work, slot, usable)):
            return False
        by_number_choice(state, work, need, usable)
        return True
    mine = section(work, USABLE)
    allowed(site, state, slot, usable, mine)
    found = section(work, FOUND)
    if fitting(state, site, live, at, mine, found) < need:
        return False
    if live[at + WHOLE]:
        choose_by_name(found, section(site, CAPACITY_CPUS), need, chosen)
    else:
        choose_by_name(found, section(state, NODE_CPUS), need, chosen)
    return True


@kernel
def fits_beside(state, work, slot, usable):  # type: ignore[no-untyped-def]
    """Whether enough idle nodes are left by the pinned jobs ahead."""
    idle, found = section(state, IDLE_BITS), section(work, FOUND)
    n = 0
    for w in range(idle.size):
        found[w] = idle[w] & usable[w]
        n += by_name.ones(found[w])
    return n >= section(state, LIVE)[slot * RECORD + NODES]


@kernel
def by_number_choice(state, work, need, usable):  # type: ignore[no-untyped-def]
    """Section CHOSEN becomes idle nodes of `usable`, those that pinned jobs want last."""
    chosen = section(work, CHOSEN)
    if not state[PINNED]:
        choose_by_number(section(state, IDLE_BITS), need, chosen[:0], chosen, chosen)
        return
    idle, mine, wanted = section(state, IDLE_BITS), section(work, USABLE), section(work, WANTED)
    for w in range(idle.size):
        mine[w] = idle[w] & usable[w]
    all_pins(state, wanted)
    choose_by_number(mine, need, wanted, section(work, FOUND), chosen)


@kernel
def attempt_pinned(state, site, work, slot, usable):  # type: ignore[no-untyped-def]
    """As `attempt`, for a job with a node list, which leaves `usable` where it does not start."""
    live, wanted, mine = section(state, LIVE), section(work, WANTED), section(work, USABLE)
    at = slot * RECORD
    pins(state, slot, wanted)
    allowed(site, state, slot, usable, mine)
    fit = pinned_fit(state, site, live, at, mine, wanted)
    if fit:
        copy(wanted, section(work, CHOSEN))
    if not fit or not site[SITE_BY_NAME]:
        for w in range(site[SITE_WORDS]):
            usable[w] &= ~wanted[w]
    return fit


@kernel
def allowed(site, state, slot, usable, mine):  # type: ignore[no-untyped-def]
    """`mine` becomes the usable nodes of its partition that no reservation keeps from it."""
    live = section(state, LIVE)
    at, words = slot * RECORD, site[SITE_WORDS]
    bits = section(site, PARTITION_BITS)
    for w in range(words):
        mine[w] = usable[w] & bits[live[at + PARTITION] * words + w]
    spans, reserved = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r] < state[NOW] + live[at + LIMIT] and spans[2 * r + 1] > state[NOW]:
            for w in range(words):
                mine[w] &= ~reserved[r * words + w]


@kernel
def may_test(state, site, work, slot):  # type: ignore[no-untyped-def]
    """Whether the user has tests left in this pass (bf_max_job_user); counts this one."""
    most = site[SITE_BF_USER]
    if not most:
        return True
    who = section(state, LIVE)[slot * RECORD + ASSOCIATION]
    stamps, tests = section(work, TESTS_STAMP), section(work, TESTS)
    if stamps[who] != work[PASS]:
        stamps[who], tests[who] = work[PASS], 0
    tests[who] += 1
    return tests[who] <= most


@kernel
def backfill_pass(state, site, results, work, plans):  # type: ignore[no-untyped-def]
    """Plan in order and start who is planned for now; ends when nobody behind could start.

    Where `plans` has room it goes on to the end, and `plans[slot]` becomes each planned start.
    """
    state[BACKFILL_AT] = FAR
    state[LAST_BACKFILL] = state[NOW]
    if not state[QUEUED]:
        return
    refresh(state, site)
    work[STAMP] += 1
    work[PASS] += 1
    if site[SITE_BY_NAME]:
        backfill_by_name(state, site, results, work, plans)
    else:
        backfill_by_number(state, site, results, work, plans)


@kernel
def last_willing(state, site, work, steps, last):  # type: ignore[no-untyped-def]
    """The last place, at most `last`, whose job could start now and is within its limits; or -1."""
    slots = section(state, QUEUE_SLOT)
    last = by_number.last_startable(state, site, work, steps, last)
    while last >= 0 and over_limits(state, site, slots[last]):
        last = by_number.last_startable(state, site, work, steps, last - 1)
    return last


@kernel
def backfill_by_number(state, site, results, work, plans):  # type: ignore[no-untyped-def]
    """The pass over the profile of free nodes."""
    if not state[IDLE] and not plans.size:
        return
    steps = by_number.profile(state, site, work)
    last = state[QUEUED] - 1
    if not plans.size:
        last = last_willing(state, site, work, steps, last)
    slots, given = section(state, QUEUE_SLOT), section(work, SPARE)
    given[:] = 0
    tests, i = 0, 0
    while i <= last and tests < site[SITE_BF_TEST]:
        slot = slots[i]
        if over_limits(state, site, slot) or not may_test(state, site, work, slot):
            i += 1
            continue
        tests += 1
        planned, steps = plan_by_number(state, site, work, slot, steps, given)
        if plans.size and planned != by_number.NEVER:
            plans[slot] = planned
        if planned == state[NOW] and choose_now(state, site, work, slot):
            for w in range(given.size):
                given[w] |= section(work, CHOSEN)[w]
            start(state, site, results, slot, section(work, CHOSEN))
            last -= 1
            look = True
        else:
            i += 1
            look = tests % TESTS_BETWEEN_LOOKS == 0
        if look and not plans.size:
            last = last_willing(state, site, work, steps, last)


@kernel
def plan_by_number(state, site, work, slot, steps, given):  # type: ignore[no-untyped-def]
    """The job's place in the profile: its start or NEVER, and the steps then."""
    earliest, pinned = 0, section(state, LIVE)[slot * RECORD + PIN] != NONE
    if pinned:
        pins(state, slot, section(work, WANTED))
        earliest = by_number.pinned_from(state, site, work, given)
    return by_number.place(state, site, work, steps, slot, earliest, not pinned)


@kernel
def choose_now(state, site, work, slot):  # type: ignore[no-untyped-def]
    """Section CHOSEN becomes its nodes now; whether it has them: a pinned one may not."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + PIN] == NONE:
        by_number_choice(state, work, live[at + NODES], section(state, UP_BITS))
        return True
    pins(state, slot, section(work, WANTED))
    wanted = section(work, WANTED)
    copy(wanted, section(work, CHOSEN))
    return pinned_fit(state, site, live, at, section(state, UP_BITS), wanted)


@kernel
def begin_by_name(state, site, work):  # type: ignore[no-untyped-def]
    """What a pass by name begins with."""
    by_name.begin_maps(state, site, work)
    by_name.begin_groups(state, work)


@kernel
def last_fitting(state, site, work, last):  # type: ignore[no-untyped-def]
    """The last place, at most `last`, whose job might start now by what fits and is not promised."""
    slots, sizes = section(state, QUEUE_SLOT), section(state, QUEUE_NODES)
    while last >= 0:
        slot = slots[last]
        if not over_limits(state, site, slot):
            base = by_name.table_of(state, site, work, slot)
            if by_name.might_start(state, site, work, slot, base) >= sizes[last]:
                return last
        last -= 1
    return last


@kernel
def backfill_by_name(state, site, results, work, plans):  # type: ignore[no-untyped-def]
    """The pass over maps of nodes."""
    begin_by_name(state, site, work)
    slots, live = section(state, QUEUE_SLOT), section(state, LIVE)
    last = state[QUEUED] - 1
    if not plans.size:
        last = last_fitting(state, site, work, last)
    tests, i = 0, 0
    while i <= last and tests < site[SITE_BF_TEST]:
        slot = slots[i]
        if over_limits(state, site, slot) or not may_test(state, site, work, slot):
            i += 1
            continue
        tests += 1
        if live[slot * RECORD + PIN] != NONE:
            pins(state, slot, section(work, WANTED))
        planned = by_name.plan(state, site, work, slot)
        if plans.size and planned != by_name.NEVER:
            plans[slot] = planned
        if planned == state[NOW]:
            start(state, site, results, slot, section(work, CHOSEN))
            work[STAMP] += 1
            by_name.begin_groups(state, work)
            last -= 1
            look = True
        else:
            if planned != by_name.NEVER:
                by_name.reserve(state, site, work, planned, live[slot * RECORD + LIMIT])
            i += 1
            look = tests % TESTS_BETWEEN_LOOKS == 0
        if look and not plans.size:
            last = last_fitting(state, site, work, last)
