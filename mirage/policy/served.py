"""A trained model as a policy: frees when it is likely enough to be late even so."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Action, Decision, Forecast, HandoverView
from mirage.policy.artefact import Artefact
from mirage.policy.boundary import threshold
from mirage.policy.quantiles import P10, P50, P90
from mirage.policy.rules import Quantile
from mirage.policy.unserved import instead
from mirage.ports import Policy

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Served:
    """Where the model cannot be asked, a rule decides, and the reason says why."""

    artefact: Artefact
    name: str
    fallback: Policy = field(default_factory=Quantile)
    observes: ClassVar[bool] = True

    def decide(self, view: HandoverView) -> Decision:
        unfit = self.unfit(view)
        if unfit is not None or view.observation is None:
            return self._fall_back(view, unfit or view.unobserved)
        late, wait_h = self.artefact.outputs(view.observation[None, :].astype(np.float32))
        if not (np.isfinite(late).all() and np.isfinite(wait_h).all()):
            return self._fall_back(view, "the model gave no number")
        least = threshold(view.overlap_price, self.artefact.factor)
        frees = bool(late[0] >= least)
        return Decision(
            action=Action.FREE if frees else Action.WAIT,
            reason=_reason(float(late[0]), least, frees=frees),
            policy=self.name,
            forecast=_forecast(wait_h[0] * _HOUR_S),
        )

    def unfit(self, view: HandoverView) -> str | None:
        """Why it cannot be asked about this hand-over now; None where it can."""
        outside = self.artefact.scope.outside(view.nodes, view.time_limit_s)
        if outside is not None:
            return outside
        if view.observation is None:
            return view.unobserved
        return self.artefact.seen.strange(view.observation)

    def _fall_back(self, view: HandoverView, why: str) -> Decision:
        return instead(self.fallback, view, self.name, why)


def _forecast(wait_s: NDArray[np.float64]) -> Forecast:
    p10, p50, p90 = wait_s[[P10, P50, P90]].tolist()
    return Forecast(p10_s=p10, p50_s=p50, p90_s=p90)


def _reason(late: float, least: float, *, frees: bool) -> str:
    beside = "at or above" if frees else "below"
    return f"freed now it starts late with {late:.0%}, {beside} the bound of {least:.0%}"
