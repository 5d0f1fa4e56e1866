"""Planning by name, after Slurm's backfill over node bitmaps (docs/simulator.md 7, "By name").

Planned jobs stand in *maps*: spans of time with the nodes not promised in them, in order. What
running jobs leave, and when, is in tables.py.
"""

from typing import Final

from mirage.sim.arrays.jit import inner, kernel, ones
from mirage.sim.arrays.layout import (
    CAPACITY_CPUS,
    CHOSEN,
    FAR,
    FOUND,
    GPUS,
    GROUP_END,
    GROUP_PIECE,
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
    PIECE_BITS,
    PIECE_WORD,
    PIN,
    READY,
    RECORD,
    RESERVATION_BITS,
    RESERVATION_SPAN,
    SITE_BF_WINDOW,
    SITE_RESERVATIONS,
    SITE_WORDS,
    TABLE,
    THEN_CPUS,
    USABLE,
    WANTED,
    WHOLE,
    Ints,
    copy,
    section,
)
from mirage.sim.scheduling.fit_tables import end_groups, fill_table, list_pieces, now_of
from mirage.sim.scheduling.node_timeline import (
    beyond,
    free_of_plans,
    gain_after,
    map_at,
    map_behind,
    unpromised,
)
from mirage.sim.state.node_selection import choose_by_name, count_alike

WINDOW_S: Final = 30
"""Ends within this time are looked at together; it doubles from look to look."""
NEVER: Final = -2


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
    live, words = section(state, LIVE), site[SITE_WORDS]
    at, bits, usable = section(work, MAP_AT), section(work, MAP_BITS), section(work, USABLE)
    now, base = state[NOW], now_of(state, site, work, slot)
    need, end = live[slot * RECORD + NODES], now + live[slot * RECORD + LIMIT]
    row = section(work, TABLE)[base : base + words]
    part = live[slot * RECORD + PARTITION] * words
    ready = section(work, READY)[part : part + words]
    first = map_at(at, work[MAPS], 0, now)
    unpromised(bits, at.size, ready, first, min(first + 1, work[MAPS]), usable)
    # Most of them fail at this very instant.
    if shared(usable, row) < need:
        return False
    unpromised(bits, at.size, ready, first, map_behind(at, work[MAPS], first, end), usable)
    if site[SITE_RESERVATIONS]:
        keep_reserved(site, now, end, usable)
    return shared(usable, row) >= need


@inner
def shared(these: Ints, those: Ints) -> int:
    """How many nodes are in both sets."""
    n = 0
    for w in range(those.size):
        n += ones(these[w] & those[w])
    return n


@inner
def enough(work: Ints, usable: Ints, row: Ints, need: int, pinned: bool) -> bool:
    """Whether a row of a table has enough usable nodes, or all the wanted ones."""
    if pinned:
        return all_wanted(work, row)
    return shared(usable, row) >= need


@kernel
def all_wanted(work: Ints, row: Ints) -> bool:
    """Whether a row of a table has the wanted nodes, usable ones all of them."""
    usable, wanted = section(work, USABLE), section(work, WANTED)
    for w in range(row.size):  # noqa: SIM110 no generators in kernels
        if wanted[w] & ~(usable[w] & row[w]):
            return False
    return True


