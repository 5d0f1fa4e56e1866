"""Gathers the queue of a simulator's state into the columns of a view.

The functions are compiled. They read the state and the site of `mirage.simulator.arrays.layout`,
and write to neither. Of a job they read only fields that squeue shows: never its run time, its
cancellation, or its end state.
"""

import numpy as np

from mirage.domain.arrays import Ints
from mirage.observation.compute import (
    PendingColumns,
    RecentPast,
    RunningColumns,
    compute_usual_share,
)
from mirage.simulator.arrays.jit import allocating_kernel
from mirage.simulator.arrays.layout import (
    ASSOCIATION,
    CAPACITY_CPUS,
    CAPACITY_GPUS,
    ELIGIBLE,
    FAIR_VALUE,
    FRACTION_BITS,
    ID,
    LIMIT,
    LIVE,
    NODE_CPUS,
    NODE_GPUS,
    NODE_JOBS,
    NODE_STATE,
    NODES,
    NOW,
    PARTITION,
    PARTITION_BITS,
    PHASE,
    PHASE_COMING,
    PHASE_FREE,
    QUEUE_SLOT,
    QUEUED,
    RECORD,
    RUN_SLOT,
    RUNNING,
    SITE_ACCRUE,
    SITE_MAX_AGE,
    SITE_RATE,
    SITE_SHARED,
    SITE_WORDS,
    START,
    STATIC,
    SUBMIT,
    UP,
    column,
    get_queue_place,
    section,
)
from mirage.simulator.state.node_selection import has_node

NOT_THERE = -2

Waiting = tuple[Ints, PendingColumns, Ints, Ints]
Working = tuple[Ints, RunningColumns, Ints]


@allocating_kernel
def gather_waiting(state: Ints, site: Ints, user_numbers: Ints, pool: Ints, own_id: int) -> Waiting:
    """Gather the eligible jobs of the pool without the job `own_id`.

    Returns ids, columns, partitions, and the age that counts for priority (seconds).
    `user_numbers`: the user number of each association; `pool`: 1 for each partition of the pool.
    """
    live, slots = section(state, LIVE), column(state, QUEUE_SLOT)
    now, fair = state[NOW], section(state, FAIR_VALUE)
    columns = np.empty((8, state[QUEUED]), dtype=np.int64)
    n = 0
    for k in range(state[QUEUED]):
        at = slots[get_queue_place(state, k)] * RECORD
        if not pool[live[at + PARTITION]] or live[at + ID] == own_id:
            continue
        age_s = now - (live[at + SUBMIT] if site[SITE_ACCRUE] else live[at + ELIGIBLE])
        priority = live[at + STATIC] + fair[live[at + ASSOCIATION]]
        priority += site[SITE_RATE] * min(site[SITE_MAX_AGE], age_s)
        columns[0, n], columns[1, n] = live[at + ID], live[at + NODES]
        columns[2, n], columns[3, n] = live[at + LIMIT], now - live[at + ELIGIBLE]
        columns[4, n], columns[5, n] = (
            user_numbers[live[at + ASSOCIATION]],
            priority >> FRACTION_BITS,
        )
        columns[6, n], columns[7, n] = live[at + PARTITION], age_s
        n += 1
    pending = PendingColumns(
        columns[1, :n], columns[2, :n], columns[3, :n], columns[4, :n], columns[5, :n]
    )
    return columns[0, :n], pending, columns[6, :n], columns[7, :n]


