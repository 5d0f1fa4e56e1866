"""Checks every move of a policy against an admin's limits before Slurm is told of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirage.domain.chain import Link, Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import DAY_S, HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Slurm keeps the chain whatever these say: they only bound what Mirage may spend on it."""

    max_lead_s: int = DAY_S
    min_gain_s: int = 60
    account_overlap_node_h: float = 500.0
    """Per account and 24 h."""
    cluster_overlap_node_h: float = 5000.0
    replan_gain_h: float = 0.1
    allow_pin: bool = True
    max_touches: int = 6
    """Of one hand-over."""
    max_chains_per_user: int = 200
    """Live ones that Mirage follows (`services.chains.chain_quota`)."""
    demote_after: int = 10
    demote_error_s: float = 12.0 * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Overlap node-hours of the last 24 h: run ones, and what freed standbys may still cost."""

    account: float
    cluster: float

    def is_over(self, limits: Limits) -> bool:
        """Return whether nothing is left to spend."""
        account_h, cluster_h = limits.account_overlap_node_h, limits.cluster_overlap_node_h
        return self.account >= account_h or self.cluster >= cluster_h


def apply_limits(decision: Decision, view: PolicyView, limits: Limits, spent: Spent) -> Decision:
    """The decision, or a wait that says which limit stopped it.

    A standby that has to leave its predecessor's nodes goes back behind it then.
    """
    if decision.action is not Action.FREE:
        return decision
    stopped = _find_stop_reason(decision, view, limits, spent)
    if stopped is None:
        return decision
    leaves = view.position is Position.PINNED and not view.can_pin
    return replace(decision, action=Action.HOLD if leaves else Action.WAIT, reason=stopped)


def _find_stop_reason(
    decision: Decision, view: PolicyView, limits: Limits, spent: Spent
) -> str | None:
    if view.time_left_s > limits.max_lead_s:
        return f"not before {limits.max_lead_s / HOUR_S:g} h to the end (max_lead_h)"
    forecast = decision.forecast
    if forecast is not None:
        gain_s = forecast.p50_s if forecast.p90_s is None else forecast.p90_s
        if gain_s < limits.min_gain_s:
            return f"a wait of {gain_s:.0f} s at most is not worth a move (min_gain_s)"
    worst = compute_worst_overlap(view)
    if spent.account + worst > limits.account_overlap_node_h:
        return f"the account has spent its overlap: {spent.account:.1f} node-hours in 24 h"
    if spent.cluster + worst > limits.cluster_overlap_node_h:
        return f"the cluster has spent its overlap: {spent.cluster:.1f} node-hours in 24 h"
    return None


def compute_worst_overlap(view: PolicyView) -> float:
    """Return the node-hours of overlap that a standby freed now costs if it starts now."""
    return max(0, view.time_left_s) / HOUR_S * view.nodes


def compute_overlap(predecessor: Link, successor: Link, now: int) -> float:
    """Node-hours with both links running: so far, and at worst to come for a freed standby."""
    begin = successor.start if successor.start is not None else now
    end = predecessor.end or predecessor.get_planned_end() or now
    return max(0, end - begin) / HOUR_S * successor.nodes


def find_excess_error(errors_s: Sequence[float], limits: Limits) -> float | None:
    """The mean absolute forecast error, seconds, if it is enough to stop acting."""
    lately = errors_s[-limits.demote_after :]
    if len(lately) < limits.demote_after:
        return None
    mean = sum(map(abs, lately)) / len(lately)
    return mean if mean > limits.demote_error_s else None
