"""Plans by name as slurmctld 24.11 and later does (docs/reference/simulator.md 7, "By release").

The search for a start begins again at each instant `later`, at which nodes become free of plans. It
first tests the nodes that are free then, and ends at the next `later`.
"""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    CHOSEN,
    FAR,
    GROUP_END,
    GROUP_PIECE,
    GROUPS,
    LIMIT,
    LIVE,
    MAP_AT,
    MAP_BITS,
    MAP_GAINS,
    MAPS,
    NODES,
    NONE,
    NOW,
    PARTITION,
    PARTITION_BITS,
    PIECE_BITS,
    PIECE_WORD,
    PIN,
    READY,
    RECORD,
    RESERVATION_BITS,
    RESERVATION_SPAN,
    SITE_BF_RESOLUTION,
    SITE_BF_WINDOW,
    SITE_NODES,
    SITE_RELEASE,
    SITE_RESERVATIONS,
    SITE_WORDS,
    TABLE,
    USABLE,
    WANTED,
    WHOLE,
    section,
)
from mirage.simulator.scheduling import bitmap_backfill
from mirage.simulator.scheduling.bitmap_backfill import (
    NEVER,
    WINDOW_S,
    choose_nodes_after_group,
    count_shared_nodes,
    find_next_usable_group,
    has_enough_nodes,
    remove_reserved_nodes,
)
from mirage.simulator.scheduling.fit_tables import ensure_later_rows, ensure_pieces, get_table_start
from mirage.simulator.scheduling.node_timeline import (
    fill_unpromised_nodes,
    find_map_at,
    find_map_behind,
    find_place_beyond,
    is_free_of_plans,
)
from mirage.simulator.slurm_release import V24_11, V26_05
from mirage.simulator.state.node_selection import copy_node_list


