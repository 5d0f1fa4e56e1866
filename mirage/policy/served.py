"""A trained model as a policy."""

from dataclasses import dataclass, field, replace

from mirage.domain.decision import Action, Decision, HandoverView
from mirage.policy.artefact import Artefact
from mirage.policy.rules import Quantile
from mirage.ports import Policy


@dataclass(frozen=True, slots=True)
class Served:
    """Where the model cannot be asked, a rule decides, and the reason says why."""

    artefact: Artefact
    name: str
    fallback: Policy = field(default_factory=Quantile)

    @property
    def asks_twin(self) -> bool:
        """Whether it was trained with what the twin foretells."""
        return self.artefact.card.get("twin") is not None

    def decide(self, view: HandoverView) -> Decision:
        if view.observation is None:
            return self._fall_back(view, "there is no observation")
        strange = self.artefact.seen.strange(view.observation)
        if strange is not None:
            return self._fall_back(view, strange)
        verdict = self.artefact.model.verdict(view)
        if isinstance(verdict, str):
            return self._fall_back(view, verdict)
        return Decision(
            action=Action.FREE if verdict.frees else Action.WAIT,
            reason=verdict.reason,
            policy=self.name,
            forecast=verdict.forecast,
        )

    def _fall_back(self, view: HandoverView, why: str) -> Decision:
        decision = self.fallback.decide(view)
        reason = f"{why}, so {self.fallback.name} decides: {decision.reason}"
        return replace(decision, policy=self.name, reason=reason)
