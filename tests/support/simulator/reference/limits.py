"""Who may not start another job just now (section 4)."""

from mirage.simulator.types import Params
from tests.support.simulator.reference.cluster import Entry, nodes_of, numbers_of


def tres(params: Params, entry: Entry) -> tuple[int, int, int, int]:
    """CPUs, MiB, GPUs and nodes that the job counts with."""
    n = entry.job.nodes
    if not entry.whole:
        return (n * entry.cpus, n * entry.job.memory_mib, n * entry.job.gpus, n)
    nodes = nodes_of(params)
    own_nodes = [nodes[i] for i in entry.allocated or entry.pinned]
    if not own_nodes:
        members = [nodes[i] for i in numbers_of(params, entry.partition)]
        least = [
            min(size)
            for size in zip(*((x.cpus, x.memory_mib, x.gpus) for x in members), strict=True)
        ]
        return (n * least[0], n * least[1], n * least[2], n)
    return (
        sum(x.cpus for x in own_nodes),
        sum(x.memory_mib for x in own_nodes),
        sum(x.gpus for x in own_nodes),
        n,
    )


def over_limits(params: Params, running: list[Entry], entry: Entry) -> bool:
    """Whether starting the job would take its user or its array over a limit."""
    same_user = [r for r in running if r.job.user == entry.job.user and r.qos == entry.qos]
    qos = entry.qos
    if qos.max_jobs_pu and len(same_user) + 1 > qos.max_jobs_pu:
        return True
    limits = (qos.max_cpus_pu, qos.max_memory_mib_pu, qos.max_gpus_pu, qos.max_nodes_pu)
    sums = [
        sum(column) for column in zip(*(tres(params, e) for e in [*same_user, entry]), strict=True)
    ]
    if any(limit and total > limit for limit, total in zip(limits, sums, strict=True)):
        return True
    tasks = sum(r.job.array_id == entry.job.array_id for r in running)
    return bool(entry.job.array_id and entry.job.array_limit and tasks >= entry.job.array_limit)
