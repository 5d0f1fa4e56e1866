"""The page Queue: which jobs wait and why, past waits, and the forecast for a new job."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse

from mirage.domain.callers.caller import PARTITIONS
from mirage.domain.job_shape import JobShape
from mirage.domain.time_units import DAY_S
from mirage.domain.timelimit import parse_time_limit
from mirage.domain.wait_buckets import LimitClass, SizeClass
from mirage.errors import InputError, MalformedText, NotFound, TooMany
from mirage.provision.forecasts import submission_forecast
from mirage.provision.forecasts.submission_forecast import Requester, SubmissionForecast
from mirage.reports import queue_status, wait_statistics
from mirage.reports.queue_status import QueueStatus
from mirage.reports.wait_statistics import Span, WaitQuery, WaitsOverTime
from mirage.web.charts import wait_charts
from mirage.web.pages.page_context import HEADERS, CurrentPage, NavigationEntry, PageContext
from mirage.web.shared import quota
from mirage.web.shared.chain_access import get_minimum_jobs, get_visible_bounds
from mirage.web.shared.dependencies import Writer, Writing

MOST_NODES = 1_000_000
MOST_GPUS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastForm:
    """The form "If I submitted this now": the fields as they were written, and the job shape if the
    fields describe a job."""

    fields: Mapping[str, str]
    faults: Mapping[str, str] = field(default_factory=dict)
    """A sentence on what is wrong, by field."""
    shape: JobShape | None = None

    @classmethod
    def from_fields(cls, **raw_fields: str) -> "ForecastForm":
        """Build the form from its fields: `to` (the partition), nodes, time, gpus, account.

        If partition, nodes and time are empty, the form has neither faults nor a shape.
        """
        fields = {name: text.strip() for name, text in raw_fields.items()}
        if not any(fields[name] for name in ("to", "nodes", "time")):
            return cls(fields=fields)
        nodes, gpus = (
            _parse_number(fields["nodes"], MOST_NODES),
            _parse_number(fields["gpus"] or "0", MOST_GPUS),
        )
        limit_s = _parse_seconds(fields["time"])
        faults = {}
        if not fields["to"] or "," in fields["to"] or not fields["to"].isprintable():
            faults["to"] = "Name one partition."
        if not nodes:
            faults["nodes"] = "Give a whole number of nodes, 1 or more."
        if not limit_s:
            faults["time"] = "Give a time limit in sbatch's format: 48:00:00, or 2-0 for 2 days."
        if gpus is None:
            faults["gpus"] = "Give a whole number of GPUs, or leave it empty for whole nodes."
        if not fields["account"].isprintable():
            faults["account"] = "Give the name of a Slurm account, or leave the field empty."
        if faults:
            return cls(fields=fields, faults=faults)
        shape = JobShape(
            partition=fields["to"],
            nodes=nodes or 1,
            time_limit_s=limit_s or 1,
            gpus=gpus or 0,
            account=fields["account"],
        )
        return cls(fields=fields, shape=shape)


def _parse_number(text: str, limit: int) -> int | None:
    """Return the number; None if the text is not a whole number from 0 to `limit`."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(limit)):
        return None
    number = int(text)
    return number if number <= limit else None


def _parse_seconds(text: str) -> int | None:
    try:
        return parse_time_limit(text)
    except MalformedText:
        return None


ENTRY = NavigationEntry(name="Queue", path="/queue", order=2)
router = APIRouter(include_in_schema=False)

RANGES = {
    "2d": (2, Span.HOUR, "2 days, by the hour"),
    "7d": (7, Span.HOUR, "7 days, by the hour"),
    "14d": (14, Span.DAY, "14 days"),
    "90d": (90, Span.DAY, "90 days"),
    "365d": (365, Span.DAY, "a year"),
}
"""By the word in the address: days, the length of a step, and the label of the choice."""
_USUAL_RANGE = "14d"
SIZE_WORDS = {
    SizeClass.ONE: "1 node",
    SizeClass.FEW: "2 to 4 nodes",
    SizeClass.SOME: "5 to 16 nodes",
    SizeClass.MANY: "17 to 64 nodes",
    SizeClass.MOST: "65 nodes or more",
}
LIMIT_WORDS = {
    LimitClass.HOUR: "up to 1 h",
    LimitClass.HOURS_4: "1 to 4 h",
    LimitClass.HOURS_12: "4 to 12 h",
    LimitClass.DAY: "12 to 24 h",
    LimitClass.DAYS_2: "24 to 48 h",
    LimitClass.LONGER: "over 48 h, or none",
    LimitClass.UNKNOWN: "not known",
}

CURES = {
    "queue": "time alone",
    "jobs": "other jobs end",
    "date": "a set date comes",
    "person": "somebody has to act",
}

