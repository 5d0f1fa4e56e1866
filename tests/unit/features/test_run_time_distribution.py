"""Run times are drawn from what like jobs ran, beyond what a job has run so far."""

import numpy as np
import pytest

from mirage.domain.timelimit import UNLIMITED
from mirage.features.futures.run_time_distribution import (
    ALL_KEPT,
    OWN_KEPT,
    RunTimeDistribution,
    draw_shares,
)

HOUR = 3600


def known(*runs: tuple[str, int, float]) -> RunTimeDistribution:
    """(user, limit in hours, share of it that was run)."""
    times = RunTimeDistribution()
    for user, hours, share in runs:
        limit_s = hours * HOUR
        groups = times.assign_groups(user, limit_s, 1)
        times.record_end(groups, run_s=round(share * limit_s), time_limit_s=limit_s)
    return times


def draws(
    times: RunTimeDistribution, user: str, hours: int, least: float = -1.0, n: int = 2000
) -> list[float]:
    groups = np.array([times.assign_groups(user, hours * HOUR, 1)] * n, dtype=np.int64)
    dice = np.random.default_rng(1).random((n, 2))
    found: list[float] = draw_shares(times.build_shares(), groups, np.full(n, least), dice).tolist()
    return found


def test_a_job_that_has_run_so_long_runs_longer() -> None:
    times = known(*(("ann", 10, share) for share in (0.1, 0.2, 0.5, 0.9)))
    assert set(draws(times, "ann", 10)) == {0.1, 0.2, 0.5, 0.9}
    assert set(draws(times, "ann", 10, least=0.3)) == {0.5, 0.9}
    assert set(draws(times, "ann", 10, least=0.5)) == {0.9}


def test_what_nobody_ever_ran_is_run_to_the_limit() -> None:
    times = known(("ann", 10, 0.4))
    assert set(draws(times, "ann", 10, least=0.6)) == {1.0}
    assert set(draws(RunTimeDistribution(), "ann", 10)) == {1.0}


def test_the_odds_are_those_of_the_cut_mixture() -> None:
    """Ann's two runs count one each; of the two of everybody's, `PRIOR`/(own + `PRIOR`) each."""
    times = known(("ann", 10, 0.2), ("ann", 10, 0.8), ("bob", 10, 0.9), ("bob", 10, 0.9))
    found = draws(times, "ann", 10, least=0.5, n=20_000)
    # Beyond a half: like 1; own 1 with weight 1/2; everybody's 3 of 4 with weight 2 x 1/2.
    total = 1 + 0.5 + 0.75
    assert np.mean(np.array(found) == 0.9) == pytest.approx(0.75 * 2 / 3 / total, abs=0.01)


def test_an_unknown_user_goes_by_everybody_of_about_that_limit() -> None:
    times = known(("ann", 10, 0.25), ("bob", 1, 0.75))
    assert set(draws(times, "eve", 9)) == {0.25}


def test_many_own_runs_outweigh_everybody() -> None:
    times = known(*[("bob", 10, 0.9)] * 60, *[("ann", 10, 0.1)] * 60)
    assert np.mean(np.array(draws(times, "ann", 10)) == 0.1) > 0.95


def test_the_second_die_orders_the_runs() -> None:
    times = known(*(("ann", 10, share) for share in (0.9, 0.1, 0.5)))
    groups = np.array([times.assign_groups("ann", 10 * HOUR, 1)] * 3, dtype=np.int64)
    dice = np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 0.99]])
    assert draw_shares(times.build_shares(), groups, np.full(3, -1.0), dice).tolist() == [
        0.1,
        0.5,
        0.9,
    ]


def test_old_runs_are_forgotten() -> None:
    times = known(*[("ann", 10, 0.9)] * 10, *[("ann", 10, 0.1)] * max(OWN_KEPT, ALL_KEPT))
    assert set(draws(times, "ann", 10)) == {0.1}


def test_a_fork_learns_by_itself() -> None:
    times = known(("ann", 10, 0.5))
    twin = times.fork()
    twin.record_end(twin.assign_groups("eve", 10 * HOUR, 1), run_s=HOUR, time_limit_s=10 * HOUR)
    assert set(draws(times, "eve", 10)) == {0.5}
    assert 0.1 in draws(twin, "eve", 10)


def test_a_job_without_a_limit_has_a_run_time() -> None:
    times = RunTimeDistribution()
    groups = times.assign_groups("ann", UNLIMITED, 1)
    times.record_end(groups, run_s=HOUR, time_limit_s=UNLIMITED)
    share = draw_shares(
        times.build_shares(), np.array([groups]), np.array([-1.0]), np.zeros((1, 2))
    )
    assert share.tolist() == [HOUR / (30 * 24 * HOUR)]
