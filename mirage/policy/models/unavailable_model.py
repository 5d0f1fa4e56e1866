"""What decides where a trained model cannot: the twin where it was asked, else a rule."""

from dataclasses import dataclass

from mirage.domain.decision import Decision, HandoverView
from mirage.policy.rules.fallback import instead
from mirage.policy.rules.lead_rules import Quantile
from mirage.policy.twin.twin_policy import Foretold

_TWIN, _RULE = Foretold(), Quantile()


@dataclass(frozen=True, slots=True)
class Unserved:
    """A model that is gone, damaged or made for other features."""

    name: str
    why: str

    def unfit(self, view: HandoverView) -> str | None:  # noqa: ARG002 - as `Served` has it
        return self.why

    def decide(self, view: HandoverView) -> Decision:
        return stand_in(view, self.name, self.why)


def stand_in(view: HandoverView, name: str, why: str) -> Decision:
    """Of the model `name`, which cannot be asked."""
    asked = _TWIN.unfit(view) is None
    return instead(_TWIN if asked else _RULE, view, name, why)
