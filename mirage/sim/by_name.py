"""Planning by name, after Slurm's backfill over node bitmaps (docs/simulator.md 7, "By name").

Planned jobs stand in *maps*: spans of time with the nodes not promised in them, in order. What
running jobs leave, and when, is in tables.py.
"""

from typing import Final

from mirage.sim.jit import inner, kernel, ones
from mirage.sim.layout import (
    ALLOCATED,
    CAPACITY_CPUS,
    CELL_NEXT,
    CELL_NODE,
    CHOSEN,
    FAR,
    FOUND,
    GPUS,
    GROUP_END,
    GROUPS,
    LIMIT,
    LIVE,
    MAP_AT,
    MAP_BITS,
    MAP_GAINS,
    MAPS,
    NODE_CPUS,
    NODES,
    NONE,
    NOW,
    PARTITION,
    PARTITION_BITS,
    PIN,
    READY,
    RECORD,
    RESERVATION_BITS,
    RESERVATION_SPAN,
    RUN_SLOT,
    SITE_BF_RESOLUTION,
    SITE_BF_WINDOW,
    SITE_RESERVATIONS,
    SITE_WORDS,
    TABLE,
    THEN_CPUS,
    UP_BITS,
    USABLE,
    WANTED,
    WHOLE,
    Ints,
    copy,
    section,
)
from mirage.sim.nodes import choose_by_name, has
from mirage.sim.tables import end_groups, fill_table, now_of

WINDOW_S: Final = 30
"""Ends within this time are looked at together; it doubles from look to look."""
NEVER: Final = -2


@kernel
def begin_maps(state: Ints, site: Ints, work: Ints) -> None:
    """One map of all nodes that are up, cut by the reservations."""
    at, bits, up = section(work, MAP_AT), section(work, MAP_BITS), section(state, UP_BITS)
    ready, mine = section(work, READY), section(site, PARTITION_BITS)
    words, now, grid = site[SITE_WORDS], state[NOW], site[SITE_BF_RESOLUTION]
    at[0], at[1] = now // grid * grid, now + site[SITE_BF_WINDOW]
    for w in range(words):
        bits[w * at.size] = up[w]
    for i in range(mine.size):
        ready[i] = mine[i] & up[i % words]
    work[MAPS] = 1
    section(work, MAP_GAINS)[0] = 0
    spans, reserved = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r + 1] > now:
            lose(
                work, words, max(spans[2 * r], now), spans[2 * r + 1],
                reserved[r * words : (r + 1) * words],
            )  # fmt: skip


@kernel
def lose(work: Ints, words: int, begin: int, end: int, nodes: Ints) -> None:
    """The maps lose `nodes` in [begin, end)."""
    at, bits = section(work, MAP_AT), section(work, MAP_BITS)
    begin, end = max(begin, at[0]), min(end, at[work[MAPS]])
    if begin >= end:
        return
    first = split(work, words, begin)
    behind = split(work, words, end)
    for w in range(words):
        row = w * at.size
        for m in range(first, behind):
            bits[row + m] &= ~nodes[w]
    # Between two of them that lost the same nodes a difference may have gone too.
    for m in range(min(behind, work[MAPS] - 1), max(first, 1) - 1, -1):
        if adds(bits, at.size, m - 1, m) or adds(bits, at.size, m, m - 1):
            continue
        shift(work, words, m + 1, -1)
    note_gains(work, max(first - 1, 0), min(behind + 1, work[MAPS]))


@kernel
def split(work: Ints, words: int, instant: int) -> int:
    """The map that begins at an instant, which is made where there is none."""
    at, bits = section(work, MAP_AT), section(work, MAP_BITS)
    m = beyond(at, work[MAPS] + 1, instant - 1)
    m = 0 if at[0] == instant else m
    if at[m] == instant:
        return m
    shift(work, words, m, 1)
    at[m] = instant
    for w in range(words):
        bits[w * at.size + m] = bits[w * at.size + m - 1]
    return m


@kernel
def shift(work: Ints, words: int, first: int, by: int) -> None:
    """Move the maps from `first` on by one place."""
    at, bits, maps = section(work, MAP_AT), section(work, MAP_BITS), work[MAPS]
    work[MAPS] = maps + by
    move(at, first, maps + 1, by)
    move(section(work, MAP_GAINS), first, maps, by)
    for w in range(words):
        move(bits, w * at.size + first, w * at.size + maps, by)


@inner
def move(values: Ints, first: int, end: int, by: int) -> None:
    """Move what stands in [first, end) by one place."""
    if by > 0:
        for i in range(end - 1, first - 1, -1):
            values[i + 1] = values[i]
    else:
        for i in range(first, end):
            values[i - 1] = values[i]


