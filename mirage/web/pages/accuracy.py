"""The page Accuracy: forecasts compared with what happened. The page is public."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from mirage.reports import stored_report
from mirage.reports.forecast_accuracy import NOMINAL, build_accuracy
from mirage.reports.recommendation import list_shown
from mirage.web.charts import accuracy_charts as charts
from mirage.web.day_ranges import CHOICES, DAYS, DaysQuery
from mirage.web.pages.page_context import CurrentPage, NavigationEntry, PageContext
from mirage.web.shared.response_cache import get_recent_span

ENTRY = NavigationEntry(name="Accuracy", path="/accuracy", order=3)
router = APIRouter(include_in_schema=False)


@router.get("/accuracy")
def show_accuracy(page: CurrentPage, days: DaysQuery = DAYS) -> Response:
    """Show the accuracy of the forecasts of the last `days` days."""
    span = (page.cluster_id, *get_recent_span(page.now, days))
    make = partial(_collect_values, page, span, days)
    return page.render_cached("accuracy.html", title="Accuracy", make=make, until=span[-1])


def _collect_values(page: PageContext, span: tuple[int, int, int], days: int) -> dict[str, Any]:
    accuracy = page.context.response_cache.get_or_make_report(
        build_accuracy, page.tx, span, page.reader
    )
    report = stored_report.read_shadow_report(page.tx, page.cluster_id, page.reader)
    groups = [] if report is None else report.document["groups"]
    return {
        "accuracy": accuracy,
        "everywhere": accuracy.places[0] if accuracy.places else None,
        "days": days,
        "choices": CHOICES,
        "nominal": NOMINAL,
        "report": report,
        "group": groups[0] if groups else None,
        "list_shown": list_shown,
        "charts": charts,
    }
