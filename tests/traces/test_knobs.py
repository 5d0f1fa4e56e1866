"""The settings that a fit searches."""

from dataclasses import replace

from mirage.sim.types import OFF, Params
from mirage.traces.calibration.search_space import KNOBS, knobs_of, values_of, with_values


def test_numbers_are_taken_over() -> None:
    values = values_of(Params()) | {"bf_interval": 77}
    assert with_values(Params(), values).bf_interval_s == 77
    assert knobs_of(Params()) == KNOBS


def test_a_scheduler_that_is_off_stays_off_and_has_no_knob() -> None:
    params = replace(Params(), bf_interval_s=OFF)
    values = values_of(params)
    assert all(values[knob.name] > 0 for knob in KNOBS if "Weight" not in knob.name)
    assert with_values(params, values | {"bf_interval": 77}).bf_interval_s == OFF
    assert "bf_interval" not in [knob.name for knob in knobs_of(params)]
