"""Decides if a trained model cannot: the twin decides if it was asked, else a rule."""

from dataclasses import dataclass

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.policies.rules.fallback import decide_by_fallback
from mirage.policies.rules.lead_rules import Quantile
from mirage.policies.twin_policy import TwinPolicy

_TWIN, _RULE = TwinPolicy(), Quantile()


@dataclass(frozen=True, slots=True)
class UnavailableModel(SimplePolicy):
    """A model that is gone, damaged or made for other features."""

    name: str
    fault: str
    """Why the model cannot be used."""

    def explain_unfit(self, view: PolicyView) -> str | None:  # noqa: ARG002 - see Policy
        return self.fault

    def decide(self, view: PolicyView) -> Decision:
        return decide_without_model(view, self.name, self.fault)


def decide_without_model(view: PolicyView, name: str, obstacle: str) -> Decision:
    """Decide in place of the model `name`; `obstacle` says why it cannot be asked."""
    has_twin = _TWIN.explain_unfit(view) is None
    return decide_by_fallback(_TWIN if has_twin else _RULE, view, name, obstacle)
