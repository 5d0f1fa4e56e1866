"""The twin as a policy: frees when no later release is expected to cost less.

It needs no training and no past hand-overs, only what is running and waiting now.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Decision, Forecast, PolicyView
from mirage.domain.ports import Needs, SimplePolicy
from mirage.policies.rules.fallback import decide_by_fallback
from mirage.policies.rules.lead_rules import Quantile
from mirage.policies.rules.release_cost import decide_by_cost
from mirage.twin.twin_features import LEVELS

_RULE = Quantile()
_P10, _P50, _P90 = (LEVELS.index(q) for q in (0.1, 0.5, 0.9))


@dataclass(frozen=True, slots=True)
class TwinPolicy(SimplePolicy):
    """A policy that the twin's forecast decides. If the twin was not asked, a rule decides.

    The reason of the decision says so.
    """

    name: str = "twin"

    @property
    def needs(self) -> Needs:
        return Needs(twin=True)

    def decide(self, view: PolicyView) -> Decision:
        obstacle = self.explain_unfit(view)
        if obstacle is not None:
            return decide_by_fallback(_RULE, view, self.name, obstacle)
        assert view.twin_s is not None  # noqa: S101 - `explain_unfit` has checked it
        return decide_by_cost(view, _build_forecast(view.twin_s), self.name)

    def explain_unfit(self, view: PolicyView) -> str | None:
        return view.why_no_twin if view.twin_s is None else None


def _build_forecast(quantile_s: NDArray[np.int32]) -> Forecast:
    waits_s = tuple(quantile_s.tolist())
    return Forecast(p10_s=waits_s[_P10], p50_s=waits_s[_P50], p90_s=waits_s[_P90], waits_s=waits_s)
