"""Sets what replayed jobs ask of their nodes, with assumptions for what the log does not have.

A job without GPUs or CPUs in the log would fit beside any other job, and nobody would wait. So such
jobs of a partition are replayed with whole nodes, if the log agrees: its jobs there never used more
nodes at once than the partition has.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.domain.job import Job
from mirage.simulator.packing.packed_params import list_node_groups, list_partition_nodes
from mirage.simulator.types import Params, Partition, SelectType, SimJob

NO_MEMORY = "no memory in the log: none is asked"
NO_CPUS = "no CPUs in the row: one on each node is asked"
NO_CPUS_WHOLE = "no CPUs in the row: taken as whole nodes"
NO_GPUS = "no GPUs in the log: none is asked, for its jobs shared nodes"
UNREAD_GPUS = "GPUs of the row do not read: none is asked, for jobs of the log shared nodes"
UNREAD_GPUS_WHOLE = "GPUs of the row do not read: taken as whole nodes"
NO_GPUS_WHOLE = "no GPUs in the log: taken as whole nodes"

JobPair = tuple[SimJob, Job]
"""A job as it is replayed, and as the log has it."""


def set_resources(
    pairs: Sequence[JobPair], params: Params, record_assumption: Callable[[str, Job], None]
) -> list[JobPair]:
    """Return the jobs with the CPUs, memory (MiB) and GPUs that they ask of each node.

    `record_assumption` is called with each assumption and its job. Under select/linear the pairs
    are returned unchanged, since only nodes count there.
    """
    if params.select_type is not SelectType.CONS_TRES:
        return list(pairs)
    log = _LogResources.from_jobs(pairs, params)
    counts_memory = _should_count_memory(params)
    with_resources = []
    for sim, job in pairs:
        gpus = -(-job.gpus // job.nodes) if job.gpus else 0
        resolved = replace(sim, cpus=-(-job.cpus // job.nodes), gpus=gpus)
        if not has_whole_nodes(resolved, params):
            resolved = log.fill_unknown(resolved, job, record_assumption)
        if counts_memory:
            if not job.memory_mib:
                record_assumption(NO_MEMORY, job)
            resolved = replace(resolved, memory_mib=-(-job.memory_mib // job.nodes))
        with_resources.append((resolved, job))
    return with_resources


def has_whole_nodes(job: SimJob, params: Params) -> bool:
    """Return whether the job is given whole nodes."""
    if params.select_type is not SelectType.CONS_TRES or job.exclusive:
        return True
    return get_partition(job, params).exclusive


def get_partition(job: SimJob, params: Params) -> Partition:
    """Return the job's partition, or the default one if the job names none."""
    matches = (p for p in params.partitions if p.name == job.partition)
    return next(matches, params.partitions[0])


@dataclass(frozen=True, slots=True)
class _LogResources:
    params: Params
    has_gpus: bool
    """Whether any job of the log has GPUs."""
    gpu_partitions: frozenset[str]
    """The partitions whose nodes have GPUs."""
    whole_node_partitions: frozenset[str]
    """The partitions whose jobs never used more nodes at once than the partition has."""

    @classmethod
    def from_jobs(cls, pairs: Sequence[JobPair], params: Params) -> "_LogResources":
        by_partition: dict[str, list[Job]] = defaultdict(list)
        for sim, job in pairs:
            by_partition[get_partition(sim, params).name].append(job)
        gpus = [group.gpus for group in list_node_groups(params) for _ in range(group.count)]
        members = {p.name: list_partition_nodes(params, p) for p in params.partitions}
        return cls(
            params=params,
            has_gpus=any(job.gpus for _, job in pairs),
            gpu_partitions=frozenset(
                name for name, nodes in members.items() if any(gpus[node] for node in nodes)
            ),
            whole_node_partitions=frozenset(
                name
                for name, jobs in by_partition.items()
                if _count_busiest_nodes(jobs) <= len(members[name])
            ),
        )

    def fill_unknown(
        self, sim: SimJob, job: Job, record_assumption: Callable[[str, Job], None]
    ) -> SimJob:
        """Return the job, with whole nodes if the log lacks its request and the partition allows
        it."""
        name = get_partition(sim, self.params).name
        is_unread = job.gpus is None
        lacks_gpus = (is_unread or not self.has_gpus) and name in self.gpu_partitions
        lacks_cpus = not job.cpus
        # A known number of GPUs limits the sharing of nodes more than the number of CPUs does.
        takes_whole_nodes = (
            lacks_gpus or (lacks_cpus and not job.gpus)
        ) and name in self.whole_node_partitions
        if lacks_gpus:
            reasons = (UNREAD_GPUS, UNREAD_GPUS_WHOLE) if is_unread else (NO_GPUS, NO_GPUS_WHOLE)
            record_assumption(reasons[takes_whole_nodes], job)
        if lacks_cpus:
            record_assumption(NO_CPUS_WHOLE if takes_whole_nodes else NO_CPUS, job)
        return replace(sim, exclusive=takes_whole_nodes)


def _count_busiest_nodes(jobs: Sequence[Job]) -> int:
    """Return the most nodes that the jobs had at once, if no two jobs share a node."""
    spans = np.array(list(_iter_spans(jobs)), np.int64).reshape(-1, 3)
    start, end, nodes = spans.T
    instants, changes = np.concatenate([end, start]), np.concatenate([-nodes, nodes])
    # At one instant ends come first: np.lexsort sorts by its last key, then by the one before.
    return int(np.cumsum(changes[np.lexsort((changes, instants))]).max(initial=0))


def _iter_spans(jobs: Sequence[Job]) -> Iterator[tuple[int, int, int]]:
    latest = max((job.end or job.start or 0 for job in jobs), default=0)
    for job in jobs:
        if job.start is not None:
            end = job.end or job.start + (job.elapsed_s or latest)
            yield job.start, end, job.nodes


def _should_count_memory(params: Params) -> bool:
    has_limits = any(q.max_memory_mib_pu for q in params.qos)
    return has_limits or any(group.memory_mib for group in list_node_groups(params))
