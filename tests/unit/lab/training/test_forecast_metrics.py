"""Figures of a forecast are right where the truth is known."""

import numpy as np
import pytest

from mirage.domain.arrays import Floats
from mirage.lab.training.metrics import forecast_metrics
from mirage.policies.models.quantiles import LEVELS, invert_distribution, to_hours_after_shift

RNG = np.random.default_rng(3)


def with_an_atom(rows: int) -> Floats:
    """Waits of which 45 % are 0 and the others even up to 10 h."""
    return np.where(RNG.random(rows) < 0.45, 0.0, RNG.uniform(0.0, 10.0, rows))


def true_quantiles(rows: int) -> Floats:
    truth = np.maximum((np.asarray(LEVELS) - 0.45) / 0.55 * 10.0, 0.0)
    return np.broadcast_to(truth, (rows, len(LEVELS)))


def test_a_true_forecast_covers_what_it_says_with_an_atom_at_zero() -> None:
    waits = with_an_atom(20_000)
    told = forecast_metrics.measure_forecast(
        true_quantiles(20_000), waits, true_quantiles(20_000), seed=1
    )
    assert told["coverage_p10_p90_pct"] == pytest.approx(80.0, abs=1.5)
    assert told["below_p90_pct"] == pytest.approx(90.0, abs=1.0)
    assert told["pinball_h"] == told["pinball_empirical_h"]


def test_a_forecast_that_is_too_narrow_covers_less() -> None:
    waits = with_an_atom(5_000)
    narrow = np.full((5_000, len(LEVELS)), 3.0) + np.arange(len(LEVELS)) * 0.01
    told = forecast_metrics.measure_forecast(narrow, waits, true_quantiles(5_000), seed=1)
    assert told["coverage_p10_p90_pct"] < 20.0
    assert told["pinball_h"] > told["pinball_empirical_h"]


def test_pinball_loss_by_hand() -> None:
    quantiles = np.ones((1, len(LEVELS)))
    assert forecast_metrics.compute_pinball_h(quantiles, np.array([2.0])) == pytest.approx(0.5)
    assert forecast_metrics.compute_pinball_h(quantiles, np.array([0.0])) == pytest.approx(0.5)


def test_quantiles_of_a_distribution_are_read_between_its_thresholds() -> None:
    thresholds_h = (0.0, 1.0, 3.0)
    found = np.expm1(invert_distribution([[0.3, 0.6, 0.8]], thresholds_h))[0]
    assert found[:3].tolist() == [0.0, 0.0, 0.0]
    assert 0.0 < found[3] < found[4] < 1.0 < found[6] < 3.0
    assert found[7:].tolist() == pytest.approx([3.0, 3.0])


def test_quantiles_come_in_order_and_none_is_below_zero() -> None:
    found = to_hours_after_shift(np.array([[0.5, -1.0, 0.2, 0.1, 3.0]]), np.zeros(5))
    assert found[0, 0] == 0.0
    assert (np.diff(found[0]) >= 0.0).all()
