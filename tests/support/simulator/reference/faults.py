"""Why a job is refused on arrival (section 2)."""

from mirage.simulator.types import Params, Partition, Qos, SimJob
from tests.support.simulator.reference.cluster import large_enough, nodes_of, numbers_of, qos_of


def partition_named(params: Params, name: str) -> Partition | None:
    if not name:
        return params.partitions[0]
    return next((p for p in params.partitions if p.name == name), None)


def qos_named(params: Params, name: str) -> Qos | None:
    if not name:
        return qos_of(params)[0]
    return next((q for q in qos_of(params) if q.name == name), None)


def is_faulty(params: Params, job: SimJob) -> bool:
    """Whether the job can never be accepted, whoever else is there."""
    partition = partition_named(params, job.partition)
    qos = qos_named(params, job.qos)
    if partition is None or qos is None or job.run_s < 0 or job.time_limit_s < 1:
        return True
    if 0 < partition.max_time_s < job.time_limit_s and not qos.overrides_max_time:
        return True
    numbers = numbers_of(params, partition)
    if job.nodes < 1 or job.nodes > len(numbers):
        return True
    nodes = nodes_of(params)
    if sum(large_enough(nodes[n], job) for n in numbers) < job.nodes:
        return True
    return bool(job.node_list) and is_bad_list(params, partition, job, job.node_list)


def is_bad_list(
    params: Params, partition: Partition, job: SimJob, node_list: tuple[int, ...]
) -> bool:
    """Whether the node list has another length, repeats, or leaves the partition."""
    if len(node_list) != job.nodes or len(set(node_list)) != job.nodes:
        return True
    return not set(node_list) <= set(numbers_of(params, partition))