QueryWord = Annotated[str, Query(max_length=64)]


@router.get("/queue")
def show_queue(
    page: CurrentPage,
    *,
    over: QueryWord = _USUAL_RANGE,
    partition: QueryWord = "",
    size: QueryWord = "",
    limit: QueryWord = "",
    to: QueryWord = "",
    nodes: QueryWord = "",
    time: QueryWord = "",
    gpus: QueryWord = "",
    account: QueryWord = "",
) -> Response:
    """Show the queue and the two forms, for past waits and for a forecast.

    A form's value that cannot be read is ignored, or the page reports it beside the form.
    """
    query = _build_waits_query(page, over, partition, size, limit)
    form = ForecastForm.from_fields(to=to, nodes=nodes, time=time, gpus=gpus, account=account)
    forecast, message = _forecast_wait(page, form)
    queue = queue_status.read_queue_status(page.tx, page.cluster_id, page.reader)
    waits = wait_statistics.read_waits_over_time(
        page.tx, page.cluster_id, query, least=get_minimum_jobs(page.reader)
    )
    shows_partitions = page.reader.can_see(PARTITIONS)
    names = _list_partitions(queue, waits) if shows_partitions else ()
    return page.render_page(
        "queue.html",
        title="Queue",
        queue=queue,
        waits=waits if shows_partitions else replace(waits, partitions=()),
        partitions=names,
        partition_words=[(name, name) for name in names],
        over=over if over in RANGES else _USUAL_RANGE,
        range_words=[(name, words) for name, (_, _, words) in RANGES.items()],
        sizes=SIZE_WORDS,
        limits=LIMIT_WORDS,
        cures=CURES,
        chart=wait_charts.draw_waits,
        summary=wait_charts.summarize_waits,
        draw_forecast=wait_charts.draw_forecast,
        form=form,
        forecast=forecast,
        message=message,
        describe_forecast=submission_forecast.describe_forecast,
    )


@router.post("/queue/ask")
def ask_forecast(
    page: CurrentPage,
    writer: Writer,
    tx: Writing,
    *,
    to: QueryWord = "",
    nodes: QueryWord = "",
    time: QueryWord = "",
    gpus: QueryWord = "",
    account: QueryWord = "",
) -> Response:
    """Ask for a simulation of exactly this job, and lead back to the page."""
    form = ForecastForm.from_fields(to=to, nodes=nodes, time=time, gpus=gpus, account=account)
    if form.shape is None:
        raise InputError(
            "; ".join(form.faults.values())
            or "no job is described: fill in partition, nodes and time limit"
        )
    bounds = get_visible_bounds(page.context, writer, form.shape.partition)
    requester = Requester(writer.uid, page.context.quotas.forecasts_asked)
    submission_forecast.request_forecast(
        tx, page.cluster_id, form.shape, page.now, bounds=bounds, by=requester
    )
    target = f"{page.context.root_path}/queue?{urlencode(form.fields)}#if"
    return RedirectResponse(target, 303, headers=HEADERS)


def _build_waits_query(
    page: PageContext, over: str, partition: str, size: str, limit: str
) -> WaitQuery:
    days, by, _ = RANGES.get(over, RANGES[_USUAL_RANGE])
    until = page.now + 1
    return WaitQuery(
        # Days are whole ones: today's is one of them.
        since=until - days * DAY_S + (DAY_S if by is Span.DAY else 0),
        until=until,
        by=by,
        partition=partition.strip() if partition.isprintable() else "",
        size=SizeClass(size) if size in set(SizeClass) else None,
        limit=LimitClass(limit) if limit in set(LimitClass) else None,
    )


def _forecast_wait(page: PageContext, form: ForecastForm) -> tuple[SubmissionForecast | None, str]:
    """Return the forecast and "", or None and why there is no forecast.

    Returns None and "" if the form is empty or wrong.
    """
    if form.shape is None:
        return None, ""
    try:
        with quota.get_quota(page.request).limit_forecasts(quota.get_quota_holder(page.request)):
            forecast = submission_forecast.forecast_submission(
                page.tx,
                page.cluster_id,
                form.shape,
                page.now,
                least=get_minimum_jobs(page.reader),
                bounds=get_visible_bounds(page.context, page.reader, form.shape.partition),
            )
    except (NotFound, InputError, TooMany) as error:
        return None, str(error)
    return forecast, ""


def _list_partitions(queue: QueueStatus, waits: WaitsOverTime) -> tuple[str, ...]:
    """Return the names of the partitions that a reader can choose from."""
    queue_partitions = {row.name for row in queue.partitions}
    return tuple(sorted(queue_partitions | {group.name for group in waits.partitions}))
