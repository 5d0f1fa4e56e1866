"""Both tree families together: each is wrong in its own way."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.learn.dataset import Floats, Observations
from mirage.learn.trees.tree_families import Boosted, Family, Forecast, Forest, Trees


@dataclass(frozen=True, slots=True)
class Ensemble:
    """P(late) is the mean of a forest's and of xgboost's; the forecast of the wait is xgboost's,
    which takes a tenth of the room."""

    forest: Forest = field(default_factory=Forest)
    boosted: Boosted = field(default_factory=Boosted)
    name: str = field(default="ensemble", init=False)
    thresholds_h: tuple[float, ...] = field(default=(), init=False)

    def settings(self) -> dict[str, Any]:
        return {"forest": self.forest.settings(), "xgboost": self.boosted.settings()}

    def mean(self, observations: Observations, target: Floats) -> "Mean":
        return Mean(tuple(f.mean(observations, target) for f in (self.forest, self.boosted)))

    def forecast(self, observations: Observations, wait_h: Floats) -> Forecast:
        return self.boosted.forecast(observations, wait_h)


@dataclass(frozen=True, slots=True)
class Mean:
    """Of what several have fitted."""

    members: tuple[Trees, ...]

    def predict(self, observations: Observations) -> Floats:
        found: Floats = np.mean([m.predict(observations) for m in self.members], axis=0)
        return found


def family(name: str, settings: Mapping[str, Any], seed: int) -> Family:
    """By its name; `settings` by kind of trees (learn/settings.py)."""
    forest = Forest(seed=seed, **settings["forest"])
    boosted = Boosted(seed=seed, **settings["xgboost"])
    families: tuple[Family, ...] = (forest, boosted, Ensemble(forest, boosted))
    return next(one for one in families if one.name == name)
