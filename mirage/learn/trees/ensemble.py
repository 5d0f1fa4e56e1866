"""Combines both families of trees, since they make different errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Observations
from mirage.learn.trees.tree_families import Boosted, Family, FittedForecast, Forest, Trees


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Both families together. P(late) is the mean of the forest's and of xgboost's. The forecast of
    the wait is xgboost's alone, which is a tenth of the size."""

    forest: Forest = field(default_factory=Forest)
    boosted: Boosted = field(default_factory=Boosted)
    name: str = field(default="ensemble", init=False)
    thresholds_h: tuple[float, ...] = field(default=(), init=False)

    def list_settings(self) -> dict[str, Any]:
        return {"forest": self.forest.list_settings(), "xgboost": self.boosted.list_settings()}

    def fit_mean(self, observations: Observations, target: Floats) -> "EnsembleTrees":
        return EnsembleTrees(
            tuple(f.fit_mean(observations, target) for f in (self.forest, self.boosted))
        )

    def fit_forecast(self, observations: Observations, wait_h: Floats) -> FittedForecast:
        return self.boosted.fit_forecast(observations, wait_h)


@dataclass(frozen=True, slots=True)
class EnsembleTrees:
    """The mean of several fitted models."""

    members: tuple[Trees, ...]

    def predict(self, observations: Observations) -> Floats:
        found: Floats = np.mean([m.predict(observations) for m in self.members], axis=0)
        return found


def create_family(name: str, settings: Mapping[str, Any], seed: int) -> Family:
    """Create the family of this name. `settings`: hyper-parameters by kind of trees
    (learn/settings.py). Raises StopIteration for an unknown name."""
    forest = Forest(seed=seed, **settings["forest"])
    boosted = Boosted(seed=seed, **settings["xgboost"])
    families: tuple[Family, ...] = (forest, boosted, Ensemble(forest, boosted))
    return next(one for one in families if one.name == name)
