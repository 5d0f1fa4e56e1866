"""The observation: one function for live and for simulated snapshots.

Nothing after the instant enters: a view holds what the queue shows, a memory what has happened,
and a plan what the scheduler would plan from time limits.
"""

import numpy as np
from numpy.typing import NDArray

from mirage.domain.snapshot import Ints, Snapshot
from mirage.features import spec
from mirage.features.gather import NOT_THERE, stands, usual_by_slot
from mirage.features.link import Link
from mirage.features.memory import Memory
from mirage.features.numbers import Standing, numbers, scaled
from mirage.features.standin import stand_in
from mirage.features.view import View
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params

Observation = NDArray[np.float32]

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
    view = View.of_queue(snapshot.queue, snapshot.nodes, params, link, memory.users)
    stood = stand_in(params, snapshot.queue, snapshot.nodes).simulator
    return observe(view, link, memory, *_plans(stood, view, link, memory, stands_in=True))


Plans = tuple[int | None, int | None]
"""By time limits, and by what is usual."""


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
    by_limit = simulator.plan_as_free(job_id, priority=priority)
    return by_limit, simulator.plan_as_free(job_id, usual, priority=priority)


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
