"""Trees: how likely a successor freed now is late, and a forecast of its wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Forecast, HandoverView
from mirage.policy.models import conformal, model_input, quantiles
from mirage.policy.models.conformal import Shifts
from mirage.policy.models.model_output import Verdict
from mirage.policy.models.onnx_session import INPUT, LATE, WAIT, check
from mirage.policy.models.quantiles import P10, P50, P90
from mirage.policy.rules.late_threshold import threshold

_HOUR_S = 3600.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Observations = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """How to read the output `wait`."""

    thresholds_h: tuple[float, ...]
    """Of the P(wait <= t) it gives; empty where it gives log quantiles at `quantiles.LEVELS`."""
    shifts: Shifts
    """The conformal adjustment."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """From a card. Raises ValueError for other levels than this program's."""
        if tuple(told["levels"]) != quantiles.LEVELS:
            raise ValueError("its forecast has other quantiles than this program's")
        return cls(tuple(told["thresholds_h"]), Shifts.read(told))

    def log_quantiles(self, wait: NDArray[np.float32]) -> Floats:
        """[R, Q]: log(1 + hours), not adjusted."""
        if self.thresholds_h:
            return quantiles.of_distribution(wait, self.thresholds_h)
        return wait.astype(np.float64)

    def hours(self, wait: NDArray[np.float32], nodes: Ints) -> Floats:
        """[R, Q], for chains of so many nodes [R]."""
        return quantiles.hours(self.log_quantiles(wait), self.shifts.of(nodes))


class LateModel:
    """Frees when the successor is likely enough to be late even so."""

    def __init__(self, card: Mapping[str, Any], session: Any) -> None:
        check(session, {INPUT}, {LATE, WAIT})
        self.prices = (0.0, inf)
        self.factor = float(card["boundary"]["factor"])
        """Of the boundary (`policy.boundary`)."""
        if not 0.0 <= self.factor < inf:
            raise ValueError(f"its boundary's factor is {self.factor}")
        self._forecasts = Forecasts.of(card["forecast"])
        self.shifts = self._forecasts.shifts
        self._session = session
        self._with_twin = model_input.with_twin(card)

    def outputs(self, observations: Observations) -> tuple[Floats, Floats]:
        """[R]: P(late) if freed now; [R, Q]: the quantiles of the wait, hours."""
        late, wait = self._session.run([LATE, WAIT], {INPUT: observations})
        wait_h = self._forecasts.hours(wait, conformal.sizes(observations))
        return np.clip(late[:, 0].astype(np.float64), 0.0, 1.0), wait_h

    def log_quantiles(self, observations: Observations) -> Floats:
        """[R, Q]: of the wait, log(1 + hours), not adjusted."""
        (wait,) = self._session.run([WAIT], {INPUT: observations})
        return self._forecasts.log_quantiles(wait)

    def verdict(self, view: HandoverView) -> Verdict | str:
        row = model_input.row(view, twin=self._with_twin)
        if isinstance(row, str):
            return row
        late, wait_h = self.outputs(row[None, :].astype(np.float32))
        if not (np.isfinite(late).all() and np.isfinite(wait_h).all()):
            return "the model gave no number"
        least = threshold(view.overlap_price, self.factor)
        frees = bool(late[0] >= least)
        return Verdict(
            frees=frees,
            reason=_reason(float(late[0]), least, frees=frees),
            forecast=_forecast(wait_h[0] * _HOUR_S),
        )


def _forecast(wait_s: Floats) -> Forecast:
    p10, p50, p90 = wait_s[[P10, P50, P90]].tolist()
    return Forecast(p10_s=p10, p50_s=p50, p90_s=p90)


def _reason(late: float, least: float, *, frees: bool) -> str:
    beside = "at or above" if frees else "below"
    return f"freed now it starts late with {late:.0%}, {beside} the bound of {least:.0%}"
