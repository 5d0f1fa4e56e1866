"""Builds a simulator from a real queue. It is used to compute plans, and the twin begins from it.

Run times are not known, so every job runs to its time limit.
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
    """The simulator at the queue's instant, before any pass, and the jobs that it does not hold."""

    simulator: Simulator
    reasons: dict[int, str]
    """By job id, why a job is not in the simulator."""


def build_queue_simulator(
    params: Params, queue: Queue, nodes: tuple[Node, ...] = ()
) -> QueueSimulator:
    """Build a simulator of the cluster as of `queue`.

    `nodes`: the cluster's nodes in the order of the cluster file; empty: all nodes are up. A
    running job whose nodes are not among them is put on free nodes.
    """
    running, waiting = _list_jobs(queue, queue.running_mask), _list_jobs(queue, queue.pending_mask)
    as_running = {int(job.job_id): build_submitted_job(params, job) for job in running}
    as_pending = {
        int(job.job_id): _build_pending_job(params, job, queue.taken_at) for job in waiting
    }
    reasons = _find_refused(params, (*as_running.values(), *as_pending.values()))
    places = _assign_nodes(
        [job for job in running if job.job_id not in reasons], nodes, params.nodes
    )
    reasons |= {
        i: "no free nodes are left for it" for i, numbers in places.items() if numbers is None
    }
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
            if job.job_id not in reasons
        ],
        pending=[
            (as_pending[job.job_id], _get_eligible_since(job, queue.taken_at))
            for job in waiting
            if job.job_id not in reasons
        ],
    )
    _drain_nodes(simulator, nodes)
    return QueueSimulator(simulator, reasons)


def build_submitted_job(params: Params, job: Job) -> SimJob:
    """Build the job as its user submitted it, with its time limit as its run time."""
    limit_s = _get_limit_s(job)
    return SimJob(**_build_common_fields(params, job), time_limit_s=limit_s, run_s=limit_s)


def _list_jobs(queue: Queue, mask: Any) -> list[Job]:
    return [queue.get_job(i) for i in mask.nonzero()[0].tolist()]


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
    numbers_by_job: dict[int, tuple[int, ...] | None] = {}
    for job in running:
        names = hostlist.expand_hostlist(job.node_list)
        if len(names) == job.nodes and all(name in numbers for name in names):
            numbers_by_job[int(job.job_id)] = tuple(numbers[name] for name in names)
    used_nodes = {i for node_numbers in numbers_by_job.values() for i in node_numbers or ()}
    free_nodes = [i for i in range(count) if i not in used_nodes]
    for job in running:
        if job.job_id in numbers_by_job:
            continue
        assigned, free_nodes = free_nodes[: job.nodes], free_nodes[job.nodes :]
        numbers_by_job[int(job.job_id)] = tuple(assigned) if len(assigned) == job.nodes else None
    return numbers_by_job


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
    dependency_list = _parse_dependencies(job.dependency)
    is_eligible = _get_eligible_since(job, now) is not None
    limit_s = _get_limit_s(job)
    can_become_eligible = dependency_list is not None and (
        is_eligible or dependency_list.dependencies or job.eligible
    )
    return SimJob(
        **_build_common_fields(params, job),
        time_limit_s=limit_s,
        run_s=limit_s,
        begin=0 if is_eligible else job.eligible or 0,
        held=job.priority == 0 or not can_become_eligible,
        dependencies=() if is_eligible or dependency_list is None else dependency_list.dependencies,
        any_dependency=dependency_list is not None and dependency_list.any_dependency,
        priority=job.priority if is_eligible else None,
    )


def _parse_dependencies(text: str) -> dependency_text.DependencyList | None:
    try:
        return dependency_text.parse_dependency_list(text)
    except MalformedText:
        return None


def _build_common_fields(params: Params, job: Job) -> dict[str, Any]:
    nodes_are_shared = params.select_type is not SelectType.LINEAR
    nodes = max(1, job.nodes)
    return {
        "job_id": int(job.job_id),
        "submit": job.submit,
        "nodes": job.nodes,
        "cpus": -(-job.cpus // nodes) if nodes_are_shared else 0,
        "gpus": -(-job.gpus // nodes) if nodes_are_shared and job.gpus else 0,
        # A job whose number of GPUs is not known may have all GPUs of its nodes.
        "exclusive": job.gpus is None,
        "user": job.user,
        "account": job.account,
        "partition": _find_configured(job.partition.split(","), params.partitions),
        "qos": _find_configured([job.qos], params.qos),
        "name": job.name,
        "comment": job.comment,
    }


def _find_configured(names: Iterable[str], configured: Iterable[Partition | Qos]) -> str:
    """Return the first of the job's partitions (or QOS) that the cluster file has. Empty, which
    stands for the default, if it has none of them."""
    known_names = {item.name for item in configured}
    return next((name for name in names if name in known_names), "")


def _get_limit_s(job: Job) -> int:
    return UNLIMITED if job.time_limit_s is None else max(1, job.time_limit_s)
