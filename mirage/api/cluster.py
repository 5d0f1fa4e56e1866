"""Routes on the cluster: how it stands, and its jobs."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from mirage.api import schemas, views
from mirage.api.deps import Context, Reader, Reading, freshness, need
from mirage.api.documented import read_errors
from mirage.api.paging import Paging, row_cursor
from mirage.domain.caller import JOBS, NODES, PARTITIONS
from mirage.domain.job import JobState
from mirage.store import clusters, jobs, snapshots
from mirage.store.engine import Transaction
from mirage.store.jobs import JobFilter

router = APIRouter(tags=["cluster"])

_NODES_WITHIN_S = 3600
"""Nodes are asked for more rarely than the queue: the newest answer of the last hour is shown."""


_OF_NODES = {"nodes", "usable_nodes", "idle_nodes", "gpus", "gpus_used"}


@router.get("/cluster", operation_id="getCluster", responses=read_errors(401))
def get_cluster(given: Context, reader: Reader, tx: Reading) -> schemas.ClusterView:
    """The cluster in sums, as it was last seen, and how far Mirage goes on it."""
    modes = clusters.modes(tx, given.cluster_id)
    fresh = freshness(tx, given)
    return schemas.ClusterView(
        name=given.cluster_name,
        mode=modes.pop(""),
        partitions=modes if reader.sees(PARTITIONS) else {},
        policies=list(given.policies),
        partial=given.partial(),
        as_of=fresh.as_of,
        stale=fresh.stale,
        sums=_sums(tx, given.cluster_id, with_nodes=reader.sees(NODES)),
    )


def _sums(tx: Transaction, cluster_id: int, *, with_nodes: bool) -> schemas.ClusterSums:
    latest = snapshots.latest(tx, cluster_id)
    if latest is None:
        return schemas.ClusterSums()
    merged: dict[str, Any] = {}
    for row in snapshots.series(tx, cluster_id, latest.taken_at - _NODES_WITHIN_S):
        merged |= row.features
    if not with_nodes:
        merged = {name: value for name, value in merged.items() if name not in _OF_NODES}
    return schemas.ClusterSums.model_validate(merged)


@router.get("/jobs", operation_id="listJobs", responses=read_errors(401))
def list_jobs(
    paging: Paging,
    reader: Reader,
    partition: Annotated[str, Query(max_length=64)] = "",
    user: Annotated[str, Query(max_length=64)] = "",
    state: JobState | None = None,
) -> schemas.JobPage:
    """Jobs that the cluster has, and had, highest id first; the caller's own where it keeps them
    private."""
    need(reader, JOBS)
    own = None if reader.sees(JOBS) else reader.own()
    rows = jobs.page(
        paging.tx,
        paging.given.cluster_id,
        JobFilter(partition=partition, user=user, state=state, own=own),
        after=_job_cursor(paging.cursor),
        limit=paging.limit,
    )
    return paging.answer(
        schemas.JobPage, rows, view=views.job, cursor=lambda job: f"{job.job_id}-{job.submit}"
    )


def _job_cursor(cursor: str | None) -> tuple[int, int] | None:
    """A job's id and submit time, which together name it."""
    if cursor is None:
        return None
    job_id, dash, submit = cursor.partition("-")
    return row_cursor(job_id), row_cursor(submit if dash else "")
