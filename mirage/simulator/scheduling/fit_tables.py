"""Finds the nodes that would fit a kind of job once running jobs have ended.

docs/reference/simulator.md 7 describes the method. Running jobs are taken in the order of their
ends. A *table* has one bitmap of nodes for each end. Each kind of job has one table, built when it
is first needed.
"""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import cut, inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ALLOCATED,
    CAPACITY_CPUS,
    CAPACITY_GPUS,
    CAPACITY_MEMORY,
    CELL_NEXT,
    CELL_NODE,
    CPUS,
    GPUS,
    GROUP_END,
    GROUP_LAST,
    GROUP_PIECE,
    GROUPS,
    KIND,
    KIND_STAMP,
    KIND_TABLE,
    KIND_WHOLE,
    LIVE,
    MEMORY,
    NEXT_TABLE,
    NODE_CPUS,
    NODE_GPUS,
    NODE_JOBS,
    NODE_MEMORY,
    NONE,
    NOW,
    PIECE_BITS,
    PIECE_WORD,
    PIECES_STAMP,
    RECORD,
    RUN_END,
    RUN_SLOT,
    RUNNING,
    SITE_NODES,
    SITE_UNEQUAL,
    SITE_WORDS,
    TABLE,
    TABLE_STAMP,
    TABLES,
    THEN_CPUS,
    THEN_GPUS,
    THEN_JOBS,
    THEN_MEMORY,
    WHOLE,
    copy_into,
    section,
)
from mirage.simulator.state.node_selection import (
    WORD,
    find_lowest_bit,
    get_word_index,
    has_room_for_job,
)


@kernel
def begin_groups(state: Ints, work: Ints) -> None:
    """Fill the groups: group 0 is now, and then one group for each running job, by their ends. All
    tables become void."""
    ends, group_end, last = (
        section(state, RUN_END),
        section(work, GROUP_END),
        section(work, GROUP_LAST),
    )
    soonest = state[NOW] + 1
    group_end[0], last[0] = state[NOW], 0
    for i in range(state[RUNNING]):
        group_end[i + 1] = max(ends[i], soonest)
        last[i + 1] = i + 1
    work[GROUPS] = state[RUNNING] + 1
    work[TABLE_STAMP] += 1
    work[NEXT_TABLE] = 0


@kernel
def copy_present_nodes(state: Ints, work: Ints) -> None:
    """Copy the present use of all nodes to the THEN_ sections, from which running jobs are removed
    one by one."""
    copy_into(section(state, NODE_JOBS), section(work, THEN_JOBS))
    copy_into(section(state, NODE_CPUS), section(work, THEN_CPUS))
    copy_into(section(state, NODE_MEMORY), section(work, THEN_MEMORY))
    copy_into(section(state, NODE_GPUS), section(work, THEN_GPUS))


@inline_kernel
def remove_job_from_node(
    live: Ints, site: Ints, jobs: Ints, cpus: Ints, memory: Ints, gpus: Ints, record: int, node: int
) -> None:
    """Remove the running job at `record` from this node."""
    jobs[node] -= 1
    if live[record + WHOLE]:
        cpus[node] = section(site, CAPACITY_CPUS)[node]
        memory[node] = section(site, CAPACITY_MEMORY)[node]
        gpus[node] = section(site, CAPACITY_GPUS)[node]
    else:
        cpus[node] += live[record + CPUS]
        memory[node] += live[record + MEMORY]
        gpus[node] += live[record + GPUS]


@inline_kernel
def has_room_then(
    live: Ints, jobs: Ints, cpus: Ints, memory: Ints, gpus: Ints, record: int, node: int
) -> bool:
    """Return whether one node's part of the job at `record` would fit then."""
    return (
        (not live[record + WHOLE] or jobs[node] == 0)
        and cpus[node] >= live[record + CPUS]
        and memory[node] >= live[record + MEMORY]
        and gpus[node] >= live[record + GPUS]
    )


@inline_kernel
def ensure_pieces(state: Ints, work: Ints) -> None:
    """Fill the pieces, the nodes of the running jobs, if they are not filled yet."""
    if work[PIECES_STAMP] != work[TABLE_STAMP]:
        work[PIECES_STAMP] = work[TABLE_STAMP]
        fill_pieces(state, work)


@kernel
def fill_pieces(state: Ints, work: Ints) -> None:
    """Fill the pieces. A chain lists a job's nodes word by word, so each word gives one piece."""
    live, names, nexts = section(state, LIVE), section(state, CELL_NODE), section(state, CELL_NEXT)
    firsts, slots = section(work, GROUP_PIECE), section(state, RUN_SLOT)
    words, bits = section(work, PIECE_WORD), section(work, PIECE_BITS)
    n = 0
    for i in range(state[RUNNING]):
        firsts[i + 1], last = n, NONE
        cell = live[slots[i] * RECORD + ALLOCATED]
        while cell != NONE:
            w = get_word_index(names[cell])
            if w != last:
                words[n], bits[n], last = w, 0, w
                n += 1
            bits[n - 1] |= 1 << (names[cell] - w * WORD)
            cell = nexts[cell]
    firsts[state[RUNNING] + 1] = n


