"""Arrivals, dependencies, eligibility and ends of jobs (section 2)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from mirage.domain.job import JobState
from mirage.simulator.types import Dependency, DependencyKind, Params, SimJob
from tests.support.simulator.reference.cluster import Entry, is_whole, nodes_of
from tests.support.simulator.reference.faults import is_faulty, partition_named, qos_named
from tests.support.simulator.reference.limits import tres
from tests.support.simulator.reference.priority import FairTree, Run, age_term

REQUEUE_WAIT_S = 120


@dataclass
class Queue:
    """All jobs that have arrived. `changed` says whether a change has happened (section 1)."""

    params: Params
    tree: FairTree
    origin: int
    entries: dict[int, Entry] = field(default_factory=dict)
    refused: list[int] = field(default_factory=list)
    started: list[Entry] = field(default_factory=list)
    changed: bool = False

    def pending(self) -> list[Entry]:
        return [e for e in self._by_id() if e.state is JobState.PENDING]

    def running(self) -> list[Entry]:
        return [e for e in self._by_id() if e.state is JobState.RUNNING]

    def eligible(self) -> list[Entry]:
        return [e for e in self.pending() if e.eligible is not None]

    def _by_id(self) -> Iterator[Entry]:
        return (self.entries[i] for i in sorted(self.entries))

    # Arrivals

    def arrive(self, job: SimJob, submit: int, now: int) -> bool:
        """Take the job in; return False if it is refused."""
        if job.job_id in self.entries or is_faulty(self.params, job) or self._over_submit(job):
            self.refused.append(job.job_id)
            return False
        entry = self._entry(job, submit)
        self.depend(entry, job.dependencies, now, any_of=job.any_dependency)
        self.entries[job.job_id] = entry
        if entry.cancel_at is not None and entry.cancel_at <= submit:
            self.cancel(entry, now)
            return True
        self.settle(entry, now)
        self._give_priority(entry)
        return True

    def _entry(self, job: SimJob, submit: int) -> Entry:
        partition, qos = (
            partition_named(self.params, job.partition),
            qos_named(self.params, job.qos),
        )
        assert partition is not None
        assert qos is not None
        return Entry(
            job=job,
            submit=submit,
            partition=partition,
            qos=qos,
            whole=is_whole(self.params, partition, job),
            pinned=tuple(sorted(job.node_list)),
            held=job.held,
            not_before=job.begin,
            cancel_at=job.cancel_at,
            over_time_s=self.params.over_time_limit_s,
        )

    def _over_submit(self, job: SimJob) -> bool:
        qos = qos_named(self.params, job.qos)
        assert qos is not None
        users_jobs = [e for e in (*self.pending(), *self.running()) if e.job.user == job.user]
        return 0 < qos.max_submit_pu <= sum(e.qos == qos for e in users_jobs)

    def _give_priority(self, entry: Entry) -> None:
        """Set a real job's static part, so that it has its given priority at the first instant."""
        if entry.job.priority is None:
            return
        fair = self.params.priority_weight_fairshare << 24
        has_age = self.params.accrue_always or entry.eligible is not None
        age = age_term(self.params, entry, self.origin) if has_age else 0
        entry.given_static = (entry.job.priority << 24) - fair - age

    # Eligibility

    def depend(
        self, entry: Entry, dependencies: tuple[Dependency, ...], now: int, *, any_of: bool
    ) -> None:
        """Keep those not met now; a target neither pending nor running counts as met."""
        live_ids = [e.job_id for e in (*self.pending(), *self.running())]
        entry.any_of = any_of
        entry.unmet = list(dependencies)
        self._keep(
            entry, [d for d in dependencies if d.job_id in live_ids and not self._met(d, now)]
        )

    def _keep(self, entry: Entry, unmet: list[Dependency]) -> None:
        """Keep these dependencies, which are not met."""
        one_is_met = len(unmet) < len(entry.unmet)
        entry.unmet = [] if entry.any_of and one_is_met else unmet

    def _met(self, d: Dependency, now: int) -> bool:
        """Return whether the dependency on an entry is met by that entry's state."""
        target = self.entries[d.job_id]
        if d.kind is DependencyKind.AFTER:
            is_too_early = (
                target.state is JobState.RUNNING and (target.start or 0) + d.delay_s > now
            )
            return target.state is not JobState.PENDING and not is_too_early
        if target.state in {JobState.PENDING, JobState.RUNNING}:
            return False
        if d.kind is DependencyKind.AFTEROK:
            return target.state is JobState.COMPLETED
        return d.kind is DependencyKind.AFTERANY or target.state is not JobState.COMPLETED

    def settle(self, entry: Entry, now: int) -> None:
        """Give or take eligibility as things stand."""
        is_eligible = not entry.held and not entry.unmet and entry.not_before <= now
        if is_eligible and entry.eligible is None:
            entry.eligible = now
            self.changed = True
        elif not is_eligible and entry.eligible is not None:
            entry.eligible = None
            self.changed = True

    def settle_all(self, now: int) -> None:
        for entry in self.pending():
            self.settle(entry, now)

    def _notify_dependents(self, target: Entry, now: int) -> None:
        """Settle the jobs that waited for the target's start or end."""
        for entry in self.pending():
            unmet = [d for d in entry.unmet if d.job_id != target.job_id or not self._met(d, now)]
            self._keep(entry, unmet)
            self.settle(entry, now)

    def ripen(self, now: int) -> None:
        """Drop the dependencies on a time after a start that has come."""
        for entry in self.pending():
            self._keep(entry, [d for d in entry.unmet if now < (self.ripe_at(d) or now + 1)])

    def ripe_at(self, d: Dependency) -> int | None:
        """When a delayed dependency on a running job is met."""
        target = self.entries.get(d.job_id)
        is_running = target is not None and target.state is JobState.RUNNING
        if d.kind is not DependencyKind.AFTER or not is_running:
            return None
        assert target is not None
        assert target.start is not None
        return target.start + d.delay_s

    # Starts and ends

    def start(self, entry: Entry, nodes: tuple[int, ...], now: int) -> None:
        entry.state = JobState.RUNNING
        entry.start = now
        entry.allocated = nodes
        association = (entry.job.account, entry.job.user)
        self.tree.runs.append(Run(association, self._charge(entry), now))
        self.started.append(entry)

    def passes_over(self, now: int) -> None:
        """Settle the jobs that wait for a start, once the instant's passes are over."""
        for entry in self.started:
            self._notify_dependents(entry, now)
        self.started.clear()

    def _charge(self, entry: Entry) -> int:
        if entry.whole and not self.params.node_groups:
            return entry.job.nodes * self.params.cpus_per_node
        if entry.whole:
            nodes = nodes_of(self.params)
            return sum(nodes[n].cpus for n in entry.allocated)
        return tres(self.params, entry)[0]

    def end_in_time(self, entry: Entry, now: int) -> None:
        timed_out = entry.job.run_s >= entry.job.time_limit_s + entry.over_time_s
        end_state = JobState.FAILED if entry.job.fails else JobState.COMPLETED
        self._end(entry, JobState.TIMEOUT if timed_out else end_state, now)

    def cancel(self, entry: Entry, now: int) -> None:
        self._end(entry, JobState.CANCELLED, now)

    def node_fails(self, entry: Entry, now: int) -> None:
        if entry.job.requeue:
            self.requeue(entry, now)
        else:
            self._end(entry, JobState.NODE_FAIL, now)

    def _end(self, entry: Entry, state: JobState, now: int) -> None:
        self._stop_charging(entry, now)
        entry.state = state
        entry.end = now
        self.changed = True
        self._notify_dependents(entry, now)

    def requeue(self, entry: Entry, now: int) -> None:
        self._stop_charging(entry, now)
        entry.state = JobState.PENDING
        entry.start = None
        entry.allocated = ()
        entry.eligible = None
        entry.not_before = now + REQUEUE_WAIT_S
        entry.cancel_at = None
        self.changed = True

    def _stop_charging(self, entry: Entry, now: int) -> None:
        association = (entry.job.account, entry.job.user)
        if entry.state is JobState.RUNNING:
            # Any open run of this association with these starts and CPUs charges alike.
            run = next(
                r
                for r in self.tree.runs
                if r.end is None
                and (r.association, r.start, r.cpus)
                == (association, entry.start, self._charge(entry))
            )
            run.end = now
