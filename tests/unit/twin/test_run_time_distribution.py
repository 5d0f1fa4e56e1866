"""Run times are drawn from what like jobs ran, beyond what a job has run so far."""

import numpy as np
import pytest

from mirage.domain.timelimit import UNLIMITED
from mirage.twin.futures.run_time_distribution import (
    ALL_KEPT,
    OWN_KEPT,
    RunTimeDistribution,
    RunTimeInputs,
    draw_run_times,
    draw_share,
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
    group = np.array(times.assign_groups(user, hours * HOUR, 1), dtype=np.int64)
    shares, dice = times.build_shares(), np.random.default_rng(1).random((n, 2)).tolist()
    return [draw_share(shares, group, least, which, die) for which, die in dice]


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
    group = np.array(times.assign_groups("ann", 10 * HOUR, 1), dtype=np.int64)
    shares = times.build_shares()
    assert [draw_share(shares, group, -1.0, 0.0, die) for die in (0.0, 0.5, 0.99)] == [
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
    share = draw_share(times.build_shares(), np.array(groups), -1.0, 0.0, 0.0)
    assert share == HOUR / (30 * 24 * HOUR)


def test_run_times_are_shares_of_limits_and_users_jobs_may_go_together() -> None:
    """Two jobs of Ann's and one of Eve's; the fourth is known, and the last runs to its limit."""
    times = known(*(("ann", 10, share) for share in (0.1, 0.5, 0.9)))
    group = times.assign_groups("ann", 10 * HOUR, 1)
    jobs = RunTimeInputs(
        groups=np.array([group] * 5, dtype=np.int64),
        limit_s=np.full(5, 10 * HOUR),
        elapsed_share=np.full(5, -1.0),
        run_share=np.array([-1.0, -1.0, -1.0, 0.25, 1.0]),
        users=np.array([0, 0, 1, 1, 1]),
    )
    own = np.array([[0.0, 0.5, 0.2], [0.0, 0.5, 0.9], [0.0, 0.5, 0.2], [0.0] * 3, [0.0] * 3])
    shared = np.array([[0.0, 0.99], [0.0, 0.0]])
    rows = np.arange(5)
    run_s = draw_run_times(times.build_shares(), jobs, rows, shared, own, 0.5).tolist()
    # The first goes with Ann's numbers, the second by its own, the third with Eve's.
    assert run_s[:4] == [9 * HOUR, 5 * HOUR, HOUR, HOUR * 5 // 2]
    assert run_s[4] > 10 * HOUR
