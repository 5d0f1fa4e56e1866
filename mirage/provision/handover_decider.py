"""Decides each hand-over of a tick: builds the policy view, asks the policy, applies limits.

It reads the database and the snapshot, and changes neither: `provision_tick` stores the decisions
and gives Slurm the commands.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import structlog

from mirage.chains.open_handovers import OpenHandover
from mirage.chains.request_enforcement import ASK_AGAIN_S
from mirage.chains.returned_links import SENT_BACK
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import NewDecision
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.move_scope import EVERYBODY, MoveScope
from mirage.domain.chain import ChainState, Link, LinkState, Planner, Position
from mirage.domain.decision import (
    RECENT_HANDOVERS,
    RECENT_JOBS,
    Action,
    Decision,
    Forecast,
    Mode,
    PolicyView,
    Waits,
)
from mirage.domain.job import Job, JobId
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue, Snapshot
from mirage.errors import ClusterError, MirageError
from mirage.logs import ThrottledLog
from mirage.policies.models.unavailable_model import UnavailableModel
from mirage.policies.registry import is_model
from mirage.policies.rules.lead_rules import forecast_wait
from mirage.policies.rules.overlap_bound import bound_overlap
from mirage.policies.rules.return_rule import list_next_waits
from mirage.provision import pinning, preconditions
from mirage.provision.baseline_counterfactuals import BaselineCounterfactuals
from mirage.provision.cluster_observer import Observer, TickObservations
from mirage.provision.control.limits import Limits, apply_limits, compute_worst_overlap
from mirage.provision.overlap_budget import OverlapBudget, build_plan, read_overlap_budget
from mirage.provision.preconditions import can_move_early, guard_handover, is_left_behind
from mirage.provision.release_planning import (
    Planning,
    PresentQueue,
    compute_floor_reached_at,
    compute_plan_minutes,
)
from mirage.provision.return_costs import COSTS, build_return_costs, count_returns_left
from mirage.slurm.commands.accrual_limits import NO_LIMITS, AccrueLimit, AccrueLimits, AccrueScope
from mirage.slurm.text.dependency import can_take_plan

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(20)

AWAITED_SHARE = 0.25
"""A share of the time limit. While more of it is left, a hand-over whose policy needs the twin
waits until the twin has answered. Another rule might free the standby now, and Slurm may start a
free standby before that could be undone."""
_TWIN_NOT_ASKED_YET = "the twin's turn for it has not come yet"
_UNDO_PIN = Decision(
    action=Action.HOLD, reason="pinned, and Mirage does not act here any more", policy="guard"
)
_UNDO_PLAN = replace(_UNDO_PIN, reason="planned in Slurm, and Mirage does not act here")
_OWNER_SET_DEPENDENCIES = "since dependencies of its owner's stand beside Mirage's"
_SLURM_REFUSED_PLAN = "since Slurm has refused one"
_LINK_PLANS_ITSELF = "since its running link plans it"
_HETEROGENEOUS = "since the job is heterogeneous"


def _answer_no() -> bool:
    return False


def _permit_everybody() -> MoveScope:
    return EVERYBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSettings:
    """What a tick decides by: the policies, the admins' limits, and what Slurm allows."""

    get_policy: Callable[[str], Policy]
    """Returns the policy of that name; raises NotFound."""
    default_policy: str
    """The name of the policy for chains that name none."""
    limits: Limits = field(default_factory=Limits)
    observer: Observer | None = None
    """Makes the observations for trained models; None if there are none."""
    accrues_always: Callable[[], bool] = _answer_no
    """Whether held standbys earn age (ACCRUE_ALWAYS). Raises ClusterError if that is not known."""
    reach: Callable[[], MoveScope] = _permit_everybody
    """Whose jobs the service may move."""
    accrual: Callable[[], AccrueLimits] = lambda: NO_LIMITS
    """Limits on how many waiting jobs earn age."""
    hides_jobs: Callable[[], bool] = _answer_no
    """Whether PrivateData hides jobs from the service. Raises ClusterError if that is not known."""


