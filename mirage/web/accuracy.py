"""The page Accuracy: what was foretold against what happened. It is public."""

from fastapi import APIRouter, Response

from mirage.api.remembered import lately
from mirage.services import stored_report
from mirage.services.accuracy import NOMINAL, accuracy
from mirage.services.report import ORDER
from mirage.web import accuracy_charts as charts
from mirage.web.page import Entry, Looking
from mirage.web.ranges import CHOICES, DAYS, Days

ENTRY = Entry(name="Accuracy", path="/accuracy", order=3)
router = APIRouter(include_in_schema=False)


@router.get("/accuracy")
def show(look: Looking, days: Days = DAYS) -> Response:
    """Of the last `days` days."""
    span = (look.cluster_id, *lately(look.now, days))
    found = look.given.remembered.of(accuracy, look.tx, span, look.reader)
    report = stored_report.shadow(look.tx, look.cluster_id, look.reader)
    groups = [] if report is None else report.document["groups"]
    return look.page(
        "accuracy.html",
        title="Accuracy",
        found=found,
        everywhere=found.places[0] if found.places else None,
        days=days,
        choices=CHOICES,
        nominal=NOMINAL,
        report=report,
        group=groups[0] if groups else None,
        order=ORDER,
        charts=charts,
    )
