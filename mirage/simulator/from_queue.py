"""Builds a simulator from a real queue. Plans are computed with it, and the twin begins from it.

Run times are not known: every job is taken to run to its limit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mirage.domain.job import Job
from mirage.domain.snapshot import Node, Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import MalformedText
from mirage.simulator import dependency_text
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Outage, Params, Partition, Qos, SelectType, SimJob
from mirage.slurm.text import hostlist


@dataclass(frozen=True, slots=True)
class QueueSimulator:
    """The simulator at the queue's instant, before any pass, and the jobs it could not take."""

    simulator: Simulator
    left_out: dict[int, str]
    """The reasons, by job id, why jobs could not be taken."""


def build_queue_simulator(
    params: Params, queue: Queue, nodes: tuple[Node, ...] = ()
) -> QueueSimulator:
    """Continue from `queue`. `nodes`: in the order of the cluster file; empty: all up.

    A running job whose nodes are not among them stands on any that are free.
    """
    running, waiting = _list_jobs(queue, queue.running_mask), _list_jobs(queue, queue.pending_mask)
    as_running = {int(job.job_id): build_submitted_job(params, job) for job in running}
    as_pending = {
        int(job.job_id): _build_pending_job(params, job, queue.taken_at) for job in waiting
    }
    left_out = _find_refused(params, (*as_running.values(), *as_pending.values()))
    places = _assign_nodes(
        [job for job in running if job.job_id not in left_out], nodes, params.nodes
    )
    left_out |= {i: "no free nodes are left for it" for i, at in places.items() if at is None}
    simulator = Simulator.from_queue(
        _drop_submit_limits(params),
        now=queue.taken_at,
        running=[
            (
                as_running[job.job_id],
                _get_running_since(job, queue.taken_at),
                places[job.job_id] or (),
            )
            for job in running
            if job.job_id not in left_out
        ],
        pending=[
            (as_pending[job.job_id], _get_eligible_since(job, queue.taken_at))
            for job in waiting
            if job.job_id not in left_out
        ],
    )
    _drain_nodes(simulator, nodes)
    return QueueSimulator(simulator, left_out)


def build_submitted_job(params: Params, job: Job) -> SimJob:
    """Build the job that its user asked for. Its run time is unknown: the limit stands."""
    limit_s = _get_limit_s(job)
    return SimJob(**_build_common_fields(params, job), time_limit_s=limit_s, run_s=limit_s)


def _list_jobs(queue: Queue, which: Any) -> list[Job]:
    return [queue.get_job(i) for i in which.nonzero()[0].tolist()]


def _find_refused(params: Params, jobs: Sequence[SimJob]) -> dict[int, str]:
    """Find the jobs that are impossible on the cluster of the cluster file, by id."""
    refused = Workload.from_jobs(params, jobs).refused
    return {job_id: reason for reason, ids in refused.items() for job_id in ids}


def _drop_submit_limits(params: Params) -> Params:
    """Drop MaxSubmitPU: Slurm has accepted these jobs already."""
    return replace(params, qos=tuple(replace(q, max_submit_pu=0) for q in params.qos))


def _assign_nodes(
    running: Sequence[Job], nodes: Sequence[Node], count: int
) -> dict[int, tuple[int, ...] | None]:
    """Return the node numbers by job id; None if there are too few nodes."""
    numbers = {node.name: i for i, node in enumerate(nodes[:count])}
    found: dict[int, tuple[int, ...] | None] = {}
    for job in running:
        names = hostlist.expand_hostlist(job.node_list)
        if len(names) == job.nodes and all(name in numbers for name in names):
            found[int(job.job_id)] = tuple(numbers[name] for name in names)
    taken = {i for at in found.values() for i in at or ()}
    free = [i for i in range(count) if i not in taken]
    for job in running:
        if job.job_id in found:
            continue
        chosen, free = free[: job.nodes], free[job.nodes :]
        found[int(job.job_id)] = tuple(chosen) if len(chosen) == job.nodes else None
    return found


def _drain_nodes(simulator: Simulator, nodes: Sequence[Node]) -> None:
    """Keep new jobs off nodes that take none; jobs that run on such a node run on."""
    for i, node in enumerate(nodes[: simulator.params.nodes]):
        if not node.is_usable:
            simulator.set_node(i, Outage.DRAIN)


def _get_running_since(job: Job, now: int) -> int:
    return now if job.start is None else min(job.start, now)


def _get_eligible_since(job: Job, now: int) -> int | None:
    return job.eligible if job.eligible is not None and job.eligible <= now else None


def _build_pending_job(params: Params, job: Job, now: int) -> SimJob:
    """Parse the job's dependencies. A job whose dependencies cannot be parsed is held for ever."""
    found = _parse_dependencies(job.dependency)
    eligible = _get_eligible_since(job, now) is not None
    limit_s = _get_limit_s(job)
    able = found is not None and (eligible or found.dependencies or job.eligible)
    return SimJob(
        **_build_common_fields(params, job),
        time_limit_s=limit_s,
        run_s=limit_s,
        begin=0 if eligible else job.eligible or 0,
        held=job.priority == 0 or not able,
        dependencies=() if eligible or found is None else found.dependencies,
        any_dependency=found is not None and found.any_dependency,
        priority=job.priority if eligible else None,
    )


def _parse_dependencies(text: str) -> dependency_text.DependencyList | None:
    try:
        return dependency_text.parse_dependency_list(text)
    except MalformedText:
        return None


def _build_common_fields(params: Params, job: Job) -> dict[str, Any]:
    shared = params.select_type is not SelectType.LINEAR
    wide = max(1, job.nodes)
    return {
        "job_id": int(job.job_id),
        "submit": job.submit,
        "nodes": job.nodes,
        "cpus": -(-job.cpus // wide) if shared else 0,
        "gpus": -(-job.gpus // wide) if shared and job.gpus else 0,
        # GPUs that are not known may be all of its nodes'.
        "exclusive": job.gpus is None,
        "user": job.user,
        "account": job.account,
        "partition": _find_known(job.partition.split(","), params.partitions),
        "qos": _find_known([job.qos], params.qos),
        "name": job.name,
        "comment": job.comment,
    }


def _find_known(names: Iterable[str], given: Iterable[Partition | Qos]) -> str:
    """Return the first of the job's partitions that the cluster file has. Empty, the default
    partition, if it has none of them."""
    known = {one.name for one in given}
    return next((name for name in names if name in known), "")


def _get_limit_s(job: Job) -> int:
    return UNLIMITED if job.time_limit_s is None else max(1, job.time_limit_s)
