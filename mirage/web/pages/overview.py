"""The page Now: chains that need attention, the next hand-overs, and what Mirage does."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from mirage.database.chains.chain_ranking import RankedChain, RankingFilter
from mirage.domain.callers.caller import JOBS, USAGE
from mirage.reports.overview import build_overview
from mirage.web import decision_text
from mirage.web.charts import handover_chart
from mirage.web.pages.page_context import CurrentPage, NavigationEntry, PageContext
from mirage.web.shared.dependencies import reject_nul, require_identity
from mirage.web.shared.overview_cursor import format_cursor, parse_cursor

ENTRY = NavigationEntry(name="Now", path="/", order=1)
router = APIRouter(include_in_schema=False, dependencies=[Depends(reject_nul)])

_ROWS = 25


@router.get("/")
def show_overview(
    page: CurrentPage,
    user: Annotated[str, Query(max_length=64)] = "",
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show the live chains, those at risk first. `after` is the next page's cursor."""
    require_identity(page.reader, JOBS, USAGE)
    own_rows = None if page.reader.can_see_all_chains else page.reader.build_own_rows()
    ranking = RankingFilter(own=own_rows, user=user.strip())
    begin = parse_cursor(after, parameter="after") if after else None
    return page.render_cached(
        "now.html", title="Now", make=lambda: _collect_values(page, ranking, begin)
    )


def _collect_values(
    page: PageContext, ranking: RankingFilter, begin: RankedChain | None
) -> dict[str, Any]:
    overview = build_overview(page.tx, page.cluster_id, ranking, after=begin, limit=_ROWS)
    rows = overview.rows[:_ROWS]
    return {
        "overview": overview,
        "rows": rows,
        "user": ranking.user,
        "is_first_page": begin is None,
        "next_cursor": format_cursor(rows[-1]) if len(overview.rows) > _ROWS else "",
        "describe_decision": decision_text.describe_decision,
        "describe_position": decision_text.describe_position,
        "draw_upcoming": handover_chart.draw_upcoming,
    }
