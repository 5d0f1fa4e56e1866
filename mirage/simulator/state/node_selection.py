"""Selects, takes and gives back the nodes of jobs (docs/reference/simulator.md 5).

A set of nodes is a bitmap with 63 nodes in a word; the sign bit is not used. The nodes of one job
are a linked chain of cells, so memory grows with the jobs and not with the machine.
"""

from typing import Final

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import count_ones, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ALLOCATED,
    CAPACITY_CPUS,
    CAPACITY_GPUS,
    CAPACITY_MEMORY,
    CELL_FREE,
    CELL_NEXT,
    CELL_NODE,
    CELLS_LEFT,
    CPUS,
    FAR,
    GPUS,
    IDLE,
    IDLE_BITS,
    LIVE,
    MEMORY,
    NODE_CPUS,
    NODE_GPUS,
    NODE_JOBS,
    NODE_MEMORY,
    NODE_STATE,
    NONE,
    PIN,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    SITE_NODES,
    SITE_RELEASE,
    SITE_SHARED,
    SITE_UNEQUAL,
    SITE_WORDS,
    UP,
    WHOLE,
    column,
    get_queue_place,
    section,
)
from mirage.simulator.slurm_release import V24_11, V26_05

WORD: Final = 63
FULL: Final = (1 << WORD) - 1
"""A word with the bits of all its nodes set."""


@inline_kernel
def find_lowest_bit(word: int) -> int:
    """Return the number of the lowest bit set in a positive word."""
    return count_ones((word & -word) - 1)


@inline_kernel
def get_word_index(node: int) -> int:
    """Return node // WORD, for numbers below 2^30. The product is faster than a signed division."""
    return (node * 0x41041042) >> 36


@inline_kernel
def has_node(bits: Ints, node: int) -> int:
    """Return 1 if the node is in the set, else 0."""
    w = get_word_index(node)
    return (bits[w] >> (node - w * WORD)) & 1


@inline_kernel
def add_node(bits: Ints, node: int) -> None:
    """Add a node to the set."""
    w = get_word_index(node)
    bits[w] |= 1 << (node - w * WORD)


@inline_kernel
def drop_node(bits: Ints, node: int) -> None:
    """Remove a node from the set."""
    w = get_word_index(node)
    bits[w] &= ~(1 << (node - w * WORD))


@kernel
def count_nodes(bits: Ints) -> int:
    """Return the number of nodes in the set."""
    n = 0
    for w in range(bits.size):
        n += count_ones(bits[w])
    return n


@inline_kernel
def push_cell(state: Ints, head: int, node: int) -> int:
    """Put a new cell with `node` before `head`, and return the new head."""
    cell = state[CELL_FREE]
    nexts = section(state, CELL_NEXT)
    state[CELL_FREE] = nexts[cell]
    state[CELLS_LEFT] -= 1
    nexts[cell] = head
    section(state, CELL_NODE)[cell] = node
    return cell


@kernel
def free_cells(state: Ints, head: int) -> None:
    """Free the cells of a chain."""
    nexts = section(state, CELL_NEXT)
    while head != NONE:
        next_cell = nexts[head]
        nexts[head] = state[CELL_FREE]
        state[CELL_FREE] = head
        state[CELLS_LEFT] += 1
        head = next_cell


@inline_kernel
def has_room_for_job(state: Ints, node: int, record: Ints, place: int) -> bool:
    """Return whether the node, up or not, has room now for one node's part of the job."""
    # `&` and not `and`: with `and` the processor would mispredict the jumps.
    return bool(
        ((record[place + WHOLE] == 0) | (section(state, NODE_JOBS)[node] == 0))
        & (section(state, NODE_CPUS)[node] >= record[place + CPUS])
        & (section(state, NODE_MEMORY)[node] >= record[place + MEMORY])
        & (section(state, NODE_GPUS)[node] >= record[place + GPUS])
    )


@kernel
def find_fitting_nodes(
    state: Ints, site: Ints, record: Ints, place: int, usable: Ints, fitting: Ints
) -> int:
    """Fill `fitting` with the usable nodes that are up and fit the job. Returns their number."""
    if record[place + WHOLE] and not site[SITE_UNEQUAL]:
        idle = section(state, IDLE_BITS)
        for w in range(site[SITE_WORDS]):
            fitting[w] = usable[w] & idle[w]
        return count_nodes(fitting)
    states = section(state, NODE_STATE)
    n = 0
    for w in range(site[SITE_WORDS]):
        word, fitting_word = usable[w], 0
        while word:
            node = w * WORD + find_lowest_bit(word)
            if states[node] == UP and has_room_for_job(state, node, record, place):
                fitting_word |= word & -word
            word &= word - 1
        fitting[w] = fitting_word
        n += count_ones(fitting_word)
    return n


