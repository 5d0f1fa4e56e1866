"""Trees: a forecast of the wait of a successor that is freed now."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints, Observations
from mirage.domain.decision import Decision, Forecast, PolicyView
from mirage.domain.time_units import HOUR_S
from mirage.policies.models import conformal, model_input, quantiles
from mirage.policies.models.conformal import QuantileShifts
from mirage.policies.models.onnx_session import INPUT, WAIT, check_signature
from mirage.policies.models.quantiles import P10, P50, P90
from mirage.policies.rules.release_cost import decide_by_cost


@dataclass(frozen=True, slots=True)
class WaitOutput:
    """The way to read the output `wait`."""

    thresholds_h: tuple[float, ...]
    """The t of its P(wait <= t), hours; empty if it gives log quantiles at `quantiles.LEVELS`."""
    shifts: QuantileShifts
    """The conformal adjustment."""

    @classmethod
    def from_card(cls, forecast: Mapping[str, Any]) -> Self:
        """Read a card's `forecast`. Raises ValueError for other levels than this program's."""
        if tuple(forecast["levels"]) != quantiles.LEVELS:
            raise ValueError("its forecast has other quantiles than this program's")
        return cls(tuple(forecast["thresholds_h"]), QuantileShifts.from_card(forecast))

    def to_log_quantiles(self, wait: NDArray[np.float32]) -> Floats:
        """Return the quantiles [R, Q] as log(1 + hours), not adjusted."""
        return quantiles.read_log_quantiles(wait, self.thresholds_h)

    def to_hours(self, wait: NDArray[np.float32], nodes: Ints) -> Floats:
        """Return the adjusted quantiles [R, Q] in hours, for chains with `nodes` [R] nodes."""
        return quantiles.to_hours_after_shift(
            self.to_log_quantiles(wait), self.shifts.select_by_nodes(nodes)
        )


class TreeModel:
    """Forecasts the wait. The release is the one that is expected to cost least."""

    def __init__(self, card: Mapping[str, Any], session: Any) -> None:
        check_signature(session, {INPUT}, {WAIT})
        self.prices = (0.0, inf)
        self.window = 0
        self._forecasts = WaitOutput.from_card(card["forecast"])
        self.shifts = self._forecasts.shifts
        self._session = session
        self._with_twin = model_input.has_twin_inputs(card)

    def predict_wait_h(self, observations: Observations) -> Floats:
        """Return the quantiles [R, Q] of the wait in hours, from observations [R, F]."""
        (wait,) = self._session.run([WAIT], {INPUT: observations})
        return self._forecasts.to_hours(wait, conformal.decode_nodes(observations))

    def predict_log_quantiles(self, observations: Observations) -> Floats:
        """Return the quantiles [R, Q] of the wait as log(1 + hours), not adjusted."""
        (wait,) = self._session.run([WAIT], {INPUT: observations})
        return self._forecasts.to_log_quantiles(wait)

    def decide_handover(self, view: PolicyView, name: str) -> Decision | str:
        row = model_input.build_input_row(view, with_twin=self._with_twin)
        if isinstance(row, str):
            return row
        wait_h = self.predict_wait_h(row[None, :].astype(np.float32))
        if not np.isfinite(wait_h).all():
            return "the model gave no number"
        return decide_by_cost(view, _build_forecast(wait_h[0] * HOUR_S), name)


def _build_forecast(wait_s: Floats) -> Forecast:
    p10, p50, p90 = wait_s[[P10, P50, P90]].tolist()
    waits_s = tuple(map(round, wait_s.tolist()))
    return Forecast(p10_s=p10, p50_s=p50, p90_s=p90, waits_s=waits_s)
