"""The queue at an instant as one link sees it: plain arrays, from a live or a simulated cluster."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.snapshot import UNKNOWN, Node, Queue, compute_waits_s
from mirage.domain.timelimit import UNLIMITED
from mirage.observation import sim_columns
from mirage.observation.compute import PendingColumns, RunningColumns
from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import UserNumbers
from mirage.observation.successor_priority import (
    Rivals,
    compute_successor_points,
    estimate_fair_share,
    find_job_factor,
)
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params


@dataclass(frozen=True, slots=True)
class Capacity:
    """The nodes of the link's partition."""

    nodes: int
    up: int
    free: int
    """Nodes that are up and have no job."""
    cpus_free_share: float
    gpus_free_share: float
    """The free share of the CPUs and GPUs of nodes that are up; 0 if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQueueView:
    """The eligible and running jobs of the link's pool, and the nodes of its partition.

    The pool has the jobs of every partition that shares nodes with the link's partition. Held jobs,
    dependent jobs and the successor itself are left out.
    """

    now: int
    pending_id: Ints
    pending: PendingColumns
    running_id: Ints
    running: RunningColumns
    running_users: Ints
    """The user of every running job of the cluster, int64[n]."""
    capacity: Capacity
    max_jobs_pu: int
    """MaxJobsPU, the most running jobs of one user; 0: no limit."""
    priority: int
    """The priority that the successor would have if it were eligible now (`successor_priority`)."""
    horizon_s: int
    """How far ahead the scheduler plans (bf_window), seconds."""

    @classmethod
    def from_observed_queue(cls, observed: "ObservedQueue", link: HandoverInput) -> Self:
        """Build the view from the queue of a live Slurm or of a SimulatedCluster. The queue was
        read once for many links."""
        params, now = observed.params, observed.now
        pool = observed.get_pool(link.partition or params.partitions[0].name, link.job_id)
        share = 0
        if params.priority_weight_fairshare:
            share = estimate_fair_share(
                params, pool.rivals, observed.users.assign_number(link.user)
            )
        return cls(
            now=now,
            pending_id=pool.pending_id,
            pending=pool.rivals.pending,
            running_id=pool.running_id,
            running=pool.running,
            running_users=observed.running_users,
            capacity=pool.capacity,
            max_jobs_pu=get_max_jobs_pu(params, link.qos),
            priority=compute_successor_points(params, link, now) + share,
            horizon_s=params.bf_window_s,
        )

    @classmethod
    def from_simulator(cls, simulator: Simulator, link: HandoverInput, users: UserNumbers) -> Self:
        """Build the view from the state of a simulator."""
        params = simulator.params
        state, site = simulator.arena.state, simulator.arena.site
        user_numbers = users.map_associations(simulator.arena.names.associations)
        partition = get_partition_number(params, link.partition)
        pool = _mark_pool_partitions(params, partition)
        pending_id, pending, partitions, ages = sim_columns.gather_waiting(
            state, site, user_numbers, pool, link.job_id
        )
        running_id, running, running_users = sim_columns.gather_running(
            state, user_numbers, pool, link.job_id
        )
        share = 0
        if params.priority_weight_fairshare:
            factors = np.array([p.priority_job_factor for p in params.partitions], dtype=np.int64)
            rivals = Rivals(pending=pending, age_s=ages, factor=factors[partitions])
            share = estimate_fair_share(params, rivals, users.assign_number(link.user))
        return cls(
            now=simulator.now,
            pending_id=pending_id,
            pending=pending,
            running_id=running_id,
            running=running,
            running_users=running_users,
            capacity=Capacity(*sim_columns.gather_capacity(state, site, partition)),
            max_jobs_pu=get_max_jobs_pu(params, link.qos),
            priority=compute_successor_points(params, link, simulator.now) + share,
            horizon_s=params.bf_window_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPool:
    """The columns of one partition's pool, without one job."""

    pending_id: Ints
    rivals: Rivals
    running_id: Ints
    running: RunningColumns
    capacity: Capacity


