"""The observation: one function for live and for simulated snapshots.

Nothing after the instant enters: a view holds what the queue shows, a memory what has happened,
and a plan what the scheduler would plan from time limits.
"""

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from mirage.domain.snapshot import Ints, Snapshot
from mirage.features.handover_input import Link
from mirage.features.observation import spec
from mirage.features.observation.compute import Standing, numbers, scaled
from mirage.features.observation.queue_view import Shown, View
from mirage.features.observation.running_stats import Memory
from mirage.features.observation.sim_columns import NOT_THERE, stands, usual_by_slot
from mirage.features.simulator_from_queue import stand_in
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, Qos

Observation = NDArray[np.float32]

Plans = tuple[int | None, int | None]
"""By time limits, and by what is usual."""

_NOT_YET: Final = -1
"""Eligible since then: a job that is there and is not in line."""

TABLE: tuple[Ints, Ints, Ints] = (
    spec.STARTS,
    np.array(spec.HORIZONS_H, dtype=np.int64),
    np.array(spec.ARRIVALS_H, dtype=np.int64),
)


def observe(
    view: View, link: Link, memory: Memory, plan: int | None, usual_plan: int | None
) -> Observation:
    """The numbers of `spec.NAMES`, scaled: float32[F].

    `plan`: when the scheduler would start the successor were it eligible now, by time limits;
    `usual_plan`: were all jobs to run as long as is usual for their users. None: no plan.
    """
    return scaled(raw(view, link, memory, plan, usual_plan), spec.SCALES)


def raw(
    view: View, link: Link, memory: Memory, plan: int | None, usual_plan: int | None
) -> NDArray[np.float64]:
    """The same before scaling: seconds, counts, node hours, shares; float64[F]."""
    past = memory.past(view.now)
    standing = _standing(view, link, memory, plan, usual_plan)
    return numbers(standing, view.pending, view.running, view.running_users, past, TABLE)


def from_simulator(simulator: Simulator, link: Link, memory: Memory) -> Observation:
    """What is seen of a simulated cluster at its present instant: float32[F]."""
    view = View.of_simulator(simulator, link, memory.users)
    return observe(view, link, memory, *_plans(simulator, view, link, memory))


def from_snapshot(snapshot: Snapshot, params: Params, link: Link, memory: Memory) -> Observation:
    """What is seen of a live cluster; its plans are those of a simulator stood up from it."""
    return Look(snapshot, params, memory).observe(link)


class Look:
    """A live cluster at one instant, seen by many links: what they share is worked out once."""

    def __init__(self, snapshot: Snapshot, params: Params, memory: Memory) -> None:
        """Raises InputError where the cluster file and the queue do not go together."""
        self._memory = memory
        self._shown = Shown(snapshot.queue, snapshot.nodes, params, memory.users)
        self.stood = stand_in(params, snapshot.queue, snapshot.nodes).simulator
        self._per_user = _limits_users(params)
        self._planned: dict[Hashable, Plans] = {}

    def observe(self, link: Link) -> Observation:
        """float32[F]."""
        view = self.view(link)
        return observe(view, link, self._memory, *self._plans(view, link))

    def view(self, link: Link) -> View:
        """What is seen by this link."""
        return View.of_shown(self._shown, link)

    def _plans(self, view: View, link: Link) -> Plans:
        """Links that differ in nothing that counts have the same plans."""
        eligible, _ = stands(self.stood.arena.state, link.job_id)
        if eligible != _NOT_YET:
            # It stands in line by itself, or is not there at all.
            return _plans(self.stood, view, link, self._memory, stands_in=True)
        peers = view.pending_id[view.pending.priority == view.priority]
        key = (
            (link.nodes, link.cpus, link.gpus, link.exclusive, link.time_limit_s),
            (link.partition, link.qos, (link.account, link.user) if self._per_user else ""),
            # Of equals the lower id is first.
            (view.priority, int((peers < link.job_id).sum())),
        )
        if key not in self._planned:
            self._planned[key] = _plans(self.stood, view, link, self._memory, stands_in=True)
        return self._planned[key]


def _limits_users(params: Params) -> bool:
    """Whether it may matter to a plan whose job it is, beside the job's priority."""
    limited = any(replace(qos, name="", priority=0) != Qos(name="") for qos in params.qos)
    return limited or params.max_jobs_pu > 0 or params.bf_max_job_user > 0


def _plans(
    simulator: Simulator, view: View, link: Link, memory: Memory, *, stands_in: bool = False
) -> Plans:
    """When the scheduler would start the successor.

    A stand-in does not know users' fair share, and no simulator the age of a job that it does not
    have: there the view's priority counts.
    """
    job_id = link.job_id
    eligible, start = stands(simulator.arena.state, job_id)
    if start >= 0:
        return start, start
    told = stands_in and eligible < 0
    if eligible == NOT_THERE:
        told = told or (simulator.params.accrue_always and link.submit is not None)
        simulator = simulator.fork()
        job_id = simulator.inject(link.successor(view.now))
    priority = view.priority if told else None
    number = memory.users.of_associations(simulator.arena.names.associations)
    past = memory.past(view.now)
    usual = usual_by_slot(simulator.arena.state, number, past, job_id)
    by_limit = simulator.plan_unrestricted(job_id, priority=priority)
    return by_limit, simulator.plan_unrestricted(job_id, usual, priority=priority)


def _standing(
    view: View, link: Link, memory: Memory, plan: int | None, usual_plan: int | None
) -> Standing:
    return Standing(
        now=view.now,
        utc_offset_s=memory.utc_offset_s,
        nodes=link.nodes,
        time_limit_s=link.time_limit_s,
        user=memory.users.number(link.user),
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