@allocating_kernel
def gather_running(state: Ints, user_numbers: Ints, pool: Ints, own_id: int) -> Working:
    """Gather the running jobs of the pool without the job `own_id`.

    Returns ids, columns, and the user of each running job of the whole cluster.
    """
    live, slots = section(state, LIVE), section(state, RUN_SLOT)
    columns = np.empty((6, state[RUNNING]), dtype=np.int64)
    users = np.empty(state[RUNNING], dtype=np.int64)
    n = 0
    for i in range(state[RUNNING]):
        at = slots[i] * RECORD
        users[i] = user_numbers[live[at + ASSOCIATION]]
        if not pool[live[at + PARTITION]] or live[at + ID] == own_id:
            continue
        columns[0, n], columns[1, n], columns[2, n] = (
            live[at + ID],
            live[at + NODES],
            live[at + LIMIT],
        )
        columns[3, n] = state[NOW] - live[at + START]
        columns[4, n] = max(0, live[at + START] - live[at + ELIGIBLE])
        columns[5, n] = users[i]
        n += 1
    running = RunningColumns(
        columns[1, :n], columns[2, :n], columns[3, :n], columns[4, :n], columns[5, :n]
    )
    return columns[0, :n], running, users


@allocating_kernel
def gather_capacity(state: Ints, site: Ints, partition: int) -> tuple[int, int, int, float, float]:
    """Gather a partition's nodes, those up, those free, and the free shares of CPUs and GPUs."""
    words = site[SITE_WORDS]
    bits = section(site, PARTITION_BITS)[partition * words : (partition + 1) * words]
    node_states, jobs = section(state, NODE_STATE), section(state, NODE_JOBS)
    cpus, gpus = section(site, CAPACITY_CPUS), section(site, CAPACITY_GPUS)
    free_cpus, free_gpus = section(state, NODE_CPUS), section(state, NODE_GPUS)
    nodes, up, free = 0, 0, 0
    sums = np.zeros(4, dtype=np.int64)
    for node in range(len(node_states)):
        if not has_node(bits, node):
            continue
        nodes += 1
        if node_states[node] != UP:
            continue
        up += 1
        sums[1] += cpus[node]
        sums[3] += gpus[node]
        if jobs[node] == 0:
            free += 1
            sums[0] += cpus[node]
            sums[2] += gpus[node]
        elif site[SITE_SHARED]:
            # If all jobs take whole nodes, the simulator does not track the free part of a node.
            sums[0] += free_cpus[node]
            sums[2] += free_gpus[node]
    cpu_share = sums[0] / sums[1] if sums[1] else 0.0
    gpu_share = sums[2] / sums[3] if sums[3] else 0.0
    return nodes, up, free, cpu_share, gpu_share


@allocating_kernel
def find_eligible_and_start(state: Ints, job_id: int) -> tuple[int, int]:
    """Find the instants at which a pending or running job became eligible and started; -1: not yet.

    Both are NOT_THERE if no such job is in the queue.
    """
    live = section(state, LIVE)
    for at in range(0, len(live), RECORD):
        if live[at + ID] == job_id and live[at + PHASE] not in (PHASE_FREE, PHASE_COMING):
            return live[at + ELIGIBLE], live[at + START]
    return NOT_THERE, NOT_THERE


@allocating_kernel
def compute_usual_limits(state: Ints, user_numbers: Ints, past: RecentPast, own_id: int) -> Ints:
    """Compute the time limits of live jobs as if they ran as long as is usual for their users.

    Returns int64[slots], seconds; 0 for the job `own_id`.
    """
    live = section(state, LIVE)
    limits = np.zeros(len(live) // RECORD, dtype=np.int64)
    slots = column(state, QUEUE_SLOT)
    for k in range(state[QUEUED]):
        slot = slots[get_queue_place(state, k)]
        at = slot * RECORD
        if live[at + ID] == own_id:
            continue
        share = compute_usual_share(past, user_numbers[live[at + ASSOCIATION]])
        limits[slot] = max(1, int(share * live[at + LIMIT]))
    for slot in section(state, RUN_SLOT)[: state[RUNNING]]:
        at = slot * RECORD
        elapsed_s = state[NOW] - live[at + START]
        left_s = max(0, live[at + LIMIT] - elapsed_s)
        share = compute_usual_share(past, user_numbers[live[at + ASSOCIATION]])
        limits[slot] = max(1, elapsed_s + int(share * left_s))
    return limits
