"""A simulated Slurm: the state of a cluster at `now`. Time only moves forward."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from mirage.domain.arrays import Ints
from mirage.domain.job import JobState
from mirage.errors import ClusterRefused
from mirage.simulator import engine, moves
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import FAR, NONE, get_section
from mirage.simulator.event_log import END_STATES, EventLog
from mirage.simulator.packing.allocation import OUTAGES
from mirage.simulator.packing.packed_params import build_bitmap
from mirage.simulator.packing.workload import REFUSALS, Workload, encode_dependencies
from mirage.simulator.simulator_memory import SimulatorMemory
from mirage.simulator.state.node_selection import count_nodes
from mirage.simulator.types import Dependency, Event, JobRecord, Outage, Params, SimJob


class Simulator:
    """One simulated cluster.

    Copies by `fork` are independent, but they share the scratch: use all of them in one thread.
    """

    def __init__(
        self, params: Params, workload: Workload | Iterable[SimJob] = (), *, now: int | None = None
    ) -> None:
        """Create an empty cluster at `now` (default: the first submission), and its workload."""
        if not isinstance(workload, Workload):
            workload = Workload.from_jobs(params, workload)
        self.params = params
        self.workload = workload
        if now is None:
            now = int(workload.submit[0]) if len(workload) else 0
        self.arena = SimulatorMemory(params, workload, now)
        self._event_log = EventLog(workload)
        self._events: list[Event] = []
        """Events that moves caused and that are not yet returned."""
        self._next_id = 1 + int(workload.job_id.max(initial=0))
        self._plan: tuple[int, int, dict[int, int]] = (NONE, NONE, {})

    # Time

    @property
    def now(self) -> int:
        """Return the present instant, epoch seconds."""
        return self.arena[layout.NOW]

    @property
    def next_id(self) -> int:
        """Return an id above the ids of all jobs so far."""
        return self._next_id

    def find_next_instant(self) -> int:
        """Return the instant of the next event; layout.FAR: there is none."""
        return int(engine.find_next_instant(self.arena.state, self.arena.site, self.workload.feed))

    def step(self, until: int) -> list[Event]:
        """Advance to the next instant with an event, at most to `until`, and return its events."""
        return self._run_engine(until, once=True, with_events=True)

    def advance(self, until: int) -> list[Event]:
        """Advance to `until` and return all events."""
        return self._run_engine(until, once=False, with_events=True)

    def advance_quietly(self, until: int) -> None:
        """Advance like `advance`, but return no events: several times faster."""
        self._run_engine(until, once=False, with_events=False)

    def run_out(self) -> None:
        """Advance until no event is left."""
        self.advance_quietly(FAR - 1)

    def run_until_started(self, job_id: int, at_most: int = FAR - 1) -> int | None:
        """Advance until the job starts, at most to `at_most`. Return its start; None: no start."""
        self.arena.state[layout.WATCHED], self.arena.state[layout.WATCHED_START] = job_id, NONE
        self.advance_quietly(at_most)
        start = self.arena[layout.WATCHED_START]
        self.arena.state[layout.WATCHED] = self.arena.state[layout.WATCHED_START] = NONE
        return None if start == NONE else start

    def _run_engine(self, until: int, *, once: bool, with_events: bool) -> list[Event]:
        arena, events = self.arena, list[Event]()
        if with_events:
            events, self._events = self._events, events
        while True:
            arena.state[layout.LISTENING] = int(with_events)
            arrays = (arena.site, self.workload.feed, arena.extras, arena.results, arena.work)
            engine.advance_until(arena.state, *arrays, until, once)
            if with_events:
                events += self._event_log.read_events(arena.state)
            if not arena[layout.MISSING_ROOM]:
                return events
            arena.make_room(arena[layout.MISSING_ROOM])

    # Moves

    def inject(self, job: SimJob, at: int | None = None) -> int:
        """Submit `job` now or at a later instant, and return its id.

        Raises ClusterRefused if Slurm would refuse the job.
        """
        if job.job_id and self.arena.find_slot(job.job_id) != NONE:
            raise ClusterRefused(f"job id {job.job_id} is taken")
        job_id = job.job_id or self._next_id
        # Forks share the mapping.
        self._event_log.injected = dict(self._event_log.injected)
        self._submit(job, job_id, self.now if at is None else max(at, self.now))
        return job_id

    def _submit(self, job: SimJob, job_id: int, instant: int) -> int:
        """Submit a job whose id is free, and return its slot."""
        self._next_id = max(self._next_id, job_id + 1)
        record = self.arena.build_record(job, job_id)
        if record[layout.REFUSAL]:
            raise ClusterRefused(_format_refusal(REFUSALS[record[layout.REFUSAL]]))
        self._event_log.injected[job_id] = job
        refused_count = self.arena[layout.REFUSED]
        slot = self._apply_move(
            moves.inject_job, self.arena.results, record, self.arena.extras, instant
        )
        if self.arena.state[layout.REFUSED] != refused_count:
            raise ClusterRefused(_format_refusal(REFUSALS[1]))
        return int(slot)

    def remove(self, job_id: int) -> None:
        """End the job now, waiting or running (scancel)."""
        self._apply_move(moves.cancel_job, self.arena.results, self._get_slot(job_id))

    def requeue(self, job_id: int) -> None:
        """Requeue a running job."""
        slot = self._get_slot(job_id)
        if self._read_field(slot, layout.PHASE) != layout.PHASE_RUNNING:
            raise ClusterRefused(f"Requested operation is presently disabled for job {job_id}")
        self._apply_move(moves.requeue_job, slot)

    def set_dependencies(
        self, job_id: int, dependencies: Sequence[Dependency], *, any_of: bool = False
    ) -> None:
        """Replace a pending job's dependencies. With `any_of` one met dependency suffices."""
        slot = self._get_pending_slot(job_id)
        encoded = np.array(encode_dependencies(dependencies), dtype=np.int64)
        self.arena.ensure_room(edges=len(dependencies))
        self._apply_move(moves.set_dependencies, slot, encoded, any_of)

    def set_node_list(self, job_id: int, nodes: Sequence[int]) -> None:
        """Let a pending job ask for exactly these nodes; empty: any nodes. Its age is kept."""
        slot = self._get_pending_slot(job_id)
        are_known = all(0 <= n < self.params.nodes for n in nodes)
        if nodes and (not are_known or len(set(nodes)) != self._read_field(slot, layout.NODES)):
            raise ClusterRefused("Requested node configuration is not available")
        self.arena.ensure_room(cells=len(nodes))
        numbers = np.array(sorted(set(nodes), reverse=True), dtype=np.int64)
        self._apply_move(moves.set_node_list, slot, numbers)

    def hold(self, job_id: int, *, admin: bool = False) -> None:
        """Hold a pending job until `release`. It loses its age, except under ACCRUE_ALWAYS."""
        holder = layout.ADMIN_HOLDS if admin else layout.USER_HOLDS
        self._apply_move(moves.hold_job, self._get_pending_slot(job_id), holder)

    def release(self, job_id: int) -> None:
        """End the hold of a job, whoever set it."""
        self._apply_move(moves.release_job, self._get_pending_slot(job_id))

    def set_node(self, node: int, outage: Outage) -> None:
        """Change the state of a node now: down, drained, or up again."""
        if not 0 <= node < self.params.nodes:
            raise ClusterRefused(f"Invalid node name specified: {node}")
        self._apply_move(engine.set_node_state, self.arena.results, node, OUTAGES[outage])

    def _apply_move(self, move: Callable[..., Any], *arguments: Any) -> Any:
        """Make a move, and return its result. The next call that returns events returns those of
        the move too."""
        result = self.arena.apply_move(move, *arguments)
        self._events += self._event_log.read_events(self.arena.state)
        return result

    # Copies

    def fork(self, *, with_results: bool = False, reusable: Self | None = None) -> Self:
        """Return an independent copy, at the cost of the live jobs only.

        `with_results`: copy `start` and `end` too, which are as long as the trace. `reusable`: a
        fork that is not used again, whose memory the copy takes.
        """
        copy = object.__new__(type(self))
        copy.__dict__ = {**self.__dict__, "_event_log": self._event_log.copy()}
        copy._events = list(self._events)
        reusable_arena = None if reusable is None else reusable.arena
        copy.arena = self.arena.fork(with_results=with_results, reusable=reusable_arena)
        return copy

    @classmethod
    def from_queue(
        cls,
        params: Params,
        *,
        now: int,
        running: Iterable[tuple[SimJob, int, Sequence[int]]] = (),
        pending: Iterable[tuple[SimJob, int | None]] = (),
        planned_at: int | None = None,
        usage: Mapping[tuple[str, str], float] | None = None,
        ticked_at: int | None = None,
    ) -> Self:
        """Build a simulator of a real cluster. Instants are epoch seconds, None: not known.

        `running`: each job, its start, its nodes. `pending`: each job with Slurm's priority, and
        the instant since which it is eligible. `planned_at`: the last backfill cycle (sdiag); later
        passes keep its rhythm. `usage`: decayed CPU seconds of each (account, user) at the last
        tick of fair share (RawUsage of `sshare -a`); None: fair share stays as it is in the jobs'
        priorities. `ticked_at`: that tick, a multiple of PriorityCalcPeriod after slurmctld's
        BOOT_TIME; None: now.
        """
        if usage is None:
            params = replace(params, priority_weight_fairshare=0)
        simulator = cls(params, (), now=now)
        simulator.arena.set_initial_usage(usage or {}, now if ticked_at is None else ticked_at)
        for job, since, nodes in running:
            unconditional = replace(
                job, dependencies=(), node_list=(), begin=0, held=False, cancel_at=None
            )
            slot = simulator._submit_of_queue(unconditional)
            bitmap = build_bitmap(nodes, int(simulator.arena.site[layout.SITE_WORDS]))
            simulator._apply_move(
                moves.restore_running, simulator.arena.results, slot, bitmap, since
            )
        for job, eligible in sorted(pending, key=lambda p: p[0].job_id):
            slot = simulator._submit_of_queue(job)
            simulator.arena.get_live_records()[slot, layout.SUBMIT] = (
                min(job.submit, now) if job.submit else now
            )
            priority = NONE if job.priority is None else job.priority
            since = NONE if eligible is None else eligible
            simulator._apply_move(moves.restore_pending, slot, priority, since)
        moves.settle_cluster(
            simulator.arena.state, simulator.arena.site, NONE if planned_at is None else planned_at
        )
        simulator._events.clear()
        return simulator

    def _submit_of_queue(self, job: SimJob) -> int:
        """Submit like `inject` to a simulator without forks, and return the slot. Nothing is
        searched for or copied, as a queue may have tens of thousands of jobs."""
        if job.job_id in self._event_log.injected:
            raise ClusterRefused(f"job id {job.job_id} is taken")
        return self._submit(job, job.job_id or self._next_id, self.now)

    # Views

    @property
    def start(self) -> Ints:
        """The starts, int64[rows of the workload], epoch seconds; -1: not started."""
        return self.arena.results[:, 0]

    @property
    def end(self) -> Ints:
        """The ends, int64[rows of the workload], epoch seconds; -1: not ended."""
        return self.arena.results[:, 1]

    def get_job_state(self, row: int) -> JobState:
        """Return the state of a job of the workload, by its row."""
        code = int(self.arena.results[row, 2])
        if code == layout.REFUSED_STATE:
            return JobState.UNKNOWN
        if code != NONE:
            return END_STATES[code]
        return JobState.PENDING if self.arena.results[row, 0] == NONE else JobState.RUNNING

    def find(self, job_id: int) -> JobRecord | None:
        """Find a pending, running or ended job; None: there is none.

        An ended job whose end no call has returned yet is found only if it is in the workload, and
        without its nodes.
        """
        slot = self.arena.find_slot(job_id)
        if slot != NONE:
            return self._event_log.build_live_record(self.arena.state, self.arena.site, slot)
        return self._event_log.find_ended(job_id) or self._find_in_results(job_id)

    def _find_in_results(self, job_id: int) -> JobRecord | None:
        if not len(self.arena.results):
            return None
        for row in np.flatnonzero(self.workload.job_id == job_id).tolist():
            start, end = int(self.start[row]), int(self.end[row])
            if end != NONE:
                job = self.workload.jobs[row]
                start_or_none = None if start == NONE else start
                state = self.get_job_state(row)
                return JobRecord(
                    job=job,
                    job_id=job_id,
                    submit=job.submit,
                    state=state,
                    start=start_or_none,
                    end=end,
                )
        return None

    def list_pending(self) -> list[JobRecord]:
        """List the pending jobs: first the eligible ones in priority order, then the others."""
        live = self.arena.get_live_records()
        waiting = np.flatnonzero(live[:, layout.PHASE] == layout.PHASE_WAITING)
        return [self._build_record(slot) for slot in (*self.arena.list_queued_slots(), *waiting)]

    def list_running(self) -> list[JobRecord]:
        """List the running jobs, ordered by their ends by their time limits."""
        slots = get_section(self.arena.state, layout.RUN_SLOT)[: self.arena.state[layout.RUNNING]]
        return [self._build_record(slot) for slot in slots]

    def list_ended_since(self, since: int) -> list[JobRecord]:
        """List the jobs that ended at `since` or later, ascending by end. Only ends that a call has
        returned are listed."""
        return self._event_log.list_ended_since(since)

    def forget_ended(self, before: int) -> None:
        """Forget the jobs that ended before an instant."""
        self._event_log.forget_ended(before)

    def count_idle_nodes(self) -> int:
        """Count the nodes that are up and have no job."""
        return int(count_nodes(get_section(self.arena.state, layout.IDLE_BITS)))

    def get_node_use(self, node: int) -> tuple[int, int, Outage]:
        """Return the CPUs and GPUs of a node that jobs have, and the node's state."""
        code = int(get_section(self.arena.state, layout.NODE_STATE)[node])
        outage = next(o for o, c in OUTAGES.items() if c == code)
        cpus = int(get_section(self.arena.site, layout.CAPACITY_CPUS)[node])
        gpus = int(get_section(self.arena.site, layout.CAPACITY_GPUS)[node])
        if self.arena.site[layout.SITE_SHARED]:
            cpus -= int(get_section(self.arena.state, layout.NODE_CPUS)[node])
            gpus -= int(get_section(self.arena.state, layout.NODE_GPUS)[node])
        elif not get_section(self.arena.state, layout.NODE_JOBS)[node]:
            cpus = gpus = 0
        return cpus, gpus, outage

    def has_reached_max_jobs(self, user: str, qos: str = "") -> bool:
        """Return whether MaxJobsPU keeps this user's jobs waiting."""
        number = self.workload.recorder.get_qos_number(qos)
        row = self.arena.names.use_rows.get((user, number))
        if row is None:
            return False
        limit = get_section(self.arena.site, layout.QOS_LIMITS)[number * layout.USE_COLUMNS]
        return bool(get_section(self.arena.state, layout.USE)[row * layout.USE_COLUMNS] >= limit)

    def compute_planned_starts(self) -> dict[int, int]:
        """Compute the starts that a backfill pass would plan now: epoch seconds by job id."""
        version = self.arena[layout.VERSION]
        if self._plan[:2] != (version, self.now):
            plans = self.arena.plan_starts_by_slot(self.arena.copy_for_plan())
            ids = self.arena.get_live_records()[:, layout.ID]
            starts = {int(ids[s]): int(plans[s]) for s in np.flatnonzero(plans != NONE)}
            self._plan = (version, self.now, starts)
        return self._plan[2]

    def plan_unrestricted(
        self, job_id: int, limits: Ints | None = None, *, priority: int | None = None
    ) -> int | None:
        """Plan the start of a pending job as if it were eligible now; None: no start.

        `limits`: time limits by slot that replace the jobs' own where positive, seconds.
        `priority`: the job's priority as squeue prints it.
        """
        slot = self._get_pending_slot(job_id)
        state = self.arena.copy_for_plan()
        moves.clear_restrictions(state, self.arena.site, slot)
        if priority is not None:
            moves.restore_pending(state, self.arena.site, slot, priority, NONE)
        if limits is not None:
            moves.set_time_limits(state, limits)
        start = int(self.arena.plan_starts_by_slot(state)[slot])
        return None if start == NONE else start

    # Private helpers

    def _build_record(self, slot: int) -> JobRecord:
        return self._event_log.build_live_record(self.arena.state, self.arena.site, int(slot))

    def _get_slot(self, job_id: int) -> int:
        slot = self.arena.find_slot(job_id)
        if slot == NONE:
            raise ClusterRefused(f"Invalid job id specified: {job_id}")
        return slot

    def _get_pending_slot(self, job_id: int) -> int:
        slot = self._get_slot(job_id)
        if self._read_field(slot, layout.PHASE) == layout.PHASE_RUNNING:
            raise ClusterRefused(f"Job is no longer pending execution: {job_id}")
        return slot

    def _read_field(self, slot: int, field: int) -> int:
        return int(self.arena.get_live_records()[slot, field])


def _format_refusal(reason: str) -> str:
    """Return the reason of a refusal, in Slurm's own words if Slurm has words for it."""
    words = {
        "over MaxSubmitJobsPU": "Job violates accounting/QOS policy (job submit limit)",
        "no such partition": "Invalid partition name specified",
        "no such QOS": "Invalid qos specification",
    }
    return words.get(reason, f"Requested node configuration is not available: {reason}")
