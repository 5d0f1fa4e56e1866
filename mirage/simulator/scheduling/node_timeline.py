"""Maps: spans of time, each with the nodes that no plan has taken in it
(docs/reference/simulator.md 7, "By name").

Map m covers [begins[m], begins[m + 1]). Two maps in a row are never equal.
"""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    CHOSEN,
    FAR,
    MAP_AT,
    MAP_BITS,
    MAP_GAINS,
    MAPS,
    NOW,
    PARTITION_BITS,
    READY,
    RESERVATION_BITS,
    RESERVATION_SPAN,
    SITE_BF_RESOLUTION,
    SITE_BF_WINDOW,
    SITE_RELEASE,
    SITE_RESERVATIONS,
    SITE_WORDS,
    UP_BITS,
    section,
)
from mirage.simulator.slurm_release import V24_11


@kernel
def begin_maps(state: Ints, site: Ints, work: Ints) -> None:
    """Begin with one map of all nodes that are up. Before 24.11 it is also cut at the
    reservations."""
    begins, bits, up_nodes = section(work, MAP_AT), section(work, MAP_BITS), section(state, UP_BITS)
    ready, members = section(work, READY), section(site, PARTITION_BITS)
    words, now, grid = site[SITE_WORDS], state[NOW], site[SITE_BF_RESOLUTION]
    begins[0], begins[1] = now // grid * grid, now + site[SITE_BF_WINDOW]
    for w in range(words):
        bits[w * begins.size] = up_nodes[w]
    for i in range(members.size):
        ready[i] = members[i] & up_nodes[i % words]
    work[MAPS] = 1
    section(work, MAP_GAINS)[0] = 0
    if site[SITE_RELEASE] >= V24_11:
        begins[1] = begins[1] // grid * grid
        return
    spans, reservation_bits = section(site, RESERVATION_SPAN), section(site, RESERVATION_BITS)
    for r in range(site[SITE_RESERVATIONS]):
        if spans[2 * r + 1] > now:
            remove_nodes(
                site, work, max(spans[2 * r], now), spans[2 * r + 1],
                cut(reservation_bits, r * words, (r + 1) * words),
            )  # fmt: skip


@kernel
def remove_nodes(site: Ints, work: Ints, begin: int, end: int, nodes: Ints) -> None:
    """Remove `nodes` from the maps in [begin, end)."""
    begins, bits, words = section(work, MAP_AT), section(work, MAP_BITS), site[SITE_WORDS]
    begin, end = max(begin, begins[0]), min(end, begins[work[MAPS]])
    if begin >= end:
        return
    first = split_map(work, words, begin)
    end_map = split_map(work, words, end)
    for w in range(words):
        row = w * begins.size
        for m in range(first, end_map):
            bits[row + m] &= ~nodes[w]
    if site[SITE_RELEASE] >= V24_11:
        merge_equal_map(work, words, first, end_map)
        return
    # Two neighbouring maps may have become equal, since both lost the nodes by which they differed.
    for m in range(min(end_map, work[MAPS] - 1), max(first, 1) - 1, -1):
        if has_new_node(bits, begins.size, m - 1, m) or has_new_node(bits, begins.size, m, m - 1):
            continue
        shift_maps(work, words, m + 1, -1)
    mark_gains(work, max(first - 1, 0), min(end_map + 1, work[MAPS]))


@kernel
def merge_equal_map(work: Ints, words: int, first: int, end_map: int) -> None:
    """Merge the first map around [first, end_map) that equals the one before it into that one.

    No other map is merged.
    """
    begins, bits = section(work, MAP_AT), section(work, MAP_BITS)
    for m in range(max(first - 1, 1), min(end_map + 1, work[MAPS])):
        if not has_new_node(bits, begins.size, m - 1, m) and not has_new_node(
            bits, begins.size, m, m - 1
        ):
            shift_maps(work, words, m + 1, -1)
            break
    mark_gains(work, max(first - 2, 0), min(end_map + 1, work[MAPS]))


@kernel
def split_map(work: Ints, words: int, instant: int) -> int:
    """Return the map that begins at `instant`. If there is none, a map is split there."""
    begins, bits = section(work, MAP_AT), section(work, MAP_BITS)
    m = find_place_beyond(begins, work[MAPS] + 1, instant - 1)
    m = 0 if begins[0] == instant else m
    if begins[m] == instant:
        return m
    shift_maps(work, words, m, 1)
    begins[m] = instant
    for w in range(words):
        bits[w * begins.size + m] = bits[w * begins.size + m - 1]
    return m


