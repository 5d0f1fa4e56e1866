"""The planned release of a standby: written into its own dependency, so that Slurm carries it out.

`afterany:P?after:P+N` makes the standby eligible when P ends or N minutes after P started, whoever
is alive then. A plan is a release made beforehand: it is bounded as a release is (`overlap_bound`,
`limits`), and it is moved only for what that saves, since each move is a touch and the last touch
is kept for the release itself.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from mirage.chains.chain_state import get_fail_fast_s
from mirage.chains.open_handovers import OpenHandover
from mirage.domain.chain import Chain, Link, Planner, Position
from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.snapshot import Snapshot
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import ClusterError
from mirage.policies.rules.lead_rules import forecast_wait
from mirage.policies.rules.overlap_bound import (
    NOBODY_WAITS,
    compute_max_lead_s,
    compute_work_floor_s,
)
from mirage.policies.rules.release_cost import ReleaseCosts
from mirage.policies.rules.switch_price import START_UP_S
from mirage.provision.cluster_observer import count_unseen_nodes
from mirage.provision.control.limits import Limits, Spent, apply_limits, explain_overspending
from mirage.slurm.text.wait_explanations import classify_reason, waits_for_nodes

_SOON_S = 600
"""A plan that happens within these seconds is held to its bound by the minute."""
_RELEASE = 1
"""A touch that is kept."""


@dataclass(frozen=True, slots=True)
class WantedRelease:
    """The release that is wanted, and why; `at` is None for no planned release."""

    at: int | None
    why: str
    binds: bool = False
    """Whether it has to, whatever that saves."""


_AT_ITS_END = "it is to start when its predecessor has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """One held standby, and what may be planned of it."""

    standby: Link
    limits: Limits
    spent: Spent
    """With the planned releases of others that come before this one."""
    touches: int = 0
    """Moves of this standby so far."""
    barred: str = ""
    """Why no plan can be written; empty: one can."""

    def plan_release(self, decision: Decision, view: PolicyView) -> Decision:
        """The decision, or what moves the plan in its place: PLAN, or HOLD that takes it back."""
        if decision.action is not Action.WAIT or self.standby.position is not Position.HELD:
            return decision
        if view.nobody_waits:
            return self._plan_nothing(decision, view)
        if self.barred and self._get_standing_release(view) is None:
            reason = f"{decision.reason}; no release is planned in Slurm, {self.barred}"
            return replace(decision, reason=reason)
        forecast = decision.forecast or forecast_wait(view.jobs, view.nodes, view.time_limit_s)
        return self._update_plan(decision, replace(decision, forecast=forecast), view)

    def _plan_nothing(self, decision: Decision, view: PolicyView) -> Decision:
        """While nobody waits. A plan that stands goes only as it is near: somebody may come."""
        stands = self._get_standing_release(view)
        if stands is not None and stands - view.now <= _SOON_S:
            return _take_plan_back(decision, NOBODY_WAITS)
        if stands is not None or NOBODY_WAITS in decision.reason:
            return decision
        return replace(decision, reason=f"{decision.reason}; {NOBODY_WAITS}")

    def _update_plan(self, decision: Decision, like: Decision, view: PolicyView) -> Decision:
        """`like`: the same with a forecast of the wait, where there is any."""
        release, stands = self._compute_wanted(like, view), self._get_standing_release(view)
        early = self._explain_too_early(like, view)
        if release.at == stands:
            return _take_plan_back(decision, early) if early else decision
        saved_h = compute_cost_h(stands, like.forecast, view) - compute_cost_h(
            release.at, like.forecast, view
        )
        never = release.at is None and decision.forecast is None  # its policy foretells no wait
        if not (early or never or release.binds or saved_h > self.limits.replan_gain_h):
            return decision
        if release.at is None:
            return _take_plan_back(decision, release.why)
        if self.barred or self.touches + _RELEASE >= self.limits.max_touches:
            return _take_plan_back(decision, early) if early else decision
        reason = f"{decision.reason}; {release.why}"
        return replace(decision, action=Action.PLAN, release_at=release.at, reason=reason)

    def _get_standing_release(self, view: PolicyView) -> int | None:
        """The release that stands in Slurm; None: the predecessor's end."""
        at = self.standby.planned_release
        return None if at is None else max(at, view.now)

    def _compute_wanted(self, decision: Decision, view: PolicyView) -> WantedRelease:
        """Return the release that the policy asks for, within what bounds a release.

        If the policy asks for none, the release that stands may stand while it fits in the budgets.
        """
        stands = self._get_standing_release(view)
        if decision.release_at is None:
            over = None if stands is None else self._explain_overspending(view, stands)
            return WantedRelease(stands if over is None else None, over or "", binds=bool(over))
        most_s = compute_max_lead_s(decision, view)
        lead_s = min(view.predecessor_end - decision.release_at, self.limits.max_lead_s)
        lead_s = lead_s if most_s is None else min(lead_s, int(most_s))
        at = _round_to_minutes(view, view.predecessor_end - lead_s)
        if at >= view.predecessor_end:
            return WantedRelease(None, _AT_ITS_END, binds=most_s == 0)
        early_decision = replace(decision, action=Action.FREE)
        allowed = apply_limits(early_decision, replace(view, now=at), self.limits, self.spent)
        if allowed.action is not Action.FREE:
            over = self._explain_overspending(view, at)
            return WantedRelease(None, allowed.reason, binds=over is not None)
        if at <= view.now + MINUTE_S:
            return WantedRelease(stands, "")  # the release itself is at hand
        left_h = (view.predecessor_end - at) / HOUR_S
        return WantedRelease(at, f"planned in Slurm for {left_h:.1f} h before the end")

    def _explain_overspending(self, view: PolicyView, release_at: int) -> str | None:
        """Return which budget a release at that instant could exceed; None: it fits in both."""
        return explain_overspending(replace(view, now=release_at), self.limits, self.spent)

    def _explain_too_early(self, decision: Decision, view: PolicyView) -> str:
        """Return how the standing plan now breaks the bound of a release; empty if it does not."""
        stands = self._get_standing_release(view)
        if stands is None:
            return ""
        lead_s, most_s = view.predecessor_end - stands, compute_max_lead_s(decision, view)
        slack_s = self.limits.replan_gain_h * HOUR_S
        if stands - view.now <= _SOON_S or most_s == 0:
            slack_s = MINUTE_S
        if most_s is not None and lead_s > most_s + slack_s:
            worked = view.floor_reached_at is not None and stands < view.floor_reached_at
            by = "min-runtime" if worked else "max-overlap"
            return f"it would be earlier than {by} allows"
        return "it would be earlier than max_lead_h" if lead_s > self.limits.max_lead_s else ""


