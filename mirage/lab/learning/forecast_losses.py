"""Measures how good the forecasts of policies are at the start of each hand-over's predecessor, and
whether the policy itself made them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

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


LEAST_ASKED = 0.1
"""A model that is asked at a smaller share of the hand-overs decides as good as nothing."""


@dataclass(frozen=True, slots=True)
class MeasuredForecasts:
    """The forecasts of a policy when each hand-over's predecessor starts."""

    loss_h: Floats
    """[E]: the pinball loss of the forecast wait in hours, averaged over three levels; NaN where
    nothing was forecast. Where a model could not be asked, it is the loss of its stand-in."""
    obstacles: tuple[str | None, ...]
    """Why the policy could not be asked, a hand-over each; None: it was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """At how many hand-overs a model was asked when the predecessor started. At the others the twin
    or a rule stood in for it."""

    asked_count: int
    handovers: int
    why_not: str
    """The most frequent reason why it was not asked; empty: it always was."""

    @classmethod
    def from_obstacles(cls, obstacles: Iterable[str | None]) -> Self:
        counts = Counter(obstacles)
        why_not = [why for why, _ in counts.most_common() if why is not None]
        return cls(
            asked_count=counts[None],
            handovers=counts.total(),
            why_not=why_not[0] if why_not else "",
        )

    @property
    def decides_nothing(self) -> bool:
        return self.asked_count < LEAST_ASKED * self.handovers

    def explain(self) -> str:
        """Return at how many hand-overs it was asked and why not at the others; empty: at all."""
        if self.asked_count == self.handovers:
            return ""
        return (
            f"it was asked at {self.asked_count} of {self.handovers} hand-overs, and the twin or a "
            f"rule decided the others, mostly since {self.why_not}"
        )


def measure_forecasts(table: EpisodeTable, policy: Policy) -> MeasuredForecasts:
    """Measure the forecasts of a policy. Each policy is asked when the predecessor starts, so the
    losses of two policies compare."""
    listener = _ForecastListener(policy)
    policy_runner.run_policy(table, listener, OVERLAP_PRICE)
    left_s = int(table.instant_s[-1])
    losses = np.full(len(table), np.nan)
    obstacles = []
    for i, (start, outcome_s) in enumerate(
        zip(table.predecessor_start.tolist(), table.outcome_s[:, 0].tolist(), strict=True)
    ):
        instants = (start, start + left_s)
        obstacles.append(listener.obstacles.get(instants))
        forecast = listener.forecasts.get(instants)
        if forecast is not None:
            losses[i] = _compute_loss_h(forecast, max(0, left_s + outcome_s))
    return MeasuredForecasts(losses, tuple(obstacles))


class _ForecastListener:
    """Wraps a policy, and keeps its first forecast of each hand-over, and why it was not asked."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name, self.needs = policy, policy.name, policy.needs
        self.decide_outright, self.explain_unfit = policy.decide_outright, policy.explain_unfit
        self.forecasts: dict[tuple[int, int], Forecast] = {}
        """By the instant and the predecessor's end."""
        self.obstacles: dict[tuple[int, int], str | None] = {}
        """By the same."""

    def decide(self, view: PolicyView) -> Decision:
        decision = self._policy.decide(view)
        instants = (view.now, view.now + view.time_left_s)
        self.obstacles.setdefault(instants, self._policy.explain_unfit(view))
        if decision.forecast is not None:
            self.forecasts.setdefault(instants, decision.forecast)
        return decision


def _compute_loss_h(forecast: Forecast, wait_s: int) -> float:
    if forecast.p10_s is None or forecast.p90_s is None:
        return float("nan")
    over = wait_s - np.array([forecast.p10_s, forecast.p50_s, forecast.p90_s])
    return float(np.maximum(_LEVELS * over, (_LEVELS - 1.0) * over).mean() / HOUR_S)