@kernel
def allocate_nodes(state: Ints, site: Ints, slot: int, chosen: Ints) -> None:
    """Allocate the chosen nodes to the job."""
    idle, jobs = section(state, IDLE_BITS), section(state, NODE_JOBS)
    record = slot * RECORD
    head = NONE
    for w in range(site[SITE_WORDS] - 1, -1, -1):
        word = chosen[w]
        if not word:
            continue
        state[IDLE] -= count_ones(idle[w] & word)
        idle[w] &= ~word
        while word:
            node = w * WORD + find_lowest_bit(word)
            word &= word - 1
            head = push_cell(state, head, node)
            jobs[node] += 1
            if site[SITE_SHARED]:
                adjust_node_use(state, site, node, record, -1)
    section(state, LIVE)[record + ALLOCATED] = head


@kernel
def deallocate_nodes(state: Ints, site: Ints, slot: int) -> None:
    """Free the job's nodes."""
    live = section(state, LIVE)
    record = slot * RECORD
    nexts, names = section(state, CELL_NEXT), section(state, CELL_NODE)
    jobs, states = section(state, NODE_JOBS), section(state, NODE_STATE)
    idle = section(state, IDLE_BITS)
    cell = live[record + ALLOCATED]
    while cell != NONE:
        node = names[cell]
        jobs[node] -= 1
        if site[SITE_SHARED]:
            adjust_node_use(state, site, node, record, 1)
        if jobs[node] == 0 and states[node] == UP:
            add_node(idle, node)
            state[IDLE] += 1
        cell = nexts[cell]
    free_cells(state, live[record + ALLOCATED])
    live[record + ALLOCATED] = NONE


@inline_kernel
def adjust_node_use(state: Ints, site: Ints, node: int, record: int, change: int) -> None:
    """Let the job whose record begins at `record` take (-1) or free (1) its part of one node.

    Call it only if nodes are shared: otherwise a node's use is not counted.
    """
    live = section(state, LIVE)
    cpus, memory = section(state, NODE_CPUS), section(state, NODE_MEMORY)
    gpus = section(state, NODE_GPUS)
    if not live[record + WHOLE]:
        cpus[node] += change * live[record + CPUS]
        memory[node] += change * live[record + MEMORY]
        gpus[node] += change * live[record + GPUS]
        return
    gives_back = change > 0
    cpus[node] = section(site, CAPACITY_CPUS)[node] if gives_back else 0
    memory[node] = section(site, CAPACITY_MEMORY)[node] if gives_back else 0
    gpus[node] = section(site, CAPACITY_GPUS)[node] if gives_back else 0


@kernel
def sum_chain_capacity(state: Ints, cell: int, capacity: Ints) -> int:
    """Sum the capacity of the chain of nodes; a node that is not counted (FAR) adds nothing."""
    names, nexts = section(state, CELL_NODE), section(state, CELL_NEXT)
    n = 0
    while cell != NONE:
        if capacity[names[cell]] != FAR:
            n += capacity[names[cell]]
        cell = nexts[cell]
    return n


@kernel
def copy_node_list(state: Ints, slot: int, nodes: Ints) -> None:
    """Fill `nodes` with the job's node list, as a bitmap."""
    nodes[:] = 0
    names, nexts = section(state, CELL_NODE), section(state, CELL_NEXT)
    cell = section(state, LIVE)[slot * RECORD + PIN]
    while cell != NONE:
        add_node(nodes, names[cell])
        cell = nexts[cell]


@kernel
def collect_pinned_nodes(state: Ints, nodes: Ints) -> None:
    """Fill `nodes` with the nodes that queued pinned jobs ask for, as a bitmap."""
    nodes[:] = 0
    live, names = section(state, LIVE), section(state, CELL_NODE)
    nexts, slots = section(state, CELL_NEXT), column(state, QUEUE_SLOT)
    for k in range(state[QUEUED]):
        cell = live[slots[get_queue_place(state, k)] * RECORD + PIN]
        while cell != NONE:
            add_node(nodes, names[cell])
            cell = nexts[cell]


@kernel
def move_lowest_nodes(usable: Ints, need: int, chosen: Ints) -> int:
    """Add the lowest `need` nodes of `usable` to `chosen`. Returns how many are still missing."""
    for w in range(usable.size):
        word = usable[w]
        while word and need:
            chosen[w] |= word & -word
            word &= word - 1
            need -= 1
        if not need:
            return 0
    return need


