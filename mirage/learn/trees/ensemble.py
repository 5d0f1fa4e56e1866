"""Combines both tree families, which err in different ways."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Observations
from mirage.learn.trees.tree_families import Boosted, Family, FittedForecast, Forest, Trees


@dataclass(frozen=True, slots=True)
class Ensemble:
    """P(late) is the mean of a forest's and of xgboost's; the forecast of the wait is xgboost's,
    which takes a tenth of the room."""

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
    """Create the family of this name; `settings` by kind of trees (learn/settings.py)."""
    forest = Forest(seed=seed, **settings["forest"])
    boosted = Boosted(seed=seed, **settings["xgboost"])
    families: tuple[Family, ...] = (forest, boosted, Ensemble(forest, boosted))
    return next(one for one in families if one.name == name)
