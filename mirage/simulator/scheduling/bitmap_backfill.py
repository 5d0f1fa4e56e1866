"""Plans by name, as Slurm's backfill does over bitmaps of nodes (docs/reference/simulator.md 7, "By
name").

Planned jobs are kept in *maps*. A map is a span of time with the nodes that no plan has taken in
it; maps are in order of time. fit_tables.py has the nodes that running jobs free, and when.
"""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import count_ones, cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    CAPACITY_CPUS,
    CHOSEN,
    FAR,
    FITTING,
    FORM,
    GPUS,
    GROUP_END,
    GROUP_PIECE,
    GROUPS,
    HOPELESS,
    HOPELESS_STAMP,
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
    STAMP,
    TABLE,
    THEN_CPUS,
    USABLE,
    WANTED,
    WHOLE,
    copy_into,
    section,
)
from mirage.simulator.scheduling.fit_tables import (
    compute_nodes_after_group,
    ensure_later_rows,
    ensure_pieces,
    get_table_start,
)
from mirage.simulator.scheduling.node_timeline import (
    fill_unpromised_nodes,
    find_gain_after,
    find_map_at,
    find_map_behind,
    find_place_beyond,
    is_free_of_plans,
)
from mirage.simulator.state.node_selection import choose_by_name, should_count_alike

WINDOW_S: Final = 30
"""The first window of slurmctld's search: ends of jobs within it are tested together. The window
doubles after each test (docs/reference/simulator.md, "The ends that are looked at")."""
NEVER: Final = -2


@inline_kernel
def remove_reserved_nodes(site: Ints, begin: int, end: int, usable: Ints) -> None:
    """Take the nodes of reservations that meet [begin, end) out of `usable`."""
    words = site[SITE_WORDS]
    spans, reservation_bits = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r] < end and spans[2 * r + 1] > begin:
            for w in range(words):
                usable[w] &= ~reservation_bits[r * words + w]


