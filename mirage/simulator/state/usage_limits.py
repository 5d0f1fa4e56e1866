"""Limits per user and QOS, of arrays, and of the tests in a pass (docs/reference/simulator.md 4 and
7)."""

from mirage.domain.arrays import Ints
from mirage.simulator.arrays.jit import inline_kernel, kernel
from mirage.simulator.arrays.layout import (
    ALLOCATED,
    ARRAY,
    ARRAY_LIMIT,
    ARRAY_USE,
    CAPACITY_CPUS,
    CAPACITY_GPUS,
    CAPACITY_MEMORY,
    CPUS,
    GPUS,
    LIVE,
    MARK_ARRAY,
    MEMORY,
    NODES,
    NONE,
    PARTITION,
    PARTITION_LEAST,
    PASS,
    PIN,
    PLANNED,
    PLANNED_STAMP,
    QOS,
    QOS_LIMITS,
    QUEUE_MARK,
    QUEUE_SLOT,
    RECORD,
    SITE_BF_USER,
    SITE_LIMITS,
    SITE_RELEASE,
    SITE_UNEQUAL,
    TESTS,
    TESTS_STAMP,
    USE,
    USE_COLUMNS,
    USE_CPUS,
    USE_GPUS,
    USE_JOBS,
    USE_MEMORY,
    USE_NODES,
    USE_ROW,
    USE_SUBMITTED,
    USER,
    WHOLE,
    column,
    section,
)
from mirage.simulator.slurm_release import V24_11
from mirage.simulator.state.node_selection import sum_chain_capacity


@inline_kernel
def is_over_limits(state: Ints, site: Ints, slot: int) -> bool:
    """Return whether starting this job now would take its user or its array over a limit."""
    live = section(state, LIVE)
    at = slot * RECORD
    if (
        live[at + ARRAY_LIMIT]
        and section(state, ARRAY_USE)[live[at + ARRAY]] >= live[at + ARRAY_LIMIT]
    ):
        return True
    if not site[SITE_LIMITS]:
        return False
    use, limits = section(state, USE), section(site, QOS_LIMITS)
    u = live[at + USE_ROW] * USE_COLUMNS
    most = live[at + QOS] * USE_COLUMNS
    cpus, memory, gpus = compute_tres(state, site, slot)
    return (
        use[u + USE_JOBS] + 1 > limits[most + USE_JOBS]
        or use[u + USE_NODES] + live[at + NODES] > limits[most + USE_NODES]
        or use[u + USE_CPUS] + cpus > limits[most + USE_CPUS]
        or use[u + USE_MEMORY] + memory > limits[most + USE_MEMORY]
        or use[u + USE_GPUS] + gpus > limits[most + USE_GPUS]
    )


@inline_kernel
def compute_tres(state: Ints, site: Ints, slot: int) -> tuple[int, int, int]:
    """CPUs, MiB and GPUs that the job counts with: of the nodes that it has, or asks for."""
    live = section(state, LIVE)
    at = slot * RECORD
    nodes = live[at + NODES]
    if live[at + WHOLE]:
        cell = live[at + ALLOCATED] if live[at + ALLOCATED] != NONE else live[at + PIN]
        if site[SITE_UNEQUAL] and cell != NONE:
            return (
                sum_chain_capacity(state, cell, section(site, CAPACITY_CPUS)),
                sum_chain_capacity(state, cell, section(site, CAPACITY_MEMORY)),
                sum_chain_capacity(state, cell, section(site, CAPACITY_GPUS)),
            )
        least, i = section(site, PARTITION_LEAST), 3 * live[at + PARTITION]
        return nodes * least[i], nodes * least[i + 1], nodes * least[i + 2]
    return nodes * live[at + CPUS], nodes * live[at + MEMORY], nodes * live[at + GPUS]


@kernel
def has_too_many_submitted(state: Ints, site: Ints, row: int, qos: int) -> bool:
    """Return whether one more job of that user and QOS would pass MaxSubmitJobsPU."""
    if not site[SITE_LIMITS]:
        return False
    submitted = section(state, USE)[row * USE_COLUMNS + USE_SUBMITTED]
    return submitted >= section(site, QOS_LIMITS)[qos * USE_COLUMNS + USE_SUBMITTED]


@kernel
def count_submitted(state: Ints, site: Ints, slot: int, change: int) -> None:
    """A job comes (1) or goes (-1)."""
    if site[SITE_LIMITS]:
        row = section(state, LIVE)[slot * RECORD + USE_ROW]
        section(state, USE)[row * USE_COLUMNS + USE_SUBMITTED] += change


@kernel
def count_running(state: Ints, site: Ints, slot: int, change: int) -> None:
    """A job starts (1) or stops running (-1)."""
    live = section(state, LIVE)
    at = slot * RECORD
    if live[at + ARRAY_LIMIT]:
        section(state, ARRAY_USE)[live[at + ARRAY]] += change
    if not site[SITE_LIMITS]:
        return
    use = section(state, USE)
    u = live[at + USE_ROW] * USE_COLUMNS
    cpus, memory, gpus = compute_tres(state, site, slot)
    use[u + USE_JOBS] += change
    use[u + USE_NODES] += live[at + NODES] * change
    use[u + USE_CPUS] += cpus * change
    use[u + USE_MEMORY] += memory * change
    use[u + USE_GPUS] += gpus * change


@inline_kernel
def is_skipped_for_limit(state: Ints, site: Ints, work: Ints, at: int) -> bool:
    """Return whether backfill skips the job at this place of the queue for a limit.

    It looks only where such a limit can be.
    """
    array = column(state, QUEUE_MARK)[at] & MARK_ARRAY
    if array and site[SITE_RELEASE] >= V24_11 and is_array_full(state, work, at):
        return True
    if site[SITE_LIMITS] or array:
        return is_over_limits(state, site, column(state, QUEUE_SLOT)[at])
    return False


@kernel
def is_array_full(state: Ints, work: Ints, at: int) -> bool:
    """Return whether the array's running tasks and those planned in this pass reach its limit."""
    live, slot = section(state, LIVE), column(state, QUEUE_SLOT)[at] * RECORD
    array = live[slot + ARRAY]
    tasks = section(state, ARRAY_USE)[array]
    if section(work, PLANNED_STAMP)[array] == work[PASS]:
        tasks += section(work, PLANNED)[array]
    return bool(tasks >= live[slot + ARRAY_LIMIT])


@inline_kernel
def count_planned(state: Ints, site: Ints, work: Ints, at: int) -> None:
    """The job at this place of the queue is planned in this pass, and does not start."""
    if site[SITE_RELEASE] < V24_11 or not column(state, QUEUE_MARK)[at] & MARK_ARRAY:
        return
    array = section(state, LIVE)[column(state, QUEUE_SLOT)[at] * RECORD + ARRAY]
    stamps, planned = section(work, PLANNED_STAMP), section(work, PLANNED)
    if stamps[array] != work[PASS]:
        stamps[array], planned[array] = work[PASS], 0
    planned[array] += 1


@inline_kernel
def claim_test(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Count one test, and return whether the user had one left in this pass (bf_max_job_user)."""
    most = site[SITE_BF_USER]
    if not most:
        return True
    who = section(state, LIVE)[slot * RECORD + USER]
    stamps, tests = section(work, TESTS_STAMP), section(work, TESTS)
    if stamps[who] != work[PASS]:
        stamps[who], tests[who] = work[PASS], 0
    tests[who] += 1
    return tests[who] <= most
