"""Plans by number: all nodes are alike, so a plan is a step function of the number of free nodes.

docs/reference/simulator.md 7, "By number". `free[i]` nodes are free from `times[i]` until `times[i
+ 1]`; the last step has no end.
"""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ALLOCATED,
    CELL_NEXT,
    CELL_NODE,
    FAR,
    FREE,
    IDLE,
    LIVE,
    MEMO,
    MEMO_STAMP,
    NODES,
    NONE,
    NOT_UP,
    NOW,
    QUEUE_LIMIT,
    QUEUE_NODES,
    QUEUE_SHAPE,
    REACH,
    RECORD,
    RUN_END,
    RUN_SLOT,
    RUNNING,
    SITE_BF_RESOLUTION,
    SITE_BF_WINDOW,
    STAMP,
    TIMES,
    UP_BITS,
    WANTED,
    column,
    section,
    shift_back,
)
from mirage.simulator.state.node_selection import has_node

NEVER: Final = -2
"""No start within the window."""


@inline_kernel
def round_to_grid(instant: int, grid: int) -> int:
    """Round an instant up to the planning grid, in seconds."""
    return (instant + grid - 1) // grid * grid


@inline_kernel
def count_nodes_up(state: Ints, slot: int) -> int:
    """Count the nodes of a running job that others can have after it."""
    live = section(state, LIVE)
    record = slot * RECORD
    if not state[NOT_UP]:
        return live[record + NODES]
    names, nexts, up_nodes = (
        section(state, CELL_NODE),
        section(state, CELL_NEXT),
        section(state, UP_BITS),
    )
    n, cell = 0, live[record + ALLOCATED]
    while cell != NONE:
        n += has_node(up_nodes, names[cell])
        cell = nexts[cell]
    return n


@kernel
def build_profile(state: Ints, site: Ints, work: Ints) -> int:
    """Fill TIMES and FREE with the steps of free nodes from now on, by the running jobs' time
    limits. Returns the number of steps."""
    times, free = section(work, TIMES), section(work, FREE)
    ends, slots = section(state, RUN_END), section(state, RUN_SLOT)
    now, grid = state[NOW], site[SITE_BF_RESOLUTION]
    horizon = now + site[SITE_BF_WINDOW]
    times[0], free[0] = now, state[IDLE]
    n = 1
    for i in range(state[RUNNING]):
        instant = round_to_grid(max(ends[i], now + 1), grid)
        if instant >= horizon:
            break
        if instant != times[n - 1]:
            times[n], free[n] = instant, free[n - 1]
            n += 1
        free[n - 1] += count_nodes_up(state, slots[i])
    return n


@kernel
def compute_reach(work: Ints, steps: int, now: int) -> int:
    """Fill REACH[n] with the seconds for which n nodes stay free from now on. Returns the number of
    nodes that are free now."""
    times, free, longest = section(work, TIMES), section(work, FREE), section(work, REACH)
    free_nodes = free[0]
    for i in range(1, steps):
        while free_nodes > free[i]:
            longest[free_nodes] = times[i] - now
            free_nodes -= 1
        if not free_nodes:
            break
    while free_nodes > 0:
        longest[free_nodes] = FAR
        free_nodes -= 1
    return free[0]


@inline_kernel
def find_last_startable(state: Ints, work: Ints, most_nodes: int, first: int, last: int) -> int:
    """Return the last place in [first, last] whose job could start now by its number of nodes; less
    than `first`: there is none.

    Steps after now and ends of plans lie on the grid, so rounding the limit changes nothing.
    """
    longest = section(work, REACH)
    sizes, limits = column(state, QUEUE_NODES), column(state, QUEUE_LIMIT)
    while last >= first and (sizes[last] > most_nodes or limits[last] > longest[sizes[last]]):
        last -= 1
    return last


@kernel
def plan_queue_places(
    state: Ints, site: Ints, work: Ints, first: int, end: int, steps: int, earliest: int
) -> tuple[int, int, int]:
    """Reserve nodes for each job at the places [first, end) of the queue, from the first step with
    enough free nodes on, up to the first job that starts now.

    Returns the last place done, its job's start or NEVER, and the number of steps. A pass only
    reserves and only adds steps. So the search for a job of the same shape may begin at the step at
    which the last such search ended, unless that one began at an `earliest`.
    """
    times, free = section(work, TIMES), section(work, FREE)
    stamps, memos, stamp = section(work, MEMO_STAMP), section(work, MEMO), work[STAMP]
    sizes, limits = column(state, QUEUE_NODES), column(state, QUEUE_LIMIT)
    shapes, now, grid = column(state, QUEUE_SHAPE), state[NOW], site[SITE_BF_RESOLUTION]
    horizon, start = now + site[SITE_BF_WINDOW], NEVER
    for place in range(first, end):
        need, limit, shape = sizes[place], limits[place], NONE if earliest else shapes[place]
        i = find_first_step(times, steps, earliest) if earliest else 0
        if shape != NONE and stamps[shape] == stamp:
            i = memos[shape]
        i, j = find_gap(cut(times, 0, steps), free, i, need, limit)
        if shape != NONE:
            stamps[shape], memos[shape] = stamp, i
        if i == steps:
            start = NEVER
            continue
        start = times[i]
        for k in range(i, j):
            free[k] -= need
        end_on_grid = round_to_grid(start + limit, grid)
        if end_on_grid < horizon and (j == steps or times[j] != end_on_grid):
            shift_back(cut(times, j, steps + 1))
            shift_back(cut(free, j, steps + 1))
            times[j], free[j] = end_on_grid, free[j - 1] + need
            steps += 1
        if start == now:
            return place, start, steps
    return end - 1, start, steps


@inline_kernel
def find_gap(times: Ints, free: Ints, i: int, need: int, limit: int) -> tuple[int, int]:
    """Return the first steps [i, j), from step i on, that have `need` free nodes for `limit`
    seconds; (steps, steps): there are none."""
    steps = times.size
    while i < steps:
        if free[i] < need:
            i += 1
            continue
        # Steps after the first lie on the grid: rounding the end changes nothing here.
        end = times[i] + limit
        j = i + 1
        while j < steps and times[j] < end and free[j] >= need:
            j += 1
        if j == steps or times[j] >= end:
            return i, j
        i = j + 1
    return steps, steps


@inline_kernel
def find_first_step(times: Ints, steps: int, earliest: int) -> int:
    """Return the first step that does not begin before `earliest`."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < earliest:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_pinned_start(state: Ints, site: Ints, work: Ints, allocated: Ints) -> int:
    """Find when the last node of WANTED becomes free by the running jobs' time limits; 0: all are
    free. The end of the window if a node is down or was allocated in this pass (`allocated`).
    """
    wanted_nodes = section(work, WANTED)
    up_nodes = section(state, UP_BITS)
    now, grid = state[NOW], site[SITE_BF_RESOLUTION]
    horizon = now + site[SITE_BF_WINDOW]
    for w in range(wanted_nodes.size):
        if wanted_nodes[w] & ~up_nodes[w] or wanted_nodes[w] & allocated[w]:
            return horizon
    live, names, nexts = section(state, LIVE), section(state, CELL_NODE), section(state, CELL_NEXT)
    ends, slots = section(state, RUN_END), section(state, RUN_SLOT)
    for i in range(state[RUNNING] - 1, -1, -1):
        cell = live[slots[i] * RECORD + ALLOCATED]
        while cell != NONE:
            if has_node(wanted_nodes, names[cell]):
                return round_to_grid(max(ends[i], now + 1), grid)
            cell = nexts[cell]
    return 0