@inline_kernel
def can_start_now(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Return whether the job would be planned for now; for a pinned job, whether it might be.

    Within one pass a False stays False, since a pass only promises and allocates nodes, and frees
    none.
    """
    live, words = section(state, LIVE), site[SITE_WORDS]
    begins, bits, usable = section(work, MAP_AT), section(work, MAP_BITS), section(work, USABLE)
    now, base = state[NOW], get_table_start(state, site, work, slot)
    need, end = live[slot * RECORD + NODES], now + live[slot * RECORD + LIMIT]
    fitting = cut(section(work, TABLE), base, base + words)
    offset = live[slot * RECORD + PARTITION] * words
    ready = cut(section(work, READY), offset, offset + words)
    first = find_map_at(begins, work[MAPS], 0, now)
    fill_unpromised_nodes(bits, begins.size, ready, first, min(first + 1, work[MAPS]), usable)
    # A shortcut: most jobs fail at this very instant.
    if count_shared_nodes(usable, fitting) < need:
        return False
    fill_unpromised_nodes(
        bits, begins.size, ready, first, find_map_behind(begins, work[MAPS], first, end), usable
    )
    if site[SITE_RESERVATIONS]:
        remove_reserved_nodes(site, now, end, usable)
    return count_shared_nodes(usable, fitting) >= need


@inline_kernel
def count_shared_nodes(first: Ints, second: Ints) -> int:
    """Count the nodes that are in both sets."""
    n = 0
    for w in range(second.size):
        n += count_ones(first[w] & second[w])
    return n


@inline_kernel
def has_enough_nodes(work: Ints, usable: Ints, row: Ints, need: int, is_pinned: bool) -> bool:
    """Return whether a row of a table has enough usable nodes, or all the wanted ones."""
    if is_pinned:
        return has_all_wanted_nodes(work, row)
    return count_shared_nodes(usable, row) >= need


@kernel
def has_all_wanted_nodes(work: Ints, row: Ints) -> bool:
    """Return whether a row of a table has all the wanted nodes, and all of them are usable."""
    usable, wanted_nodes = section(work, USABLE), section(work, WANTED)
    for w in range(row.size):  # noqa: SIM110 no generators in kernels
        if wanted_nodes[w] & ~(usable[w] & row[w]):
            return False
    return True


@inline_kernel
def find_first_group(
    state: Ints, work: Ints, usable: Ints, rows: Ints, ends: Ints, need: int, is_pinned: bool
) -> int:
    """Return the first tested group of ends after which enough usable nodes fit. There must be one.

    As slurmctld does, not every end is tested: see docs/reference/simulator.md, "The ends that are
    looked at".
    """
    words, groups = usable.size, work[GROUPS]
    ensure_pieces(state, work)
    g = find_next_usable_group(work, usable, 1)
    # slurmctld counts windows from the next half minute of the clock, so that a second more or less
    # of the first end does not move them all.
    first, window, last_tested = (ends[g] // WINDOW_S + 1) * WINDOW_S, WINDOW_S, g
    while g < groups:
        last_tested = g
        if g + 1 < groups and ends[g + 1] <= first + window:
            # The window is not over: go to its last end.
            g = find_next_usable_group(
                work, usable, max(g + 1, find_place_beyond(ends, groups, first + window) - 1)
            )
            continue
        if has_enough_nodes(work, usable, cut(rows, g * words, (g + 1) * words), need, is_pinned):
            return g
        while g + 1 < groups and ends[g + 1] > first + window:
            window *= 2
        g = find_next_usable_group(work, usable, g + 1)
    return find_last_usable_group(work, usable, last_tested)


@inline_kernel
def find_next_usable_group(work: Ints, usable: Ints, g: int) -> int:
    """Return the first group from g on whose job has a usable node; GROUPS: there is none."""
    firsts, words = section(work, GROUP_PIECE), section(work, PIECE_WORD)
    bits, groups = section(work, PIECE_BITS), work[GROUPS]
    while g < groups:
        for i in range(firsts[g], firsts[g + 1]):
            if usable[words[i]] & bits[i]:
                return g
        g += 1
    return g


@inline_kernel
def find_last_usable_group(work: Ints, usable: Ints, g: int) -> int:
    """Return the last group, from g on, whose job has a usable node."""
    while True:
        next_group = find_next_usable_group(work, usable, g + 1)
        if next_group >= work[GROUPS]:
            return g
        g = next_group


@kernel
def choose_nodes_after_group(
    state: Ints, site: Ints, work: Ints, slot: int, base: int, group: int, is_pinned: bool
) -> None:
    """Fill section CHOSEN with the nodes that the job would be given after that group of ends."""
    chosen, fitting, table = section(work, CHOSEN), section(work, FITTING), section(work, TABLE)
    if is_pinned:
        copy_into(section(work, WANTED), chosen)
        return
    live, words = section(state, LIVE), site[SITE_WORDS]
    usable = section(work, USABLE)
    for w in range(words):
        fitting[w] = usable[w] & table[base + group * words + w]
    need, gpus = live[slot * RECORD + NODES], live[slot * RECORD + GPUS]
    if live[slot * RECORD + WHOLE]:
        choose_by_name(site, fitting, section(site, CAPACITY_CPUS), False, need, chosen)
    elif group == 0 or should_count_alike(site, gpus):
        # If nodes count alike, the free CPUs do not matter.
        alike = should_count_alike(site, gpus)
        choose_by_name(site, fitting, section(state, NODE_CPUS), alike, need, chosen)
    else:
        compute_nodes_after_group(state, site, work, group)
        choose_by_name(site, fitting, section(work, THEN_CPUS), False, need, chosen)


@inline_kernel
def find_start_group(
    state: Ints, site: Ints, work: Ints, usable: Ints, slot: int, base: int, is_pinned: bool
) -> int:
    """Return the first tested group of ends after which enough usable nodes fit; 0: now; NONE:
    there is none."""
    words, need = usable.size, section(state, LIVE)[slot * RECORD + NODES]
    table = section(work, TABLE)
    rows = cut(table, base, table.size)
    if has_enough_nodes(work, usable, cut(rows, 0, words), need, is_pinned):
        return 0
    ensure_later_rows(state, site, work, slot, base)
    last = (work[GROUPS] - 1) * words
    if not has_enough_nodes(work, usable, cut(rows, last, last + words), need, is_pinned):
        return NONE
    return find_first_group(state, work, usable, rows, section(work, GROUP_END), need, is_pinned)


@inline_kernel
def find_hindrance(
    bits: Ints, stride: int, ready: Ints, remaining: Ints, first: int, end_map: int, need: int
) -> tuple[int, int]:
    """Return the last map of [first, end_map) that, together with the maps after it, leaves too few
    nodes, and how many it leaves; NONE: all maps together leave enough.

    `remaining` must hold the nodes that fit once the running jobs have ended. It is overwritten.
    """
    for w in range(remaining.size):
        remaining[w] &= ready[w]
    for m in range(end_map - 1, first - 1, -1):
        for w in range(remaining.size):
            remaining[w] &= bits[w * stride + m]
        count = count_shared_nodes(remaining, remaining)
        if count < need:
            return m, count
    return NONE, 0


@inline_kernel
def plan_start(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """Return the job's planned start, and fill CHOSEN with its nodes; NEVER: there is no plan.

    WANTED must hold the job's node list.
    """
    live, ends, words = section(state, LIVE), section(work, GROUP_END), site[SITE_WORDS]
    begins, bits, gains = section(work, MAP_AT), section(work, MAP_BITS), section(work, MAP_GAINS)
    usable, remaining, maps = section(work, USABLE), section(work, FITTING), work[MAPS]
    now, limit, need = state[NOW], live[slot * RECORD + LIMIT], live[slot * RECORD + NODES]
    offset = live[slot * RECORD + PARTITION] * words
    ready = cut(section(work, READY), offset, offset + words)
    is_pinned, base = live[slot * RECORD + PIN] != NONE, get_table_start(state, site, work, slot)
    begin, m = now, 0
    while begin < FAR:
        m = find_map_at(begins, maps, m, begin)
        end_map = find_map_behind(begins, maps, m, begin + limit)
        fill_unpromised_nodes(bits, begins.size, ready, m, end_map, usable)
        if site[SITE_RESERVATIONS]:
            remove_reserved_nodes(site, begin, begin + limit, usable)
        group = find_start_group(state, site, work, usable, slot, base, is_pinned)
        if group == 0 and begin == now:
            choose_nodes_after_group(state, site, work, slot, base, group, is_pinned)
            return now
        later = find_gain_after(begins, gains, maps, m, begin + limit)
        if group == NONE:
            begin = later
            latest = base + (work[GROUPS] - 1) * words
            copy_into(cut(section(work, TABLE), latest, latest + words), remaining)
            hindrance, _ = find_hindrance(bits, begins.size, ready, remaining, m, end_map, need)
            clear_from = begins[hindrance + 1] if hindrance != NONE else 0
            while begin < clear_from:
                m = find_map_at(begins, maps, m, begin)
                begin = find_gain_after(begins, gains, maps, m, begin + limit)
            continue
        start = max(ends[group], begin)
        if start > later:
            begin = later
            continue
        if start > now + site[SITE_BF_WINDOW]:
            return NEVER
        choose_nodes_after_group(state, site, work, slot, base, group, is_pinned)
        if is_free_of_plans(site, work, start, start + limit):
            return start
        begin = start if start > begin else later
    return NEVER


@inline_kernel
def is_hopeless(state: Ints, work: Ints, slot: int) -> bool:
    """Return whether `note_hopeless` has found that the job cannot be planned in this pass."""
    live = section(state, LIVE)
    form = live[slot * RECORD + FORM]
    return bool(
        form != NONE
        and section(work, HOPELESS_STAMP)[form] == work[STAMP]
        and live[slot * RECORD + NODES] >= section(work, HOPELESS)[form]
    )


@kernel
def note_hopeless(state: Ints, site: Ints, work: Ints, slot: int) -> None:
    """Note that jobs like this one, which has no plan, cannot be planned in this pass, if the
    reason is too few nodes.

    A plan takes nodes that are in all maps from its begin to its end, and that fit when all running
    jobs that end within the window have ended. A pass only promises and allocates nodes, so too few
    nodes stay too few.
    """
    live, words, maps = section(state, LIVE), site[SITE_WORDS], work[MAPS]
    begins, bits, remaining = section(work, MAP_AT), section(work, MAP_BITS), section(work, FITTING)
    now, limit, need = state[NOW], live[slot * RECORD + LIMIT], live[slot * RECORD + NODES]
    form, offset = live[slot * RECORD + FORM], live[slot * RECORD + PARTITION] * words
    m = find_map_at(begins, maps, 0, now)
    # With reservations a search may go beyond the maps, so nothing can be concluded.
    if form == NONE or site[SITE_RESERVATIONS] or m == maps:
        return
    ready, base = (
        cut(section(work, READY), offset, offset + words),
        get_table_start(state, site, work, slot),
    )
    ensure_later_rows(state, site, work, slot, base)
    last = now + site[SITE_BF_WINDOW]
    row = base + (find_place_beyond(section(work, GROUP_END), work[GROUPS], last) - 1) * words
    most_nodes = 0
    while m < maps:
        end_map = find_map_behind(begins, maps, m, max(begins[m], now) + limit)
        copy_into(cut(section(work, TABLE), row, row + words), remaining)
        m, count = find_hindrance(bits, begins.size, ready, remaining, m, end_map, need)
        if m == NONE:
            return
        most_nodes = max(most_nodes, count)
        m += 1
    section(work, HOPELESS_STAMP)[form], section(work, HOPELESS)[form] = work[STAMP], most_nodes + 1
