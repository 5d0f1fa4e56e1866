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
def get_queue(given: Context, reader: Reader, tx: Reading) -> schemas.QueueView:
    """Summarize the queue as last seen: waiting jobs by partition and reason, and idle nodes.

    The answer holds sums only.
    """
    found = queue_status.read_queue_status(tx, given.cluster_id, reader)
    fresh = read_freshness(tx, given)
    return schemas.QueueView(
        nodes_as_of=to_optional_instant(found.nodes_at),
        whole=None if found.whole is None else _serialize_partition(found.whole, found.at or 0),
        partitions=[_serialize_partition(row, found.at or 0) for row in found.partitions],
        as_of=fresh.as_of,
        stale=fresh.stale,
    )


def _build_waits_query(
    given: Context,
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
    now = given.clock()
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
    given: Context,
    reader: Reader,
    tx: Reading,
    asked: Annotated[WaitQuery, Depends(_build_waits_query)],
) -> schemas.WaitsView:
    """Return how long jobs waited (p10, p50, p90), by the hour or day in which they started.

    The answer also has the same figures by partition, nodes and time limit over the whole range.
    """
    try:
        found = wait_statistics.read_waits_over_time(
            tx, given.cluster_id, asked, least=get_minimum_jobs(reader)
        )
    except InputError as error:
        raise build_invalid_error(str(error), parameter="since") from error
    fresh = read_freshness(tx, given)
    return _serialize_waits(found, fresh.as_of, stale=fresh.stale, named=reader.can_see(PARTITIONS))


def _parse_epoch(at: datetime, parameter: str) -> int:
    """Return the instant in seconds since 1970; an instant without a time zone is in UTC.

    Raises a problem for an instant outside 1970 to 2200, in which no job was submitted.
    """
    found = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    if not 0 <= found <= _LAST:
        raise build_invalid_error(
            "the instant has to lie between 1970 and 2200", parameter=parameter
        )
    return found


def _serialize_waits(
    found: WaitsOverTime, as_of: datetime | None, *, stale: bool, named: bool
) -> schemas.WaitsView:
    asked = found.query
    return schemas.WaitsView(
        since=to_instant(asked.since),
        until=to_instant(asked.until),
        by=asked.by,
        partition=asked.partition or None,
        nodes=asked.size,
        time_limit=asked.limit,
        points=[
            schemas.WaitPoint(at=to_instant(p.at), **_serialize_spread(p.waits))
            for p in found.points
        ],
        whole=schemas.SpreadView(**_serialize_spread(found.whole)),
        by_partition=[_serialize_group(g) for g in found.partitions] if named else [],
        by_nodes=[_serialize_group(g) for g in found.sizes],
        by_time_limit=[_serialize_group(g) for g in found.limits],
        behind_h=found.behind_h,
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
    why = reason.why
    return schemas.ReasonView(
        reason=why.word, jobs=reason.jobs, cure=why.cure, says=why.says, advice=why.advice
    )
