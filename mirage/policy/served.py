"""A trained model as a policy."""

from dataclasses import dataclass, replace
from typing import ClassVar

from mirage.domain.decision import Action, Decision, HandoverView
from mirage.policy.artefact import Artefact
from mirage.policy.foretold import NOT_ASKED
from mirage.policy.unserved import stand_in


@dataclass(frozen=True, slots=True)
class Served:
    """Where the model cannot be asked the twin decides, or a rule where that was not asked either,
    and the reason says why."""

    artefact: Artefact
    name: str
    observes: ClassVar[bool] = True

    @property
    def asks_twin(self) -> bool:
        """Whether it was trained with what the twin foretells."""
        return self.artefact.card.get("twin") is not None

    @property
    def looks_back(self) -> bool:
        """Whether it is an agent that is shown a window of observations."""
        return bool(getattr(self.artefact.model, "window", 0))

    def decide(self, view: HandoverView) -> Decision:
        unfit = self.unfit(view)
        if unfit is not None:
            return stand_in(view, self.name, unfit)
        verdict = self.artefact.model.verdict(self._as_learned(view))
        if isinstance(verdict, str):
            return stand_in(view, self.name, verdict)
        return Decision(
            action=Action.FREE if verdict.frees else Action.WAIT,
            reason=verdict.reason,
            policy=self.name,
            forecast=verdict.forecast,
        )

    def unfit(self, view: HandoverView) -> str | None:
        """Why it cannot be asked about this hand-over now; None where it can."""
        outside = self.artefact.scope.outside(view.nodes, view.time_limit_s)
        if outside is not None:
            return outside
        if view.observation is None:
            return view.unobserved
        if self.asks_twin and view.twin_s is None:
            return NOT_ASKED
        least, greatest = self.artefact.model.prices
        if not least <= view.overlap_price <= greatest:
            return (
                f"the overlap price {view.overlap_price:g} is not one of those learned from, "
                f"{least:g} to {greatest:g}"
            )
        return self.artefact.seen.strange(view.observation)

    def _as_learned(self, view: HandoverView) -> HandoverView:
        nearest, observation, window = self.artefact.seen.nearest, view.observation, view.window
        return replace(
            view,
            observation=None if observation is None else nearest(observation),
            window=None if window is None else nearest(window),
        )
