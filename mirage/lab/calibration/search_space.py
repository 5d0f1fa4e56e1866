"""The settings that a log does not show, and the range in which each is searched for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.simulator.types import OFF, Params


class SearchSetting(NamedTuple):
    """A whole number above 0, searched by its logarithm."""

    name: str
    """The name of the setting in slurm.conf."""
    field: str
    """The name of the field in `Params`."""
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTrial:
    """A number for each setting by name, and the score of the replay: higher is better."""

    values: Mapping[str, int]
    score: float


AGE_WEIGHT = 10000
"""PriorityWeightAge of a fitted file. Only the ratios of weights matter."""

SEARCH_SETTINGS = (
    SearchSetting("PriorityWeightFairshare", "priority_weight_fairshare", 30, 300000),
    SearchSetting("PriorityWeightJobSize", "priority_weight_job_size", 30, 100000),
    SearchSetting("PriorityMaxAge", "priority_max_age_s", 12 * HOUR_S, 30 * DAY_S),
    SearchSetting("PriorityDecayHalfLife", "priority_decay_half_life_s", 6 * HOUR_S, 30 * DAY_S),
    SearchSetting("bf_max_job_test", "bf_max_job_test", 20, 1000),
    SearchSetting("bf_interval", "bf_interval_s", 30, 300),
)
"""The number of nodes is not searched for. The log shows it, and a wrong number would hide other
faults."""


def list_search_settings(params: Params) -> tuple[SearchSetting, ...]:
    """List the settings to search, except those of a scheduler that is off."""
    return tuple(setting for setting in SEARCH_SETTINGS if getattr(params, setting.field) != OFF)


def get_search_values(params: Params) -> dict[str, int]:
    """Return the numbers of `params` by name. Weights are scaled so that the age weight is
    AGE_WEIGHT."""
    scale = AGE_WEIGHT / (params.priority_weight_age or AGE_WEIGHT)
    values = {setting.name: setting.low for setting in SEARCH_SETTINGS}
    values |= {
        setting.name: int(getattr(params, setting.field))
        for setting in list_search_settings(params)
    }
    return {n: round(v * scale) if "Weight" in n else v for n, v in values.items()}


def apply_search_values(params: Params, values: Mapping[str, int]) -> Params:
    """Return `params` with these numbers. A scheduler that is off stays off."""
    fields: dict[str, Any] = {
        setting.field: values[setting.name] for setting in list_search_settings(params)
    }
    return replace(params, priority_weight_age=AGE_WEIGHT, **fields)
