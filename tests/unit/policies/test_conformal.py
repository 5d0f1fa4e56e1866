"""The adjustment makes quantiles come true, and widens where days are few."""

import numpy as np
import pytest

from mirage.policies.models import conformal
from mirage.policies.models.conformal import QuantileShifts
from mirage.policies.models.quantiles import LEVELS, P10, P50, P90, to_hours_after_shift

RNG = np.random.default_rng(3)
DAY_S = 86400
EPISODES, INSTANTS = 240, 6
START = np.arange(EPISODES, dtype=np.int64) * 4 * 3600
WRONG = np.log1p(np.arange(1, 10) / 10)
"""A forecast of a tenth of an hour to nine tenths, whatever the queue is like."""


def residuals(wait_h: np.ndarray) -> np.ndarray:
    """Of WRONG; waits [E, D]."""
    return np.asarray(np.log1p(wait_h)[..., None] - WRONG)


def even_waits() -> np.ndarray:
    return RNG.exponential(5.0, (EPISODES, INSTANTS))


def test_moved_quantiles_hold_as_many_waits_as_they_say() -> None:
    waits = even_waits()
    recent = START.max() - conformal.WINDOW_DAYS * DAY_S < START
    shift = conformal.compute_shift(residuals(waits), START)
    adjusted = to_hours_after_shift(np.tile(WRONG, (int(recent.sum()) * INSTANTS, 1)), shift)
    below = (waits[recent].ravel()[:, None] <= adjusted).mean(axis=0)
    # A little outside, for there are but so many days.
    np.testing.assert_allclose(below, LEVELS, atol=0.05)
    assert below[P50] == pytest.approx(0.5, abs=0.01)
    assert below[P10] < 0.09
    assert below[P90] > 0.91


def test_fewer_days_move_the_outer_quantiles_further_out() -> None:
    waits = even_waits()
    few, many = (conformal.compute_shift(residuals(waits)[-n:], START[-n:]) for n in (30, 120))
    assert few[P90] - few[P10] > many[P90] - many[P10]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    waits = even_waits()
    old = START.max() - conformal.WINDOW_DAYS * DAY_S >= START
    changed = np.where(old[:, None], 500.0, waits)
    np.testing.assert_array_equal(
        conformal.compute_shift(residuals(waits), START),
        conformal.compute_shift(residuals(changed), START),
    )


def test_each_size_has_a_shift_of_its_own_and_others_that_of_all() -> None:
    nodes = np.where(np.arange(EPISODES) % 2 == 0, 1, 8)
    waits = even_waits() * np.where(nodes == 8, 10.0, 1.0)[:, None]
    shifts = QuantileShifts.from_residuals(residuals(waits), START, nodes)
    one, eight, four = shifts.select_by_nodes(np.array([1, 8, 4]))
    assert (one < four).all()
    assert (four < eight).all()
    again = QuantileShifts.from_card(shifts.to_card())
    np.testing.assert_array_equal(again.select_by_nodes(nodes), shifts.select_by_nodes(nodes))


def test_an_older_card_has_one_shift_for_all_sizes() -> None:
    shifts = QuantileShifts.from_card({"shift": [0.1] * 9})
    np.testing.assert_array_equal(shifts.select_by_nodes(np.array([1, 512])), np.full((2, 9), 0.1))


def test_a_size_of_few_hand_overs_is_moved_as_all_are() -> None:
    few = conformal.FEWEST - 1
    nodes = np.where(np.arange(EPISODES) < few, 8, 1)
    found = QuantileShifts.from_residuals(residuals(even_waits()), START, nodes)
    assert list(found.by_nodes) == [1]
    np.testing.assert_array_equal(found.select_by_nodes(np.array([8]))[0], found.all)
    assert found.all.any()
