"""Routes of the reports: accuracy of forecasts, impact, and the shadow report."""

from dataclasses import fields
from typing import Annotated, Any

from fastapi import APIRouter, Query

from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, USAGE
from mirage.errors import NotFound
from mirage.reports import stored_report
from mirage.reports.forecast_accuracy import build_accuracy
from mirage.reports.impact import build_impact
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.schemas import report_schemas as schemas
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import (
    Context,
    Reader,
    Reading,
    read_freshness,
    require_identity,
    to_instant,
)
from mirage.web.shared.response_cache import get_recent_span

router = APIRouter(tags=["reports"])

DAYS = 30
MOST_DAYS = 366

ReportDays = Annotated[
    int,
    Query(
        ge=1, le=MOST_DAYS, description="The number of days to look back from now.", examples=[DAYS]
    ),
]


@router.get("/accuracy", operation_id="getAccuracy", responses=describe_read_errors(401))
def get_accuracy(
    context: Context, reader: Reader, tx: Reading, days: ReportDays = DAYS
) -> schemas.AccuracyView:
    """Compare forecasts with outcomes: calibration, errors, and Slurm's own plan beside them.

    The figures cover hand-overs and a sample of the submitted jobs, each forecast at its
    submission.
    """
    span = (context.cluster_id, *get_recent_span(context.clock(), days))
    accuracy = context.response_cache.get_or_make_report(build_accuracy, tx, span, reader)
    return schemas.AccuracyView.model_validate(
        _add_freshness(accuracy, tx, context), from_attributes=True
    )


@router.get("/impact", operation_id="getImpact", responses=describe_read_errors(401))
def get_impact(
    context: Context, reader: Reader, tx: Reading, days: ReportDays = DAYS
) -> schemas.ImpactView:
    """Return interruption saved against each baseline and overlap spent, by mode act and shadow.

    Where the cluster keeps jobs or usage private, the figures cover only the caller's own chains.
    """
    require_identity(reader, JOBS, USAGE)
    span = (context.cluster_id, *get_recent_span(context.clock(), days))
    impact = context.response_cache.get_or_make_report(build_impact, tx, span, reader)
    return schemas.ImpactView.model_validate(
        _add_freshness(impact, tx, context), from_attributes=True
    )


@router.get(
    "/reports/shadow", operation_id="getShadowReport", responses=describe_read_errors(401, 404)
)
def get_shadow_report(context: Context, reader: Reader, tx: Reading) -> schemas.ShadowReportView:
    """Return the last report of `mirage report shadow`: what acting would have changed."""
    report = stored_report.read_shadow_report(tx, context.cluster_id, reader)
    if report is None:
        raise NotFound("no shadow report has been made yet: run `mirage report shadow`")
    freshness = read_freshness(tx, context)
    return schemas.ShadowReportView(
        made_at=to_instant(report.at),
        recommendation=report.document["recommendation"],
        report=dict(report.document),
        as_of=freshness.as_of,
        stale=freshness.stale,
    )


def _add_freshness(report: Any, tx: Transaction, context: ApiContext) -> dict[str, Any]:
    """Return the fields of a dataclass with `as_of` and `stale`."""
    freshness = read_freshness(tx, context)
    values = {field.name: getattr(report, field.name) for field in fields(report)}
    return values | {"as_of": freshness.as_of, "stale": freshness.stale}
