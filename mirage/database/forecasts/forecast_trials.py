"""Stores trials: forecasts that users would have got as they submitted jobs, and the real waits.

`database.forecasts.job_forecasts` says why trials are not the forecasts that it keeps.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from sqlalchemy import delete, func, or_, select

from mirage.database.jobs.job_times import build_ready_at, build_waited_s
from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import shape_quality, shape_trials
from mirage.database.schema.tables import jobs
from mirage.database.schema.upsert import put_row, put_row_if_absent
from mirage.domain.decision import Forecast
from mirage.domain.job import JobId, JobState
from mirage.domain.job_shape import ForecastAccuracy

_WAITING = tuple(state.value for state in JobState if state.is_waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastTrial:
    job_id: JobId
    submit: int
    at: int
    source: str
    forecast: Forecast
    """The forecast, with all three quantiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """A trial, and the outcome of its job."""

    at: int
    source: str
    quantiles_s: tuple[float, float, float]
    """The quantiles p10, p50 and p90, in seconds."""
    wait_s: int
    """The wait in seconds; for a job that still waits, its wait so far."""
    has_started: bool


def record_trials(tx: Transaction, cluster_id: int, trials: Iterable[ForecastTrial]) -> None:
    """Store trials. The first forecast of a job stays."""
    for trial in trials:
        forecast = trial.forecast
        values: dict[str, Any] = {
            "cluster_id": cluster_id,
            "job_id": trial.job_id,
            "submit": trial.submit,
            "at": trial.at,
            "source": trial.source,
            "p10_s": forecast.p10_s,
            "p50_s": forecast.p50_s,
            "p90_s": forecast.p90_s,
        }
        put_row_if_absent(tx, shape_trials, values, key=["cluster_id", "job_id", "submit"])


def list_outcomes(
    tx: Transaction, cluster_id: int, since: int, now: int, limit: int
) -> list[TrialOutcome]:
    """Return the outcomes of the trials made at `since` or later whose p90 has passed.

    A trial waits for its p90, so that quick starts do not count more than slow ones. About `limit`
    outcomes at most are returned, evenly from all days.
    """
    trials = shape_trials.c
    is_due = (
        trials.cluster_id == cluster_id,
        trials.at >= since,
        trials.at + trials.p90_s <= now,
    )
    count = tx.execute(select(func.count()).select_from(shape_trials).where(*is_due)).scalar_one()
    step = max(1, ceil(count / limit))
    has_started = jobs.c.start.is_not(None)
    query = (
        select(
            *(trials[n] for n in ("at", "source", "p10_s", "p50_s", "p90_s")),
            build_ready_at().label("ready"),
            build_waited_s().label("waited_s"),
        )
        .join(
            jobs,
            (jobs.c.cluster_id == trials.cluster_id)
            & (jobs.c.job_id == trials.job_id)
            & (jobs.c.submit == trials.submit),
        )
        # A job that was cancelled while it waited is left out: its wait is not known.
        .where(*is_due, trials.job_id % step == 0, or_(has_started, jobs.c.state.in_(_WAITING)))
        .order_by(trials.at.desc())
    )
    return [
        TrialOutcome(
            at=row.at,
            source=row.source,
            quantiles_s=(row.p10_s, row.p50_s, row.p90_s),
            wait_s=max(0, now - row.ready) if row.waited_s is None else row.waited_s,
            has_started=row.waited_s is not None,
        )
        for row in tx.execute(query)
    ]


def forget_trials(tx: Transaction, cluster_id: int, before: int) -> None:
    tx.execute(
        delete(shape_trials).where(
            shape_trials.c.cluster_id == cluster_id, shape_trials.c.at < before
        )
    )


def save_quality(
    tx: Transaction, cluster_id: int, source: str, at: int, accuracy: ForecastAccuracy
) -> None:
    values = {"cluster_id": cluster_id, "source": source, "at": at, "found": asdict(accuracy)}
    put_row(tx, shape_quality, values, key=["cluster_id", "source"])


def find_quality(
    tx: Transaction, cluster_id: int, source: str, since: int
) -> ForecastAccuracy | None:
    """Return the last judgement if it was made since then; otherwise None."""
    stored = tx.scalar(
        select(shape_quality.c.found).where(
            shape_quality.c.cluster_id == cluster_id,
            shape_quality.c.source == source,
            shape_quality.c.at >= since,
        )
    )
    if stored is None:
        return None
    shift = stored["shift"]
    return ForecastAccuracy(**(stored | {"shift": None if shift is None else tuple(shift)}))


def list_qualities(tx: Transaction, cluster_id: int, since: int) -> dict[str, ForecastAccuracy]:
    """Return the last judgement of each source, by source, if it was made since then."""
    query = select(shape_quality.c.source).where(
        shape_quality.c.cluster_id == cluster_id, shape_quality.c.at >= since
    )
    by_source = {
        name: find_quality(tx, cluster_id, name, since) for name in tx.scalars(query).all()
    }
    return {name: accuracy for name, accuracy in sorted(by_source.items()) if accuracy is not None}
