"""Measures how good the forecasts of policies are at the start of each hand-over's predecessor."""

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.decision import Decision, Forecast, PolicyView
from mirage.domain.ports import Policy
from mirage.domain.time_units import HOUR_S
from mirage.judging import policy_runner
from mirage.judging.table.episode_table import EpisodeTable

_LEVELS = np.array([0.1, 0.5, 0.9])
"""The levels of the forecasts that every policy makes (`Forecast`)."""


def measure_losses(table: EpisodeTable, policy: Policy) -> Floats:
    """Measure the pinball loss [E], in hours, of the wait that the policy forecasts when the
    predecessor starts, averaged over three levels; NaN where it forecasts nothing.

    Each policy is asked at that instant, so the losses of two policies compare.
    """
    listener = _ForecastListener(policy)
    policy_runner.run_policy(table, listener, OVERLAP_PRICE)
    left_s = int(table.instant_s[-1])
    losses = np.full(len(table), np.nan)
    for i, (start, outcome_s) in enumerate(
        zip(table.predecessor_start.tolist(), table.outcome_s[:, 0].tolist(), strict=True)
    ):
        forecast = listener.forecasts.get((start, start + left_s))
        if forecast is not None:
            losses[i] = _compute_loss_h(forecast, max(0, left_s + outcome_s))
    return losses


class _ForecastListener:
    """Wraps a policy, and keeps its first forecast of each hand-over."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name, self.needs = policy, policy.name, policy.needs
        self.decide_outright, self.explain_unfit = policy.decide_outright, policy.explain_unfit
        self.forecasts: dict[tuple[int, int], Forecast] = {}
        """By the instant and the predecessor's end."""

    def decide(self, view: PolicyView) -> Decision:
        decision = self._policy.decide(view)
        if decision.forecast is not None:
            self.forecasts.setdefault((view.now, view.now + view.time_left_s), decision.forecast)
        return decision


def _compute_loss_h(forecast: Forecast, wait_s: int) -> float:
    if forecast.p10_s is None or forecast.p90_s is None:
        return float("nan")
    over = wait_s - np.array([forecast.p10_s, forecast.p50_s, forecast.p90_s])
    return float(np.maximum(_LEVELS * over, (_LEVELS - 1.0) * over).mean() / HOUR_S)