@kernel
def shift_maps(work: Ints, words: int, first: int, shift: int) -> None:
    """Move the maps from `first` on by one place; `shift` is 1 or -1."""
    begins, bits, maps = section(work, MAP_AT), section(work, MAP_BITS), work[MAPS]
    work[MAPS] = maps + shift
    move_slice(begins, first, maps + 1, shift)
    move_slice(section(work, MAP_GAINS), first, maps, shift)
    for w in range(words):
        move_slice(bits, w * begins.size + first, w * begins.size + maps, shift)


@inline_kernel
def move_slice(values: Ints, first: int, end: int, shift: int) -> None:
    """Move the values of [first, end) by one place; `shift` is 1 or -1."""
    if shift > 0:
        for i in range(end - 1, first - 1, -1):
            values[i + 1] = values[i]
    else:
        for i in range(first, end):
            values[i - 1] = values[i]


@inline_kernel
def has_new_node(bits: Ints, stride: int, m: int, n: int) -> bool:
    """Return whether map n has a node that map m lacks."""
    for row in range(0, bits.size, stride):  # noqa: SIM110 no generators in kernels
        if bits[row + n] & ~bits[row + m]:
            return True
    return False


@inline_kernel
def mark_gains(work: Ints, first: int, end: int) -> None:
    """Fill section MAP_GAINS for the maps [first, end)."""
    gains, bits, stride = (
        section(work, MAP_GAINS),
        section(work, MAP_BITS),
        section(work, MAP_AT).size,
    )
    for m in range(first, end):
        gains[m] = int(m + 1 < work[MAPS] and has_new_node(bits, stride, m, m + 1))


@inline_kernel
def find_place_beyond(instants: Ints, n: int, instant: int) -> int:
    """Return the first place, from 1 on, of ascending instants that is after `instant`; n: there
    is none."""
    low, high = 1, n
    while low < high:
        middle = (low + high) >> 1
        if instants[middle] > instant:
            high = middle
        else:
            low = middle + 1
    return low


@inline_kernel
def find_map_at(begins: Ints, maps: int, m: int, instant: int) -> int:
    """Return the first map from m on that ends after `instant`; `maps`: there is none."""
    while m < maps and begins[m + 1] <= instant:
        m += 1
    return m


@inline_kernel
def find_map_behind(begins: Ints, maps: int, m: int, instant: int) -> int:
    """Return the first map from m on that begins after `instant`; `maps`: there is none."""
    while m < maps and begins[m] <= instant:
        m += 1
    return m


@inline_kernel
def find_gain_after(begins: Ints, gains: Ints, maps: int, first: int, end: int) -> int:
    """Return the next instant at which nodes become free of plans, for a search for [begin, end]
    whose first map is `first`; FAR: there is none. It is `later` of docs/reference/simulator.md 7.
    """
    m = first
    while m < maps:
        if gains[m]:
            return begins[m + 1]
        if begins[m] > end:
            return FAR
        m += 1
    return FAR


@inline_kernel
def fill_unpromised_nodes(
    bits: Ints, stride: int, ready: Ints, first: int, end_map: int, usable: Ints
) -> None:
    """Fill `usable` with the nodes of `ready` that are in all maps of [first, end_map)."""
    for w in range(ready.size):
        word = ready[w]
        for i in range(w * stride + first, w * stride + end_map):
            word &= bits[i]
        usable[w] = word


@inline_kernel
def is_free_of_plans(site: Ints, work: Ints, begin: int, end: int) -> bool:
    """Return whether section CHOSEN is in every map that meets [begin, end), both on the grid."""
    begins, bits, chosen = section(work, MAP_AT), section(work, MAP_BITS), section(work, CHOSEN)
    grid, maps = site[SITE_BF_RESOLUTION], work[MAPS]
    begin, end = begin // grid * grid, round_plan_end(site, end)
    m = find_map_at(begins, maps, 0, begin)
    while m < maps and begins[m] < end:
        for w in range(site[SITE_WORDS]):
            if chosen[w] & ~bits[w * begins.size + m]:
                return False
        m += 1
    return True


@kernel
def book_plan(site: Ints, work: Ints, start: int, limit: int) -> None:
    """Remove the chosen nodes from the maps for the time of the plan, on the grid."""
    grid = site[SITE_BF_RESOLUTION]
    remove_nodes(
        site, work, start // grid * grid, round_plan_end(site, start + limit), section(work, CHOSEN)
    )


@kernel
def book_running_job(state: Ints, site: Ints, work: Ints, limit: int) -> None:
    """Remove the chosen nodes of a whole-node job that has started in this pass from the maps."""
    end = round_plan_end(site, state[NOW] + limit)
    remove_nodes(site, work, section(work, MAP_AT)[0], end, section(work, CHOSEN))


@inline_kernel
def round_plan_end(site: Ints, end: int) -> int:
    """Return where a plan that ends at `end` ends in the maps."""
    grid = site[SITE_BF_RESOLUTION]
    return (end + grid - 1 if site[SITE_RELEASE] >= V24_11 else end) // grid * grid
