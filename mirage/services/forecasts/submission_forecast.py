"""If I submitted this now: how long it would wait, from what is stored.

The worker asks the twin ahead of those who look (`shape_forecaster`). Where it has no answer
for a job of this shape, nor one near it, what like jobs waited lately is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mirage.domain.decision import RECENT_JOBS, Forecast
from mirage.domain.job_shape import WHOLE_NODES, ForecastAccuracy, JobShape, ShapeForecast
from mirage.domain.time_units import MINUTE_S
from mirage.domain.timelimit import format_time_limit
from mirage.errors import InputError, NeverStarts, NotFound, TooMany
from mirage.policy.rules.lead_rules import Likeness, classify_likeness, forecast_wait
from mirage.services.forecasts import forecast_calibration
from mirage.store.database.engine import Transaction
from mirage.store.forecasts import forecast_trials, shape_forecasts
from mirage.store.jobs import job_history, queue_summary

FRESH_S = 1800
"""An older answer of the twin is not shown."""
NEAR = 1.0
"""Doublings of nodes and of time limit together, within which another shape's answer is shown."""
ASKED_S = 1800
"""For so long the worker tries to answer what somebody asked."""
MOST_ASKED = 64
"""Shapes that may be asked about in that time."""
JUDGED_S = 2 * 86400
"""An older judgement of the forecasts is not shown."""

TWIN, QUANTILE = "twin", "quantile"


_FAR = 2**62
_MEANT = 0.8
"""Of the waits lie between p10 and p90."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """The bounds of a partition, as far as the person who asks may know them."""

    sees_nodes: bool = True
    """To whom nodes are private, a refusal would tell how many there are."""
    max_time_s: int = 0
    """0: none, or not known."""


@dataclass(frozen=True, slots=True)
class Requester:
    """A user who asks for forecasts, and how many shapes they may ask about."""

    uid: int
    most: int
    """Shapes in `ASKED_S`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionForecast:
    """A forecast as it is told to a user who would submit a job of the shape now."""

    shape: JobShape
    source: str
    """Who says so: the twin, or the quantiles of what like jobs waited."""
    used: JobShape
    """The shape that it was foretold of."""
    at: int
    """When."""
    forecast: Forecast
    """Moved by what the last weeks would have needed, where they say."""
    plain: Forecast
    """As it was foretold."""
    likeness: Likeness | None
    """Of the jobs that it was foretold from; None: by the twin."""
    quality: ForecastAccuracy | None
    refused: str
    """Why the twin says nothing of exactly this shape; empty: it does, or was not asked yet."""
    waiting: bool
    """Somebody has asked for exactly this shape, and the worker has not answered yet."""

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
    """Raises NeverStarts; and NotFound where nothing is known, `least`: nor from fewer started jobs
    than that."""
    _check_fits(tx, cluster_id, shape, bounds)
    known = shape_forecasts.list_forecasts(tx, cluster_id, shape.partition)
    own = next((row for row in known if row.shape == shape), None)
    nearest = _find_nearest(known, shape, now)
    if nearest is None:
        source, used, at = QUANTILE, shape, now
        plain, alike = _forecast_from_like(tx, cluster_id, shape, now, least)
    else:
        source, used, alike = TWIN, nearest.shape, None
        at, plain = nearest.at or now, nearest.forecast or Forecast(p50_s=0.0)
    quality = forecast_trials.find_quality(tx, cluster_id, source, now - JUDGED_S)
    return SubmissionForecast(
        shape=shape,
        source=source,
        used=used,
        at=at,
        forecast=forecast_calibration.shift_forecast(plain, quality),
        plain=plain,
        likeness=alike,
        quality=quality,
        refused="" if own is None else own.refused,
        waiting=own is not None and _is_waiting(own, now),
    )


def _check_fits(tx: Transaction, cluster_id: int, shape: JobShape, bounds: PartitionBounds) -> None:
    if 0 < bounds.max_time_s < shape.time_limit_s:
        most = format_time_limit(bounds.max_time_s)
        raise NeverStarts("time_limit_s", f"partition {shape.partition} has MaxTime={most}")
    seen = queue_summary.find_summary(tx, cluster_id) if bounds.sees_nodes else None
    known = () if seen is None else seen.nodes
    nodes = next((row.nodes for row in known if row.partition == shape.partition), None)
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
    """Have the twin asked for exactly this shape. Raises InputError, NeverStarts, TooMany."""
    if not _is_known(tx, cluster_id, shape.partition):
        raise InputError("no such partition is known: neither has it nodes, nor did a job start")
    _check_fits(tx, cluster_id, shape, bounds)
    own = shape_forecasts.find_forecast(tx, cluster_id, shape)
    if own is not None and _is_waiting(own, now):
        return
    _check_room(tx, cluster_id, now, MOST_ASKED, f"{MOST_ASKED} other jobs have been asked about")
    if by is not None:
        said = f"you have asked about {by.most} jobs (quota.forecasts_asked)"
        _check_room(tx, cluster_id, now, by.most, said, by.uid)
    shape_forecasts.request_forecast(tx, cluster_id, shape, now, by=None if by is None else by.uid)


