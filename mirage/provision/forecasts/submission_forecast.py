"""Forecasts how long a job would wait if a user submitted it now, from stored data.

The worker asks the twin beforehand (`shape_forecaster`). If the twin has no answer for a job of
this shape, nor for a similar shape, the forecast comes from the recent waits of similar jobs.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mirage.database.forecasts import forecast_trials, shape_forecasts
from mirage.database.jobs import job_history, queue_summary
from mirage.database.schema.engine import Transaction
from mirage.domain.decision import RECENT_JOBS, Forecast
from mirage.domain.job_shape import WHOLE_NODES, ForecastAccuracy, JobShape, ShapeForecast
from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import format_time_limit
from mirage.errors import InputError, NeverStarts, NotFound, TooMany
from mirage.policies.rules.lead_rules import Likeness, classify_likeness, forecast_wait
from mirage.provision.forecasts import forecast_calibration

FRESH_S = 1800
"""An answer of the twin that is older than this many seconds is not used."""
NEAR = 1.0
"""Another shape's answer is used if nodes and time limit together differ by at most this many
doublings."""
ASKED_S = 1800
"""Seconds for which the worker tries to answer a user's request."""
MOST_ASKED = 64
"""The most shapes that all users together may ask about in ASKED_S."""
JUDGED_S = 2 * 86400
"""A forecast accuracy that is older than this many seconds is not used."""

TWIN, QUANTILE = "twin", "quantile"


_FOREVER = 2**62
"""An instant after all others."""
_NOMINAL_COVERAGE = 0.8
"""The share of waits that should lie between p10 and p90."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """The bounds of a partition, as far as the caller may know them."""

    sees_nodes: bool = True
    """Whether the caller may see nodes. If not, no refusal tells how many nodes there are."""
    max_time_s: int = 0
    """MaxTime in seconds; 0 if the partition has none, or if it is not known."""


@dataclass(frozen=True, slots=True)
class Requester:
    """A user who asks for forecasts, and how many shapes they may ask about."""

    uid: int
    most: int
    """The most shapes that the user may ask about in `ASKED_S`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionForecast:
    """The forecast for a user who would submit a job of the shape now."""

    shape: JobShape
    source: str
    """TWIN, or QUANTILE for the waits of similar jobs."""
    used: JobShape
    """The shape that the forecast was made for; it may be a similar one."""
    at: int
    """When the forecast was made."""
    forecast: Forecast
    """The forecast, corrected by the errors of the last weeks if they are known."""
    plain: Forecast
    """The forecast without correction."""
    likeness: Likeness | None
    """How similar the jobs are that the forecast was made from; None for the twin's."""
    quality: ForecastAccuracy | None
    refused: str
    """Why the twin has no answer for exactly this shape; empty if it has one or was not asked."""
    waiting: bool
    """Whether a user has asked the twin for exactly this shape and the answer is still to come."""

    @property
    def exact(self) -> bool:
        return self.used == self.shape

    @property
    def calibrated(self) -> bool:
        return self.forecast != self.plain or bool(self.quality and self.quality.shift)


def forecast_submission(
    tx: Transaction,
    cluster_id: int,
    shape: JobShape,
    now: int,
    *,
    least: int = 1,
    bounds: PartitionBounds = PartitionBounds(),
) -> SubmissionForecast:
    """Return the stored forecast that is nearest to the shape.

    Raises NeverStarts if the partition cannot run such a job. Raises NotFound if nothing is known,
    or if fewer than `least` similar jobs have started.
    """
    _check_fits(tx, cluster_id, shape, bounds)
    stored = shape_forecasts.list_forecasts(tx, cluster_id, shape.partition)
    own = next((row for row in stored if row.shape == shape), None)
    nearest = _find_nearest(stored, shape, now)
    if nearest is None:
        source, used, at = QUANTILE, shape, now
        plain, likeness = _forecast_from_like(tx, cluster_id, shape, now, least)
    else:
        source, used, likeness = TWIN, nearest.shape, None
        at, plain = nearest.at or now, nearest.forecast or Forecast(p50_s=0.0)
    quality = forecast_trials.find_quality(tx, cluster_id, source, now - JUDGED_S)
    return SubmissionForecast(
        shape=shape,
        source=source,
        used=used,
        at=at,
        forecast=forecast_calibration.shift_forecast(plain, quality),
        plain=plain,
        likeness=likeness,
        quality=quality,
        refused="" if own is None else own.refused,
        waiting=own is not None and _is_waiting(own, now),
    )


