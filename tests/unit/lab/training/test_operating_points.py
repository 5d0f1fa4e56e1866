"""The price of an operating point keeps its budget in weeks that are heavier than the mean."""

from typing import Any

import numpy as np
import pytest

from mirage.lab.training.metrics import operating_points

DAYS, EACH = 40, 6
START = np.repeat(np.arange(DAYS) * 86400, EACH)
PRICES = (0.2, 0.5, 1.0, 2.0)


def outcomes(overlap_h: np.ndarray) -> dict[float, np.ndarray]:
    """By price [E]: at half the price twice the overlap."""
    return {p: -overlap_h / p for p in PRICES}


def find_point(overlap_h: np.ndarray, limit_h: float = 1.0) -> dict[str, Any]:
    return operating_points.find_operating_point(
        PRICES, outcomes(overlap_h).__getitem__, START, limit_h
    )


def test_a_load_that_never_changes_needs_no_margin() -> None:
    point = find_point(np.full(len(START), 0.5))
    assert point["price"] == 0.5
    assert point["overlap_bound_h"] == pytest.approx(1.0)
    assert point["overlap_h"] == pytest.approx(1.0)


def test_days_that_differ_ask_for_a_higher_price_than_their_mean() -> None:
    heavy = START // 86400 % 8 == 0
    overlap_h = np.where(heavy, 4.0, 0.0)
    assert overlap_h.mean() == pytest.approx(0.5)
    point = find_point(overlap_h)
    assert point["price"] > 0.5
    assert point["overlap_h"] < point["overlap_bound_h"] <= 1.0


def test_hand_overs_of_one_day_are_one_sample() -> None:
    rng = np.random.default_rng(0)
    daily = np.repeat(rng.exponential(1.0, DAYS), EACH)
    assert operating_points.compute_overlap_bound(
        daily, START
    ) > operating_points.compute_overlap_bound(rng.permutation(daily), START)


def test_where_every_price_overlaps_too_long_there_is_none() -> None:
    assert find_point(np.full(len(START), 9.0)) == {"price": None}


def test_of_no_hand_over_there_is_none() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    point = operating_points.find_operating_point(PRICES, lambda _: np.zeros(0), nothing, 1.0)
    assert point == {"price": None}


@pytest.mark.parametrize("limit_h", [0.2, 0.3, 0.5, 1.2, 9.0])
def test_it_is_the_least_price_that_keeps_the_budget(limit_h: float) -> None:
    by_price = outcomes(np.full(len(START), 0.5))
    within = [
        p for p in PRICES if operating_points.compute_overlap_bound(-by_price[p], START) <= limit_h
    ]
    point = find_point(np.full(len(START), 0.5), limit_h)
    assert point["price"] == (within[0] if within else None)
