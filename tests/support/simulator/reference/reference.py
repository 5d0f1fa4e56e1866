"""The clock, the passes and the moves (sections 1, 6, 7 and 8)."""

import copy
from collections.abc import Iterable

from mirage.domain.job import JobState
from mirage.errors import ClusterRefused
from mirage.simulator.slurm_release import SlurmRelease, find_release
from mirage.simulator.types import OFF, Dependency, NodeEvent, Outage, Params, SimJob
from tests.support.simulator.reference.by_name import ByName
from tests.support.simulator.reference.by_number import Profile
from tests.support.simulator.reference.by_slot import BySlot
from tests.support.simulator.reference.cluster import (
    Entry,
    fits,
    nodes_of,
    numbers_of,
    reserved,
    rooms_of,
)
from tests.support.simulator.reference.faults import is_bad_list, is_faulty
from tests.support.simulator.reference.limits import over_limits
from tests.support.simulator.reference.nodes import choose_nodes
from tests.support.simulator.reference.priority import FairTree, in_order
from tests.support.simulator.reference.queue import Queue

LINEAR = "select/linear"


class Reference:
    """The brute-force simulator, with the part of `Simulator`'s methods that the tests need."""

    def __init__(self, params: Params, jobs: Iterable[SimJob], now: int | None = None) -> None:
        workload = sorted(jobs, key=lambda j: (j.submit, j.job_id))
        self.params = params
        self.slurm = find_release(params.slurm_version)
        self.now = (workload[0].submit if workload else 0) if now is None else now
        self.nodes = nodes_of(params)
        self.tree = FairTree(params, self.now)
        self.queue = Queue(params, self.tree, self.now)
        for job in workload:
            if not is_faulty(params, job):
                self.tree.add_association(job)
        self.coming = [(max(self.now, j.submit), j) for j in workload]
        self.injected: list[tuple[int, SimJob]] = []
        self.outages = sorted(params.node_events, key=lambda e: (e.at, e.node))
        self.main_due: int | None = None
        self.sched_due: int | None = None
        self.backfill_due: int | None = None
        self.last_backfill: int | None = None
        self.tick_due = (
            -(-self.now // params.priority_calc_period_s) * params.priority_calc_period_s
        )
        edges = {t for r in params.reservations for t in (r.start, r.end)}
        self.edges = sorted(t for t in edges if t >= self.now)

    # Queries

    def start(self, job_id: int) -> int | None:
        return self.queue.entries[job_id].start if job_id in self.queue.entries else None

    def end(self, job_id: int) -> int | None:
        return self.queue.entries[job_id].end if job_id in self.queue.entries else None

    def state(self, job_id: int) -> JobState | None:
        return self.queue.entries[job_id].state if job_id in self.queue.entries else None

    def list_pending_ids(self) -> list[int]:
        return [e.job_id for e in self._in_order()]

    def compute_planned_starts(self) -> dict[int, int]:
        return {} if self.params.bf_interval_s == OFF else copy.deepcopy(self)._backfill()

    # The clock

    def advance(self, until: int) -> None:
        while (t := self._next()) is not None and t <= until:
            self._at(t)
        self.now = max(self.now, until)

    def run_out(self) -> None:
        """Advance until nothing can happen any more but fair-share ticks."""
        while (t := self._next(ticks=bool(self.queue.running()))) is not None:
            self._at(t)

    def _next(self, *, ticks: bool = True) -> int | None:
        times = [t for t, _ in self.coming + self.injected]
        times += [e.at for e in self.outages] + self.edges
        times += [e.real_end for e in self.queue.running()]
        for e in self.queue.pending():
            times += [] if e.cancel_at is None else [e.cancel_at]
            times += [e.not_before] if e.not_before > self.now else []
            ripe = [self.queue.ripe_at(d) for d in e.unmet]
            times += [t for t in ripe if t is not None and t > self.now]
        dues = (self.main_due, self.sched_due, self.backfill_due)
        times += [t for t in dues if t is not None]
        times += [self.tick_due] if ticks and self.params.priority_weight_fairshare > 0 else []
        return max(self.now, min(times)) if times else None

    def _at(self, t: int) -> None:
        """One instant, in the order of section 1."""
        self.now = t
        self._node_events()
        for entry in [entry for entry in self.queue.running() if entry.real_end <= t]:
            self.queue.end_in_time(entry, t)
        for entry in [
            entry
            for entry in self.queue.pending()
            if entry.cancel_at is not None and entry.cancel_at <= t
        ]:
            self.queue.cancel(entry, t)
        self.queue.ripen(t)
        self.queue.settle_all(t)
        self._arrivals()
        if self.edges and self.edges[0] <= t:
            self.edges = [x for x in self.edges if x > t]
            self.queue.changed = True
        self._tick()
        self._note_change()
        self._passes()

    def _arrivals(self) -> None:
        for job in sorted((j for at, j in self.injected if at <= self.now), key=lambda j: j.job_id):
            self.queue.arrive(job, self.now, self.now)
        self.injected = [(at, j) for at, j in self.injected if at > self.now]
        while self.coming and self.coming[0][0] <= self.now:
            _, job = self.coming.pop(0)
            self.queue.arrive(job, job.submit, self.now)

    def _tick(self) -> None:
        if self.params.priority_weight_fairshare <= 0 or self.tick_due > self.now:
            return
        self.tick_due += self.params.priority_calc_period_s
        before = self._fair_shares()
        self.tree.tick(self.now)
        self.queue.changed |= self._fair_shares() != before

    def _fair_shares(self) -> list[int]:
        """List the fair-share terms of the queued jobs."""
        return [self.tree.get_share(e.job) for e in self.queue.eligible()]

    def _note_change(self) -> None:
        """After a change, set which passes are due, and when."""
        if not self.queue.changed:
            return
        self.queue.changed = False
        if self.params.sched_interval_s != OFF:
            self.main_due = self.now
        step = self.params.bf_interval_s
        if step == OFF:
            return
        earliest = self.now
        if self.last_backfill is not None:
            earliest = max(earliest, self.last_backfill + step)
        if self.backfill_due is None:
            self.backfill_due = -(-earliest // step) * step

    # Node events

    def _node_events(self) -> None:
        while self.outages and self.outages[0].at <= self.now:
            self._node_event(self.outages.pop(0))

    def _node_event(self, event: NodeEvent) -> None:
        node = self.nodes[event.node]
        self.queue.changed |= node.outage is not event.outage
        node.outage = event.outage
        if event.outage is Outage.DOWN:
            for e in [e for e in self.queue.running() if event.node in e.allocated]:
                self.queue.node_fails(e, self.now)

    # The passes

    def _passes(self) -> None:
        if self.now in {self.main_due, self.sched_due}:
            self.main_due = None
            self.sched_due = None if self.sched_due == self.now else self.sched_due
            self._main()
        if self.backfill_due == self.now:
            self.backfill_due = None
            self.last_backfill = self.now
            self._backfill()
        self.queue.passes_over(self.now)
        self._note_change()

    def _in_order(self) -> list[Entry]:
        return in_order(self.params, self.tree, self.queue.eligible(), self.now)

    def _up(self) -> set[int]:
        return {n.number for n in self.nodes if n.up}

    def _by_number(self) -> bool:
        has_all_nodes = all(
            set(numbers_of(self.params, p)) == set(range(self.params.nodes))
            for p in self.params.partitions
        )
        return self.params.select_type == LINEAR and has_all_nodes and not self.params.reservations

    def _over_limits(self, entry: Entry) -> bool:
        return over_limits(self.params, self.queue.running(), entry)

    def _main(self) -> None:
        interval_s = self.params.sched_interval_s
        is_bounded = self.now % interval_s != 0
        attempts = 0
        usable = self._up()
        closed: set[str] = set()
        for entry in self._in_order():
            if self._over_limits(entry) or entry.partition.name in closed:
                continue
            if is_bounded and attempts >= self.params.default_queue_depth:
                self.sched_due = (self.now // interval_s + 1) * interval_s
                return
            attempts += 1
            nodes = self._nodes_now(entry, usable)
            if nodes is not None:
                self.queue.start(entry, nodes, self.now)
            elif entry.pinned:
                usable -= set(entry.pinned)
            else:
                closed.add(entry.partition.name)
                usable -= set(numbers_of(self.params, entry.partition))

    def _nodes_now(self, entry: Entry, usable: set[int]) -> tuple[int, ...] | None:
        """Return the nodes among `usable` on which the job would start now; None: too few."""
        rooms = rooms_of(self.nodes, self.queue.running())
        usable_members = usable & set(numbers_of(self.params, entry.partition))
        usable_members -= reserved(self.params, self.now, self.now + entry.job.time_limit_s)
        fitting = [n for n in sorted(usable_members) if fits(self.nodes[n], rooms[n], entry)]
        pinned = {n for p in self.queue.eligible() for n in p.pinned}
        avoided = pinned if self._by_number() else None
        return choose_nodes(entry, fitting, rooms, avoided, self.slurm)

    def _backfill(self) -> dict[int, int]:
        """Do one backfill pass; return the planned start of each job."""
        pass_ = self._plan_by_number if self._by_number() else self._plan_by_name
        return pass_(self._in_order())

    def _tests(self, order: list[Entry], plans: dict[int, int]) -> Iterable[Entry]:
        """Yield the jobs that the pass tests. Limits are checked when a job's turn comes."""
        tests = 0
        by_user: dict[str, int] = {}
        for e in order:
            if tests >= self.params.bf_max_job_test:
                return
            of_user = by_user.get(e.job.user, 0)
            if 0 < self.params.bf_max_job_user <= of_user or self._over_limits(e):
                continue
            if self.slurm >= SlurmRelease.V24_11 and self._array_is_full(e, plans):
                continue
            tests += 1
            by_user[e.job.user] = of_user + 1
            yield e

    def _array_is_full(self, entry: Entry, plans: dict[int, int]) -> bool:
        """Whether the array's tasks that run, with those planned in this pass, are at its limit."""
        array, limit = entry.job.array_id, entry.job.array_limit
        planned = [e for i in plans if (e := self.queue.entries[i]).state is JobState.PENDING]
        tasks = [e for e in [*self.queue.running(), *planned] if e.job.array_id == array]
        return bool(array and limit and len(tasks) >= limit)

    def _plan_by_number(self, order: list[Entry]) -> dict[int, int]:
        plans: dict[int, int] = {}
        running = self.queue.running()
        profile = Profile(self.params, self.now, self._up(), running)
        started_nodes: set[int] = set()
        for entry in self._tests(order, plans):
            earliest = (
                self.now
                if not entry.pinned
                else profile.earliest(entry, self._up(), running, started_nodes)
            )
            start = profile.first_start(entry, earliest)
            if start is None:
                continue
            plans[entry.job_id] = start
            profile.take(entry, start)
            nodes = self._nodes_now(entry, self._up()) if start == self.now else None
            if nodes is not None:
                self.queue.start(entry, nodes, self.now)
                started_nodes |= set(nodes)
        return plans

    def _plan_by_name(self, order: list[Entry]) -> dict[int, int]:
        plans: dict[int, int] = {}
        planner = BySlot if self.slurm >= SlurmRelease.V24_11 else ByName
        planning = planner(self.params, self.now, self.nodes, self.queue.running())
        for entry in self._tests(order, plans):
            plan = planning.plan(entry)
            if plan is None:
                continue
            plans[entry.job_id] = plan.start
            if plan.start == self.now:
                self.queue.start(entry, plan.nodes, self.now)
                planning.set_running(self.queue.running())
                planning.start(entry)
            else:
                planning.take(entry, plan)
        return plans

    # Moves

    def _pending(self, job_id: int) -> Entry:
        entry = self.queue.entries.get(job_id)
        if entry is None or entry.state is not JobState.PENDING:
            raise ClusterRefused("The job is not pending.")
        return entry

    def inject(self, job: SimJob, at: int | None = None) -> int:
        if is_faulty(self.params, job):
            raise ClusterRefused("The job can never run.")
        self.tree.add_association(job)
        if at is not None and at > self.now:
            self.injected.append((at, job))
        elif not self.queue.arrive(job, self.now, self.now):
            raise ClusterRefused("The job is refused.")
        self._note_change()
        return job.job_id

    def remove(self, job_id: int) -> None:
        entry = self.queue.entries.get(job_id)
        if entry is None or entry.state not in {JobState.PENDING, JobState.RUNNING}:
            raise ClusterRefused("There is no such job.")
        self.queue.cancel(entry, self.now)
        self._note_change()

    def requeue(self, job_id: int) -> None:
        entry = self.queue.entries.get(job_id)
        if entry is None or entry.state is not JobState.RUNNING:
            raise ClusterRefused("The job does not run.")
        self.queue.requeue(entry, self.now)
        self._note_change()

    def set_dependencies(
        self, job_id: int, dependencies: tuple[Dependency, ...], *, any_of: bool = False
    ) -> None:
        entry = self._pending(job_id)
        self.queue.depend(entry, dependencies, self.now, any_of=any_of)
        self.queue.settle(entry, self.now)
        self._note_change()

    def set_node_list(self, job_id: int, nodes: tuple[int, ...]) -> None:
        entry = self._pending(job_id)
        if nodes and is_bad_list(self.params, entry.partition, entry.job, nodes):
            raise ClusterRefused("The node list is wrong.")
        self.queue.changed = True
        entry.pinned = tuple(sorted(nodes))
        self._note_change()

    def hold(self, job_id: int) -> None:
        entry = self._pending(job_id)
        entry.held = True
        self.queue.settle(entry, self.now)
        self._note_change()

    def release(self, job_id: int) -> None:
        entry = self._pending(job_id)
        entry.held = False
        self.queue.settle(entry, self.now)
        self._note_change()

    def set_node(self, node: int, outage: Outage) -> None:
        self._node_event(NodeEvent(self.now, node, outage))
        self._note_change()
