"""Converts the simulator's numbers to Slurm's text: jobs, nodes, dependency lists."""

from collections.abc import Sequence

from mirage.domain.job import Job, JobId, JobState, place_instants
from mirage.domain.snapshot import Node
from mirage.errors import ClusterRefused, MalformedText
from mirage.simulator.dependency_text import (
    DependencyList,
    format_dependency_list,
    parse_dependency_list,
)
from mirage.simulator.types import (
    DEFAULT_QOS,
    JobRecord,
    Outage,
    Params,
    Partition,
    SelectType,
    SimJob,
)

_FIRST_UID = 10001
_ACCOUNT = "sim"
"""The account of jobs that name none."""


class SlurmTranslator:
    """The names of one simulated cluster's nodes, partitions and users."""

    def __init__(self, params: Params) -> None:
        self._params = params
        width = len(str(params.nodes))
        self._names = [f"{params.name}{i + 1:0{width}}" for i in range(params.nodes)]
        self._numbers = {name: i for i, name in enumerate(self._names)}
        self._capacities = _list_capacities(params)
        self._partitions = {p.name: p for p in params.partitions}
        self._default_partition = params.partitions[0]
        self._partitions_of_node = [
            tuple(p.name for p in params.partitions if not p.nodes or i in set(p.nodes))
            for i in range(params.nodes)
        ]
        self._uids: dict[str, int] = {}

    def get_uid(self, user: str) -> int:
        return self._uids.setdefault(user, _FIRST_UID + len(self._uids))

    def get_node_number(self, name: str) -> int:
        """Return the number of the node. Raises ClusterRefused for an unknown name."""
        if name not in self._numbers:
            raise ClusterRefused(f"Invalid node name specified: {name}")
        return self._numbers[name]

    def parse_node_list(self, node_list: str) -> tuple[int, ...]:
        """Return the numbers of nodes, ascending. `node_list` is names with commas, as in
        `Job.node_list` here."""
        return tuple(sorted({self.get_node_number(name) for name in node_list.split(",")}))

    def format_node_list(self, nodes: Sequence[int]) -> str:
        """Format numbers as `parse_node_list` reads them, in the order of `build_nodes`."""
        return ",".join(self._names[i] for i in nodes)

    def parse_dependency(self, dependency: str) -> DependencyList:
        """Parse the list. Raises ClusterRefused for what the simulator does not have."""
        try:
            return parse_dependency_list(dependency)
        except MalformedText as error:
            raise ClusterRefused(f"Job dependency problem: {dependency!r}") from error

    def build_job(self, record: JobRecord, *, planned: int | None, reason: str) -> Job:
        """Build the job. `planned` is the start that backfill plans for it."""
        job = record.job
        cpus, gpus = self._count_resources(record)
        pending = record.state is JobState.PENDING
        node_list = self.format_node_list(record.allocated)
        instants = place_instants(record.state, record.start, record.end, node_list)
        if record.start is None:
            instants["planned_start"] = planned
        elif record.state is JobState.RUNNING and record.end is None:
            instants["expected_end"] = record.start + job.time_limit_s
        return Job(
            job_id=JobId(record.job_id),
            submit=record.submit,
            state=record.state,
            user=job.user,
            uid=self.get_uid(job.user),
            account=job.account or _ACCOUNT,
            partition=job.partition or self._default_partition.name,
            qos=job.qos or (self._params.qos[0].name if self._params.qos else DEFAULT_QOS),
            name=job.name,
            reason=reason,
            priority=record.priority if pending else None,
            eligible=record.eligible,
            **instants,
            time_limit_s=job.time_limit_s,
            nodes=job.nodes,
            cpus=cpus,
            gpus=gpus,
            exit_code=_format_exit_code(record.state),
            dependency=format_dependency_list(
                record.dependencies, any_dependency=record.any_dependency
            ),
            node_list=node_list,
            comment=job.comment,
        )

    def build_nodes(self, uses: Sequence[tuple[int, int, Outage]]) -> tuple[Node, ...]:
        """Build all nodes. `uses` has the used CPUs and GPUs of each node, and its last outage."""
        return tuple(
            Node(
                name=self._names[i],
                partitions=self._partitions_of_node[i],
                state=_format_node_state(cpus_used, self._capacities[i][0], outage),
                cpus=self._capacities[i][0],
                cpus_used=cpus_used,
                gpus=self._capacities[i][1],
                gpus_used=gpus_used,
            )
            for i, (cpus_used, gpus_used, outage) in enumerate(uses)
        )

    def _count_resources(self, record: JobRecord) -> tuple[int, int]:
        """Return the job's CPUs and GPUs or, without nodes yet, those it would have on equal
        nodes."""
        job = record.job
        if not self._is_whole_node(job):
            return job.nodes * max(job.cpus, 1), job.nodes * job.gpus
        nodes = self.get_partition(job).nodes
        nodes_used = record.allocated or (nodes[0] if nodes else 0,) * job.nodes
        return sum(self._capacities[i][0] for i in nodes_used), sum(
            self._capacities[i][1] for i in nodes_used
        )

    def _is_whole_node(self, job: SimJob) -> bool:
        linear = self._params.select_type is SelectType.LINEAR
        return linear or job.exclusive or self.get_partition(job).exclusive

    def get_partition(self, job: SimJob) -> Partition:
        """Return the partition of the job, or the default one if the job names none."""
        return self._partitions.get(job.partition, self._default_partition)


def _list_capacities(params: Params) -> list[tuple[int, int]]:
    """Return the CPUs and GPUs of each node."""
    if not params.node_groups:
        return [(params.cpus_per_node, params.gpus_per_node)] * params.nodes
    return [(g.cpus, g.gpus) for g in params.node_groups for _ in range(g.count)]


def _format_exit_code(state: JobState) -> str:
    if not state.has_ended:
        return ""
    return "1:0" if state is JobState.FAILED else "0:0"


def _format_node_state(cpus_used: int, cpus: int, outage: Outage) -> str:
    """Return sinfo's state."""
    if outage is Outage.DOWN:
        return "down"
    if outage is Outage.DRAIN:
        return "draining" if cpus_used else "drained"
    if not cpus_used:
        return "idle"
    return "allocated" if cpus_used >= cpus else "mixed"
