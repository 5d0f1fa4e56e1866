"""What forecasts are worth, as sums: against numbers worked out by hand or drawn."""

import json
from itertools import repeat

import numpy as np
import pytest

from mirage.provision.forecasts.accuracy_tally import (
    ATOM_S,
    CELLS,
    Tally,
    compute_median,
    compute_pinball_loss,
    compute_pit_cells,
)
from mirage.reports import forecast_accuracy
from mirage.twin.twin_features import LEVELS

HOUR = 3600
RAMP = tuple(int(level * 20 * HOUR) for level in LEVELS)
"""Of a wait that is uniform from 0 to 20 h."""
NEVER = tuple(repeat(0, len(LEVELS)))


def tally(*waits: int, told: tuple[int, ...] = RAMP) -> Tally:
    made = Tally()
    for wait in waits:
        made.add_outcome(told, wait, None)
    return made


def test_forecasts_that_are_right_fill_all_cells_alike() -> None:
    drawn = np.random.default_rng(1).uniform(0, 20 * HOUR, size=4000)
    made = tally(*drawn.astype(int))
    assert np.allclose(np.array(made.pit) / made.count, 1 / CELLS, atol=0.01)
    assert made.covered / made.count == pytest.approx(0.8, abs=0.02)


def test_an_atom_of_no_waits_is_shared_out_over_its_levels() -> None:
    """Six of ten jobs do not wait, and each forecast says so: calibrated, and it must show."""
    draw = np.random.default_rng(2)
    some = (ATOM_S + (level - 0.6) / 0.4 * 10 * HOUR for level in LEVELS)
    told = tuple(0 if level < 0.6 else int(wait) for level, wait in zip(LEVELS, some, strict=True))
    waited = ATOM_S + draw.uniform(0, 10, size=4000) * HOUR
    waits = np.where(draw.random(4000) < 0.6, 0, waited)
    made = tally(*waits.astype(int), told=told)
    assert np.allclose(np.array(made.pit) / made.count, 1 / CELLS, atol=0.015)


def test_where_nobody_ever_waits_forecasts_of_no_wait_are_right() -> None:
    made = tally(0, 5, ATOM_S - 1, told=NEVER)
    assert made.pit == pytest.approx([made.count / CELLS] * CELLS)
    assert made.covered / made.count == pytest.approx(0.8)
    assert made.waited == 0
    assert compute_median(made.errors) == pytest.approx(0.0, abs=30)


def test_a_wait_between_two_levels_is_in_one_cell() -> None:
    assert (
        compute_pit_cells(np.array(RAMP, float), RAMP[3] + 60).tolist()
        == [0.0] * 4 + [1.0] + [0.0] * 15
    )
    assert compute_pit_cells(np.array(RAMP, float), 1e9)[-1] == 1.0
    assert compute_pit_cells(np.array(RAMP, float), 0.0)[0] == 1.0


def test_the_pinball_loss_is_least_at_the_quantile() -> None:
    waits = np.random.default_rng(3).exponential(HOUR, size=2000)
    at = np.quantile(waits, [0.5, 0.9, 0.99])
    losses = [np.mean([compute_pinball_loss(float(a), float(w), 0.9) for w in waits]) for a in at]
    assert min(losses) == losses[1]
    assert compute_pinball_loss(100.0, 40.0, 0.9) == pytest.approx(6.0)
    assert compute_pinball_loss(40.0, 100.0, 0.9) == pytest.approx(54.0)


def test_the_median_error_is_right_to_a_bin() -> None:
    errors = np.random.default_rng(4).exponential(2 * HOUR, size=3001)
    made = Tally()
    for error in errors:
        made.add_outcome(RAMP, int(RAMP[9] + error), None)
    assert compute_median(made.errors) == pytest.approx(float(np.median(errors)), rel=0.1)
    assert compute_median(Tally().errors) is None


def test_slurms_plan_is_held_against_the_same_jobs() -> None:
    made = tally(HOUR)
    made.add_outcome(RAMP, RAMP[9] + 1000, RAMP[9] + 4000)
    assert (made.count, made.both) == (2, 1)
    assert compute_median(made.both_errors) == pytest.approx(1000, rel=0.2)
    assert compute_median(made.slurm_errors) == pytest.approx(3000, rel=0.2)


def test_the_few_that_slurm_planned_among_many_are_not_told() -> None:
    """The page is public: a median of one is that user's wait."""
    many = tally(*repeat(HOUR, 49))
    many.add_outcome(RAMP, 25 * HOUR, 12 * HOUR)
    shown, all_told = (
        forecast_accuracy._build_place("gpu", [(0, "gpu", many)], 0, 86400, least)
        for least in (forecast_accuracy.FEWEST_SHOWN, 1)
    )
    assert shown.beside == forecast_accuracy.BesideSlurm(
        count=1, median_s=None, slurm_median_s=None
    )
    assert [point.slurm_median_s for point in shown.series] == [None]
    assert shown.median_s is not None
    assert all_told.series[0].slurm_median_s is not None


def test_days_add_up_and_come_back_from_the_store() -> None:
    waits = [0, 30, HOUR, 5 * HOUR, 19 * HOUR]
    parts = Tally.from_stored(json.loads(json.dumps(tally(*waits[:2]).to_stored())))
    both = Tally.merge_all([parts, tally(*waits[2:])])
    whole = tally(*waits)
    assert both.pit == pytest.approx(whole.pit)
    assert both.pinball_s == pytest.approx(whole.pinball_s)
    assert (both.count, both.errors, both.waited) == (whole.count, whole.errors, whole.waited)
    assert Tally.from_stored(None) == Tally() == Tally.merge_all([])
