"""Compares forecasts with outcomes, by sums that the worker keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.database.forecasts import forecast_trials, handover_forecasts, job_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, PARTITIONS, Principal
from mirage.domain.job_shape import ForecastAccuracy
from mirage.domain.time_units import DAY_S, WEEK_S
from mirage.provision.forecasts.accuracy_tally import Tally, compute_median, compute_pinball_loss
from mirage.provision.forecasts.submission_forecast import JUDGED_S
from mirage.reports.daily_bootstrap import Interval, bootstrap_share
from mirage.twin.twin_features import LEVELS

LEAST_RESULTS = 100
LEAST_DAYS = 7
"""With fewer results, or on fewer days, the report says that nothing can be concluded."""
FEWEST_SHOWN = 10
"""The fewest jobs of which figures are shown where jobs are private. Figures of fewer jobs would
reveal single jobs, so only their number is shown."""
NOMINAL = 0.8
"""The share of waits that p10 to p90 is to hold."""

_MONDAY_S = 4 * DAY_S
"""The first Monday after the epoch, which was a Thursday."""
_BY_DAY_S = 31 * DAY_S
"""The longest range that is shown by day; a longer one is shown by week."""
_HANDOVERS = 2000
"""The most hand-overs whose forecasts are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyPoint:
    """The forecasts of one day or one week, in one partition."""

    since: int
    count: int
    median_s: float | None
    slurm_median_s: float | None
    covered: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideSlurm:
    """The median |forecast - wait| of jobs for which Slurm planned a start at the same look."""

    count: int
    median_s: float | None
    slurm_median_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAccuracy:
    """The accuracy in one partition; an empty name stands for all partitions together."""

    partition: str
    count: int
    days: int
    """Days that have results."""
    open: int
    """Jobs whose wait is not over: the longest are still missing."""
    gave_up: int
    """Jobs that were cancelled while they waited."""
    waited: float | None
    """Share that waited a minute or longer."""
    covered: float | None
    """Share of waits from p10 to p90."""
    covered_ci: Interval | None
    """The 95 % interval over resampled days."""
    median_s: float | None
    """The median of |p50 - wait|."""
    pinball_s: tuple[float, float, float] | None
    """The mean pinball loss at p10, p50 and p90."""
    beside: BesideSlurm
    calibration: tuple[tuple[float, float], ...]
    """(level, share of waits at or below that quantile)."""
    series: tuple[AccuracyPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceQuality:
    """The quality of the forecasts that users get from one source before they submit a job.

    `provision.forecasts.forecast_calibration` judges the sources.
    """

    source: str
    quality: ForecastAccuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverAccuracy:
    """The accuracy of one source's forecasts by which hand-overs were decided."""

    source: str
    count: int
    covered: float | None
    """Share of waits from p10 to p90; None if the source gives no such range."""
    median_s: float
    """The median of |p50 - wait|."""
    pinball_s: float
    """The mean pinball loss at p50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    since: int
    until: int
    step_s: int
    """Seconds that one point of `series` covers."""
    too_few: str
    """A sentence on why the data allow no conclusion yet; empty: there are enough data."""
    places: tuple[PartitionAccuracy, ...]
    """All partitions together first; empty: no wait is known."""
    tried: tuple[SourceQuality, ...]
    handovers: tuple[HandoverAccuracy, ...]


DayTally = tuple[int, str, Tally]


def build_accuracy(
    tx: Transaction, cluster_id: int, since: int, until: int, reader: Principal
) -> Accuracy:
    """Build the accuracy for jobs submitted, and hand-overs decided, in [since, until).

    Days are whole ones, UTC.
    """
    step_s = DAY_S if until - since <= _BY_DAY_S else WEEK_S
    since -= since % DAY_S
    stored = job_forecasts.list_tallies(tx, cluster_id, since, until)
    days = [(day, name, Tally.from_stored(tally)) for day, name, tally in stored]
    open_counts = job_forecasts.count_open_forecasts(tx, cluster_id, since)
    least = 1 if reader.can_see(JOBS) else FEWEST_SHOWN
    places = [_build_place("", days, sum(open_counts.values()), step_s, least)] if days else []
    for name in _list_shown_partitions(days, reader):
        in_partition = [day for day in days if day[1] == name]
        places.append(_build_place(name, in_partition, open_counts.get(name, 0), step_s, least))
    qualities = forecast_trials.list_qualities(tx, cluster_id, until - JUDGED_S)
    settled = handover_forecasts.list_settled_forecasts(tx, cluster_id, since, until, _HANDOVERS)
    return Accuracy(
        since=since,
        until=until,
        step_s=step_s,
        too_few=_explain_too_few(places),
        places=tuple(places),
        tried=tuple(
            SourceQuality(source=name, quality=quality) for name, quality in qualities.items()
        ),
        handovers=tuple(
            _summarize_sources(settled, 1 if reader.can_see_all_chains else FEWEST_SHOWN)
        ),
    )


def _list_shown_partitions(days: Sequence[DayTally], reader: Principal) -> list[str]:
    """Return the partitions that this reader may see, sorted by name."""
    if not reader.can_see(PARTITIONS):
        return []
    least = 0 if reader.can_see(JOBS) else FEWEST_SHOWN
    counts: dict[str, int] = {}
    for _, name, tally in days:
        counts[name] = counts.get(name, 0) + tally.count
    return sorted(name for name, count in counts.items() if count >= least)


def _explain_too_few(places: Sequence[PartitionAccuracy]) -> str:
    count, days = (places[0].count, places[0].days) if places else (0, 0)
    if count >= LEAST_RESULTS and days >= LEAST_DAYS:
        return ""
    return (
        f"Too few results: {count} waits on {days} days are known. At least {LEAST_RESULTS} waits "
        f"on {LEAST_DAYS} days are needed to tell good forecasts from luck."
    )


def _build_place(
    partition: str, days: Sequence[DayTally], open_count: int, step_s: int, least: int
) -> PartitionAccuracy:
    """Build the accuracy in one partition; figures of fewer than `least` waits are left out."""
    whole = _merge_days(days)
    visible = _hide_few_results(whole, least)
    daily = [_merge_days(part) for _, part in _group_by_step(days, DAY_S)]
    counts = [float(tally.count) for tally in daily]
    has_figures = visible.count > 0
    with_slurm = _hide_few_beside(visible, least)
    covered = [tally.covered for tally in daily]
    return PartitionAccuracy(
        partition=partition,
        count=whole.count,
        days=sum(count > 0 for count in counts),
        open=open_count,
        gave_up=whole.gave_up,
        waited=visible.waited / visible.count if has_figures else None,
        covered=visible.covered / visible.count if has_figures else None,
        covered_ci=bootstrap_share(covered, counts) if has_figures else None,
        median_s=compute_median(visible.errors),
        pinball_s=_compute_mean_losses(visible) if has_figures else None,
        beside=BesideSlurm(
            count=visible.both,
            median_s=compute_median(with_slurm.both_errors),
            slurm_median_s=compute_median(with_slurm.slurm_errors),
        ),
        calibration=_compute_calibration(visible) if has_figures else (),
        series=tuple(
            _build_point(at, _merge_days(part), least) for at, part in _group_by_step(days, step_s)
        ),
    )


def _hide_few_results(tally: Tally, least: int) -> Tally:
    return tally if tally.count >= least else Tally()


def _hide_few_beside(tally: Tally, least: int) -> Tally:
    """Hide the comparison with Slurm's plans if Slurm planned the start of too few jobs."""
    return tally if tally.both >= least else Tally()


def _merge_days(days: Sequence[DayTally]) -> Tally:
    return Tally.merge_all([tally for _, _, tally in days])


def _group_by_step(days: Sequence[DayTally], step_s: int) -> list[tuple[int, list[DayTally]]]:
    """Group the days by the day or week that they lie in, oldest first; weeks begin on Mondays."""
    shift = _MONDAY_S if step_s == WEEK_S else 0
    by_begin: dict[int, list[DayTally]] = {}
    for day in days:
        begin = (day[0] - shift) // step_s * step_s + shift
        by_begin.setdefault(begin, []).append(day)
    return sorted(by_begin.items())


def _compute_mean_losses(tally: Tally) -> tuple[float, float, float]:
    low, middle, high = (loss / tally.count for loss in tally.pinball_s)
    return low, middle, high


def _compute_calibration(tally: Tally) -> tuple[tuple[float, float], ...]:
    below = np.cumsum(tally.pit)[:-1] / tally.count
    return tuple((level, float(share)) for level, share in zip(LEVELS, below, strict=True))


def _build_point(at: int, tally: Tally, least: int) -> AccuracyPoint:
    visible = _hide_few_results(tally, least)
    return AccuracyPoint(
        since=at,
        count=tally.count,
        median_s=compute_median(visible.errors),
        slurm_median_s=compute_median(_hide_few_beside(visible, least).slurm_errors),
        covered=visible.covered / visible.count if visible.count else None,
    )


def _summarize_sources(rows: Sequence[ForecastRow], least: int) -> list[HandoverAccuracy]:
    """Summarize the sources that have at least `least` forecasts, the commonest first."""
    by_source: dict[str, list[ForecastRow]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(row)
    summaries = [
        _summarize_source(source, of_source)
        for source, of_source in by_source.items()
        if len(of_source) >= least
    ]
    return sorted(summaries, key=lambda summary: (-summary.count, summary.source))


def _summarize_source(source: str, rows: Sequence[ForecastRow]) -> HandoverAccuracy:
    waits = [float(row.actual_wait_s or 0) for row in rows]
    medians = [row.forecast.p50_s for row in rows]
    losses = [compute_pinball_loss(m, w, 0.5) for m, w in zip(medians, waits, strict=True)]
    shares = [_compute_coverage(row, wait) for row, wait in zip(rows, waits, strict=True)]
    known_shares = [share for share in shares if share is not None]
    return HandoverAccuracy(
        source=source,
        count=len(rows),
        covered=sum(known_shares) / len(known_shares) if known_shares else None,
        median_s=float(np.median([abs(m - w) for m, w in zip(medians, waits, strict=True)])),
        pinball_s=sum(losses) / len(losses),
    )


def _compute_coverage(row: ForecastRow, wait_s: float) -> float | None:
    """Return 1 for a wait inside p10 to p90, 0 outside; None without such a range.

    A wait can equal one of the quantiles, as waits of zero often do. Its level then lies anywhere
    between the next lower and the next higher level. The result is the share of that interval that
    lies in p10 to p90.
    """
    p10_s, p90_s = row.forecast.p10_s, row.forecast.p90_s
    if p10_s is None or p90_s is None:
        return None
    quantiles = ((0.1, p10_s), (0.5, row.forecast.p50_s), (0.9, p90_s))
    low = max((level for level, at_s in quantiles if at_s < wait_s), default=0.0)
    high = min((level for level, at_s in quantiles if at_s > wait_s), default=1.0)
    return max(0.0, min(high, 0.9) - max(low, 0.1)) / (high - low)