@inner
def adds(bits: Ints, room: int, m: int, n: int) -> bool:
    """Whether map n has a node that map m lacks."""
    for row in range(0, bits.size, room):  # noqa: SIM110 no generators in kernels
        if bits[row + n] & ~bits[row + m]:
            return True
    return False


@inner
def note_gains(work: Ints, first: int, end: int) -> None:
    """Section MAP_GAINS for the maps [first, end)."""
    gains, bits, room = (
        section(work, MAP_GAINS),
        section(work, MAP_BITS),
        section(work, MAP_AT).size,
    )
    for m in range(first, end):
        gains[m] = int(m + 1 < work[MAPS] and adds(bits, room, m, m + 1))


@inner
def usable_from(state: Ints, site: Ints, work: Ints, slot: int, begin: int, first: int) -> None:
    """Section USABLE becomes what step 1 says; map `first` is the first that ends after `begin`."""
    at, bits, usable = section(work, MAP_AT), section(work, MAP_BITS), section(work, USABLE)
    live, ready = section(state, LIVE), section(work, READY)
    words, maps = site[SITE_WORDS], work[MAPS]
    end = begin + live[slot * RECORD + LIMIT]
    part, room = live[slot * RECORD + PARTITION] * words, at.size
    behind = first
    while behind < maps and at[behind] <= end:
        behind += 1
    for w in range(words):
        word = ready[part + w]
        for i in range(w * room + first, w * room + behind):
            word &= bits[i]
        usable[w] = word
    if site[SITE_RESERVATIONS]:
        keep_reserved(site, begin, end, usable)


@inner
def gain_after(work: Ints, first: int, end: int) -> int:
    """The `later` of step 1 for [begin, end], or FAR; map `first` is the first after `begin`."""
    at, gains = section(work, MAP_AT), section(work, MAP_GAINS)
    m = first
    while m < work[MAPS]:
        if gains[m]:
            return at[m + 1]
        if at[m] > end:
            return FAR
        m += 1
    return FAR


@inner
def keep_reserved(site: Ints, begin: int, end: int, usable: Ints) -> None:
    """Take the nodes of reservations that meet [begin, end) out of `usable`."""
    words = site[SITE_WORDS]
    spans, reserved = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r] < end and spans[2 * r + 1] > begin:
            for w in range(words):
                usable[w] &= ~reserved[r * words + w]


