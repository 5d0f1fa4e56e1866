"""Policies by name."""

from mirage.errors import NotFound
from mirage.policy.rules import AtOnce, Average, FixedLead, Quantile, Reactive, SlurmEstimate
from mirage.ports import Policy

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (Reactive(), Average(), Quantile(), SlurmEstimate(), FixedLead(), AtOnce())
}


def policy(name: str) -> Policy:
    """The policy of that name."""
    try:
        return POLICIES[name]
    except KeyError:
        raise NotFound(f"no policy {name!r}: there are {', '.join(POLICIES)}") from None
