"""A decision under the name of a policy that could not be asked, with a reason that says why."""

from dataclasses import replace

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import Policy


def decide_by_fallback(rule: Policy, view: PolicyView, name: str, obstacle: str) -> Decision:
    """Return the decision of `rule` under the name of the policy `name`.

    The reason starts with `obstacle`: why the policy could not be asked.
    """
    decision = rule.decide(view)
    reason = f"{obstacle}, so {rule.name} decides: {decision.reason}"
    return replace(decision, policy=name, reason=reason)