@kernel
def choose_by_number(idle: Ints, need: int, avoided: Ints, scratch: Ints, chosen: Ints) -> None:
    """Fill `chosen` with `need` idle nodes, the lowest first, and nodes of `avoided`, which pinned
    jobs ask for, last. There must be enough idle nodes."""
    chosen[:] = 0
    if not avoided.size:
        move_lowest_nodes(idle, need, chosen)
        return
    for w in range(idle.size):
        scratch[w] = idle[w] & ~avoided[w]
    need = move_lowest_nodes(scratch, need, chosen)
    for w in range(idle.size):
        scratch[w] = idle[w] & avoided[w]
    move_lowest_nodes(scratch, need, chosen)


@inline_kernel
def should_count_alike(site: Ints, gpus: int) -> bool:
    """Return whether, for a job on shared nodes, nodes count by the CPUs that the job takes, and
    not by their free CPUs."""
    return gpus > 0 or site[SITE_RELEASE] >= V24_11


@kernel
def choose_by_name(
    site: Ints, usable: Ints, cpus: Ints, counts_alike: bool, need: int, chosen: Ints
) -> None:
    """Fill `chosen` with consecutive nodes: the tightest run that is long enough, otherwise several
    runs. There must be enough usable nodes; `usable` is changed."""
    chosen[:] = 0
    if need == 1 and site[SITE_RELEASE] >= V26_05:
        move_lowest_nodes(usable, need, chosen)
        return
    while need > 0:
        first, count = find_best_run(usable, cpus, counts_alike, need)
        take_count = min(count, need)
        move_run(usable, chosen, first, first + take_count)
        need -= take_count


@inline_kernel
def move_run(source: Ints, target: Ints, first: int, end: int) -> None:
    """Move the nodes [first, end) from one set to another."""
    for w in range(first // WORD, (end - 1) // WORD + 1):
        low, high = max(first - w * WORD, 0), min(end - w * WORD, WORD)
        run = FULL >> (WORD - high) >> low << low
        source[w] &= ~run
        target[w] |= run


@kernel
def find_best_run(usable: Ints, cpus: Ints, counts_alike: bool, need: int) -> tuple[int, int]:
    """Return first node and length of the best run: the long enough one with the fewest CPUs, or if
    none is, the one with the most CPUs.

    `counts_alike`: nodes are counted instead of CPUs, since the job takes the same on each.
    """
    best, best_count, best_cpus, best_is_enough = NONE, 0, FAR, False
    first, count = find_next_run(usable, 0)
    while count:
        is_enough, total = count >= need, count
        if counts_alike and count == need:
            return first, count
        if not counts_alike:
            total = sum_slice(cpus, first, first + count)
        if (
            best == NONE
            or (is_enough and not best_is_enough)
            or (is_enough and total < best_cpus)
            or (not is_enough and not best_is_enough and total > best_cpus)
        ):
            best, best_count, best_cpus, best_is_enough = first, count, total, is_enough
        first, count = find_next_run(usable, first + count)
    return best, best_count


@inline_kernel
def find_next_run(usable: Ints, node: int) -> tuple[int, int]:
    """Return first node and length of the first run from a node on; length 0: there is none."""
    w, words = node // WORD, usable.size
    if w == words:
        return NONE, 0
    word = usable[w] >> (node % WORD) << (node % WORD)
    while not word:
        w += 1
        if w == words:
            return NONE, 0
        word = usable[w]
    low = find_lowest_bit(word)
    count = count_ones_below(word >> low)
    end = low + count
    while end == WORD and w + 1 < words:
        w += 1
        end = count_ones_below(usable[w])
        count += end
    return w * WORD + end - count, count


@inline_kernel
def count_ones_below(word: int) -> int:
    """Return the number of bits set below the lowest bit that is not set."""
    gaps = ~word & FULL
    return find_lowest_bit(gaps) if gaps else WORD


@inline_kernel
def sum_slice(values: Ints, first: int, end: int) -> int:
    """Return the sum of values[first:end]."""
    total = 0
    for i in range(first, end):
        total += values[i]
    return total


@kernel
def is_node_list_usable(
    state: Ints, site: Ints, record: Ints, place: int, usable: Ints, wanted_nodes: Ints
) -> bool:
    """Return whether every wanted node is usable, up, and fits the job now."""
    states = section(state, NODE_STATE)
    for node in range(site[SITE_NODES]):
        if has_node(wanted_nodes, node) and not (
            has_node(usable, node)
            and states[node] == UP
            and has_room_for_job(state, node, record, place)
        ):
            return False
    return True
