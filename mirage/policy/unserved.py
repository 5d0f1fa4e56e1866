"""What decides where a trained model cannot: a rule, with a reason that says why."""

from dataclasses import dataclass, field, replace

from mirage.domain.decision import Decision, HandoverView
from mirage.policy.rules import Quantile
from mirage.ports import Policy


@dataclass(frozen=True, slots=True)
class Unserved:
    """A model that is gone, damaged or made for other features."""

    name: str
    why: str
    fallback: Policy = field(default_factory=Quantile)

    def unfit(self, view: HandoverView) -> str | None:  # noqa: ARG002 - as `Served` has it
        return self.why

    def decide(self, view: HandoverView) -> Decision:
        return instead(self.fallback, view, self.name, self.why)


def instead(rule: Policy, view: HandoverView, name: str, why: str) -> Decision:
    """The rule's decision, under the name of the model that could not be asked."""
    decision = rule.decide(view)
    reason = f"{why}, so {rule.name} decides: {decision.reason}"
    return replace(decision, policy=name, reason=reason)
