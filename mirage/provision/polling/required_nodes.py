"""Completes the reason of jobs that wait for named nodes which are out of service.

Slurm 22.05 names such nodes in the reason: `ReqNodeNotAvail, UnavailableNodes:gpu02`. Since 24.11
the reason names only nodes that are down. If the node is drained, the reason is the same as for a
plan of backfill: `ReqNodeNotAvail, May be reserved for other job`. In that case Mirage compares the
job's nodes with the cluster's, and completes the reason as 22.05 writes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from mirage.domain.job import Job, JobId
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Node
from mirage.errors import ClusterError, MalformedText
from mirage.slurm.text import hostlist, pending_reasons

_log = structlog.get_logger(__name__)


def complete_reasons(
    cluster: Cluster, jobs: Sequence[Job], trusted_ids: frozenset[JobId], nodes: Iterable[Node]
) -> list[Job]:
    """Return the jobs in their order, with completed reasons.

    Slurm is asked only about the jobs in `trusted_ids`, because any user may write a mark on any
    number of jobs. If Slurm does not answer, the reasons stay as they are.
    """
    out_of_service = frozenset(node.name for node in nodes if node.is_out_of_service)
    doubtful = [
        job.job_id
        for job in jobs
        if job.state.is_waiting
        and job.job_id in trusted_ids
        and pending_reasons.can_hide_nodes(job.reason)
    ]
    if not out_of_service or not doubtful:
        return list(jobs)
    try:
        requested_nodes = cluster.fetch_requested_nodes(doubtful)
    except ClusterError as error:
        _log.warning("Slurm did not tell which nodes jobs ask for", error=str(error))
        return list(jobs)
    return [_complete_reason(job, requested_nodes, out_of_service) for job in jobs]


def _complete_reason(
    job: Job, requested_nodes: Mapping[JobId, str], out_of_service: frozenset[str]
) -> Job:
    try:
        names = frozenset(hostlist.expand_hostlist(requested_nodes.get(job.job_id, "")))
    except MalformedText:
        return job
    missing = names & out_of_service
    # Since 23.02 a list may name more nodes than the job needs: it takes any of them.
    if len(names) - len(missing) >= min(len(names), job.nodes):
        return job
    return replace(
        job,
        reason=pending_reasons.format_unavailable_nodes(
            hostlist.compress_hostlist(sorted(missing))
        ),
    )
