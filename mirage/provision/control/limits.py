"""Checks every move of a policy against the admins' limits before Slurm gets a command."""

from dataclasses import dataclass, replace

from mirage.domain.chain import MAX_RETURNS, Link, LinkState, Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import DAY_S, HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The admins' limits. Slurm starts every link without Mirage too, so no limit ends a chain."""

    max_lead_s: int = DAY_S
    """How long before its predecessor's end a standby is released at the earliest, seconds."""
    min_gain_s: int = 60
    """A standby whose forecast wait is shorter than this is not released, seconds."""
    user_overlap_node_h: float = 250.0
    """The most overlap of one user's chains in 24 h, node-hours. More than that of one user never
    counts in the two budgets below."""
    account_overlap_node_h: float = 500.0
    """The most overlap of one account in 24 h, node-hours."""
    cluster_overlap_node_h: float = 5000.0
    replan_gain_h: float = 0.1
    """The least expected saving for which a planned release is moved, hours."""
    allow_pin: bool = True
    max_touches: int = 6
    """The most moves of one hand-over's standby."""
    max_returns: int = MAX_RETURNS
    """The most times that an early link gives its nodes back, whatever its chain asks for. A
    running link hears of it, and heeds it."""
    max_chains_per_user: int = 200
    """The most chains of one user that Mirage follows and that have not ended
    (`chains.chain_quota`)."""
    demote_after: int = 10
    """The number of forecasts by whose mean error something is demoted (`demotions`)."""
    demote_error_s: float = 12.0 * HOUR_S
    """The mean absolute error above which it is demoted, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Node-hours of overlap in the last 24 h, with what freed standbys may still cost.

    For a release that is planned in Slurm, with what the planned releases before it may cost.
    """

    user: float
    """All of the chain's owner, in any account."""
    account: float
    cluster: float


def apply_limits(decision: Decision, view: PolicyView, limits: Limits, spent: Spent) -> Decision:
    """Return the decision, or a wait whose reason names the limit that stopped it.

    Instead of the wait, a pinned standby that has to leave its predecessor's nodes gets a HOLD.
    """
    if decision.action is not Action.FREE:
        return decision
    reason = _find_stop_reason(decision, view, limits, spent)
    if reason is None:
        return decision
    must_leave = view.position is Position.PINNED and not view.can_pin
    return replace(decision, action=Action.HOLD if must_leave else Action.WAIT, reason=reason)


def _find_stop_reason(
    decision: Decision, view: PolicyView, limits: Limits, spent: Spent
) -> str | None:
    if view.time_left_s > limits.max_lead_s:
        return (
            f"the standby is freed at most {limits.max_lead_s / HOUR_S:g} h before its "
            "predecessor's end (max_lead_h)"
        )
    forecast = decision.forecast
    if forecast is not None:
        gain_s = forecast.p50_s if forecast.p90_s is None else forecast.p90_s
        if gain_s < limits.min_gain_s:
            return f"the forecast wait of {gain_s:.0f} s is too short for a move (min_gain_s)"
    return explain_overspending(view, limits, spent)


def explain_overspending(view: PolicyView, limits: Limits, spent: Spent) -> str | None:
    """Return which budget a release at `view.now` could exceed; None: it fits in all."""
    worst_h = compute_worst_overlap(view)
    budgets = (
        ("user", spent.user, limits.user_overlap_node_h),
        ("account", spent.account, limits.account_overlap_node_h),
        ("cluster", spent.cluster, limits.cluster_overlap_node_h),
    )
    for budget, spent_h, limit_h in budgets:
        if spent_h + worst_h > limit_h:
            return (
                # Do not add what is spent: PrivateData may hide others' use from the chain's owner.
                f"this release could cost {worst_h:.1f} node-hours of overlap, more than the "
                f"{budget} has left of {limit_h:g} in 24 h ({budget}_overlap_node_h)"
            )
    return None


def compute_worst_overlap(view: PolicyView) -> float:
    """Return the node-hours of overlap that a standby freed now costs if it starts now."""
    return max(0, view.time_left_s) / HOUR_S * view.nodes


def compute_overlap(predecessor: Link, successor: Link, now: int) -> float:
    """Return the overlap of two links in node-hours, at worst: while both run, or for a standby
    that is free, up to the predecessor's planned end."""
    begin = successor.start if successor.start is not None else now
    end = predecessor.end or predecessor.get_planned_end() or now
    if successor.state is LinkState.ENDED:
        end = min(end, successor.end or now)
    return max(0, end - begin) / HOUR_S * successor.nodes
