"""Combines both families of trees, since they make different errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Observations
from mirage.lab.training.trees.tree_families import (
    THRESHOLDS_H,
    Boosted,
    BoostedTrees,
    Family,
    Forest,
    ForestTrees,
)
from mirage.policies.models import quantiles


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Both families together. A quantile of the wait is the mean of the forest's and of
    xgboost's, on the scale of log(1 + hours)."""

    forest: Forest = field(default_factory=Forest)
    boosted: Boosted = field(default_factory=Boosted)
    name: str = field(default="ensemble", init=False)
    thresholds_h: tuple[float, ...] = field(default=THRESHOLDS_H, init=False)

    def list_settings(self) -> dict[str, Any]:
        return {"forest": self.forest.list_settings(), "xgboost": self.boosted.list_settings()}

    def fit_forecast(self, observations: Observations, wait_h: Floats) -> "EnsembleForecast":
        return EnsembleForecast(
            self.forest.fit_forecast(observations, wait_h),
            self.boosted.fit_forecast(observations, wait_h),
        )


@dataclass(frozen=True, slots=True)
class EnsembleForecast:
    """A forest's P(wait <= t) and xgboost's log quantiles, side by side."""

    forest: ForestTrees
    boosted: BoostedTrees

    def predict(self, observations: Observations) -> Floats:
        columns = [self.forest.predict(observations), self.boosted.predict(observations)]
        return np.concatenate(columns, axis=1)

    def predict_log_quantiles(self, observations: Observations) -> Floats:
        return quantiles.read_log_quantiles(self.predict(observations), THRESHOLDS_H)


def create_family(name: str, settings: Mapping[str, Any], seed: int) -> Family:
    """Create the family of this name. `settings`: hyper-parameters by kind of trees
    (`training/settings.py`). Raises StopIteration for an unknown name."""
    forest = Forest(seed=seed, **settings["forest"])
    boosted = Boosted(seed=seed, **settings["xgboost"])
    families: tuple[Family, ...] = (forest, boosted, Ensemble(forest, boosted))
    return next(family for family in families if family.name == name)
