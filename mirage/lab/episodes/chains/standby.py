"""A standby in a simulated world, and the moves that a policy makes with it.

An episode table has the outcome of one move only, from held to free. Here the simulator runs on
after a move. So a policy may move the standby between its three positions as often as it likes, and
its view has the start that Slurm plans for a pinned standby.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mirage.domain.chain import OVERLAP_PRICE, Position
from mirage.domain.decision import Action, Decision, Forecast, PolicyView, Waits
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue
from mirage.domain.time_units import MINUTE_S
from mirage.lab.episodes.chains.world_memory import ViewCompleter
from mirage.lab.episodes.generation.sim_queries import count_free_nodes, list_rivals
from mirage.observation.queue_view import get_partition_number
from mirage.policies.rules.overlap_bound import bound_overlap
from mirage.policies.rules.return_rule import BACK_S
from mirage.simulator.packing.packed_params import list_node_groups
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    Dependency,
    DependencyKind,
    Outage,
    Params,
    SelectType,
    SimJob,
    build_afterany,
)

AFTER_END_S = 60
"""A pinned standby is freed this many seconds after its predecessor's end, since the service
looks every minute."""

_NONE = np.zeros(0, dtype=np.int64)
NO_WAITS = Waits(start=_NONE, wait_s=_NONE, nodes=_NONE, time_limit_s=_NONE)
_EMPTY = Queue.from_jobs(0, ())
_POSITIONS = {Action.FREE: Position.FREE, Action.PIN: Position.PINNED, Action.HOLD: Position.HELD}


@dataclass(slots=True, kw_only=True)
class Standby:
    """A standby behind a running predecessor in a simulated world."""

    predecessor: int
    job_id: int
    job: SimJob
    """The request of each job of the link, which is also the predecessor's."""
    node_list: tuple[int, ...]
    """The predecessor's nodes."""
    end: int
    """The predecessor's end by its time limit, epoch seconds."""
    overlap_price: float = OVERLAP_PRICE
    max_overlap_s: int | None = None
    """The most seconds by which it may start before its predecessor's end. They bound its release.
    None: nothing bounds it."""
    allow_pin: bool = True
    returns: int = 0
    """How often it may still give its nodes back."""
    floor_reached_at: int | None = None
    """As in `PolicyView`: set for a switch chain, whose predecessor ends for the standby."""
    counts_no_wait: bool = False
    """As in `PolicyView`."""
    view_completer: ViewCompleter | None = None
    """Adds what models and the twin need to the view; None: only rules are asked."""
    position: Position = Position.HELD
    touches: int = 0
    """The number of moves."""
    forecast: Forecast | None = None
    """The policy's forecast at the release; None: the policy had none."""

    def build_view(self, sim: Simulator, jobs: Waits) -> PolicyView:
        """Build the view of this instant for a policy; its queue is left empty."""
        pinned = self.position is Position.PINNED
        partition = get_partition_number(sim.params, self.job.partition)
        return PolicyView(
            now=sim.now,
            predecessor_end=self.end,
            cluster=sim.params.name,
            partition=self.job.partition,
            nodes=self.job.nodes,
            time_limit_s=self.job.time_limit_s,
            overlap_price=self.overlap_price,
            jobs=jobs,
            handovers=NO_WAITS,
            queue=replace(_EMPTY, taken_at=sim.now),
            free_nodes=count_free_nodes(sim, partition),
            max_overlap_s=self.max_overlap_s,
            returns=self.returns,
            floor_reached_at=self.floor_reached_at,
            nobody_waits=self.floor_reached_at is not None and not self._has_rivals(sim, partition),
            counts_no_wait=self.counts_no_wait,
            position=self.position,
            planned_start=sim.compute_planned_starts().get(self.job_id) if pinned else None,
            can_pin=self.allow_pin and self._can_pin(sim),
        )

    def ask_policy(self, sim: Simulator, policy: Policy, jobs: Waits) -> Decision:
        """Let the policy decide, and move the standby as it says."""
        decision = self.decide(sim, policy, jobs)
        position = _POSITIONS.get(decision.action)
        if position is Position.FREE and self.position is not Position.FREE:
            self.forecast = decision.forecast
        if position is not None:
            self.move_to(sim, position)
        return decision

    def decide(self, sim: Simulator, policy: Policy, jobs: Waits) -> Decision:
        """Return what the policy decides within the chain's bounds."""
        view = self.build_view(sim, jobs)
        decision = policy.decide_outright(view)
        if decision is None:
            # A free standby waits for nodes, not for a decision.
            if self.view_completer is not None and self.position is not Position.FREE:
                view = self.view_completer.complete_view(view, sim)
            decision = policy.decide(view)
        return bound_overlap(decision, view)

    def run_until_started(self, sim: Simulator, until: int) -> int | None:
        """Advance until the standby starts, at most to `until`. Return its start, or None."""
        if self.view_completer is None:
            return sim.run_until_started(self.job_id, until)
        return self.view_completer.memory.follow_until_started(sim, self.job_id, until)

    def give_back(self, sim: Simulator, release_at: int | None) -> int | None:
        """End the link's job, which has just started, after submitting another job in its place.

        Slurm releases the new job at `release_at`, rounded up to whole minutes after the
        predecessor's start; None: at the predecessor's end. The nodes are free again after BACK_S.
        Returns the start of the new job if it has started by then, else None. Raises ClusterRefused
        if the new job may not be submitted: then nothing has changed.
        """
        after = build_afterany(self.predecessor)
        job = replace(self.job, dependencies=after)
        if release_at is not None:
            minutes = -((self.end - self.job.time_limit_s - release_at) // MINUTE_S)
            release = Dependency(DependencyKind.AFTER, self.predecessor, minutes * MINUTE_S)
            job = replace(job, dependencies=(*after, release), any_dependency=True)
        leaving_job_id, self.job_id = self.job_id, sim.inject(job)
        self.position, self.counts_no_wait = Position.HELD, True
        self.returns = max(0, self.returns - 1)
        if self.view_completer is not None:
            self.view_completer.link = replace(
                self.view_completer.link, job_id=self.job_id, submit=sim.now
            )
        start = self.run_until_started(sim, sim.now + BACK_S)
        sim.remove(leaving_job_id)
        return start

    def move_to(self, sim: Simulator, position: Position) -> None:
        """Move the standby. Nothing happens if it is already in that position."""
        if position is self.position:
            return
        self.touches += 1
        if Position.PINNED in (position, self.position):
            nodes = self.node_list if position is Position.PINNED else ()
            sim.set_node_list(self.job_id, nodes)
        if Position.HELD in (position, self.position):
            is_held = position is Position.HELD
            sim.set_dependencies(self.job_id, build_afterany(self.predecessor) if is_held else ())
        self.position = position

    def _has_rivals(self, sim: Simulator, partition: int) -> bool:
        waiting = list_rivals(sim, sim.params.nodes, partition).tolist()
        return any(job_id != self.job_id for job_id in waiting)

    def _can_pin(self, sim: Simulator) -> bool:
        if not can_hold_only_one(sim.params, self.job, self.node_list):
            return False
        return not any(sim.get_node_use(n)[2] is not Outage.RESUME for n in self.node_list)


def can_hold_only_one(params: Params, job: SimJob, nodes: tuple[int, ...]) -> bool:
    """Return whether no two jobs like `job` can run beside each other on one of these nodes."""
    if params.select_type is SelectType.LINEAR or job.exclusive:
        return True
    groups = [g for g in list_node_groups(params) for _ in range(g.count)]
    return all(
        2 * max(job.cpus, 1) > groups[n].cpus or 2 * job.gpus > groups[n].gpus > 0 for n in nodes
    )


@dataclass(frozen=True, slots=True)
class SimulatedHandover:
    """The result of one hand-over; epoch seconds."""

    predecessor_end: int
    successor_start: int
    touches: int

    @property
    def outcome_s(self) -> int:
        return self.successor_start - self.predecessor_end


def run_handover(
    sim: Simulator,
    standby: Standby,
    policy: Policy,
    waits: Callable[[int], Waits],
    *,
    step_s: int,
    at_most: int,
) -> SimulatedHandover:
    """Ask the policy every `step_s` of the predecessor's run, which lasts to its limit.

    `sim` stands at the predecessor's start, and is changed. `waits` returns the waits of the jobs
    that had started by an instant.
    """
    first_instant = sim.now
    for at in range(first_instant, standby.end, step_s):
        start = standby.run_until_started(sim, at)
        if start is not None:
            return SimulatedHandover(standby.end, start, standby.touches)
        standby.ask_policy(sim, policy, waits(at))
    start = standby.run_until_started(sim, standby.end)
    if start is None and standby.position is Position.PINNED:
        start = standby.run_until_started(sim, standby.end + AFTER_END_S)
        if start is None:
            standby.move_to(sim, Position.FREE)
    if start is None:
        start = standby.run_until_started(sim, at_most)
    return SimulatedHandover(standby.end, at_most if start is None else start, standby.touches)
