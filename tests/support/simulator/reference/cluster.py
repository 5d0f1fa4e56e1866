"""Nodes, partitions and jobs as the reference sees them, and free nodes (sections 2 and 5)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mirage.domain.job import JobState
from mirage.simulator.types import Dependency, Outage, Params, Partition, Qos, SelectType, SimJob


@dataclass
class Node:
    """One node; `outage` RESUME: it is up."""

    number: int
    cpus: int
    memory_mib: int
    gpus: int
    outage: Outage = Outage.RESUME

    @property
    def up(self) -> bool:
        return self.outage is Outage.RESUME


@dataclass
class Entry:
    """A job that has arrived."""

    job: SimJob
    submit: int
    partition: Partition
    qos: Qos
    whole: bool
    pinned: tuple[int, ...]
    held: bool
    not_before: int
    cancel_at: int | None
    unmet: list[Dependency] = field(default_factory=list)
    any_of: bool = False
    state: JobState = JobState.PENDING
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    allocated: tuple[int, ...] = ()
    given_static: int | None = None
    over_time_s: int = 0

    @property
    def job_id(self) -> int:
        return self.job.job_id

    @property
    def cpus(self) -> int:
        return self.job.cpus or 1

    @property
    def end_by_limit(self) -> int:
        assert self.start is not None
        return self.start + self.job.time_limit_s

    @property
    def real_end(self) -> int:
        assert self.start is not None
        return self.start + min(self.job.run_s, self.job.time_limit_s + self.over_time_s)


@dataclass
class Room:
    """The CPUs, memory and GPUs that one node has left."""

    cpus: int
    memory_mib: int
    gpus: int
    jobs: int = 0
    held_whole: bool = False


def nodes_of(params: Params) -> list[Node]:
    """The cluster's nodes, all up."""
    if not params.node_groups:
        size = (params.cpus_per_node, params.memory_mib_per_node, params.gpus_per_node)
        return [Node(i, *size) for i in range(params.nodes)]
    sizes = [(g.cpus, g.memory_mib, g.gpus) for g in params.node_groups for _ in range(g.count)]
    return [Node(i, *size) for i, size in enumerate(sizes)]


def numbers_of(params: Params, partition: Partition) -> tuple[int, ...]:
    """The node numbers of a partition."""
    return partition.nodes or tuple(range(params.nodes))


def qos_of(params: Params) -> tuple[Qos, ...]:
    return params.qos or (Qos(max_jobs_pu=params.max_jobs_pu),)


def is_whole(params: Params, partition: Partition, job: SimJob) -> bool:
    return params.select_type is SelectType.LINEAR or job.exclusive or partition.exclusive


def large_enough(node: Node, job: SimJob) -> bool:
    """Whether the node, empty, has what the job asks of each node."""
    memory = node.memory_mib == 0 or node.memory_mib >= job.memory_mib
    return node.cpus >= job.cpus and memory and node.gpus >= job.gpus


def rooms_of(nodes: list[Node], running: Iterable[Entry]) -> list[Room]:
    """Return the room that every node has left beside those jobs."""
    rooms = [Room(n.cpus, n.memory_mib, n.gpus) for n in nodes]
    for entry in running:
        for number in entry.allocated:
            room = rooms[number]
            room.jobs += 1
            room.held_whole |= entry.whole
            room.cpus -= entry.cpus
            room.memory_mib -= entry.job.memory_mib
            room.gpus -= entry.job.gpus
    return rooms


def fits(node: Node, room: Room, entry: Entry) -> bool:
    """Return whether the job fits the node (section 5); outages and reservations do not count."""
    if entry.whole:
        return room.jobs == 0 and large_enough(node, entry.job)
    job = entry.job
    memory = node.memory_mib == 0 or room.memory_mib >= job.memory_mib
    return not room.held_whole and room.cpus >= entry.cpus and memory and room.gpus >= job.gpus


def meets(begin: int, end: int, other_begin: int, other_end: int) -> bool:
    """Whether two half-open spans have a second in common."""
    return begin < other_end and other_begin < end


def reserved(params: Params, begin: int, end: int) -> set[int]:
    """Nodes that a job of [begin, end) may not take."""
    nodes: set[int] = set()
    for r in params.reservations:
        if meets(begin, end, r.start, r.end):
            nodes |= set(r.nodes or range(params.nodes))
    return nodes
