"""Measures and corrects the forecasts for jobs that users ask about before they submit.

For some new jobs of each tick, the service stores the forecast that their users would have got.
Once those jobs have started, the accuracy of each source is known. Later forecasts are corrected by
the errors of the earlier ones. `database.forecasts.job_forecasts` says why these are not the
forecasts of `job_forecast_recorder`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mirage.database.forecasts import forecast_trials
from mirage.database.forecasts.forecast_trials import ForecastTrial, TrialOutcome
from mirage.database.schema.engine import Transaction
from mirage.domain.arrays import Floats
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import ForecastAccuracy, JobShape
from mirage.domain.snapshot import Queue
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.policies.models.conformal import WINDOW_DAYS, compute_residual_quantiles
from mirage.provision.forecasts.new_jobs import sample_new_jobs

A_TICK = 10
"""The most new jobs of one look for which a forecast is stored."""
MOST = 5000
"""About the most trials that the accuracy is computed from."""
ENOUGH, ENOUGH_DAYS = 50, 5
"""Jobs and days that are needed before forecasts are corrected."""
LEAST = 20
"""Jobs that are needed before an accuracy is given."""

_LEVELS = (0.1, 0.5, 0.9)
_SHORTEST_S = 60.0


ForecastShape = Callable[[JobShape], tuple[str, Forecast] | None]
"""Returns the source and its uncorrected forecast; None if there is no forecast."""


def try_forecasts(
    queue: Queue, before: Queue, forecast_shape: ForecastShape
) -> list[ForecastTrial]:
    """Return trials for some new jobs: the forecasts that their users would have got."""
    trials = []
    for job in sample_new_jobs(queue, before, A_TICK):
        if job.time_limit_s is None or job.nodes < 1 or "," in job.partition:
            continue
        if job.gpus is None:
            continue
        shape = JobShape(
            partition=job.partition,
            nodes=job.nodes,
            time_limit_s=job.time_limit_s,
            gpus=job.gpus,
        )
        answer = forecast_shape(shape)
        if answer is None:
            continue
        source, forecast = answer
        if None not in {forecast.p10_s, forecast.p90_s}:
            trials.append(
                ForecastTrial(
                    job_id=job.job_id,
                    submit=job.submit,
                    at=queue.taken_at,
                    source=source,
                    forecast=forecast,
                )
            )
    return trials


def judge_sources(tx: Transaction, cluster_id: int, now: int) -> None:
    """Store each source's accuracy on the jobs of the last weeks, and delete older trials."""
    since = now - WINDOW_DAYS * DAY_S
    forecast_trials.forget_trials(tx, cluster_id, since)
    outcomes = forecast_trials.list_outcomes(tx, cluster_id, since, now, MOST)
    for source in sorted({o.source for o in outcomes}):
        quality = compute_quality([o for o in outcomes if o.source == source])
        if quality is not None:
            forecast_trials.save_quality(tx, cluster_id, source, now, quality)


def compute_quality(outcomes: Sequence[TrialOutcome]) -> ForecastAccuracy | None:
    """Return the accuracy of these forecasts; None if there are too few.

    A job that still waits counts once it has waited for longer than its p90.
    """
    settled = [o for o in outcomes if o.has_started or o.wait_s > o.quantiles_s[2]]
    if len(settled) < LEAST:
        return None
    wait_s = _round_short_waits(np.array([o.wait_s for o in settled], dtype=np.float64))
    forecast_s = _round_short_waits(np.array([o.quantiles_s for o in settled], dtype=np.float64))
    days = len({o.at // DAY_S for o in settled})
    # Errors are measured in log hours, since long waits have larger errors than short ones.
    residuals = np.log1p(wait_s / HOUR_S)[:, None] - np.log1p(forecast_s / HOUR_S)
    is_enough = len(settled) >= ENOUGH and days >= ENOUGH_DAYS
    shift = compute_residual_quantiles(residuals, days, _LEVELS) if is_enough else None
    low, middle, high = forecast_s.T
    return ForecastAccuracy(
        jobs=len(settled),
        days=days,
        within=float(((wait_s >= low) & (wait_s <= high)).mean()),
        below_p90=float((wait_s <= high).mean()),
        error_s=float(np.median(np.abs(wait_s - middle))),
        shift=None if shift is None else (float(shift[0]), float(shift[1]), float(shift[2])),
    )


def _round_short_waits(seconds: Floats) -> Floats:
    """Return the waits, with 0 for those below a minute: a scheduler's pass takes that long."""
    return np.where(seconds < _SHORTEST_S, 0.0, seconds)


def shift_forecast(forecast: Forecast, quality: ForecastAccuracy | None) -> Forecast:
    """Return the forecast, corrected by the last weeks; unchanged if there are too few of them."""
    if quality is None or quality.shift is None or None in {forecast.p10_s, forecast.p90_s}:
        return forecast
    plain_s = np.array([forecast.p10_s, forecast.p50_s, forecast.p90_s], dtype=np.float64)
    hours = np.expm1(np.log1p(plain_s / HOUR_S) + np.array(quality.shift))
    p10, p50, p90 = np.sort(np.maximum(hours, 0.0) * HOUR_S).round().tolist()
    return replace(forecast, p10_s=p10, p50_s=p50, p90_s=p90)
