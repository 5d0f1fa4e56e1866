"""Serves the data of the pages Now and Chain to programs, from the pages' own functions."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query

from mirage.chains.start_range import StartRange
from mirage.database.chains import chains
from mirage.database.chains.chain_ranking import RankingFilter
from mirage.database.events import changes
from mirage.database.operations.modes_in_force import ModesInForce, read_modes
from mirage.domain.callers.caller import JOBS, USAGE
from mirage.domain.chain import MAX_LINKS, ChainId
from mirage.reports import chain_timeline as timelines
from mirage.reports import overview as overviews
from mirage.reports.chain_timeline import ForecastHistory, TimelineHandover
from mirage.reports.overview import ChainRow, UpcomingHandover
from mirage.web.api import serializers
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.schemas import chain_schemas
from mirage.web.api.schemas import overview_schemas as schemas
from mirage.web.shared.chain_access import ChainPath, get_visible_chain
from mirage.web.shared.dependencies import (
    Context,
    Reader,
    Reading,
    read_freshness,
    require_identity,
    to_instant,
    to_optional_instant,
)
from mirage.web.shared.overview_cursor import format_cursor, parse_cursor
from mirage.web.shared.paging import Paging

router = APIRouter(tags=["chains"])


@router.get("/overview", operation_id="getOverview", responses=describe_read_errors(401))
def get_overview(
    paging: Paging,
    reader: Reader,
    user: Annotated[str, Query(max_length=64, description="Only chains of this user.")] = "",
) -> schemas.OverviewPage:
    """List the live chains by risk, and the next hand-overs."""
    require_identity(reader, JOBS, USAGE)
    ranking = RankingFilter(
        own=None if reader.can_see_all_chains else reader.build_own_rows(), user=user
    )
    after = None if paging.cursor is None else parse_cursor(paging.cursor, parameter="cursor")
    tx, cluster_id, limit = paging.tx, paging.context.cluster_id, paging.size
    overview = paging.context.response_cache.get_or_make(
        ("overview", ranking, after, limit),
        changes.read_newest_seq(tx, cluster_id),
        lambda: overviews.build_overview(tx, cluster_id, ranking, after=after, limit=limit),
    )

    def build_page(**more: object) -> schemas.OverviewPage:
        return schemas.OverviewPage(
            live=overview.live,
            at_risk=overview.at_risk,
            paused=overview.paused,
            soon=[_serialize_upcoming(upcoming) for upcoming in overview.soon],
            **more,
        )

    return paging.build_page(
        build_page,
        overview.rows,
        view=partial(_serialize_row, read_modes(tx, cluster_id)),
        cursor=format_cursor,
    )


@router.get(
    "/chains/{chain_id}/timeline",
    operation_id="getChainTimeline",
    responses=describe_read_errors(401, 404),
)
def get_chain_timeline(
    chain_id: ChainPath,
    context: Context,
    reader: Reader,
    tx: Reading,
    link: Annotated[
        int | None,
        Query(
            ge=2,
            le=MAX_LINKS,
            description="The link for which to return the course of the forecast. Default: the "
            "newest link with one.",
        ),
    ] = None,
) -> schemas.TimelineView:
    """Return the chain's links, each hand-over with its forecast, and the paths of the logs."""
    chain = get_visible_chain(tx, context.cluster_id, ChainId(chain_id), reader)
    links = chains.list_links(tx, context.cluster_id, chain.chain_id)
    timeline = timelines.build_timeline(tx, context.cluster_id, chain, links, index=link)
    can_steer = reader.can_steer(chain, links)
    logs = timelines.list_logs(tx, context.cluster_id, chain, links) if can_steer else None
    freshness = read_freshness(tx, context)
    return schemas.TimelineView(
        chain_id=chain.chain_id,
        links=list(serializers.serialize_links(chain, links)),
        handovers=[_serialize_handover(handover) for handover in timeline.handovers],
        course=None if timeline.course is None else _serialize_course(timeline.course),
        logs=logs
        and [
            schemas.LinkLogView(
                link=log.index, job_id=log.job_id, file=log.file, told=log.is_stated
            )
            for log in logs
        ],
        as_of=freshness.as_of,
        stale=freshness.stale,
    )


def _serialize_row(modes: ModesInForce, row: ChainRow) -> schemas.OverviewRow:
    return schemas.OverviewRow(
        chain=serializers.serialize_chain_summary(row.chain, row.links, modes),
        next=None if row.upcoming is None else _serialize_upcoming(row.upcoming),
    )


def _serialize_upcoming(upcoming: UpcomingHandover) -> schemas.UpcomingView:
    handover, start = upcoming.handover, upcoming.start
    return schemas.UpcomingView(
        chain_id=handover.chain.chain_id,
        link=handover.standby.index,
        submits=handover.submits,
        predecessor_end=to_optional_instant(upcoming.ends),
        start=None if start is None else _serialize_start(start),
        planned_release=to_optional_instant(upcoming.planned_release),
        slurm_start=to_optional_instant(upcoming.planned),
        decision=None
        if upcoming.decision is None
        else chain_schemas.DecisionView.model_validate(upcoming.decision),
    )


def _serialize_start(start: StartRange) -> schemas.StartRangeView:
    return schemas.StartRangeView(
        since=to_instant(start.since),
        eligible=start.is_free,
        p10=to_instant(start.p10),
        p50=to_instant(start.p50),
        p90=to_instant(start.p90),
    )


def _serialize_handover(handover: TimelineHandover) -> schemas.HandedOverView:
    outcome = handover.over
    return schemas.HandedOverView(
        link=handover.successor.index,
        predecessor_end=to_optional_instant(handover.ends),
        predecessor_ended=handover.predecessor.end is not None,
        successor_start=to_optional_instant(handover.successor.start),
        freed_at=to_optional_instant(handover.successor.freed_at),
        freed_by=handover.successor.freed_by,
        interruption_h=None if outcome is None else outcome.interruption_h,
        overlap_h=None if outcome is None else outcome.overlap_h,
        forecast=None if handover.forecast is None else _serialize_start(handover.forecast),
    )


def _serialize_course(course: ForecastHistory) -> schemas.CourseView:
    return schemas.CourseView(
        link=course.handover.successor.index,
        points=[
            schemas.CoursePointView(
                at=to_instant(p.at),
                p10=to_instant(p.p10),
                p50=to_instant(p.p50),
                p90=to_instant(p.p90),
            )
            for p in course.points
        ],
    )
