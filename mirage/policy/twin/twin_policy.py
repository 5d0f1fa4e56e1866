"""The twin as a policy: frees when the successor, freed now, would be late in enough futures.

It needs no training and no past hand-overs, only what is running and waiting now.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.features.twin_features import LEVELS, compute_late_probability
from mirage.policy.rules.fallback import decide_by_fallback
from mirage.policy.rules.late_threshold import compute_threshold
from mirage.policy.rules.lead_rules import Quantile
from mirage.ports import Needs, SimplePolicy

FACTOR = 0.6
"""The factor of the boundary. It is less than the newsvendor's 1, since the twin is too hopeful
(docs/concepts/twin.md)."""

NOT_ASKED = "the twin was not asked"

_RULE = Quantile()
_P10, _P50, _P90 = (LEVELS.index(q) for q in (0.1, 0.5, 0.9))


@dataclass(frozen=True, slots=True)
class TwinPolicy(SimplePolicy):
    """A policy that the twin decides. If the twin was not asked, a rule decides.

    The reason of the decision says so.
    """

    name: str = "twin"
    factor: float = FACTOR

    @property
    def needs(self) -> Needs:
        return Needs(twin=True)

    def decide(self, view: PolicyView) -> Decision:
        why = self.explain_unfit(view)
        if why is not None:
            return decide_by_fallback(_RULE, view, self.name, why)
        assert view.twin_s is not None  # noqa: S101 - `explain_unfit` looked
        odds = float(compute_late_probability(view.twin_s, np.array(view.time_left_s)))
        least = compute_threshold(view.overlap_price, self.factor)
        frees = odds >= least
        return Decision(
            action=Action.FREE if frees else Action.WAIT,
            reason=(
                f"if freed now, the standby starts late in {odds:.0%} of the simulated futures; "
                f"it is freed at {least:.0%} or more"
            ),
            policy=self.name,
            forecast=_build_forecast(view.twin_s),
            release_at=view.predecessor_end - _find_lead_s(view.twin_s, least),
        )

    def explain_unfit(self, view: PolicyView) -> str | None:
        return NOT_ASKED if view.twin_s is None else None


def _find_lead_s(quantile_s: NDArray[np.int32], least: float) -> int:
    """Find the most time left at which the standby is late often enough, if its wait stays as
    forecast."""
    times = np.unique(np.concatenate([[0], quantile_s - 1]).clip(min=0))
    often = times[compute_late_probability(quantile_s, times) >= least]
    return int(often.max(initial=0))


def _build_forecast(quantile_s: NDArray[np.int32]) -> Forecast:
    p10, p50, p90 = quantile_s[[_P10, _P50, _P90]].tolist()
    return Forecast(p10_s=p10, p50_s=p50, p90_s=p90, waits_s=tuple(quantile_s.tolist()))
