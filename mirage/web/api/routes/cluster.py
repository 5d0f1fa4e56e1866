"""Routes about the cluster: its present state, and its jobs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from mirage.database.jobs import job_history, queue_summary, queue_sums
from mirage.database.jobs.job_history import JobFilter
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, NODES, PARTITIONS
from mirage.domain.job import Job, JobState
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.schemas import chain_schemas, cluster_schemas
from mirage.web.api.streaming import file_export
from mirage.web.api.streaming.file_export import EXPORTED, AsFormat, Format
from mirage.web.shared.dependencies import (
    Context,
    Reader,
    Reading,
    read_freshness,
    require_identity,
)
from mirage.web.shared.paging import Paging, TimeRangeQuery, format_pair_cursor

router = APIRouter(tags=["cluster"])

_NODES_WITHIN_S = 3600
"""Seconds for which an answer about nodes is shown. Nodes are queried less often than the queue."""


_NODE_SUMS = {"nodes", "usable_nodes", "idle_nodes", "gpus", "gpus_used"}


@router.get("/cluster", operation_id="getCluster", responses=describe_read_errors(401))
def get_cluster(context: Context, reader: Reader, tx: Reading) -> cluster_schemas.ClusterView:
    """Return sums over the cluster as last seen, and Mirage's modes on it."""
    modes = read_modes(tx, context.cluster_id)
    modes = modes if reader.can_see(PARTITIONS) else modes.hide_names()
    freshness = read_freshness(tx, context)
    return cluster_schemas.ClusterView(
        name=context.cluster_name,
        mode=modes.cluster_mode,
        partitions=modes.own_modes,
        policies=list(context.policies),
        partial=context.partial(),
        as_of=freshness.as_of,
        stale=freshness.stale,
        sums=_read_sums(tx, context.cluster_id, with_nodes=reader.can_see(NODES)),
    )


def _read_sums(
    tx: Transaction, cluster_id: int, *, with_nodes: bool
) -> cluster_schemas.ClusterSums:
    latest = queue_sums.find_latest_snapshot(tx, cluster_id)
    if latest is None:
        return cluster_schemas.ClusterSums()
    merged: dict[str, Any] = {}
    for row in queue_sums.list_snapshots(tx, cluster_id, latest.taken_at - _NODES_WITHIN_S):
        merged |= row.features
    if not with_nodes:
        merged = {name: value for name, value in merged.items() if name not in _NODE_SUMS}
    return cluster_schemas.ClusterSums.model_validate(merged)


@router.get(
    "/jobs",
    operation_id="listJobs",
    response_model=chain_schemas.JobPage,
    responses=describe_read_errors(429) | EXPORTED,
)
def list_jobs(
    *,
    answer_format: AsFormat,
    paging: Paging,
    reader: Reader,
    time_range: TimeRangeQuery,
    partition: Annotated[str, Query(max_length=64)] = "",
    user: Annotated[str, Query(max_length=64)] = "",
    account: Annotated[str, Query(max_length=64)] = "",
    qos: Annotated[str, Query(max_length=64)] = "",
    state: JobState | None = None,
) -> chain_schemas.JobPage | Response:
    """List present and past jobs, highest id first.

    Where the cluster keeps jobs private, these are the caller's own. `since` and `until` limit the
    submission.
    """
    require_identity(reader, JOBS)
    own_rows = None if reader.can_see(JOBS) else reader.build_own_rows()
    where = JobFilter(
        partition=partition,
        user=user,
        account=account,
        qos=qos,
        state=state,
        since=time_range.since,
        until=time_range.until,
        own=own_rows,
    )
    cluster_id, begin = paging.context.cluster_id, paging.after_pair

    def read_page(tx: Transaction, last: Job | None, limit: int) -> list[Job]:
        after = begin if last is None else (last.job_id, last.submit)
        jobs = job_history.list_jobs(tx, cluster_id, where, after=after, limit=limit)
        return _add_planned_starts(tx, cluster_id, jobs)

    if answer_format is not Format.JSON:
        return file_export.export_rows(
            paging.request, answer_format, chain_schemas.JobView, read_page, _serialize_jobs
        )
    return paging.build_page(
        chain_schemas.JobPage,
        read_page(paging.tx, None, paging.limit),
        view=chain_schemas.JobView.model_validate,
        cursor=lambda job: format_pair_cursor(job.job_id, job.submit),
    )


def _add_planned_starts(tx: Transaction, cluster_id: int, jobs: list[Job]) -> list[Job]:
    """Return the jobs, with the start that Slurm plans added to each waiting job."""
    if not any(job.state.is_waiting for job in jobs):
        return jobs
    plans = queue_summary.read_planned_starts(tx, cluster_id)
    waiting = (job.state.is_waiting and job.job_id in plans for job in jobs)
    return [
        replace(job, planned_start=plans[job.job_id]) if is_waiting else job
        for job, is_waiting in zip(jobs, waiting, strict=True)
    ]


def _serialize_jobs(_tx: Transaction, jobs: Sequence[Job]) -> list[chain_schemas.JobView]:
    return [chain_schemas.JobView.model_validate(job) for job in jobs]
