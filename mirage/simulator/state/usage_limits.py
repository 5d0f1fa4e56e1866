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
    record = slot * RECORD
    if (
        live[record + ARRAY_LIMIT]
        and section(state, ARRAY_USE)[live[record + ARRAY]] >= live[record + ARRAY_LIMIT]
    ):
        return True
    if not site[SITE_LIMITS]:
        return False
    use, limits = section(state, USE), section(site, QOS_LIMITS)
    use_row = live[record + USE_ROW] * USE_COLUMNS
    limit = live[record + QOS] * USE_COLUMNS
    cpus, memory, gpus = compute_tres(state, site, slot)
    return (
        use[use_row + USE_JOBS] + 1 > limits[limit + USE_JOBS]
        or use[use_row + USE_NODES] + live[record + NODES] > limits[limit + USE_NODES]
        or use[use_row + USE_CPUS] + cpus > limits[limit + USE_CPUS]
        or use[use_row + USE_MEMORY] + memory > limits[limit + USE_MEMORY]
        or use[use_row + USE_GPUS] + gpus > limits[limit + USE_GPUS]
    )


@inline_kernel
def compute_tres(state: Ints, site: Ints, slot: int) -> tuple[int, int, int]:
    """Return the CPUs, MiB and GPUs that count against the user's limits: those of the nodes that
    the job has or asks for."""
    live = section(state, LIVE)
    record = slot * RECORD
    nodes = live[record + NODES]
    if live[record + WHOLE]:
        cell = live[record + ALLOCATED] if live[record + ALLOCATED] != NONE else live[record + PIN]
        if site[SITE_UNEQUAL] and cell != NONE:
            return (
                sum_chain_capacity(state, cell, section(site, CAPACITY_CPUS)),
                sum_chain_capacity(state, cell, section(site, CAPACITY_MEMORY)),
                sum_chain_capacity(state, cell, section(site, CAPACITY_GPUS)),
            )
        least, i = section(site, PARTITION_LEAST), 3 * live[record + PARTITION]
        return nodes * least[i], nodes * least[i + 1], nodes * least[i + 2]
    return nodes * live[record + CPUS], nodes * live[record + MEMORY], nodes * live[record + GPUS]


@kernel
def has_too_many_submitted(state: Ints, site: Ints, row: int, qos: int) -> bool:
    """Return whether one more job of that user and QOS would pass MaxSubmitJobsPU."""
    if not site[SITE_LIMITS]:
        return False
    submitted = section(state, USE)[row * USE_COLUMNS + USE_SUBMITTED]
    return submitted >= section(site, QOS_LIMITS)[qos * USE_COLUMNS + USE_SUBMITTED]


@kernel
def count_submitted(state: Ints, site: Ints, slot: int, change: int) -> None:
    """Count a submitted job of the user: `change` is 1 at its submission, -1 at its end."""
    if site[SITE_LIMITS]:
        row = section(state, LIVE)[slot * RECORD + USE_ROW]
        section(state, USE)[row * USE_COLUMNS + USE_SUBMITTED] += change


@kernel
def count_running(state: Ints, site: Ints, slot: int, change: int) -> None:
    """Count a running job of the user and the array: `change` is 1 at its start, -1 at its end."""
    live = section(state, LIVE)
    record = slot * RECORD
    if live[record + ARRAY_LIMIT]:
        section(state, ARRAY_USE)[live[record + ARRAY]] += change
    if not site[SITE_LIMITS]:
        return
    use = section(state, USE)
    use_row = live[record + USE_ROW] * USE_COLUMNS
    cpus, memory, gpus = compute_tres(state, site, slot)
    use[use_row + USE_JOBS] += change
    use[use_row + USE_NODES] += live[record + NODES] * change
    use[use_row + USE_CPUS] += cpus * change
    use[use_row + USE_MEMORY] += memory * change
    use[use_row + USE_GPUS] += gpus * change


@inline_kernel
def is_skipped_for_limit(state: Ints, site: Ints, work: Ints, place: int) -> bool:
    """Return whether backfill skips the job at this place of the queue because of a limit.

    The limits are read only if the site or the job's array has any.
    """
    is_limited_array = column(state, QUEUE_MARK)[place] & MARK_ARRAY
    if is_limited_array and site[SITE_RELEASE] >= V24_11 and is_array_full(state, work, place):
        return True
    if site[SITE_LIMITS] or is_limited_array:
        return is_over_limits(state, site, column(state, QUEUE_SLOT)[place])
    return False


@kernel
def is_array_full(state: Ints, work: Ints, place: int) -> bool:
    """Return whether the array's running tasks and those planned in this pass reach its limit."""
    live, record = section(state, LIVE), column(state, QUEUE_SLOT)[place] * RECORD
    array = live[record + ARRAY]
    tasks = section(state, ARRAY_USE)[array]
    if section(work, PLANNED_STAMP)[array] == work[PASS]:
        tasks += section(work, PLANNED)[array]
    return bool(tasks >= live[record + ARRAY_LIMIT])


@inline_kernel
def count_planned(state: Ints, site: Ints, work: Ints, place: int) -> None:
    """Count a planned task of an array: the job at this place was planned, but does not start
    now."""
    if site[SITE_RELEASE] < V24_11 or not column(state, QUEUE_MARK)[place] & MARK_ARRAY:
        return
    array = section(state, LIVE)[column(state, QUEUE_SLOT)[place] * RECORD + ARRAY]
    stamps, planned = section(work, PLANNED_STAMP), section(work, PLANNED)
    if stamps[array] != work[PASS]:
        stamps[array], planned[array] = work[PASS], 0
    planned[array] += 1


@inline_kernel
def claim_test(state: Ints, site: Ints, work: Ints, slot: int) -> bool:
    """Count one test, and return whether the user had one left in this pass (bf_max_job_user)."""
    most_tests = site[SITE_BF_USER]
    if not most_tests:
        return True
    user = section(state, LIVE)[slot * RECORD + USER]
    stamps, tests = section(work, TESTS_STAMP), section(work, TESTS)
    if stamps[user] != work[PASS]:
        stamps[user], tests[user] = work[PASS], 0
    tests[user] += 1
    return tests[user] <= most_tests
