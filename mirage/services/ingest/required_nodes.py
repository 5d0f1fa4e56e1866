"""Jobs that wait for nodes which they ask for by name, and which are out of service.

Slurm 22.05 names such nodes in the reason: `ReqNodeNotAvail, UnavailableNodes:gpu02`. Since 24.11
it names those alone that are down. Of a job whose node is drained it says what it says of a plan of
backfill's: `ReqNodeNotAvail, May be reserved for other job`. So there the nodes that the job asks
for are looked up among those of the cluster, and the reason is completed as 22.05 has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node
from mirage.errors import ClusterError, MalformedText
from mirage.ports import Cluster
from mirage.slurm.text import hostlist, pending_reasons

_log = structlog.get_logger(__name__)


def complete_reasons(
    cluster: Cluster, jobs: Sequence[Job], known: frozenset[JobId], nodes: Iterable[Node]
) -> list[Job]:
    """The jobs, in their order. Slurm is asked about those of `known` alone: anybody may write a
    mark on any number of jobs. Where it does not answer, reasons stay as they are."""
    away = frozenset(node.name for node in nodes if node.is_out_of_service)
    doubtful = [
        job.job_id
        for job in jobs
        if job.state.is_waiting
        and job.job_id in known
        and pending_reasons.can_hide_nodes(job.reason)
    ]
    if not away or not doubtful:
        return list(jobs)
    try:
        asked = cluster.fetch_requested_nodes(doubtful)
    except ClusterError as error:
        _log.warning("no answer on the nodes that jobs ask for", error=str(error))
        return list(jobs)
    return [_complete_reason(job, asked, away) for job in jobs]


def _complete_reason(job: Job, asked: Mapping[JobId, str], away: frozenset[str]) -> Job:
    try:
        names = frozenset(hostlist.expand_hostlist(asked.get(job.job_id, "")))
    except MalformedText:
        return job
    missing = names & away
    # Since 23.02 a list may name more nodes than the job takes: any of them will do.
    if len(names) - len(missing) >= min(len(names), job.nodes):
        return job
    return replace(
        job,
        reason=pending_reasons.format_unavailable_nodes(
            hostlist.compress_hostlist(sorted(missing))
        ),
    )