@inner
def could_start(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Whether the job would be planned for now, were it its turn; pinned ones: might be.

    In one pass it never becomes true again: nodes are promised and taken, none is given back.
    """
    live, base = section(state, LIVE), now_of(state, site, work, slot)
    need = live[slot * RECORD + NODES]
    if fit_now(site, work, live[slot * RECORD + PARTITION], base) < need:
        return False
    usable_from(state, site, work, slot, state[NOW], map_at(work, 0, state[NOW]))
    return enough(site, work, base, need, False)


@inner
def fit_now(site: Ints, work: Ints, partition: int, base: int) -> int:
    """How many of a partition's nodes fit and are promised to nobody at this very instant."""
    bits, table, ready = section(work, MAP_BITS), section(work, TABLE), section(work, READY)
    words, room, n = site[SITE_WORDS], section(work, MAP_AT).size, 0
    for w in range(words):
        n += ones(ready[partition * words + w] & bits[w * room] & table[base + w])
    return n


@inner
def enough(site: Ints, work: Ints, row: int, need: int, pinned: bool) -> bool:
    """Whether a row of a table has enough usable nodes, or all the wanted ones."""
    table, usable, wanted = section(work, TABLE), section(work, USABLE), section(work, WANTED)
    n = 0
    for w in range(site[SITE_WORDS]):
        word = usable[w] & table[row + w]
        if pinned and wanted[w] & ~word:
            return False
        n += ones(word)
    return n >= need


@inner
def first_group(state: Ints, site: Ints, work: Ints, slot: int, base: int, pinned: bool) -> int:
    """The first end that is looked at after which enough usable nodes fit, 0: now; NONE.

    Not every end is looked at: see docs/simulator.md, "The ends that are looked at".
    """
    words, groups = site[SITE_WORDS], work[GROUPS]
    need = section(state, LIVE)[slot * RECORD + NODES]
    if enough(site, work, base, need, pinned):
        return 0
    fill_table(state, site, work, slot, base)
    if not enough(site, work, base + (groups - 1) * words, need, pinned):
        return NONE
    ends = section(work, GROUP_END)
    g = met(state, work, 1)
    # slurmctld counts windows from the next half minute of the clock, so that a second more or less
    # of the first end does not move them all.
    first, window, last = (ends[g] // WINDOW_S + 1) * WINDOW_S, WINDOW_S, g
    while g < groups:
        last = g
        if g + 1 < groups and ends[g + 1] <= first + window:
            # The window is not over: on to the first end that has the next one beyond it.
            g = met(state, work, max(g + 1, beyond(ends, groups, first + window) - 1))
            continue
        if enough(site, work, base + g * words, need, pinned):
            return g
        while g + 1 < groups and ends[g + 1] > first + window:
            window *= 2
        g = met(state, work, g + 1)
    return last_met(state, work, last)


@inner
def met(state: Ints, work: Ints, g: int) -> int:
    """The first group from g on whose job has a usable node; GROUPS: none."""
    live, names, nexts = section(state, LIVE), section(state, CELL_NODE), section(state, CELL_NEXT)
    slots, usable = section(state, RUN_SLOT), section(work, USABLE)
    while g < work[GROUPS]:
        cell = live[slots[g - 1] * RECORD + ALLOCATED]
        while cell != NONE:
            if has(usable, names[cell]):
                return g
            cell = nexts[cell]
        g += 1
    return g


@inner
def last_met(state: Ints, work: Ints, g: int) -> int:
    """The last group whose job has a usable node, of g and those behind."""
    while True:
        following = met(state, work, g + 1)
        if following >= work[GROUPS]:
            return g
        g = following


@inner
def beyond(ends: Ints, groups: int, instant: int) -> int:
    """The first group that ends after an instant; `groups`: none."""
    low, high = 1, groups
    while low < high:
        middle = (low + high) >> 1
        if ends[middle] > instant:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def choose(
    state: Ints, site: Ints, work: Ints, slot: int, base: int, group: int, pinned: bool
) -> None:
    """Section CHOSEN becomes the nodes that the job would be given after that group."""
    chosen, found, table = section(work, CHOSEN), section(work, FOUND), section(work, TABLE)
    if pinned:
        copy(section(work, WANTED), chosen)
        return
    live, words = section(state, LIVE), site[SITE_WORDS]
    usable = section(work, USABLE)
    for w in range(words):
        found[w] = usable[w] & table[base + group * words + w]
    need, gpus = live[slot * RECORD + NODES], live[slot * RECORD + GPUS]
    if live[slot * RECORD + WHOLE]:
        choose_by_name(found, section(site, CAPACITY_CPUS), False, need, chosen)
    elif group == 0 or gpus > 0:
        # Where GPUs are asked for nobody looks at the CPUs.
        choose_by_name(found, section(state, NODE_CPUS), gpus > 0, need, chosen)
    else:
        end_groups(state, site, work, group)
        choose_by_name(found, section(work, THEN_CPUS), False, need, chosen)


@inner
def free_of_plans(site: Ints, work: Ints, begin: int, end: int) -> bool:
    """Whether section CHOSEN is in every map that meets [begin, end), both on the grid."""
    at, bits, chosen = section(work, MAP_AT), section(work, MAP_BITS), section(work, CHOSEN)
    grid, maps = site[SITE_BF_RESOLUTION], work[MAPS]
    begin, end = begin // grid * grid, end // grid * grid
    m = map_at(work, 0, begin)
    while m < maps and at[m] < end:
        for w in range(site[SITE_WORDS]):
            if chosen[w] & ~bits[w * at.size + m]:
                return False
        m += 1
    return True


@inner
def map_at(work: Ints, m: int, instant: int) -> int:
    """The first map from m on that ends after an instant; MAPS: none."""
    at, maps = section(work, MAP_AT), work[MAPS]
    while m < maps and at[m + 1] <= instant:
        m += 1
    return m


@inner
def plan(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """The job's planned start or NEVER; CHOSEN holds its nodes then. WANTED holds its node list."""
    live, group_end = section(state, LIVE), section(work, GROUP_END)
    at = slot * RECORD
    now, limit = state[NOW], live[at + LIMIT]
    pinned = live[at + PIN] != NONE
    base = now_of(state, site, work, slot)
    begin, m = now, 0
    while begin < FAR:
        m = map_at(work, m, begin)
        usable_from(state, site, work, slot, begin, m)
        group = first_group(state, site, work, slot, base, pinned)
        if group == 0 and begin == now:
            choose(state, site, work, slot, base, group, pinned)
            return now
        later = gain_after(work, m, begin + limit)
        start = max(group_end[group], begin) if group != NONE else FAR
        if start > later or group == NONE:
            begin = later
            continue
        if start > now + site[SITE_BF_WINDOW]:
            return NEVER
        choose(state, site, work, slot, base, group, pinned)
        if free_of_plans(site, work, start, start + limit):
            return start
        begin = start if start > begin else later
    return NEVER


@kernel
def reserve(site: Ints, work: Ints, start: int, limit: int) -> None:
    """The maps lose the chosen nodes for the time of the plan, on the grid."""
    grid = site[SITE_BF_RESOLUTION]
    begin, end = start // grid * grid, (start + limit) // grid * grid
    lose(work, site[SITE_WORDS], begin, end, section(work, CHOSEN))