class HandoverDecider:
    """Decides the hand-overs of one tick.

    What several hand-overs need (waits of a partition, the budgets, the twin's groups) is read when
    one of them first asks, and kept until the tick ends. So an object serves one tick only.
    """

    def __init__(
        self,
        tx: Transaction,
        cluster_id: int,
        snapshot: Snapshot,
        settings: DecisionSettings,
        open_handovers: Sequence[OpenHandover],
    ) -> None:
        self._tx, self._cluster_id, self._snapshot, self._settings = (
            tx,
            cluster_id,
            snapshot,
            settings,
        )
        self._observations = TickObservations(
            settings.observer, tx, cluster_id, snapshot, open_handovers
        )
        self._policies: dict[str, Policy] = {}
        self._inputs: dict[JobId, dict[str, Any]] = {}
        """What is stored with each standby's decision: the first 16 digits of the sha256 of its
        observation, the age of the twin's answer in seconds, and the costs of a new release."""
        self._free_nodes: dict[str, int] = {}
        self._present_queue = PresentQueue(snapshot, settings.hides_jobs)
        self._job_waits: dict[str, Waits] = {}
        self._handover_waits: dict[tuple[str, int], Waits] = {}
        since = snapshot.queue.taken_at - ASK_AGAIN_S
        self._refused_lately = decisions.list_links_refused_since(tx, cluster_id, since)
        links = [(h.chain.chain_id, h.standby.index) for h in open_handovers]
        self._touches = decisions.count_moves(tx, cluster_id, links)
        self._refused_moves = decisions.list_refused_moves(tx, cluster_id, links)
        self.baselines = BaselineCounterfactuals(tx, links)
        self._ordered_submissions = {
            (row.chain_id, row.index) for row in decisions.list_intended(tx, cluster_id)
        }
        """Links that the running link has been told to submit: this is decided once."""

    def decide_handover(self, handover: OpenHandover, *, can_plan: bool = False) -> Decision | None:
        """Return the decision; None if there is nothing to decide.

        `can_plan`: whether releases may be planned in Slurm, as they may in mode act.
        """
        predecessor, standby = handover.predecessor, handover.standby
        if not self._can_be_moved(handover):
            return None
        guard_decision = guard_handover(
            standby, predecessor, handover.earlier_link, self._snapshot.queue
        )
        if guard_decision is not None:
            return self._foretell_next_wait(guard_decision, standby)
        if not can_move_early(standby, predecessor):
            return None
        view = self._build_view(handover)
        self.baselines.ask_rules(handover, view)
        policy_decision = bound_overlap(self._ask_policy(handover, view), view)
        spent = self._budget.sum_spent(standby.account, handover.chain.uid)
        limited_decision = apply_limits(policy_decision, view, self._settings.limits, spent)
        decision = self._add_accrual_note(limited_decision, handover)
        if can_plan and not handover.submits:
            decision = self._build_planning(handover).plan_release(decision, view)
            self._record_plan(handover, decision, view)
            if (costs := build_return_costs(handover, decision, view)) is not None:
                self._inputs.setdefault(standby.job_id, {})[COSTS] = costs
        if decision.action is not Action.FREE:
            return decision
        self._budget.record_release(standby, handover.chain.uid, compute_worst_overlap(view))
        return replace(decision, action=Action.SUBMIT) if handover.submits else decision

    def _foretell_next_wait(self, guarded: Decision, standby: Link) -> Decision:
        """Return the decision with a forecast where a link is left to its own plan after a return:
        no policy makes one, and people ask when the link will start."""
        is_left = guarded.action is Action.WAIT and standby.planned_by is Planner.LINK
        if not is_left or standby.get_standing_release() is None:
            return guarded
        waited_s = standby.returned_wait_s
        if waited_s is not None:
            _, middle, high = list_next_waits(waited_s)
            # Without the floor: a link that starts in time by its own wait is not at risk.
            forecast = Forecast(p10_s=waited_s // 2, p50_s=middle, p90_s=high, samples=1)
            return replace(guarded, forecast=forecast)
        jobs, limit_s = self.read_job_waits(standby.partition), standby.time_limit_s or 0
        return replace(guarded, forecast=forecast_wait(jobs, standby.nodes, limit_s))

    def _record_plan(self, handover: OpenHandover, decision: Decision, view: PolicyView) -> None:
        """Update the budget by a plan that is made or taken back, for the tick's next decisions."""
        standby, at = handover.standby, decision.release_at
        if decision.action is Action.HOLD:
            self._budget.record_plan(standby, None)
        elif decision.action is Action.PLAN and at is not None:
            owner, end = handover.chain.uid, view.predecessor_end
            plan = build_plan(standby, owner, end, release_at=at, now=view.now)
            self._budget.record_plan(standby, plan)

    def _build_planning(self, handover: OpenHandover) -> Planning:
        standby, predecessor = handover.standby, handover.predecessor
        key = (standby.chain_id, standby.index)
        queued_job = self._snapshot.queue.find_job(standby.job_id)
        obstacle = _SLURM_REFUSED_PLAN if (*key, Action.PLAN) in self._refused_moves else ""
        if handover.get_stated_overlap_s():
            obstacle = _LINK_PLANS_ITSELF
        if queued_job is not None and queued_job.heterogeneous:
            obstacle = _HETEROGENEOUS
        if queued_job is None or not can_take_plan(queued_job.dependency, predecessor.job_id):
            obstacle = _OWNER_SET_DEPENDENCIES
        return Planning(
            standby=standby,
            limits=self._settings.limits,
            spent=self._budget.sum_with_plans(standby.account, handover.chain.uid, standby),
            touches=self._touches.get(key, 0),
            barred=obstacle,
        )

    def _add_accrual_note(self, decision: Decision, handover: OpenHandover) -> Decision:
        """Return the decision with a note on the standby's limit on earning age in its reason."""
        queued_job = self._snapshot.queue.find_job(handover.standby.job_id)
        limits = self._settings.accrual()
        if queued_job is None or handover.submits or limits is NO_LIMITS:
            return decision
        note = describe_accrual_limit(limits, queued_job, self._snapshot.queue)
        return replace(decision, reason=f"{decision.reason}; {note}") if note else decision

    def decide_out_of_reach(self, handover: OpenHandover) -> Decision | None:
        """Return a wait if Slurm would refuse each move of the standby; None if it would not.

        A link that is still to be submitted has no such wait: it is submitted as its user.
        """
        standby, reach = handover.standby, self._settings.reach()
        if handover.submits or not can_move_early(standby, handover.predecessor):
            return None
        if reach.can_move(handover.chain.uid, standby.account):
            return None
        return preconditions.build_out_of_reach(standby.account, reach)

    def decide_retreat(self, handover: OpenHandover) -> Decision | None:
        """Return the move that undoes Mirage's pin or plan; None if there is nothing to undo.

        Called where the mode is no longer act. A pinned standby goes back behind its predecessor:
        if one of the predecessor's nodes fails for good, Slurm would never start the standby. A
        standby with a planned release waits for its predecessor's end again. In a chain that is not
        registered, a plan that the service did not write is the user's own, and stays.
        """
        predecessor, standby = handover.predecessor, handover.standby
        if not is_left_behind(handover) or not self._can_be_moved(handover):
            return None
        if standby.position is not Position.PINNED:
            return _UNDO_PLAN
        guard_decision = guard_handover(standby, predecessor, None, self._snapshot.queue)
        return guard_decision or _UNDO_PIN

    def build_record(self, handover: OpenHandover, decision: Decision, mode: Mode) -> NewDecision:
        """Return the record of a decision as it is stored."""
        now, standby = self._snapshot.queue.taken_at, handover.standby
        inputs: dict[str, Any] = {"predecessor": handover.predecessor.job_id}
        inputs["standby"] = None if handover.submits else standby.job_id
        minutes = compute_plan_minutes(decision, handover.predecessor)
        if minutes is not None:
            inputs["plan_min"] = minutes
        elif (planned_release := standby.get_standing_release()) is not None:
            inputs["planned_release"] = planned_release
        return NewDecision(
            at=now,
            chain_id=handover.chain.chain_id,
            index=standby.index,
            mode=mode,
            decision=decision,
            time_left_s=(handover.predecessor.get_planned_end() or now) - now,
            inputs=inputs | self._inputs.get(standby.job_id, {}),
        )

    def _ask_policy(self, handover: OpenHandover, view: PolicyView) -> Decision:
        """Return the policy's decision. If the policy fails, return its fallback's, or a wait.

        A policy may fail, or may have been removed after the chain named it. No error leaves this
        method, so the decisions on other chains go on.
        """
        name = handover.chain.policy or self._settings.default_policy
        try:
            policy = self._get_policy(name)
            outright = policy.decide_outright(view)
            if outright is not None:
                return outright
            needs = policy.needs
            if needs.observation:
                view = self._add_observation(handover, view, with_window=needs.window)
            if needs.twin:
                twin_answer, is_awaited = self._observations.forecast_handover(
                    handover, self._may_ask_twin
                )
                is_early = view.time_left_s > AWAITED_SHARE * view.time_limit_s
                # Only a held standby may wait: one that is pinned has to leave its nodes now.
                if is_awaited and is_early and view.position is Position.HELD:
                    return Decision(action=Action.WAIT, reason=_TWIN_NOT_ASKED_YET, policy=name)
                if twin_answer is not None:
                    view = replace(view, twin_s=twin_answer.quantile_s)
                    age_s = view.now - twin_answer.at
                    self._inputs.setdefault(handover.standby.job_id, {})["twin_age_s"] = age_s
                elif obstacle := self._observations.explain_no_twin():
                    view = replace(view, why_no_twin=f"{view.why_no_twin}: {obstacle}")
            return policy.decide(view)
        except Exception as error:
            _seldom.log_event(
                _log.exception, "a policy failed", policy=name, chain_id=handover.chain.chain_id
            )
            if is_model(name):
                return UnavailableModel(name, f"the model failed: {error}").decide(view)
            return Decision(action=Action.WAIT, reason=f"no answer: {error}", policy=name)

    def _get_policy(self, name: str) -> Policy:
        if name not in self._policies:
            self._policies[name] = resolve_policy(self._settings, name)
        return self._policies[name]

    def _may_ask_twin(self, handover: OpenHandover) -> bool:
        """Return whether the hand-over's policy may ask the twin in this tick."""
        is_active = handover.chain.state is ChainState.ACTIVE and not handover.submits
        is_early = can_move_early(handover.standby, handover.predecessor)
        if not is_active or not is_early or not self._can_be_moved(handover):
            return False
        try:
            return self._get_policy(
                handover.chain.policy or self._settings.default_policy
            ).needs.twin
        except Exception:
            # The policy fails again when it is asked to decide, and _ask_policy logs that.
            return False

    def _add_observation(
        self, handover: OpenHandover, view: PolicyView, *, with_window: bool
    ) -> PolicyView:
        observation, obstacle = self._observations.observe_handover(
            handover.predecessor, handover.standby
        )
        if observation is not None:
            digest = hashlib.sha256(observation.tobytes()).hexdigest()
            self._inputs.setdefault(handover.standby.job_id, {})["observation"] = digest[:16]
        window = None
        if observation is not None and with_window:
            window = self._observations.update_window(handover.standby, observation)
        return replace(view, observation=observation, why_unobserved=obstacle, window=window)

    def _can_be_moved(self, handover: OpenHandover) -> bool:
        """Return whether the standby can be moved now: the queue must show both jobs.

        The queue must show the predecessor, because a dependency on a job that Slurm has forgotten
        would free the standby; a predecessor that has ended need not be shown. It must show the
        standby, because a move repeats the user's own dependencies. A move that Slurm has refused
        lately is not made again yet, and no link is submitted twice.
        """
        predecessor, standby = handover.predecessor, handover.standby
        if (standby.chain_id, standby.index) in self._refused_lately:
            return False
        queue, has_ended = self._snapshot.queue, predecessor.state is LinkState.ENDED
        is_known = has_ended or queue.find_job(predecessor.job_id) is not None
        if handover.submits:
            return is_known and (standby.chain_id, standby.index) not in self._ordered_submissions
        return is_known and queue.find_job(standby.job_id) is not None

    def _build_view(self, handover: OpenHandover) -> PolicyView:
        queue, standby = self._snapshot.queue, handover.standby
        planned_end = handover.predecessor.get_planned_end()
        stated_overlap_s = handover.get_stated_overlap_s()
        return PolicyView(
            now=queue.taken_at,
            predecessor_end=queue.taken_at if planned_end is None else planned_end,
            predecessor_start=handover.predecessor.start,
            cluster="" if self._settings.observer is None else self._settings.observer.params.name,
            partition=standby.partition,
            nodes=standby.nodes,
            time_limit_s=standby.time_limit_s or 0,
            overlap_price=handover.chain.overlap_price,
            jobs=self.read_job_waits(standby.partition),
            handovers=self._read_handover_waits(standby.partition, standby.nodes),
            queue=queue,
            free_nodes=self._count_free_nodes(standby.partition),
            max_overlap_s=stated_overlap_s
            or handover.chain.get_allowed_overlap_s(handover.predecessor),
            floor_reached_at=compute_floor_reached_at(handover.chain, handover.predecessor),
            nobody_waits=self._present_queue.is_idle(handover),
            counts_no_wait=stated_overlap_s > 0 or standby.hindered == SENT_BACK,
            returns=count_returns_left(handover, self._settings.limits.max_returns),
            # A link that is not submitted yet earns no age.
            accrues_always=not handover.submits and self._accrues_always,
            **self._build_pinning(handover).build_view_fields(),
        )

    @cached_property
    def _accrues_always(self) -> bool:
        """Return whether held standbys earn age; asked once a tick, since Slurm may be slow."""
        try:
            return self._settings.accrues_always()
        except ClusterError:
            return False

    def _build_pinning(self, handover: OpenHandover) -> pinning.Pinning:
        queue, standby = self._snapshot.queue, handover.standby
        return pinning.Pinning(
            standby=standby,
            queued_job=queue.find_job(standby.job_id),
            predecessor=queue.find_job(handover.predecessor.job_id),
            snapshot=self._snapshot,
            limits=self._settings.limits,
            touches=self._touches.get((standby.chain_id, standby.index), 0),
            was_refused=(standby.chain_id, standby.index, Action.PIN) in self._refused_moves,
        )

    def _count_free_nodes(self, partition: str) -> int:
        if partition not in self._free_nodes:
            self._free_nodes[partition] = self._snapshot.count_free_nodes(partition)
        return self._free_nodes[partition]

    def read_job_waits(self, partition: str) -> Waits:
        if partition not in self._job_waits:
            now = self._snapshot.queue.taken_at
            self._job_waits[partition] = job_history.read_waits(
                self._tx, self._cluster_id, partition, before=now, last=RECENT_JOBS
            )
        return self._job_waits[partition]

    def _read_handover_waits(self, partition: str, nodes: int) -> Waits:
        key = (partition, nodes)
        if key not in self._handover_waits:
            self._handover_waits[key] = chains.read_handover_waits(
                self._tx, self._cluster_id, partition, nodes=nodes, last=RECENT_HANDOVERS
            )
        return self._handover_waits[key]

    @cached_property
    def _budget(self) -> OverlapBudget:
        now = self._snapshot.queue.taken_at
        return read_overlap_budget(self._tx, self._cluster_id, now, self._settings.limits)


def resolve_policy(settings: DecisionSettings, name: str) -> Policy:
    """Return the policy, or a stand-in for an unusable model.

    For any other policy, raises what `DecisionSettings.get_policy` raises.
    """
    try:
        return settings.get_policy(name)
    except MirageError as error:
        if not is_model(name):
            raise
        _seldom.log_event(_log.warning, "a model cannot be used", policy=name, error=str(error))
        return UnavailableModel(name, str(error))


_NOT_ELIGIBLE = frozenset({"Dependency", "BeginTime", "JobHeldUser", "JobHeldAdmin"})


def describe_accrual_limit(limits: AccrueLimits, standby: Job, queue: Queue) -> str:
    """Describe the tightest of the standby's limits on earning age; empty if it has none.

    `mirage chain explain` shows the words.
    """
    applicable = limits.iter_applicable(qos=standby.qos, account=standby.account, user=standby.user)
    rooms = [
        (limit.most - _count_competing_jobs(limit, standby, queue), limit) for limit in applicable
    ]
    if not rooms:
        return ""
    room, limit = min(rooms, key=lambda pair: pair[0])
    if room > 0:
        return f"{limit.describe_limit()}: if more jobs wait, the standby stops earning age"
    return f"{limit.describe_limit()}, and others take them up: the standby earns no age"


def _count_competing_jobs(limit: AccrueLimit, standby: Job, queue: Queue) -> int:
    """Count the eligible, waiting jobs that share the limit with the standby."""
    mask = queue.pending_mask & (queue.job_id != standby.job_id)
    mask &= np.array([reason not in _NOT_ELIGIBLE for reason in queue.reason], dtype=bool)
    if limit.qos:
        mask &= queue.qos == limit.qos
    if limit.account or limit.scope is AccrueScope.ACCOUNT:
        mask &= np.isin(queue.account, sorted(limit.accounts or {standby.account}))
    if limit.scope is AccrueScope.USER:
        mask &= queue.user == standby.user
    return int(np.count_nonzero(mask))
