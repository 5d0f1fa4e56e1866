"""Measures how near the waits of a replay are to those of its log."""

from dataclasses import dataclass

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints
from mirage.domain.time_units import DAY_S, HOUR_S, WEEK_S
from mirage.history.workloads.replay import LoggedOutcomes

RAMP_UP_S = 6 * DAY_S
"""Submissions in this time after the first logged start are not judged. At the begin of a log the
jobs that already ran are missing."""
_MONDAY_S = 4 * DAY_S
"""1970-01-05 was one."""
_LATE_S = 60
_LEAST = 2
"""Points that a correlation needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Submissions judged: in [begin, end), epoch seconds."""

    begin: int
    end: int

    def mask_submissions(self, submit: Ints) -> Flags:
        return (submit >= self.begin) & (submit < self.end)

    def has_most_of(self, week: "Week") -> bool:
        """Return whether at least half of the week lies in the window: a mean over a day or two is
        not a week's mean."""
        overlap_s = min(self.end, week.begin + WEEK_S) - max(self.begin, week.begin)
        return overlap_s >= WEEK_S / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """A calendar week (UTC, from Monday) of submissions."""

    begin: int
    jobs: int
    logged_h: float
    """Mean wait in the log."""
    simulated_h: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Figures over the jobs that started in the log and in the replay. None: too few jobs or weeks
    for the figure."""

    jobs: int
    wait_mae_h: float | None
    """Mean absolute difference of a job's two waits."""
    spearman: float | None
    """Rank correlation of the two waits over jobs, equal waits sharing their ranks' mean."""
    weekly_corr: float | None
    """Pearson correlation of the weeks' mean waits."""
    mean_ratio: float | None
    """Mean wait in the replay divided by mean wait in the log."""
    late_eligible: int | None
    """Number of the `jobs` that became eligible more than a minute after their submission. They
    were held, or waited for another job or a begin time, so their wait is not the queue's alone.
    None: the log lacks the eligible time of a job."""
    weeks: tuple[Week, ...]
    """The weeks of which at least half lies in the window."""


def choose_window(submit: Ints, logged: LoggedOutcomes) -> Window:
    """Choose all submissions from `RAMP_UP_S` after the first logged start on."""
    started = logged.start[logged.start >= 0]
    begin = int(started.min()) if len(started) else int(submit.min(initial=0))
    return Window(begin=begin + RAMP_UP_S, end=int(submit.max(initial=0)) + 1)


def mask_judged_jobs(submit: Ints, start: Ints, logged: LoggedOutcomes, window: Window) -> Flags:
    """Mask [J] the jobs that are judged: submitted in the window, started in both, not suspect."""
    return (start >= 0) & (logged.start >= 0) & ~logged.suspect & window.mask_submissions(submit)


def measure_fidelity(submit: Ints, start: Ints, logged: LoggedOutcomes, window: Window) -> Fidelity:
    """Compute the figures for a replay's starts. `start` is in epoch seconds, -1 for never, row for
    row with the log's."""
    rows = mask_judged_jobs(submit, start, logged, window)
    submitted = submit[rows]
    log_h = np.maximum(logged.start[rows] - submitted, 0) / HOUR_S
    sim_h = np.maximum(start[rows] - submitted, 0) / HOUR_S
    weeks = [week for week in summarize_weeks(submitted, log_h, sim_h) if window.has_most_of(week)]
    by_week = [(week.logged_h, week.simulated_h) for week in weeks]
    weekly_log, weekly_sim = np.array(by_week, np.float64).reshape(-1, 2).T
    has_jobs = len(submitted) > 0
    return Fidelity(
        jobs=len(submitted),
        wait_mae_h=float(np.abs(log_h - sim_h).mean()) if has_jobs else None,
        spearman=compute_correlation(rank_values(log_h), rank_values(sim_h)),
        weekly_corr=compute_correlation(weekly_log, weekly_sim),
        mean_ratio=float(sim_h.mean() / log_h.mean()) if has_jobs and log_h.any() else None,
        late_eligible=_count_late(submitted, logged.eligible[rows]),
        weeks=tuple(weeks),
    )


def _count_late(submit: Ints, eligible: Ints) -> int | None:
    is_known = eligible >= 0
    return int((eligible - submit > _LATE_S)[is_known].sum()) if is_known.any() else None


def summarize_weeks(submit: Ints, log_h: Floats, sim_h: Floats) -> tuple[Week, ...]:
    """Compute the mean waits by week of submission, for weeks that have jobs."""
    week_begins = (submit - _MONDAY_S) // WEEK_S * WEEK_S + _MONDAY_S
    weeks, week_of, jobs = np.unique(week_begins, return_inverse=True, return_counts=True)
    log_sum = np.bincount(week_of, log_h, len(weeks))
    sim_sum = np.bincount(week_of, sim_h, len(weeks))
    return tuple(
        Week(
            begin=int(weeks[i]),
            jobs=int(jobs[i]),
            logged_h=float(log_sum[i] / jobs[i]),
            simulated_h=float(sim_sum[i] / jobs[i]),
        )
        for i in range(len(weeks))
    )


def rank_values(values: Floats) -> Floats:
    """Return the ranks [J] from 1; equal values share the mean of their ranks."""
    _, value_of, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    ranks: Floats = (last_rank - (counts - 1) / 2)[value_of]
    return ranks


def compute_correlation(a: Floats, b: Floats) -> float | None:
    """Compute Pearson's correlation; None for fewer than two points, or if one side is constant."""
    if len(a) < _LEAST or not np.ptp(a) or not np.ptp(b):
        return None
    return float(np.corrcoef(a, b)[0, 1])