def _check_room(
    tx: Transaction, cluster_id: int, now: int, most: int, said: str, uid: int | None = None
) -> None:
    found = shape_forecasts.count_requests(tx, cluster_id, now - ASKED_S, by=uid)
    if found.shapes >= most:
        raise TooMany(
            f"{said} in the last {ASKED_S // 60} minutes: "
            "ask again later, or look at the nearest one that was foretold",
            (found.first or now) + ASKED_S + 1 - now,
        )


def _is_known(tx: Transaction, cluster_id: int, partition: str) -> bool:
    seen = queue_summary.find_summary(tx, cluster_id)
    if seen is not None:
        named = {row.partition for row in seen.queue} | {row.partition for row in seen.nodes}
        if partition in named:
            return True
    return len(job_history.read_waits(tx, cluster_id, partition, before=_FAR, last=1)) > 0


def _is_waiting(row: ShapeForecast, now: int) -> bool:
    return row.asked_at >= now - ASKED_S and (row.at is None or row.at < row.asked_at)


def _find_nearest(
    known: Iterable[ShapeForecast], shape: JobShape, now: int
) -> ShapeForecast | None:
    fresh = [
        row
        for row in known
        if row.forecast is not None
        and row.at is not None
        and row.at >= now - FRESH_S
        # Where jobs have whole nodes, GPUs make no difference.
        and row.shape.gpus in {WHOLE_NODES, shape.gpus}
        and row.shape.account in {"", shape.account}
        and row.shape.measure_distance(shape) <= NEAR
    ]
    return min(fresh, key=lambda row: _compute_distance(row.shape, shape), default=None)


def _compute_distance(found: JobShape, wanted: JobShape) -> tuple[bool, float, bool]:
    return (
        found.gpus != wanted.gpus,
        found.measure_distance(wanted),
        found.account != wanted.account,
    )


def _forecast_from_like(
    tx: Transaction, cluster_id: int, shape: JobShape, now: int, least: int
) -> tuple[Forecast, Likeness]:
    """Return the forecast from what like jobs of the partition waited lately, and their likeness.

    Raises NotFound if no started jobs of the partition are known, or fewer like ones than `least`.
    """
    waits = job_history.read_waits(tx, cluster_id, shape.partition, before=now, last=RECENT_JOBS)
    made = forecast_wait(waits, shape.nodes, shape.time_limit_s)
    if made is None:
        raise NotFound(f"no started jobs of partition {shape.partition} are known")
    if made.samples < least:
        raise NotFound("too few jobs like it have started to tell of them without telling whose")
    return made, classify_likeness(waits, shape.nodes, shape.time_limit_s)


def describe_forecast(found: SubmissionForecast, now: int) -> tuple[str, ...]:
    """Return sentences: who made the forecast, of which job, and how sure it is."""
    return tuple(
        filter(
            None,
            (_describe_source(found, now), _describe_substitute(found), _describe_certainty(found)),
        )
    )


_LIKE = {
    Likeness.SHAPE: "like it waited (nodes and time limit within a factor of two)",
    Likeness.NODES: "of about its nodes waited, whatever their time limit: too few are nearer",
    Likeness.NOTHING: "of its partition waited, whatever their size: too few are like it",
}


def _describe_source(found: SubmissionForecast, now: int) -> str:
    if found.likeness is not None:
        return f"From what the last {found.plain.samples} jobs {_LIKE[found.likeness]}."
    ago = max(0, now - found.at) // MINUTE_S
    as_of = f"as it was {ago} min ago" if ago else "as it is"
    return f"From {found.plain.samples} simulated futures of the queue {as_of} (the twin)."


def _describe_substitute(found: SubmissionForecast) -> str:
    if found.source == QUANTILE:
        if found.waiting:
            return "The twin has been asked for exactly this job, and answers within some minutes."
        return f"The twin says nothing of it: {found.refused}." if found.refused else ""
    if found.exact:
        return ""
    used, gpus = found.used, ""
    if used.gpus != found.shape.gpus:
        gpus = " and whole nodes"
    nearest = f"{used.nodes} nodes, {_format_limit(used.time_limit_s)}{gpus}"
    asked = " It has been asked for exactly yours as well." if found.waiting else ""
    return f"Foretold of the nearest job that the twin was asked about: {nearest}.{asked}"


def _format_limit(time_limit_s: int) -> str:
    return f"a time limit of {format_time_limit(time_limit_s)}"


def _describe_certainty(found: SubmissionForecast) -> str:
    quality = found.quality
    if quality is None:
        return "How good such forecasts are here is not known yet: too few jobs have tried them."
    tried = (
        f"Of {quality.jobs} jobs of the last weeks that were foretold so, {quality.within:.0%} "
        f"started between p10 and p90 ({_MEANT:.0%} is meant)"
    )
    if quality.shift is None:
        return f"{tried}; they are too few to correct it by."
    return f"{tried}: p10, p50 and p90 are corrected by what those would have needed."
