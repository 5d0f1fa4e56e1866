"""Agents: networks that say how much better freeing now is than waiting, at a given overlap
price."""

from collections.abc import Mapping
from enum import StrEnum
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Action, Decision, PolicyView
from mirage.policies.models import model_input
from mirage.policies.models.onnx_session import (
    ADVANTAGE,
    INPUT,
    KNOWN,
    PRICE,
    WINDOW,
    check_signature,
)
from mirage.policies.rules.lead_rules import Quantile

_RULE = Quantile()


class AdvantageUnit(StrEnum):
    """The unit of an advantage. Above 0 the standby is freed."""

    HOURS = "hours"
    """Hours of cost saved, from a Q network."""
    LOG_ODDS = "log-odds"
    """Log odds of freeing now, from a policy network."""


class AgentModel:
    """An agent. It frees the standby if freeing now is worth more than waiting."""

    def __init__(self, card: Mapping[str, Any], session: Any) -> None:
        advantage = card["advantage"]
        self.unit = AdvantageUnit(advantage["unit"])
        least, greatest = map(float, advantage["prices"])
        self.prices = (least, greatest)
        """The least and the greatest overlap price of the training."""
        self.window = int(advantage["window"])
        """The number of observations that the network sees; 0: only the present one."""
        window_inputs = {WINDOW, KNOWN} if self.window else set()
        check_signature(session, {INPUT, PRICE} | window_inputs, {ADVANTAGE})
        self._with_twin = model_input.has_twin_inputs(card)
        self._session = session

    def predict_advantage(self, inputs: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the advantage [R] for inputs by the names of `policies.models.onnx_session`."""
        (output,) = self._session.run([ADVANTAGE], dict(inputs))
        advantage: NDArray[np.float32] = output[:, 0]
        return advantage

    def decide_handover(self, view: PolicyView, name: str) -> Decision | str:
        inputs = self._build_inputs(view)
        if isinstance(inputs, str):
            return inputs
        advantage = float(self.predict_advantage(inputs)[0])
        if not np.isfinite(advantage):
            return "the model's answer is not a finite number"
        return Decision(
            action=Action.FREE if advantage > 0.0 else Action.WAIT,
            reason=_format_reason(advantage, self.unit, view.overlap_price),
            policy=name,
            # An agent forecasts no wait, so a rule says when the release is to be expected.
            release_at=_RULE.decide(view).release_at,
        )

    def _build_inputs(self, view: PolicyView) -> dict[str, NDArray[np.float32]] | str:
        row = model_input.build_input_row(view, with_twin=self._with_twin)
        if isinstance(row, str):
            return row
        now = row[None, :].astype(np.float32)
        inputs = {INPUT: now, PRICE: np.array([[view.overlap_price]], dtype=np.float32)}
        if not self.window:
            return inputs
        if view.window is None:
            return "there is no window of observations"
        if not np.isfinite(view.window).all():
            return "the window holds numbers that are not finite"
        window, mask = pad_window(view.window, self.window)
        return inputs | {WINDOW: window[None], KNOWN: mask[None]}


def pad_window(
    observations: NDArray[np.float32], length: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the last `length` observations of [W, F], with zeros before the first, and a mask
    [length]: 1 where there is an observation."""
    last = observations[-length:]
    window = np.zeros((length, observations.shape[1]), dtype=np.float32)
    mask = np.zeros(length, dtype=np.float32)
    window[length - len(last) :] = last
    mask[length - len(last) :] = 1.0
    return window, mask


def _format_reason(advantage: float, unit: AdvantageUnit, price: float) -> str:
    if unit is AdvantageUnit.HOURS:
        comparison = "less" if advantage > 0.0 else "more"
        return (
            f"freeing the standby now is expected to cost {abs(advantage):.2f} h {comparison} than "
            f"waiting, at overlap price {price:g}"
        )
    probability = 1.0 / (1.0 + exp(-min(max(advantage, -50.0), 50.0)))
    comparison = "above" if advantage > 0.0 else "not above"
    return (
        f"the policy's probability of freeing now is {probability:.0%}, {comparison} one half, "
        f"at overlap price {price:g}"
    )
