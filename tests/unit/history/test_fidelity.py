"""The figures that hold a replay's waits against the log's."""

import numpy as np
import pytest

from mirage.domain.time_units import DAY_S, HOUR_S, WEEK_S
from mirage.history.workloads.replay import LoggedOutcomes
from mirage.lab.simulation.fidelity import (
    Window,
    choose_window,
    compute_correlation,
    measure_fidelity,
    rank_values,
)

MONDAY = 1667779200
"""2022-11-07."""
EVER = Window(begin=0, end=2**40)


def logged(
    start: list[int], suspect: list[bool] | None = None, eligible: list[int] | None = None
) -> LoggedOutcomes:
    return LoggedOutcomes(
        eligible=np.array(eligible or [-1] * len(start), np.int64),
        start=np.array(start, np.int64),
        end=np.array(start, np.int64) + 1,
        suspect=np.array(suspect or [False] * len(start), bool),
    )


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert list(rank_values(np.array([5.0, 1.0, 5.0, 0.0, 5.0]))) == [4, 2, 4, 1, 4]


def test_correlation_needs_two_points_that_differ() -> None:
    up = np.array([1.0, 2.0, 4.0])
    assert compute_correlation(up, -3 * up) == pytest.approx(-1)
    assert compute_correlation(up[:1], up[:1]) is None
    assert compute_correlation(up, np.ones(3)) is None


def test_figures_of_a_small_case() -> None:
    submit = np.array([MONDAY, MONDAY + 1, MONDAY + WEEK_S - 1, MONDAY + WEEK_S])
    log_h, sim_h = np.array([0, 2, 4, 9]), np.array([0, 4, 2, 12])
    found = measure_fidelity(
        submit, submit + sim_h * HOUR_S, logged(list(submit + log_h * HOUR_S)), EVER
    )
    assert found.jobs == 4
    assert found.wait_mae_h == pytest.approx((0 + 2 + 2 + 3) / 4)
    assert found.spearman == pytest.approx(0.8)
    assert found.weekly_corr == pytest.approx(1)
    assert found.mean_ratio == pytest.approx(18 / 15)
    weeks = [(w.begin, w.jobs, w.logged_h, w.simulated_h) for w in found.weeks]
    assert weeks == [(MONDAY, 3, 2, 2), (MONDAY + WEEK_S, 1, 9, 12)]


def test_only_jobs_started_in_both_and_not_suspect_and_in_the_window_count() -> None:
    submit = np.full(6, MONDAY, np.int64) + np.array([0, 0, 0, 0, -1, 10])
    start = np.array([MONDAY, -1, MONDAY, MONDAY, MONDAY, MONDAY + 10])
    log = logged(
        [MONDAY, MONDAY, -1, MONDAY, MONDAY, MONDAY + 10], [False] * 3 + [True] + [False] * 2
    )
    assert measure_fidelity(submit, start, log, Window(begin=MONDAY, end=MONDAY + 10)).jobs == 1


def test_late_eligible_counts_the_judged_that_did_not_wait_in_the_queue_alone() -> None:
    submit = np.full(5, MONDAY, np.int64)
    start = [MONDAY + 500] * 5
    eligible = [MONDAY, MONDAY + 60, MONDAY + 61, MONDAY + 400, -1]
    log = logged(start, [False, False, False, True, False], eligible)
    found = measure_fidelity(submit, submit, log, EVER)
    assert (found.jobs, found.late_eligible) == (4, 1)
    assert found.wait_mae_h == pytest.approx(500 / HOUR_S)


def test_a_log_without_eligible_says_nothing_of_it() -> None:
    submit = np.full(2, MONDAY, np.int64)
    assert measure_fidelity(submit, submit, logged(list(submit)), EVER).late_eligible is None


def test_nothing_to_compare_is_no_figure() -> None:
    none = np.array([], np.int64)
    found = measure_fidelity(none, none, logged([]), EVER)
    assert (found.jobs, found.wait_mae_h, found.spearman, found.mean_ratio) == (0, None, None, None)


def test_the_first_six_days_are_not_judged() -> None:
    submit = np.array([MONDAY - 9 * DAY_S, MONDAY, MONDAY + 20 * DAY_S])
    window = choose_window(submit, logged([MONDAY + 5, -1, MONDAY + 20 * DAY_S]))
    assert window == Window(begin=MONDAY + 5 + 6 * DAY_S, end=MONDAY + 20 * DAY_S + 1)


def test_a_week_of_which_less_than_half_is_judged_has_no_mean() -> None:
    submit = np.array([MONDAY + 4 * DAY_S, MONDAY + WEEK_S, MONDAY + 2 * WEEK_S])
    log = logged(list(submit))
    window = Window(begin=MONDAY + 4 * DAY_S, end=MONDAY + 2 * WEEK_S + 4 * DAY_S)
    found = measure_fidelity(submit, submit, log, window)
    assert found.jobs == 3
    assert [week.begin for week in found.weeks] == [MONDAY + WEEK_S, MONDAY + 2 * WEEK_S]