@inner
def first_group(
    state: Ints, work: Ints, usable: Ints, rows: Ints, ends: Ints, need: int, pinned: bool
) -> int:
    """The first end that is looked at after which enough usable nodes fit, where one comes.

    Not every end is looked at: see docs/simulator.md, "The ends that are looked at".
    """
    words, groups = usable.size, work[GROUPS]
    list_pieces(state, work)
    g = met(work, usable, 1)
    # slurmctld counts windows from the next half minute of the clock, so that a second more or less
    # of the first end does not move them all.
    first, window, last = (ends[g] // WINDOW_S + 1) * WINDOW_S, WINDOW_S, g
    while g < groups:
        last = g
        if g + 1 < groups and ends[g + 1] <= first + window:
            # The window is not over: on to the first end that has the next one beyond it.
            g = met(work, usable, max(g + 1, beyond(ends, groups, first + window) - 1))
            continue
        if enough(work, usable, rows[g * words : (g + 1) * words], need, pinned):
            return g
        while g + 1 < groups and ends[g + 1] > first + window:
            window *= 2
        g = met(work, usable, g + 1)
    return last_met(work, usable, last)


@inner
def met(work: Ints, usable: Ints, g: int) -> int:
    """The first group from g on whose job has a usable node; GROUPS: none."""
    firsts, words = section(work, GROUP_PIECE), section(work, PIECE_WORD)
    bits, groups = section(work, PIECE_BITS), work[GROUPS]
    while g < groups:
        for i in range(firsts[g], firsts[g + 1]):
            if usable[words[i]] & bits[i]:
                return g
        g += 1
    return g


@inner
def last_met(work: Ints, usable: Ints, g: int) -> int:
    """The last group whose job has a usable node, of g and those behind."""
    while True:
        following = met(work, usable, g + 1)
        if following >= work[GROUPS]:
            return g
        g = following


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
        choose_by_name(site, found, section(site, CAPACITY_CPUS), False, need, chosen)
    elif group == 0 or count_alike(site, gpus):
        # Where nodes count alike nobody looks at the free CPUs.
        alike = count_alike(site, gpus)
        choose_by_name(site, found, section(state, NODE_CPUS), alike, need, chosen)
    else:
        end_groups(state, site, work, group)
        choose_by_name(site, found, section(work, THEN_CPUS), False, need, chosen)


@inner
def group_of(
    state: Ints, site: Ints, work: Ints, usable: Ints, slot: int, base: int, pinned: bool
) -> int:
    """The first end that is looked at after which enough usable nodes fit, 0: now; NONE."""
    words, need = usable.size, section(state, LIVE)[slot * RECORD + NODES]
    rows = section(work, TABLE)[base:]
    if enough(work, usable, rows[:words], need, pinned):
        return 0
    fill_table(state, site, work, slot, base)
    last = (work[GROUPS] - 1) * words
    if not enough(work, usable, rows[last : last + words], need, pinned):
        return NONE
    return first_group(state, work, usable, rows, section(work, GROUP_END), need, pinned)


@inner
def hindered_until(
    bits: Ints, at: Ints, ready: Ints, left: Ints, first: int, behind: int, need: int
) -> int:
    """Until when the maps stay met that leave too few nodes, whoever ends; 0: there are none.

    `left` comes with the nodes that fit when all running jobs have ended.
    """
    for w in range(left.size):
        left[w] &= ready[w]
    for m in range(behind - 1, first - 1, -1):
        for w in range(left.size):
            left[w] &= bits[w * at.size + m]
        if shared(left, left) < need:
            return at[m + 1]
    return 0


@inner
def plan(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """The job's planned start or NEVER; CHOSEN holds its nodes then. WANTED holds its node list."""
    live, ends, words = section(state, LIVE), section(work, GROUP_END), site[SITE_WORDS]
    at, bits, gains = section(work, MAP_AT), section(work, MAP_BITS), section(work, MAP_GAINS)
    usable, left, maps = section(work, USABLE), section(work, FOUND), work[MAPS]
    now, limit, need = state[NOW], live[slot * RECORD + LIMIT], live[slot * RECORD + NODES]
    part = live[slot * RECORD + PARTITION] * words
    ready = section(work, READY)[part : part + words]
    pinned, base = live[slot * RECORD + PIN] != NONE, now_of(state, site, work, slot)
    begin, m = now, 0
    while begin < FAR:
        m = map_at(at, maps, m, begin)
        behind = map_behind(at, maps, m, begin + limit)
        unpromised(bits, at.size, ready, m, behind, usable)
        if site[SITE_RESERVATIONS]:
            keep_reserved(site, begin, begin + limit, usable)
        group = group_of(state, site, work, usable, slot, base, pinned)
        if group == 0 and begin == now:
            choose(state, site, work, slot, base, group, pinned)
            return now
        later = gain_after(at, gains, maps, m, begin + limit)
        if group == NONE:
            begin = later
            latest = base + (work[GROUPS] - 1) * words
            copy(section(work, TABLE)[latest : latest + words], left)
            clear = hindered_until(bits, at, ready, left, m, behind, need)
            while begin < clear:
                m = map_at(at, maps, m, begin)
                begin = gain_after(at, gains, maps, m, begin + limit)
            continue
        start = max(ends[group], begin)
        if start > later:
            begin = later
            continue
        if start > now + site[SITE_BF_WINDOW]:
            return NEVER
        choose(state, site, work, slot, base, group, pinned)
        if free_of_plans(site, work, start, start + limit):
            return start
        begin = start if start > begin else later
    return NEVER
