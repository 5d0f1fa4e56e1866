"""The event-driven simulator: Slurm's two passes over one partition of whole nodes.

At one instant, always in this order: jobs end and their dependents become eligible; waiting jobs
are cancelled; jobs arrive; the main pass starts jobs strictly in priority order until the first
that does not fit; every bf_interval, and only when something changed, the backfill pass plans and
starts others.
Deterministic: integers only, ties by job id.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from mirage.domain.job import JobState
from mirage.errors import ClusterRefused
from mirage.sim import passes
from mirage.sim.priority import static_key, true_order
from mirage.sim.types import Entry, Event, EventKind, Params, Record, SimJob

_FAR = 2**62


class Simulator:
    """A cluster's state at `now`, which only moves forward. `fork` gives an independent twin."""

    def __init__(
        self, params: Params, workload: Iterable[SimJob] = (), *, now: int | None = None
    ) -> None:
        self.params = params
        jobs = sorted(workload, key=lambda j: (j.submit, j.job_id))
        self.oversized = [j for j in jobs if not 1 <= j.nodes <= params.nodes]
        """Jobs that Slurm would refuse: left out."""
        self._future = [j for j in jobs if 1 <= j.nodes <= params.nodes]
        self._arrived = 0
        first = self._future[0].submit if self._future else 0
        self.now = first if now is None else now
        self._next_id = 1 + max((j.job_id for j in jobs), default=0)
        self.records: dict[int, Record] = {}
        """Pending and running jobs."""
        self.ended: list[Record] = []
        """Ascending by end."""
        self._ended_at: list[int] = []
        self.queue: list[Entry] = []
        """Eligible pending jobs in static order."""
        self.running: list[Entry] = []
        """Running jobs by their end by the limit, which stands in `key`."""
        self.free_nodes = (1 << params.nodes) - 1
        self.running_per_user: dict[str, int] = {}
        self.pins: dict[int, int] = {}
        """Nodes that pinned pending jobs ask for."""
        self._dependents: dict[int, tuple[int, ...]] = {}
        self._injected: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []
        self._cancels: list[tuple[int, int]] = []
        self._saturates_at = _FAR
        self._main_due = False
        self._backfill_at = _FAR
        self._last_backfill = -_FAR
        self._version = 0
        self._plan: tuple[int, dict[int, int]] = (-1, {})
        self._events: list[Event] = []

    # Time

    def step(self, until: int) -> list[Event]:
        """Go to the next instant at which something happens, at most to `until`; what happened."""
        at = self.next_instant()
        if at > until:
            self.now = max(self.now, until)
            return []
        self.now = at
        self._end_due()
        self._cancel_due()
        self._arrive_due()
        if self._main_due:
            self._main_due = False
            for job_id, nodes in passes.main_pass(self).items():
                self._start(self.records[job_id], nodes)
        if self._backfill_at <= at:
            self._backfill_at = _FAR
            self._last_backfill = at
            for job_id, nodes in passes.backfill_pass(self).items():
                self._start(self.records[job_id], nodes)
        events, self._events = self._events, []
        return events

    def advance(self, until: int) -> list[Event]:
        """Everything that happens up to and including `until`."""
        events: list[Event] = []
        while self.next_instant() <= until:
            events += self.step(until)
        self.now = max(self.now, until)
        return events

    def next_instant(self) -> int:
        """When `step` will find something to do."""
        if self._main_due:
            return self.now
        at = self._backfill_at
        if self._arrived < len(self._future):
            at = min(at, self._future[self._arrived].submit)
        for heap in (self._ends, self._injected, self._cancels):
            if heap:
                at = min(at, heap[0][0])
        return max(at, self.now)

    # Moves

    def inject(self, job: SimJob, at: int | None = None) -> int:
        """Submit `job` now or at a later instant; its id."""
        if not 1 <= job.nodes <= self.params.nodes:
            raise ClusterRefused("Requested node configuration is not available")
        job_id = job.job_id
        if job_id in self.records:
            raise ClusterRefused(f"job id {job_id} is taken")
        if not job_id:
            job_id, self._next_id = self._next_id, self._next_id + 1
        self._next_id = max(self._next_id, job_id + 1)
        submit = self.now if at is None else max(at, self.now)
        self.records[job_id] = Record(job, job_id, submit)
        if submit == self.now:
            self._submit(self.records[job_id])
        else:
            heappush(self._injected, (submit, job_id))
        return job_id

    def remove(self, job_id: int) -> None:
        """End the job now, waiting or running (scancel)."""
        self._finish(self._known(job_id), JobState.CANCELLED)

    def set_dependency(self, job_id: int, predecessor: int | None) -> None:
        """Hold a pending job behind the end of another, or make it eligible."""
        record = self._pending(job_id)
        self._forget_dependency(record)
        if predecessor in self.records:
            self._dequeue(record)
            record.eligible = None
            self._depend(record, predecessor)
        else:
            self._enqueue(record)

    def pin(self, job_id: int, nodes: int | None) -> None:
        """Ask for exactly these nodes (bits), or for any again. Age is kept."""
        record = self._pending(job_id)
        record.pinned = nodes
        self.pins.pop(job_id, None)
        if nodes is not None:
            self.pins[job_id] = nodes
        self._touch()

    def hold(self, job_id: int) -> None:
        """Not eligible until `release`; its age is lost unless accrue_always."""
        record = self._pending(job_id)
        self._dequeue(record)
        record.held, record.eligible = True, None

    def release(self, job_id: int) -> None:
        record = self._pending(job_id)
        record.held = False
        self._enqueue(record)

    def fork(self) -> "Simulator":
        """An independent twin; the future arrivals and the ended records are shared, not copied."""
        twin = Simulator.__new__(Simulator)
        twin.__dict__.update(self.__dict__)
        twin.records = {i: r.copied() for i, r in self.records.items()}
        for name in (
            "ended",
            "_ended_at",
            "queue",
            "running",
            "_injected",
            "_ends",
            "_cancels",
            "_events",
        ):
            setattr(twin, name, list(getattr(self, name)))
        for name in ("running_per_user", "pins", "_dependents"):
            setattr(twin, name, dict(getattr(self, name)))
        return twin

    # Views

    def find(self, job_id: int) -> Record | None:
        """A pending, running or ended job."""
        record = self.records.get(job_id)
        if record is None:
            record = next((r for r in reversed(self.ended) if r.job_id == job_id), None)
        return record if record is not None and record.submit <= self.now else None

    def ended_since(self, since: int) -> list[Record]:
        """Jobs that ended at `since` or later, ascending by end."""
        return self.ended[bisect_left(self._ended_at, since) :]

    def order(self) -> Sequence[Entry]:
        """Eligible pending jobs in priority order."""
        if self.now < self._saturates_at or not self.params.priority_weight_age:
            return self.queue
        oldest = min((self._age_from(self.records[e.job_id]) for e in self.queue), default=_FAR)
        self._saturates_at = oldest + self.params.priority_max_age_s
        if self.now < self._saturates_at:
            return self.queue
        return sorted(self.queue, key=true_order(self.params, self.now))

    def planned_starts(self) -> dict[int, int]:
        """Start of each pending job that the backfill plans; computed when asked for."""
        if self._plan[0] != self._version:
            self._plan = (self._version, passes.full_plan(self))
        return {i: max(at, self.now) for i, at in self._plan[1].items()}

    def user_full(self, user: str) -> bool:
        """Whether MaxJobsPU keeps this user's jobs waiting."""
        limit = self.params.max_jobs_pu
        return bool(limit) and self.running_per_user.get(user, 0) >= limit

    # Events

    def _end_due(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            _, job_id = heappop(self._ends)
            record = self.records.get(job_id)
            if record is not None and record.state is JobState.RUNNING:
                over = record.job.run_s >= record.job.time_limit_s
                self._finish(record, JobState.TIMEOUT if over else JobState.COMPLETED)

    def _cancel_due(self) -> None:
        while self._cancels and self._cancels[0][0] <= self.now:
            _, job_id = heappop(self._cancels)
            record = self.records.get(job_id)
            if record is not None and record.state is JobState.PENDING:
                self._finish(record, JobState.CANCELLED)

    def _arrive_due(self) -> None:
        while self._injected and self._injected[0][0] <= self.now:
            record = self.records.get(heappop(self._injected)[1])
            if record is not None:
                self._submit(record)
        while self._arrived < len(self._future) and self._next_arrival.submit <= self.now:
            job = self._next_arrival
            self._arrived += 1
            self.records[job.job_id] = Record(job, job.job_id, job.submit)
            self._submit(self.records[job.job_id])

    @property
    def _next_arrival(self) -> SimJob:
        return self._future[self._arrived]

    def _submit(self, record: Record) -> None:
        self._version += 1
        self._events.append(Event(self.now, EventKind.SUBMITTED, record.job_id))
        cancel_at = record.job.cancel_at
        if cancel_at is not None:
            heappush(self._cancels, (max(cancel_at, self.now), record.job_id))
        if record.job.after is not None and record.job.after in self.records:
            self._depend(record, record.job.after)
        else:
            self._enqueue(record)

    def _start(self, record: Record, nodes: int) -> None:
        job, job_id = record.job, record.job_id
        self.queue.pop(bisect_left(self.queue, (record.key, job_id)))
        record.state, record.start, record.allocated = JobState.RUNNING, self.now, nodes
        self.free_nodes &= ~nodes
        self.pins.pop(job_id, None)
        user = job.user
        self.running_per_user[user] = self.running_per_user.get(user, 0) + 1
        limit_end = self.now + job.time_limit_s
        insort(self.running, Entry(limit_end, job_id, job.nodes, job.time_limit_s))
        heappush(self._ends, (self.now + min(job.run_s, job.time_limit_s), job_id))
        self._version += 1
        self._events.append(Event(self.now, EventKind.STARTED, job_id))

    def _finish(self, record: Record, state: JobState) -> None:
        job_id = record.job_id
        if record.state is JobState.RUNNING:
            start = record.start or 0
            entry = (start + record.job.time_limit_s, job_id)
            self.running.pop(bisect_left(self.running, entry))
            self.free_nodes |= record.allocated
            self.running_per_user[record.job.user] -= 1
            self._touch()
        else:
            self._dequeue(record)
            self._forget_dependency(record)
        record.state, record.end = state, self.now
        del self.records[job_id]
        self.pins.pop(job_id, None)
        self.ended.append(record)
        self._ended_at.append(self.now)
        self._version += 1
        self._events.append(Event(self.now, EventKind.ENDED, job_id))
        for dependent in self._dependents.pop(job_id, ()):
            self.records[dependent].after = None
            self._enqueue(self.records[dependent])

    # The queue

    def _enqueue(self, record: Record) -> None:
        """Make it eligible, unless something else keeps it."""
        if record.held or record.after is not None or record.eligible is not None:
            return
        record.eligible = self.now
        age_from = self._age_from(record)
        record.key = static_key(self.params, age_from, record.job.nodes)
        job = record.job
        insort(self.queue, Entry(record.key, record.job_id, job.nodes, job.time_limit_s))
        self._saturates_at = min(self._saturates_at, age_from + self.params.priority_max_age_s)
        self._touch()

    def _dequeue(self, record: Record) -> None:
        if record.eligible is not None and record.state is JobState.PENDING:
            self.queue.pop(bisect_left(self.queue, (record.key, record.job_id)))
            self._touch()

    def _age_from(self, record: Record) -> int:
        if self.params.accrue_always or record.eligible is None:
            return record.submit
        return record.eligible

    def _depend(self, record: Record, predecessor: int | None) -> None:
        if predecessor is not None:
            record.after = predecessor
            waiting = self._dependents.get(predecessor, ())
            self._dependents[predecessor] = (*waiting, record.job_id)

    def _forget_dependency(self, record: Record) -> None:
        if record.after is not None:
            waiting = self._dependents.get(record.after, ())
            self._dependents[record.after] = tuple(i for i in waiting if i != record.job_id)
            record.after = None

    def _touch(self) -> None:
        """Something changed: the main pass runs at once, the backfill at its next interval."""
        self._version += 1
        self._main_due = True
        interval = self.params.bf_interval_s
        due = max(-(-self.now // interval) * interval, self._last_backfill + interval)
        self._backfill_at = min(self._backfill_at, due)

    def _known(self, job_id: int) -> Record:
        record = self.records.get(job_id)
        if record is None:
            raise ClusterRefused(f"Invalid job id specified: {job_id}")
        return record

    def _pending(self, job_id: int) -> Record:
        record = self._known(job_id)
        if record.state is not JobState.PENDING:
            raise ClusterRefused(f"Job is no longer pending execution: {job_id}")
        return record