@inline_kernel
def get_table_start(state: Ints, site: Ints, work: Ints, slot: int) -> int:
    """Return where the table of the job's kind begins. Its first row, the nodes that fit now, is
    filled."""
    kind = section(state, LIVE)[slot * RECORD + KIND]
    height = section(work, GROUP_END).size * site[SITE_WORDS]
    places = section(work, KIND_TABLE)
    if section(work, KIND_STAMP)[kind] != work[TABLE_STAMP]:
        assign_table(work, kind)
        fill_first_row(state, site, work, slot, places[kind] * height)
    return places[kind] * height


@kernel
def assign_table(work: Ints, kind: int) -> None:
    """Give the kind the next place for a table. If no place is left, all tables become void."""
    if work[NEXT_TABLE] == work[TABLES]:
        work[TABLE_STAMP] += 1
        work[NEXT_TABLE] = 0
    section(work, KIND_STAMP)[kind] = work[TABLE_STAMP]
    section(work, KIND_TABLE)[kind] = work[NEXT_TABLE]
    work[NEXT_TABLE] += 1


@kernel
def fill_first_row(state: Ints, site: Ints, work: Ints, slot: int, base: int) -> None:
    """Fill the first row of a table: the nodes that fit now."""
    live, table, words = section(state, LIVE), section(work, TABLE), site[SITE_WORDS]
    for w in range(words):
        first, word = w * WORD, 0
        for node in range(first, min(first + WORD, site[SITE_NODES])):
            word |= int(has_room_for_job(state, node, live, slot * RECORD)) << (node - first)
        table[base + w] = word


@inline_kernel
def ensure_later_rows(state: Ints, site: Ints, work: Ints, slot: int, base: int) -> None:
    """Fill the other rows of a table, if they are not filled yet."""
    kind = section(state, LIVE)[slot * RECORD + KIND]
    if section(work, KIND_WHOLE)[kind] != work[TABLE_STAMP]:
        section(work, KIND_WHOLE)[kind] = work[TABLE_STAMP]
        fill_later_rows(state, site, work, slot, base)


@kernel
def fill_later_rows(state: Ints, site: Ints, work: Ints, slot: int, base: int) -> None:
    """Fill the other rows of a table: the nodes that fit after each group of ends."""
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    firsts, pieces = section(work, GROUP_PIECE), section(work, PIECE_BITS)
    jobs, cpus = section(work, THEN_JOBS), section(work, THEN_CPUS)
    memory, gpus = section(work, THEN_MEMORY), section(work, THEN_GPUS)
    words, record = site[SITE_WORDS], slot * RECORD
    tables = section(work, TABLE)
    table = cut(tables, base, tables.size)
    ensure_pieces(state, work)
    copy_present_nodes(state, work)
    for g in range(1, work[GROUPS]):
        row = cut(table, g * words, (g + 1) * words)
        copy_into(cut(table, (g - 1) * words, g * words), row)
        leaving = slots[g - 1] * RECORD
        for i in range(firsts[g], firsts[g + 1]):
            w = section(work, PIECE_WORD)[i]
            # On nodes where the job fits already, a job that leaves changes nothing.
            word = pieces[i] & ~row[w]
            while word:
                node = w * WORD + find_lowest_bit(word)
                # If nodes are equal, an empty one fits every kind, so its use need not be updated.
                fits = jobs[node] == 1 and not site[SITE_UNEQUAL]
                if not fits:
                    remove_job_from_node(live, site, jobs, cpus, memory, gpus, leaving, node)
                    fits = has_room_then(live, jobs, cpus, memory, gpus, record, node)
                if fits:
                    row[w] |= word & -word
                word &= word - 1


@kernel
def compute_nodes_after_group(state: Ints, site: Ints, work: Ints, group: int) -> None:
    """Fill the THEN_ sections with the nodes' use after that group has ended."""
    live, names, nexts = section(state, LIVE), section(state, CELL_NODE), section(state, CELL_NEXT)
    jobs, cpus = section(work, THEN_JOBS), section(work, THEN_CPUS)
    memory, gpus = section(work, THEN_MEMORY), section(work, THEN_GPUS)
    slots = section(state, RUN_SLOT)
    copy_present_nodes(state, work)
    for i in range(section(work, GROUP_LAST)[group]):
        leaving = slots[i] * RECORD
        cell = live[leaving + ALLOCATED]
        while cell != NONE:
            remove_job_from_node(live, site, jobs, cpus, memory, gpus, leaving, names[cell])
            cell = nexts[cell]
