"""The page Impact: interruption saved and overlap spent; what is measured and what is estimated."""

from fastapi import APIRouter, Response

from mirage.api.deps import need
from mirage.api.remembered import lately
from mirage.domain.caller import JOBS, USAGE
from mirage.services import stored_report
from mirage.services.impact import SHOWN, impact
from mirage.web import impact_charts as charts
from mirage.web.page import Entry, Looking
from mirage.web.ranges import CHOICES, DAYS, Days

ENTRY = Entry(name="Impact", path="/impact", order=4)
router = APIRouter(include_in_schema=False)


@router.get("/impact")
def show(look: Looking, days: Days = DAYS) -> Response:
    """Of hand-overs of the last `days` days; of one's own chains where usage is private."""
    need(look.reader, JOBS, USAGE)
    span = (look.cluster_id, *lately(look.now, days))
    found = look.given.remembered.of(impact, look.tx, span, look.reader)
    return look.page(
        "impact.html",
        title="Impact",
        found=found,
        days=days,
        choices=CHOICES,
        shown=SHOWN,
        report=stored_report.shadow(look.tx, look.cluster_id, look.reader),
        charts=charts,
    )
