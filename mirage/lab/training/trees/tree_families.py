"""The two tree families: a random forest of scikit-learn, and boosted trees of xgboost."""

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import xgboost
from sklearn.ensemble import RandomForestRegressor

from mirage.domain.arrays import Floats, Observations
from mirage.lab.training.settings import load_defaults
from mirage.policies.models.quantiles import LEVELS, invert_distribution

LONGEST_H = 192.0

_FOREST, _XGBOOST = load_defaults()["forest"], load_defaults()["xgboost"]


def _compute_thresholds() -> tuple[float, ...]:
    """Compute thresholds from 0 and ten minutes to eight days, hours. They are closer together
    where waits are short."""
    steps = np.expm1(np.linspace(np.log1p(1 / 6), np.log1p(LONGEST_H), 19))
    return (0.0, *np.round(steps, 3).tolist())


THRESHOLDS_H = _compute_thresholds()


class Trees(Protocol):
    """Fitted trees."""

    def predict(self, observations: Observations) -> Floats:
        """Predict the targets [R, M]."""


class FittedForecast(Trees, Protocol):
    """A fitted forecast of the wait."""

    def predict_log_quantiles(self, observations: Observations) -> Floats:
        """Predict quantiles [R, Q] of log(1 + hours) at `LEVELS`. They are neither sorted nor
        adjusted."""


class Family(Protocol):
    """A kind of trees that can be fitted."""

    @property
    def name(self) -> str: ...

    @property
    def thresholds_h(self) -> tuple[float, ...]:
        """The thresholds t of the forecast's P(wait <= t); empty if it predicts log quantiles."""

    def list_settings(self) -> dict[str, Any]:
        """List the hyper-parameters, for the card."""

    def fit_forecast(self, observations: Observations, wait_h: Floats) -> FittedForecast:
        """Fit a forecast to waits [R], hours."""


@dataclass(frozen=True, slots=True)
class Forest:
    """A random forest. Its forecast is a whole distribution: the mean of indicators of thresholds.

    settings.toml describes the hyper-parameters and has their defaults.
    """

    seed: int = 0
    trees: int = _FOREST["trees"]
    leaf: int = _FOREST["leaf"]
    features: float = _FOREST["features"]
    sample: float = _FOREST["sample"]
    name: str = field(default="forest", init=False)
    thresholds_h: tuple[float, ...] = field(default=THRESHOLDS_H, init=False)

    def list_settings(self) -> dict[str, Any]:
        return _list_settings(self)

    def fit_forecast(self, observations: Observations, wait_h: Floats) -> "ForestTrees":
        within = (wait_h[:, None] <= np.asarray(self.thresholds_h)).astype(np.float64)
        forest = RandomForestRegressor(
            n_estimators=self.trees,
            min_samples_leaf=_limit_leaf(self.leaf, within),
            max_features=self.features,
            max_samples=self.sample,
            random_state=self.seed,
            n_jobs=1,
        )
        return ForestTrees(forest.fit(observations, within))


@dataclass(frozen=True, slots=True)
class ForestTrees:
    forest: RandomForestRegressor

    def predict(self, observations: Observations) -> Floats:
        predictions: Floats = self.forest.predict(observations)
        return predictions.reshape(len(observations), -1)

    def predict_log_quantiles(self, observations: Observations) -> Floats:
        """Predict log quantiles from the model's P(wait <= t)."""
        return invert_distribution(self.predict(observations), THRESHOLDS_H)


@dataclass(frozen=True, slots=True)
class Boosted:
    """Boosted trees, one model for each number, since several quantiles in one model convert
    wrongly to ONNX."""

    seed: int = 0
    trees: int = _XGBOOST["trees"]
    depth: int = _XGBOOST["depth"]
    rate: float = _XGBOOST["rate"]
    leaf: int = _XGBOOST["leaf"]
    features: float = _XGBOOST["features"]
    sample: float = _XGBOOST["sample"]
    name: str = field(default="xgboost", init=False)
    thresholds_h: tuple[float, ...] = field(default=(), init=False)

    def list_settings(self) -> dict[str, Any]:
        return _list_settings(self)

    def fit_forecast(self, observations: Observations, wait_h: Floats) -> "BoostedTrees":
        logs = np.log1p(wait_h)
        options = {"objective": "reg:quantileerror"}
        models = (self._fit_model(observations, logs, quantile_alpha=q, **options) for q in LEVELS)
        return BoostedTrees(tuple(models))

    def _fit_model(
        self, observations: Observations, target: Floats, **options: Any
    ) -> xgboost.XGBRegressor:
        model = xgboost.XGBRegressor(
            n_estimators=self.trees,
            max_depth=self.depth,
            learning_rate=self.rate,
            min_child_weight=_limit_leaf(self.leaf, target),
            colsample_bytree=self.features,
            subsample=self.sample,
            tree_method="hist",
            max_bin=64,
            random_state=self.seed,
            n_jobs=1,
            **options,
        )
        return model.fit(observations, target)


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """Fitted boosted trees, one model for each number."""

    models: tuple[xgboost.XGBRegressor, ...]

    def predict(self, observations: Observations) -> Floats:
        predictions = [model.predict(observations) for model in self.models]
        return np.column_stack(predictions).astype(np.float64)

    def predict_log_quantiles(self, observations: Observations) -> Floats:
        """Predict log quantiles, of which the model has one for each of `LEVELS`."""
        return self.predict(observations)


def _list_settings(family: Forest | Boosted) -> dict[str, Any]:
    left_out = ("name", "thresholds_h")
    return {name: value for name, value in asdict(family).items() if name not in left_out}


def _limit_leaf(leaf: int, target: Floats) -> int:
    """Limit the leaf size so that a small table still gets more than one leaf."""
    return min(leaf, max(1, len(target) // 50))