def _check_fits(tx: Transaction, cluster_id: int, shape: JobShape, bounds: PartitionBounds) -> None:
    if 0 < bounds.max_time_s < shape.time_limit_s:
        most = format_time_limit(bounds.max_time_s)
        raise NeverStarts("time_limit_s", f"partition {shape.partition} has MaxTime={most}")
    summary = queue_summary.find_summary(tx, cluster_id) if bounds.sees_nodes else None
    rows = () if summary is None else summary.nodes
    nodes = next((row.nodes for row in rows if row.partition == shape.partition), None)
    if nodes is not None and shape.nodes > nodes:
        raise NeverStarts("nodes", f"partition {shape.partition} has {nodes} nodes")


def request_forecast(
    tx: Transaction,
    cluster_id: int,
    shape: JobShape,
    now: int,
    *,
    bounds: PartitionBounds = PartitionBounds(),
    by: Requester | None = None,
) -> None:
    """Have the worker ask the twin about exactly this shape.

    Raises InputError for an unknown partition, NeverStarts, and TooMany above the quotas.
    """
    if not _is_known(tx, cluster_id, shape.partition):
        raise InputError(
            f"unknown partition {shape.partition}: Slurm reports no nodes for it, and no job has "
            "started in it"
        )
    _check_fits(tx, cluster_id, shape, bounds)
    own = shape_forecasts.find_forecast(tx, cluster_id, shape)
    if own is not None and _is_waiting(own, now):
        return
    _check_room(tx, cluster_id, now, MOST_ASKED, f"{MOST_ASKED} other jobs have been asked about")
    if by is not None:
        reason = f"you have asked about {by.most} jobs (quota.forecasts_asked)"
        _check_room(tx, cluster_id, now, by.most, reason, by.uid)
    shape_forecasts.request_forecast(tx, cluster_id, shape, now, by=None if by is None else by.uid)


def _check_room(
    tx: Transaction, cluster_id: int, now: int, most: int, reason: str, uid: int | None = None
) -> None:
    requests = shape_forecasts.count_requests(tx, cluster_id, now - ASKED_S, by=uid)
    if requests.shapes >= most:
        raise TooMany(
            f"{reason} in the last {ASKED_S // 60} minutes: "
            "ask again later, or read the forecast of a similar job",
            (requests.first or now) + ASKED_S + 1 - now,
        )


def _is_known(tx: Transaction, cluster_id: int, partition: str) -> bool:
    summary = queue_summary.find_summary(tx, cluster_id)
    if summary is not None:
        partitions = {row.partition for row in summary.queue}
        if partition in partitions | {row.partition for row in summary.nodes}:
            return True
    return len(job_history.read_waits(tx, cluster_id, partition, before=_FOREVER, last=1)) > 0


def _is_waiting(row: ShapeForecast, now: int) -> bool:
    return row.asked_at >= now - ASKED_S and (row.at is None or row.at < row.asked_at)


def _find_nearest(
    stored: Iterable[ShapeForecast], shape: JobShape, now: int
) -> ShapeForecast | None:
    fresh = [
        row
        for row in stored
        if row.forecast is not None
        and row.at is not None
        and row.at >= now - FRESH_S
        # If jobs get whole nodes, GPUs make no difference.
        and row.shape.gpus in {WHOLE_NODES, shape.gpus}
        and row.shape.account in {"", shape.account}
        and row.shape.measure_distance(shape) <= NEAR
    ]
    return min(fresh, key=lambda row: _compute_distance(row.shape, shape), default=None)