@inline_kernel
def plan_start_by_release(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """Return the job's planned start as the site's release finds it, and fill CHOSEN with its
    nodes; NEVER: there is no plan."""
    if section(state, LIVE)[slot * RECORD + PIN] != NONE:
        copy_node_list(state, slot, section(work, WANTED))
    if site[SITE_RELEASE] >= V24_11:
        start = plan_start_2411(state, site, work, slot)
    else:
        start = bitmap_backfill.plan_start(state, site, work, slot)
    if start == NEVER:
        bitmap_backfill.note_hopeless(state, site, work, slot)
    return start


@kernel
def plan_start_2411(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """Return the planned start as 24.11 and later find it. WANTED must hold the job's node list."""
    live, words = section(state, LIVE), site[SITE_WORDS]
    begins, bits, usable = section(work, MAP_AT), section(work, MAP_BITS), section(work, USABLE)
    now, limit, maps = state[NOW], live[slot * RECORD + LIMIT], work[MAPS]
    offset = live[slot * RECORD + PARTITION] * words
    ready = cut(section(work, READY), offset, offset + words)
    base = get_table_start(state, site, work, slot)
    begin, m = now, 0
    while begin != FAR:
        if site[SITE_RESERVATIONS]:
            begin = find_unhindered_begin(state, site, work, slot, begin)
        if begin > begins[maps]:
            return NEVER
        m = find_map_at(begins, maps, m, begin)
        end_map = find_map_behind(begins, maps, m, begin + limit)
        fill_unpromised_nodes(bits, begins.size, ready, m, end_map, usable)
        if site[SITE_RESERVATIONS]:
            remove_reserved_nodes(site, begin, begin + limit, usable)
        later = find_later_begin(work, ready, m, begin + limit)
        if site[SITE_RESERVATIONS]:
            later = min(later, find_reservation_end(site, work, offset, begin, begin + limit))
        start = find_start_from(state, site, work, slot, base, begin, later)
        if start == NEVER:
            begin = later
        elif start == now or is_free_of_plans(site, work, start, start + limit):
            return start if start <= now + site[SITE_BF_WINDOW] else NEVER
        else:
            begin = start + (site[SITE_BF_RESOLUTION] if start == begin else 0)
    return NEVER


@inline_kernel
def find_later_begin(work: Ints, ready: Ints, first: int, end: int) -> int:
    """Return the next `later` of a search whose first map is `first` and whose job would end at
    `end`; FAR: there is none."""
    begins, bits, gains = section(work, MAP_AT), section(work, MAP_BITS), section(work, MAP_GAINS)
    maps = work[MAPS]
    m = first
    while m + 1 < maps:
        if gains[m] and has_new_ready_node(bits, begins.size, ready, m):
            return begins[m + 1]
        if begins[m] > end:
            return begins[m + 2] if m + 2 < maps else FAR
        m += 1
    return FAR


@kernel
def find_unhindered_begin(state: Ints, site: Ints, work: Ints, slot: int, begin: int) -> int:
    """Find the first instant from `begin` on at which no reservation hinders the job.

    A reservation hinders it by keeping every node, or one that a pinned job of whole nodes must
    have. Each such reservation sends the job to its own end.
    """
    live, wanted_nodes, words = section(state, LIVE), section(work, WANTED), site[SITE_WORDS]
    spans, reservation_bits = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    is_pinned = live[slot * RECORD + PIN] != NONE and live[slot * RECORD + WHOLE] == 1
    r = 0
    while r < site[SITE_RESERVATIONS]:
        kept_nodes = cut(reservation_bits, r * words, (r + 1) * words)
        overlaps = spans[2 * r] < begin + live[slot * RECORD + LIMIT] and spans[2 * r + 1] > begin
        if overlaps and (
            count_shared_nodes(kept_nodes, kept_nodes) == site[SITE_NODES]
            or (is_pinned and count_shared_nodes(kept_nodes, wanted_nodes) > 0)
        ):
            begin, r = spans[2 * r + 1], 0
        else:
            r += 1
    return begin


@kernel
def find_reservation_end(site: Ints, work: Ints, offset: int, begin: int, end: int) -> int:
    """Return the soonest end of a reservation from `begin` on, rounded up to the grid, plus one
    second.

    FAR if no reservation keeps a node of the partition from a job of [begin, end), or if the maps
    end before.
    """
    spans, reservation_bits = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    words, grid, begins = site[SITE_WORDS], site[SITE_BF_RESOLUTION], section(work, MAP_AT)
    members = cut(section(site, PARTITION_BITS), offset, offset + words)
    soonest, keeps_node = FAR, False
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r + 1] >= begin:
            soonest = min(soonest, spans[2 * r + 1])
        if spans[2 * r] < end and spans[2 * r + 1] > begin:
            keeps_node = (
                keeps_node
                or count_shared_nodes(cut(reservation_bits, r * words, (r + 1) * words), members)
                > 0
            )
    if not keeps_node:
        return FAR
    after_end = (soonest + grid - 1) // grid * grid + 1
    return after_end if after_end < begins[work[MAPS]] else FAR


@inline_kernel
def has_new_ready_node(bits: Ints, stride: int, ready: Ints, m: int) -> bool:
    """Return whether the map after map m has a node of `ready` that map m lacks."""
    for w in range(ready.size):  # no generators in kernels
        if ready[w] & bits[w * stride + m + 1] & ~bits[w * stride + m]:
            return True
    return False


@inline_kernel
def find_start_from(
    state: Ints, site: Ints, work: Ints, slot: int, base: int, begin: int, later: int
) -> int:
    """Return the first start in [begin, later], and fill CHOSEN with its nodes; NEVER: there is
    none."""
    live, ends, words = section(state, LIVE), section(work, GROUP_END), site[SITE_WORDS]
    usable, table, groups = section(work, USABLE), section(work, TABLE), work[GROUPS]
    rows = cut(table, base, table.size)
    need, is_pinned = live[slot * RECORD + NODES], live[slot * RECORD + PIN] != NONE
    ended_groups = 0
    if begin > state[NOW]:
        ensure_later_rows(state, site, work, slot, base)
        ended_groups = (
            find_place_beyond(ends, groups, begin if site[SITE_RELEASE] >= V26_05 else begin - 1)
            - 1
        )
    if has_enough_nodes(
        work, usable, cut(rows, ended_groups * words, (ended_groups + 1) * words), need, is_pinned
    ):
        choose_nodes_after_group(state, site, work, slot, base, ended_groups, is_pinned)
        return begin
    ensure_later_rows(state, site, work, slot, base)
    groups_until_later = find_place_beyond(ends, groups, later)
    last = (groups_until_later - 1) * words
    if groups_until_later - 1 <= ended_groups or not has_enough_nodes(
        work, usable, cut(rows, last, last + words), need, is_pinned
    ):
        return NEVER
    group = find_first_group(
        state, work, usable, rows, ended_groups, groups_until_later, need, is_pinned
    )
    choose_nodes_after_group(state, site, work, slot, base, group, is_pinned)
    if site[SITE_RELEASE] >= V26_05:
        group = find_last_holder(work, group)
    return ends[group]


@inline_kernel
def find_first_group(
    state: Ints,
    work: Ints,
    usable: Ints,
    rows: Ints,
    ended_groups: int,
    stop: int,
    need: int,
    is_pinned: bool,
) -> int:
    """Return the first tested group of ends after which enough usable nodes fit. There must be one
    before `stop`.

    Like bitmap_backfill.find_first_group, but from the group after `ended_groups` to the last one
    before `stop`.
    """
    words, groups, ends = usable.size, work[GROUPS], section(work, GROUP_END)
    ensure_pieces(state, work)
    g = find_next_usable_group(work, usable, ended_groups + 1)
    first, window, last_tested = (ends[g] // WINDOW_S + 1) * WINDOW_S, WINDOW_S, g
    while g < stop:
        last_tested = g
        if g + 1 < groups and ends[g + 1] <= first + window:
            end = min(find_place_beyond(ends, groups, first + window), stop)
            g = find_next_usable_group(work, usable, max(g + 1, end - 1))
            continue
        if has_enough_nodes(work, usable, cut(rows, g * words, (g + 1) * words), need, is_pinned):
            return g
        while g + 1 < groups and ends[g + 1] > first + window:
            window *= 2
        g = find_next_usable_group(work, usable, g + 1)
    next_group = find_next_usable_group(work, usable, last_tested + 1)
    while next_group < stop:
        last_tested = next_group
        next_group = find_next_usable_group(work, usable, last_tested + 1)
    return last_tested


@inline_kernel
def find_last_holder(work: Ints, group: int) -> int:
    """Return the last group up to this one whose job has one of the chosen nodes."""
    firsts, words, bits = (
        section(work, GROUP_PIECE),
        section(work, PIECE_WORD),
        section(work, PIECE_BITS),
    )
    chosen = section(work, CHOSEN)
    for g in range(group, 0, -1):
        for i in range(firsts[g], firsts[g + 1]):
            if chosen[words[i]] & bits[i]:
                return g
    return group
