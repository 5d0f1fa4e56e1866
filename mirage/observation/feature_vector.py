"""Builds the observation, in one way for live and for simulated snapshots.

Nothing after the instant enters an observation. A view holds the queue, a memory holds the past,
and a plan holds the starts that the scheduler would plan from time limits.
"""

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property
from math import log1p
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints, Observation
from mirage.domain.snapshot import Snapshot
from mirage.observation import spec
from mirage.observation.compute import ScalarInputs, compute_numbers, scale_numbers
from mirage.observation.handover_input import HandoverInput
from mirage.observation.queue_view import LinkQueueView, ObservedQueue
from mirage.observation.running_stats import RunningStats
from mirage.observation.sim_columns import NOT_THERE, compute_usual_limits, find_eligible_and_start
from mirage.simulator.from_queue import build_queue_simulator
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, Qos

Plans = tuple[int | None, int | None]
"""The planned start by time limits, and the planned start by usual run times; epoch seconds."""

_NOT_YET: Final = -1
"""Eligible since: the value for a job that is in the queue but not eligible."""

TABLE: tuple[Ints, Ints, Ints] = (
    spec.STARTS,
    np.array(spec.HORIZONS_H, dtype=np.int64),
    np.array(spec.ARRIVALS_H, dtype=np.int64),
)


def build_observation(
    view: LinkQueueView,
    link: HandoverInput,
    memory: RunningStats,
    plan: int | None,
    usual_plan: int | None,
) -> Observation:
    """Build the numbers of `spec.FEATURE_NAMES`, scaled: float32[F].

    `plan`: the instant at which the scheduler would start the successor if it were eligible now, by
    time limits. `usual_plan`: the same if all jobs ran as long as is usual for their users. Both
    are epoch seconds; None: no plan.
    """
    return scale_numbers(compute_raw_numbers(view, link, memory, plan, usual_plan), spec.SCALES)


def compute_raw_numbers(
    view: LinkQueueView,
    link: HandoverInput,
    memory: RunningStats,
    plan: int | None,
    usual_plan: int | None,
) -> NDArray[np.float64]:
    """Compute the numbers before scaling: seconds, counts, node hours and shares; float64[F]."""
    past = memory.get_past(view.now)
    scalars = _build_scalars(view, link, memory, plan, usual_plan)
    return compute_numbers(scalars, view.pending, view.running, view.running_users, past, TABLE)


def observe_simulator(
    simulator: Simulator, link: HandoverInput, memory: RunningStats
) -> Observation:
    """Return the observation of a simulated cluster at its present instant: float32[F]."""
    view = LinkQueueView.from_simulator(simulator, link, memory.users)
    return build_observation(view, link, memory, *_compute_plans(simulator, view, link, memory))


class SnapshotObserver:
    """Observes a live cluster at one instant for many links. Work that all links share is done
    once; a simulator built from the snapshot computes the plans."""

    def __init__(self, snapshot: Snapshot, params: Params, memory: RunningStats) -> None:
        self._memory, self._snapshot, self._params = memory, snapshot, params
        self._observed_queue = ObservedQueue(snapshot.queue, snapshot.nodes, params, memory.users)
        self._per_user = _has_user_limits(params)
        self._plans: dict[Hashable, Plans] = {}

    @cached_property
    def simulator(self) -> Simulator:
        """Return the simulator built from the snapshot, which takes a second for ten thousand jobs.

        Raises InputError if the cluster file and the queue contradict each other.
        """
        snapshot = self._snapshot
        return build_queue_simulator(self._params, snapshot.queue, snapshot.nodes).simulator

    def observe_link(self, link: HandoverInput) -> Observation:
        """Return the observation for this link: float32[F]."""
        view = self.build_view(link)
        return build_observation(view, link, self._memory, *self._get_plans(view, link))

    def build_view(self, link: HandoverInput) -> LinkQueueView:
        """Build this link's view of the queue."""
        return LinkQueueView.from_observed_queue(self._observed_queue, link)

    def _get_plans(self, view: LinkQueueView, link: HandoverInput) -> Plans:
        """Get the plans of a link. Links that are alike to the scheduler share their plans."""
        eligible, _ = find_eligible_and_start(self.simulator.arena.state, link.job_id)
        if eligible != _NOT_YET:
            # The successor is eligible in the queue, or is not in the queue at all.
            return _compute_plans(self.simulator, view, link, self._memory, stands_in=True)
        peers = view.pending_id[view.pending.priority == view.priority]
        # Of jobs with equal priority, the one with the lower id is first.
        place = (view.priority, int((peers < link.job_id).sum()))
        owner = (link.account, link.user) if self._per_user else ""
        key = (*_get_request(link), owner, place)
        if key not in self._plans:
            self._plans[key] = _compute_plans(
                self.simulator, view, link, self._memory, stands_in=True
            )
        return self._plans[key]

    def classify_wait(self, link: HandoverInput) -> tuple[Hashable, int]:
        """Return the class of the successor: how long it would wait if it were eligible now.

        That is its request, and its place: the waiting jobs ahead of it, in steps of a tenth (of
        one job where a tenth is less). Where users have limits, it is also how much the user has
        running and waiting.
        """
        view = self.build_view(link)
        usage: tuple[int, ...] = ()
        if self._per_user:
            user = self._memory.users.assign_number(link.user)
            is_own_running, is_own_pending = view.running.user == user, view.pending.user == user
            usage = (
                int(is_own_running.sum()),
                int(view.running.nodes[is_own_running].sum()),
                int(is_own_pending.sum()),
            )
        ahead = int((view.pending.priority > view.priority).sum())
        return (*_get_request(link), usage), round(log1p(ahead) / log1p(0.1))