class PresentQueue:
    """Where jobs wait for nodes now, by the last look at the queue."""

    def __init__(self, snapshot: Snapshot, hides_jobs: Callable[[], bool]) -> None:
        self._snapshot, self._hides_jobs = snapshot, hides_jobs

    def is_idle(self, handover: OpenHandover) -> bool:
        """Return whether no job waits for nodes where the running link has its own.

        False if the queue may have gaps, or if no link of the chain asks another one to end.
        """
        contended = not self._contended.isdisjoint(handover.predecessor.partition.split(","))
        return handover.chain.asks_to_end and not contended and not self._has_gaps

    @cached_property
    def _has_gaps(self) -> bool:
        nodes = self._snapshot.nodes
        try:
            return self._hides_jobs() and (not nodes or count_unseen_nodes(self._snapshot) > 0)
        except ClusterError:
            return True

    @cached_property
    def _contended(self) -> set[str]:
        queue = self._snapshot.queue
        pending = zip(
            queue.partition[queue.pending_mask], queue.reason[queue.pending_mask], strict=True
        )
        waiting = [places for places, reason in pending if waits_for_nodes(classify_reason(reason))]
        return {name for places in waiting for name in places.split(",")}


def compute_floor_reached_at(chain: Chain, predecessor: Link) -> int | None:
    """Return when the running link will have worked for its floor.

    The work begins when the program is ready, after its start-up. None: the link has not started,
    or no link of the chain asks the one before it to end.
    """
    start, limit_s = predecessor.start, predecessor.time_limit_s
    if start is None or not chain.asks_to_end:
        return None
    start_up_s = START_UP_S if chain.start_up_s is None else chain.start_up_s
    bounded_s = 0 if limit_s is None or limit_s == UNLIMITED else limit_s
    return start + start_up_s + compute_work_floor_s(get_fail_fast_s(chain), bounded_s)


def compute_cost_h(release_at: int | None, forecast: Forecast | None, view: PolicyView) -> float:
    """Return the expected cost of the hand-over, in hours.

    `release_at`: None if the standby is released by its predecessor's end.
    """
    lead_s = 0 if release_at is None else max(0, view.predecessor_end - release_at)
    if forecast is None:  # nobody expects a wait
        return view.overlap_price * lead_s / HOUR_S
    p50_s = forecast.p50_s
    p10_s = p50_s if forecast.p10_s is None else forecast.p10_s
    p90_s = p50_s if forecast.p90_s is None else forecast.p90_s
    waits_s = forecast.waits_s or (p10_s,) * 3 + (p50_s,) * 4 + (p90_s,) * 3  # Swanson's rule
    return ReleaseCosts(waits_s, view.overlap_price, view.returns).compute_cost_s(lead_s) / HOUR_S


def _take_plan_back(decision: Decision, why: str) -> Decision:
    """Return a HOLD that sets the plain `afterany` dependency again."""
    reason = f"{decision.reason}; its plan is taken back: {why}"
    return replace(decision, action=Action.HOLD, reason=reason)


def compute_plan_minutes(decision: Decision, predecessor: Link) -> int | None:
    """Minutes after the predecessor's start that a PLAN writes; None for other moves."""
    if decision.action is not Action.PLAN or decision.release_at is None:
        return None
    return None if predecessor.start is None else (decision.release_at - predecessor.start) // 60


def has_mirage_plan(standby: Link) -> bool:
    """Return whether a plan stands that is Mirage's, and not the owner's."""
    is_planned = standby.position is Position.HELD and standby.plan_min is not None
    return is_planned and standby.planned_by is not Planner.USER


def _round_to_minutes(view: PolicyView, at: int) -> int:
    """Slurm counts them from the predecessor's start; never earlier than asked."""
    start = view.predecessor_start
    began = view.predecessor_end - view.time_limit_s if start is None else start
    return began + max(1, -(-(at - began) // MINUTE_S)) * MINUTE_S
