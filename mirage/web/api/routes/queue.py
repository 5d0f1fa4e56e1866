"""Routes about waiting: the present queue, and how long jobs waited."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from mirage.domain.callers.caller import PARTITIONS
from mirage.domain.time_units import DAY_S
from mirage.domain.wait_buckets import LimitClass, SizeClass
from mirage.domain.wait_histogram import WaitSummary
from mirage.errors import InputError
from mirage.reports import queue_status, wait_statistics
from mirage.reports.queue_status import PartitionStatus, WaitingReason
from mirage.reports.wait_statistics import Span, WaitGroup, WaitQuery, WaitsOverTime
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.schemas import queue_schemas as schemas
from mirage.web.shared.chain_access import get_minimum_jobs
from mirage.web.shared.dependencies import (
    Context,
    Reader,
    Reading,
    read_freshness,
    to_instant,
    to_optional_instant,
)
from mirage.web.shared.problems import build_invalid_error

router = APIRouter(tags=["cluster"])

DAYS = 14
"""The range that is shown if the caller names none."""
_LAST = 7_258_118_400
"""The year 2200."""


@router.get("/queue", operation_id="getQueue", responses=describe_read_errors(401))
def get_queue(context: Context, reader: Reader, tx: Reading) -> schemas.QueueView:
    """Summarize the queue as last seen: waiting jobs by partition and reason, and idle nodes.

    The answer holds sums only.
    """
    queue = queue_status.read_queue_status(tx, context.cluster_id, reader)
    freshness = read_freshness(tx, context)
    return schemas.QueueView(
        nodes_as_of=to_optional_instant(queue.nodes_at),
        whole=None if queue.whole is None else _serialize_partition(queue.whole, queue.at or 0),
        partitions=[_serialize_partition(row, queue.at or 0) for row in queue.partitions],
        as_of=freshness.as_of,
        stale=freshness.stale,
    )


def _build_waits_query(
    context: Context,
    *,
    since: Annotated[
        datetime | None,
        Query(
            description=f"The begin of the range. Default: {DAYS} days ago.",
            examples=["2026-03-02"],
        ),
    ] = None,
    until: Annotated[
        datetime | None, Query(description="The end of the range. Default: now.")
    ] = None,
    by: Span = Span.DAY,
    partition: Annotated[
        str, Query(max_length=64, description="Only this partition; empty: all partitions.")
    ] = "",
    nodes: Annotated[
        SizeClass | None, Query(description="Only jobs of this size class. Default: all jobs.")
    ] = None,
    time_limit: Annotated[
        LimitClass | None,
        Query(description="Only jobs of this class of time limits. Default: all jobs."),
    ] = None,
) -> WaitQuery:
    now = context.clock()
    return WaitQuery(
        since=now - DAYS * DAY_S if since is None else _parse_epoch(since, "since"),
        until=now + 1 if until is None else _parse_epoch(until, "until"),
        by=by,
        partition=partition,
        size=nodes,
        limit=time_limit,
    )


@router.get("/waits", operation_id="getWaits", responses=describe_read_errors(401))
def get_waits(
    context: Context,
    reader: Reader,
    tx: Reading,
    query: Annotated[WaitQuery, Depends(_build_waits_query)],
) -> schemas.WaitsView:
    """Return how long jobs waited (p10, p50, p90), by the hour or day in which they started.

    The answer also has the same figures by partition, nodes and time limit over the whole range.
    """
    try:
        waits = wait_statistics.read_waits_over_time(
            tx, context.cluster_id, query, least=get_minimum_jobs(reader)
        )
    except InputError as error:
        raise build_invalid_error(str(error), parameter="since") from error
    freshness = read_freshness(tx, context)
    return _serialize_waits(
        waits, freshness.as_of, stale=freshness.stale, shows_partitions=reader.can_see(PARTITIONS)
    )


def _parse_epoch(at: datetime, parameter: str) -> int:
    """Return the instant in seconds since 1970; an instant without a time zone is in UTC.

    Raises a problem for an instant outside 1970 to 2200, in which no job was submitted.
    """
    epoch = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    if not 0 <= epoch <= _LAST:
        raise build_invalid_error(
            "the instant has to lie between 1970 and 2200", parameter=parameter
        )
    return epoch


def _serialize_waits(
    waits: WaitsOverTime, as_of: datetime | None, *, stale: bool, shows_partitions: bool
) -> schemas.WaitsView:
    query = waits.query
    return schemas.WaitsView(
        since=to_instant(query.since),
        until=to_instant(query.until),
        by=query.by,
        partition=query.partition or None,
        nodes=query.size,
        time_limit=query.limit,
        points=[
            schemas.WaitPoint(at=to_instant(p.at), **_serialize_spread(p.waits))
            for p in waits.points
        ],
        whole=schemas.SpreadView(**_serialize_spread(waits.whole)),
        by_partition=[_serialize_group(g) for g in waits.partitions] if shows_partitions else [],
        by_nodes=[_serialize_group(g) for g in waits.sizes],
        by_time_limit=[_serialize_group(g) for g in waits.limits],
        behind_h=waits.behind_h,
        as_of=as_of,
        stale=stale,
    )


def _serialize_group(group: WaitGroup) -> schemas.WaitGroup:
    return schemas.WaitGroup(name=group.name, **_serialize_spread(group.waits))


def _serialize_spread(waits: WaitSummary) -> dict[str, Any]:
    return {"jobs": waits.jobs, "p10_s": waits.p10_s, "p50_s": waits.p50_s, "p90_s": waits.p90_s}


def _serialize_partition(row: PartitionStatus, at: int) -> schemas.PartitionView:
    nodes, since = row.nodes, row.oldest_eligible
    return schemas.PartitionView(
        partition=row.name,
        pending_jobs=row.pending_jobs,
        pending_nodes=row.pending_nodes,
        running_jobs=row.running_jobs,
        running_nodes=row.running_nodes,
        oldest_pending_s=None if since is None else max(0, at - since),
        reasons=[_serialize_reason(reason) for reason in row.reasons],
        nodes=None if nodes is None else nodes.nodes,
        usable_nodes=None if nodes is None else nodes.usable_nodes,
        idle_nodes=None if nodes is None else nodes.idle_nodes,
    )


def _serialize_reason(reason: WaitingReason) -> schemas.ReasonView:
    explanation = reason.why
    return schemas.ReasonView(
        reason=explanation.word,
        jobs=reason.jobs,
        cure=explanation.cure,
        says=explanation.says,
        advice=explanation.advice,
    )