class ObservedQueue:
    """A queue and its nodes, prepared once for all links that observe it."""

    def __init__(
        self, queue: Queue, nodes: tuple[Node, ...], params: Params, users: UserNumbers
    ) -> None:
        self.params, self.users, self.now = params, users, queue.taken_at
        self._queue, self._nodes = queue, nodes
        self._user = _assign_numbers(queue.user, users)
        eligible = (queue.eligible != UNKNOWN) & (queue.eligible <= self.now)
        self._in_line = queue.pending_mask & eligible & (queue.priority != 0)
        self.running_users = self._user[queue.running_mask]
        self._pools: dict[str, tuple[NDArray[np.bool_], PartitionPool]] = {}

    def get_pool(self, partition: str, own_id: int) -> PartitionPool:
        """Return the pool of a partition, without the job `own_id`.

        The job `own_id` is seldom eligible. If it is not, all views share one pool.
        """
        if partition not in self._pools:
            in_pool = self._in_line | self._queue.running_mask
            in_pool &= _mark_in_pool(self._queue.partition, self._nodes, partition)
            capacity = _compute_capacity(self._nodes, partition)
            self._pools[partition] = in_pool, self._gather_pool(in_pool, capacity)
        in_pool, pool = self._pools[partition]
        row = self._queue.find_row(own_id)
        if row is None or not in_pool[row]:
            return pool
        return self._gather_pool(in_pool & (self._queue.job_id != own_id), pool.capacity)

    def _gather_pool(self, in_pool: NDArray[np.bool_], capacity: Capacity) -> PartitionPool:
        queue = self._queue
        pending = np.flatnonzero(self._in_line & in_pool)
        running = np.flatnonzero(queue.running_mask & in_pool)
        waiting = PendingColumns(
            nodes=queue.nodes[pending],
            time_limit_s=_fill_missing_limits(queue.time_limit_s[pending]),
            age_s=self.now - queue.eligible[pending],
            user=self._user[pending],
            priority=queue.priority[pending],
        )
        return PartitionPool(
            pending_id=queue.job_id[pending],
            rivals=_build_rivals(queue, pending, waiting, self.params),
            running_id=queue.job_id[running],
            running=_build_running(queue, running, self._user[running]),
            capacity=capacity,
        )


def get_partition_number(params: Params, partition: str) -> int:
    """Get the number of a partition; the default partition's if the cluster file does not have
    it."""
    names = [p.name for p in params.partitions]
    return names.index(partition) if partition in names else 0


def _mark_pool_partitions(params: Params, partition: int) -> Ints:
    """Mark each partition of the cluster file: 1 if it shares nodes with `partition`."""
    if len(params.partitions) == 1:
        return np.ones(1, dtype=np.int64)
    members = [frozenset(p.nodes or range(params.nodes)) for p in params.partitions]
    return np.array([bool(members[partition] & m) for m in members], dtype=np.int64)


def _build_rivals(
    queue: Queue, rows: NDArray[np.intp], pending: PendingColumns, params: Params
) -> Rivals:
    age_from = queue.submit if params.accrue_always else queue.eligible
    factors = [find_job_factor(params, partition) for partition in queue.partition[rows]]
    return Rivals(
        pending=pending,
        age_s=queue.taken_at - age_from[rows],
        factor=np.array(factors, dtype=np.int64),
    )


def get_max_jobs_pu(params: Params, qos: str) -> int:
    """Get MaxJobsPU of the link's QOS; of the default QOS if the cluster file does not have it."""
    if not params.qos:
        return params.max_jobs_pu
    return next((q for q in params.qos if q.name == qos), params.qos[0]).max_jobs_pu


def _build_running(queue: Queue, rows: NDArray[np.intp], user: Ints) -> RunningColumns:
    start = queue.start[rows]
    return RunningColumns(
        nodes=queue.nodes[rows],
        time_limit_s=_fill_missing_limits(queue.time_limit_s[rows]),
        elapsed_s=np.maximum(queue.taken_at - start, 0),
        wait_s=compute_waits_s(start, queue.submit[rows], queue.eligible[rows]),
        user=user,
    )


def _fill_missing_limits(time_limit_s: Ints) -> Ints:
    """Replace a missing time limit by UNLIMITED."""
    return np.where(time_limit_s == UNKNOWN, UNLIMITED, time_limit_s)


def _assign_numbers(names: Iterable[str], users: UserNumbers) -> Ints:
    return np.array([users.assign_number(name) for name in names], dtype=np.int64)


def _filter_by_partition(nodes: tuple[Node, ...], partition: str) -> tuple[Node, ...]:
    """Keep the partition's nodes. If no node names the partition, keep all nodes."""
    return tuple(n for n in nodes if partition in n.partitions) or nodes


def _mark_in_pool(
    partitions: Iterable[str], nodes: tuple[Node, ...], partition: str
) -> NDArray[np.bool_]:
    """Mark each job that has a partition (one of several in `a,b`) which shares nodes with ours."""
    pool = {name for node in _filter_by_partition(nodes, partition) for name in node.partitions}
    known_partitions = {name for node in nodes for name in node.partitions}

    @cache
    def is_in_pool(job_partitions: str) -> bool:
        names = set(job_partitions.split(","))
        return bool(names & pool) or not names & known_partitions

    return _test_each(is_in_pool, partitions)


def _test_each(test: Callable[[str], bool], texts: Iterable[str]) -> NDArray[np.bool_]:
    return np.array([test(text) for text in texts], dtype=bool)


def _compute_capacity(nodes: tuple[Node, ...], partition: str) -> Capacity:
    members = _filter_by_partition(nodes, partition)
    up = [n for n in members if n.is_usable]
    return Capacity(
        nodes=len(members),
        up=len(up),
        free=sum(n.cpus_used == 0 for n in up),
        cpus_free_share=_compute_share(
            sum(n.cpus - n.cpus_used for n in up), sum(n.cpus for n in up)
        ),
        gpus_free_share=_compute_share(
            sum(n.gpus - n.gpus_used for n in up), sum(n.gpus for n in up)
        ),
    )


def _compute_share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
