"""Whether one policy is cheaper than another on the same hand-overs, by days."""

from collections.abc import Sequence

import numpy as np
import pytest

from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.paired_test import FEWEST_DAYS, PairedDifference
from tests.support.episodes.tables import DAY_S, MONDAY

EACH_DAY = 6


def handovers(by_day_h: Sequence[float]) -> HandoverOutcomes:
    """Six a day, each late by its day's hours."""
    x_h = np.repeat(np.array(by_day_h), EACH_DAY)
    at = MONDAY + np.arange(len(x_h)) * (DAY_S // EACH_DAY)
    return HandoverOutcomes(start_point=at, x_h=x_h, lead_h=np.zeros(len(x_h)))


def difference(by_day_h: Sequence[float], old_h: Sequence[float] = ()) -> PairedDifference:
    """Of a policy that costs what `by_day_h` says more than another."""
    base = np.array(old_h if old_h else [20.0] * len(by_day_h))
    old = handovers(base.tolist())
    return PairedDifference.from_outcomes(
        handovers((base + by_day_h).tolist()), old, overlap_price=0.5
    )


def test_it_is_paired_the_load_of_the_days_is_no_noise() -> None:
    """Days of 1 to 40 h, on each of which the new one is cheaper by a tenth of an hour."""
    loads = [1.0, 40.0, 2.0, 30.0, 5.0, 12.0, 1.0, 25.0]
    found = difference([-0.1, -0.12, -0.08, -0.1, -0.09, -0.11, -0.1, -0.1], loads)
    assert found.mean_h == pytest.approx(-0.1)
    assert (found.handovers, found.days) == (48, 8)
    assert found.interval_h[0] < -0.1 < found.interval_h[1] < -0.09
    assert found.is_cheaper


def test_a_gain_of_one_day_is_no_proof_however_large() -> None:
    found = difference([-15.0, *[0.1] * 11])
    assert found.mean_h < -1.0
    assert found.interval_h[1] > 0.0
    assert not found.is_cheaper


def test_the_same_decisions_are_not_cheaper() -> None:
    found = difference([0.0] * 10)
    assert (found.mean_h, found.interval_h) == (0.0, (0.0, 0.0))
    assert not found.is_cheaper


def test_few_days_that_all_say_the_same_are_no_proof() -> None:
    assert not difference([-1.0] * (FEWEST_DAYS - 1)).is_cheaper
    assert difference([-1.0] * FEWEST_DAYS).is_cheaper


@pytest.mark.parametrize(("days", "share"), [(FEWEST_DAYS, 0.085), (21, 0.0375)])
def test_an_equal_policy_comes_through_seldom(days: int, share: float) -> None:
    """The days' differences are noise around nothing: half of the means are below it."""
    rng, tries = np.random.default_rng(1), 400
    noise = rng.normal(0.0, 1.0, (tries, days))
    came = np.mean([difference(by_day_h).is_cheaper for by_day_h in noise.tolist()])
    assert came == pytest.approx(share, abs=0.02)
    assert np.mean(noise.mean(axis=1) < 0.0) == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize(("days", "share"), [(FEWEST_DAYS, 0.205), (21, 0.1725)])
def test_an_equal_policy_comes_through_more_often_where_outcomes_span_days(
    days: int, share: float
) -> None:
    """Each day's difference is that of three days in a row: they are fewer than they seem."""
    rng, tries = np.random.default_rng(1), 400
    each = rng.normal(0.0, 1.0, (tries, days + 2))
    shared = (each[:, :-2] + each[:, 1:-1] + each[:, 2:]) / 3
    came = np.mean([difference(by_day_h).is_cheaper for by_day_h in shared.tolist()])
    assert came == pytest.approx(share, abs=0.02)