def _compute_distance(stored: JobShape, requested: JobShape) -> tuple[bool, float, bool]:
    return (
        stored.gpus != requested.gpus,
        stored.measure_distance(requested),
        stored.account != requested.account,
    )


def _forecast_from_like(
    tx: Transaction, cluster_id: int, shape: JobShape, now: int, least: int
) -> tuple[Forecast, Likeness]:
    """Return the forecast from the recent waits of similar jobs, and how similar they are.

    Raises NotFound if no started jobs of the partition are known, or fewer than `least` similar
    ones.
    """
    waits = job_history.read_waits(tx, cluster_id, shape.partition, before=now, last=RECENT_JOBS)
    forecast = forecast_wait(waits, shape.nodes, shape.time_limit_s)
    if forecast is None:
        raise NotFound(f"no started jobs of partition {shape.partition} are known")
    if forecast.samples < least:
        raise NotFound(
            "fewer similar jobs have started than a forecast needs that does not tell about "
            "single jobs of others"
        )
    return forecast, classify_likeness(waits, shape.nodes, shape.time_limit_s)


def describe_forecast(forecast: SubmissionForecast, now: int) -> tuple[str, ...]:
    """Return sentences: how the forecast was made, for which job, and how good it is."""
    sentences = (
        _describe_source(forecast, now),
        _describe_substitute(forecast),
        _describe_certainty(forecast),
    )
    return tuple(filter(None, sentences))


_LIKE = {
    Likeness.SHAPE: "similar jobs (nodes and time limit within a factor of two)",
    Likeness.NODES: "jobs of about as many nodes, whatever their time limit: few are more similar",
    Likeness.NOTHING: "jobs of the partition, whatever their size: few are similar",
}


def _describe_source(forecast: SubmissionForecast, now: int) -> str:
    if forecast.likeness is not None:
        return f"From the waits of the last {forecast.plain.samples} {_LIKE[forecast.likeness]}."
    ago = max(0, now - forecast.at) // MINUTE_S
    as_of = f"as it was {ago} min ago" if ago else "as it is"
    return f"From {forecast.plain.samples} simulated futures of the queue {as_of} (the twin)."


def _describe_substitute(forecast: SubmissionForecast) -> str:
    if forecast.source == QUANTILE:
        if forecast.waiting:
            return "The twin has been asked for exactly this job, and answers within some minutes."
        return (
            f"The twin has no forecast for this job: {forecast.refused}."
            if forecast.refused
            else ""
        )
    if forecast.exact:
        return ""
    used, gpus = forecast.used, ""
    if used.gpus != forecast.shape.gpus:
        gpus = " and whole nodes"
    nearest = f"{used.nodes} nodes, {_format_limit(used.time_limit_s)}{gpus}"
    request = " The twin has been asked about exactly your job as well." if forecast.waiting else ""
    return f"The forecast is for the most similar job that the twin knows: {nearest}.{request}"


def _format_limit(time_limit_s: int) -> str:
    return f"a time limit of {format_time_limit(time_limit_s)}"


def _describe_certainty(forecast: SubmissionForecast) -> str:
    quality = forecast.quality
    if quality is None:
        return (
            "The accuracy of such forecasts on this cluster is not known yet: too few jobs have "
            "started since."
        )
    accuracy = (
        f"Of {quality.jobs} jobs of the last weeks with such a forecast, {quality.within:.0%} "
        f"started between p10 and p90 ({_NOMINAL_COVERAGE:.0%} would be right)"
    )
    if quality.shift is None:
        return f"{accuracy}; they are too few to correct this forecast."
    return f"{accuracy}. p10, p50 and p90 are corrected by the errors of those forecasts."
