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
    look: CurrentPage,
    user: Annotated[str, Query(max_length=64)] = "",
    after: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show the live chains, those at risk first. `after` is the next page's cursor."""
    require_identity(look.reader, JOBS, USAGE)
    own = None if look.reader.can_see_all_chains else look.reader.build_own_rows()
    wanted = RankingFilter(own=own, user=user.strip())
    begin = parse_cursor(after, parameter="after") if after else None
    return look.render_cached(
        "now.html", title="Now", make=lambda: _collect_values(look, wanted, begin)
    )


def _collect_values(
    look: PageContext, wanted: RankingFilter, begin: RankedChain | None
) -> dict[str, Any]:
    found = build_overview(look.tx, look.cluster_id, wanted, after=begin, limit=_ROWS)
    rows = found.rows[:_ROWS]
    return {
        "found": found,
        "rows": rows,
        "user": wanted.user,
        "first": begin is None,
        "following": format_cursor(rows[-1]) if len(found.rows) > _ROWS else "",
        "said": decision_text.describe_decision,
        "stands": decision_text.describe_position,
        "strip": handover_chart.draw_upcoming,
    }
