"""A simulator stood up from a real queue: what plans are asked of, and where a twin begins.

Run times are not known: every job is taken to run to its limit. A job that runs already stands on
its own nodes with what is left of its limit.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mirage.domain.job import Job
from mirage.domain.snapshot import Node, Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import ClusterRefused, InputError
from mirage.sim.simulator import Simulator
from mirage.sim.types import (
    Dependency,
    DependencyKind,
    Outage,
    Params,
    Partition,
    Qos,
    SelectType,
    SimJob,
)
from mirage.slurm import dependency, hostlist


@dataclass(frozen=True, slots=True)
class StandIn:
    """The simulator at the queue's instant, before any pass, and the jobs it could not take."""

    simulator: Simulator
    left_out: dict[int, str]
    """Why, by job id."""


def stand_in(params: Params, queue: Queue, nodes: tuple[Node, ...] = ()) -> StandIn:
    """Continue from `queue`. `nodes`: in the order of the cluster file; empty: all up.

    Without the nodes' names, or where they are not those of `params`, running jobs stand anywhere.
    """
    numbers = {node.name: i for i, node in enumerate(nodes)} if len(nodes) == params.nodes else {}
    simulator = Simulator(params, (), now=queue.taken_at)
    left_out: dict[int, str] = {}
    running = [queue.row(i) for i in queue.running.nonzero()[0].tolist()]
    _run(simulator, [_running(params, job, queue.taken_at, numbers) for job in running], left_out)
    for i, node in enumerate(nodes if numbers else ()):
        if not node.usable:
            simulator.set_node(i, Outage.DRAIN)
    for i in queue.pending.nonzero()[0].tolist():
        _inject(simulator, _pending(params, queue.row(i), queue.taken_at), left_out)
    return StandIn(simulator, left_out)


def _run(simulator: Simulator, jobs: Iterable[SimJob], left_out: dict[int, str]) -> None:
    """Start them all now. A main pass makes a bounded number of attempts, so a few at a time."""
    at_once = max(1, simulator.params.default_queue_depth)
    waiting = list(jobs)
    for first in range(0, len(waiting), at_once):
        for job in waiting[first : first + at_once]:
            _inject(simulator, job, left_out)
        simulator.advance(simulator.now)
        for record in simulator.pending():
            left_out[record.job_id] = "there is no room for it beside the others that run"
            simulator.remove(record.job_id)


def _inject(simulator: Simulator, job: SimJob, left_out: dict[int, str]) -> None:
    try:
        simulator.inject(job)
    except ClusterRefused as refusal:
        left_out[job.job_id] = str(refusal)


def _running(params: Params, job: Job, now: int, numbers: dict[str, int]) -> SimJob:
    left_s = max(1, _limit(job) - (now - (job.start or now)))
    names = hostlist.expand(job.node_list)
    known = tuple(sorted(numbers[name] for name in names if name in numbers))
    node_list = known if len(known) == job.nodes else ()
    return SimJob(**_common(params, job), time_limit_s=left_s, run_s=left_s, node_list=node_list)


def _pending(params: Params, job: Job, now: int) -> SimJob:
    terms, readable = _dependencies(job.dependency)
    limit_s = _limit(job)
    begins = job.eligible is not None and job.eligible > now
    eligible = job.eligible is not None and not begins
    return SimJob(
        **_common(params, job),
        time_limit_s=limit_s,
        run_s=limit_s,
        begin=job.eligible or 0 if begins else 0,
        held=job.priority == 0 or not readable,
        dependencies=terms,
        priority=job.priority if eligible else None,
    )


def _common(params: Params, job: Job) -> dict[str, Any]:
    shared = params.select_type is not SelectType.LINEAR
    wide = max(1, job.nodes)
    return {
        "job_id": int(job.job_id),
        "submit": job.submit,
        "nodes": job.nodes,
        "cpus": -(-job.cpus // wide) if shared else 0,
        "gpus": -(-job.gpus // wide) if shared else 0,
        "user": job.user,
        "account": job.account,
        "partition": _known(job.partition.split(","), params.partitions),
        "qos": _known([job.qos], params.qos),
        "name": job.name,
        "comment": job.comment,
    }


def _known(names: Iterable[str], given: Iterable[Partition | Qos]) -> str:
    """The first that the cluster file has; empty, the default one, where it has none of them."""
    known = {one.name for one in given}
    return next((name for name in names if name in known), "")


def _limit(job: Job) -> int:
    return UNLIMITED if job.time_limit_s is None else max(1, job.time_limit_s)


def _dependencies(text: str) -> tuple[tuple[Dependency, ...], bool]:
    """(terms, True), or nothing and False where the list has what the simulator does not."""
    try:
        terms = [term for term in dependency.plain(text).split(",") if term]
        return tuple(_dependency(term) for term in terms), True
    except (InputError, ValueError):
        return (), False


def _dependency(term: str) -> Dependency:
    kind, _, target = term.partition(":")
    return Dependency(DependencyKind(kind), int(target))
