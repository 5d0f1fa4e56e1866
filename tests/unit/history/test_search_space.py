"""The settings that a fit searches."""

from dataclasses import replace

from mirage.lab.calibration.search_space import (
    SEARCH_SETTINGS,
    apply_search_values,
    get_search_values,
    list_search_settings,
)
from mirage.simulator.types import OFF, Params


def test_numbers_are_taken_over() -> None:
    values = get_search_values(Params()) | {"bf_interval": 77}
    assert apply_search_values(Params(), values).bf_interval_s == 77
    assert list_search_settings(Params()) == SEARCH_SETTINGS


def test_a_scheduler_that_is_off_stays_off_and_has_no_setting() -> None:
    params = replace(Params(), bf_interval_s=OFF)
    values = get_search_values(params)
    assert all(
        values[setting.name] > 0 for setting in SEARCH_SETTINGS if "Weight" not in setting.name
    )
    assert apply_search_values(params, values | {"bf_interval": 77}).bf_interval_s == OFF
    assert "bf_interval" not in [setting.name for setting in list_search_settings(params)]