def _get_request(link: HandoverInput) -> tuple[Hashable, ...]:
    """Return the resources and the time that the successor asks for."""
    per_node = (link.cpus, link.gpus, link.exclusive)
    return link.nodes, per_node, link.time_limit_s, link.partition, link.qos


def _has_user_limits(params: Params) -> bool:
    """Return whether a plan may depend on the job's user beyond the job's priority."""
    has_qos_limit = any(replace(qos, name="", priority=0) != Qos(name="") for qos in params.qos)
    return has_qos_limit or params.max_jobs_pu > 0 or params.bf_max_job_user > 0


def _compute_plans(
    simulator: Simulator,
    view: LinkQueueView,
    link: HandoverInput,
    memory: RunningStats,
    *,
    stands_in: bool = False,
) -> Plans:
    """Compute the instants at which the scheduler would start the successor.

    A simulator built from a snapshot (`stands_in`) does not know users' fair share. No simulator
    knows the age of a job that is not in its queue. In both cases the view's priority is used.
    """
    job_id = link.job_id
    eligible, start = find_eligible_and_start(simulator.arena.state, job_id)
    if start >= 0:
        return start, start
    uses_view_priority = stands_in and eligible < 0
    if eligible == NOT_THERE:
        uses_view_priority = uses_view_priority or (
            simulator.params.accrue_always and link.submit is not None
        )
        simulator = simulator.fork()
        job_id = simulator.inject(link.build_successor(view.now))
    priority = view.priority if uses_view_priority else None
    number = memory.users.map_associations(simulator.arena.names.associations)
    past = memory.get_past(view.now)
    usual = compute_usual_limits(simulator.arena.state, number, past, job_id)
    by_limit = simulator.plan_unrestricted(job_id, priority=priority)
    return by_limit, simulator.plan_unrestricted(job_id, usual, priority=priority)


def _build_scalars(
    view: LinkQueueView,
    link: HandoverInput,
    memory: RunningStats,
    plan: int | None,
    usual_plan: int | None,
) -> ScalarInputs:
    return ScalarInputs(
        now=view.now,
        utc_offset_s=memory.utc_offset_s,
        nodes=link.nodes,
        time_limit_s=link.time_limit_s,
        user=memory.users.assign_number(link.user),
        priority=view.priority,
        predecessor_nodes=link.nodes if link.predecessor_nodes is None else link.predecessor_nodes,
        predecessor_submit=link.predecessor_submit,
        predecessor_start=link.predecessor_start,
        predecessor_end=link.predecessor_end,
        nodes_all=view.capacity.nodes,
        nodes_up=view.capacity.up,
        nodes_free=view.capacity.free,
        cpus_free_share=view.capacity.cpus_free_share,
        gpus_free_share=view.capacity.gpus_free_share,
        max_jobs_pu=view.max_jobs_pu,
        plan=-1 if plan is None else plan,
        usual_plan=-1 if usual_plan is None else usual_plan,
        horizon_s=view.horizon_s,
    )
