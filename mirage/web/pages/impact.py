"""The page Impact: interruption saved and overlap spent, both measured and estimated."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from mirage.domain.callers.caller import JOBS, USAGE
from mirage.reports import stored_report
from mirage.reports.impact import SHOWN, build_impact
from mirage.web.charts import impact_charts as charts
from mirage.web.day_ranges import CHOICES, DAYS, DaysQuery
from mirage.web.pages.page_context import CurrentPage, NavigationEntry, PageContext
from mirage.web.shared.dependencies import require_identity
from mirage.web.shared.response_cache import get_recent_span

ENTRY = NavigationEntry(name="Impact", path="/impact", order=4)
router = APIRouter(include_in_schema=False)


@router.get("/impact")
def show_impact(page: CurrentPage, days: DaysQuery = DAYS) -> Response:
    """Show the hand-overs of the last `days` days.

    Where usage is private, readers see only those of their own chains.
    """
    require_identity(page.reader, JOBS, USAGE)
    span = (page.cluster_id, *get_recent_span(page.now, days))
    make = partial(_collect_values, page, span, days)
    return page.render_cached("impact.html", title="Impact", make=make, until=span[-1])


def _collect_values(page: PageContext, span: tuple[int, int, int], days: int) -> dict[str, Any]:
    return {
        "impact": page.context.response_cache.get_or_make_report(
            build_impact, page.tx, span, page.reader
        ),
        "days": days,
        "choices": CHOICES,
        "row_limit": SHOWN,
        "report": stored_report.read_shadow_report(page.tx, page.cluster_id, page.reader),
        "charts": charts,
    }
