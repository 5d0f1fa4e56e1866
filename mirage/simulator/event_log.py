"""Turns the log that kernels write into events and job records."""

from bisect import bisect_left
from typing import Final, Self

from mirage.domain.arrays import Ints
from mirage.domain.job import JobState
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import FRACTION_BITS, NONE, RECORD, get_section
from mirage.simulator.packing.workload import Workload
from mirage.simulator.types import Dependency, DependencyKind, Event, EventKind, JobRecord, SimJob

_EVENTS: Final = (
    EventKind.SUBMITTED,
    EventKind.STARTED,
    EventKind.ENDED,
    EventKind.REQUEUED,
    EventKind.REFUSED,
)
END_STATES: Final = {
    layout.END_COMPLETED: JobState.COMPLETED,
    layout.END_FAILED: JobState.FAILED,
    layout.END_TIMEOUT: JobState.TIMEOUT,
    layout.END_CANCELLED: JobState.CANCELLED,
    layout.END_NODE_FAIL: JobState.NODE_FAIL,
}
_KINDS: Final = {
    layout.ON_START: DependencyKind.AFTER,
    layout.ON_END: DependencyKind.AFTERANY,
    layout.ON_OK: DependencyKind.AFTEROK,
    layout.ON_NOT_OK: DependencyKind.AFTERNOTOK,
}


class EventLog:
    """Reads the log of one simulator, and keeps the records of jobs that have ended."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.injected: dict[int, SimJob] = {}
        """Injected jobs by job id. Forks share the mapping: from the first one on it is replaced,
        and never changed."""
        self._ended: list[JobRecord] = []
        self._ended_at: list[int] = []

    def copy(self) -> Self:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._ended, copy._ended_at = list(self._ended), list(self._ended_at)
        return copy

    def read_events(self, state: Ints) -> list[Event]:
        """Return the events in the log, and empty the log."""
        entries = get_section(state, layout.LOG)[: state[layout.LOGGED]].tolist()
        state[layout.LOGGED] = 0
        events, i = [], 0
        while i < len(entries):
            at, event, job_id = entries[i : i + 3]
            events.append(Event(at, _EVENTS[event], job_id))
            next_entry = i + layout.LOG_HEAD + entries[i + 8]
            if event == layout.EVENT_ENDED:
                self._record_end(entries[i:next_entry])
            i = next_entry
        return events

    def _record_end(self, entry: list[int]) -> None:
        at, _, job_id, end_state, submit, eligible, start, row = entry[:8]
        record = JobRecord(
            job=self._find_job(job_id, row),
            job_id=job_id,
            submit=submit,
            state=END_STATES[end_state],
            eligible=_to_instant(eligible),
            start=_to_instant(start),
            end=at,
            allocated=tuple(sorted(entry[layout.LOG_HEAD :])),
        )
        self._ended.append(record)
        self._ended_at.append(at)

    def _find_job(self, job_id: int, row: int) -> SimJob:
        return self.injected[job_id] if row == NONE else self._workload.jobs[row]

    def find_ended(self, job_id: int) -> JobRecord | None:
        """Find the job of that id that ended last; None if none did."""
        return next((r for r in reversed(self._ended) if r.job_id == job_id), None)

    def list_ended_since(self, since: int) -> list[JobRecord]:
        """List the jobs that ended at `since` or later, ascending by end; epoch seconds."""
        return self._ended[bisect_left(self._ended_at, since) :]

    def forget_ended(self, before: int) -> None:
        """Forget the jobs that ended before an instant, epoch seconds."""
        first = bisect_left(self._ended_at, before)
        forgotten = {r.job_id for r in self._ended[:first]}
        self._ended, self._ended_at = self._ended[first:], self._ended_at[first:]
        self.injected = {i: job for i, job in self.injected.items() if i not in forgotten}

    def build_live_record(self, state: Ints, site: Ints, slot: int) -> JobRecord:
        """Build the record of a pending or running job."""
        row = get_section(state, layout.LIVE)[slot * RECORD : (slot + 1) * RECORD].tolist()
        is_running = row[layout.PHASE] == layout.PHASE_RUNNING
        return JobRecord(
            job=self._find_job(row[layout.ID], row[layout.ROW]),
            job_id=row[layout.ID],
            submit=row[layout.SUBMIT],
            state=JobState.RUNNING if is_running else JobState.PENDING,
            dependencies=_list_unmet_dependencies(state, slot),
            any_dependency=bool(row[layout.ANY_OF]),
            held=bool(row[layout.HELD]),
            held_by_admin=row[layout.HELD] == layout.ADMIN_HOLDS,
            node_list=_list_chain_nodes(state, row[layout.PIN]),
            eligible=_to_instant(row[layout.ELIGIBLE]),
            start=_to_instant(row[layout.START]),
            allocated=_list_chain_nodes(state, row[layout.ALLOCATED]),
            priority=_compute_priority(state, site, row),
        )


def _to_instant(instant: int) -> int | None:
    return None if instant == NONE else instant


def _list_chain_nodes(state: Ints, cell: int) -> tuple[int, ...]:
    names, nexts = get_section(state, layout.CELL_NODE), get_section(state, layout.CELL_NEXT)
    numbers = []
    while cell != NONE:
        numbers.append(int(names[cell]))
        cell = int(nexts[cell])
    return tuple(sorted(numbers))


def _list_unmet_dependencies(state: Ints, slot: int) -> tuple[Dependency, ...]:
    """List the dependencies that can still be met. A dependency that can never be met has NONE in
    the place of its target's slot."""
    edges = get_section(state, layout.EDGE)[: state[layout.EDGES] * layout.EDGE_COLUMNS]
    live = get_section(state, layout.LIVE)
    return tuple(
        Dependency(_KINDS[kind], int(live[target * RECORD + layout.ID]), delay_s)
        for dependent, target, kind, delay_s in edges.reshape(-1, layout.EDGE_COLUMNS).tolist()
        if dependent == slot and target != NONE
    )


def _compute_priority(state: Ints, site: Ints, row: list[int]) -> int:
    """Compute the priority that squeue prints.

    Slurm's multifactor plugin gives a held job 0, and a job that is not yet eligible 1.
    """
    if row[layout.PHASE] == layout.PHASE_RUNNING or row[layout.HELD]:
        return 0
    if row[layout.PHASE] != layout.PHASE_ELIGIBLE:
        return 1
    since = row[layout.SUBMIT] if site[layout.SITE_ACCRUE] else row[layout.ELIGIBLE]
    age = min(int(site[layout.SITE_MAX_AGE]), int(state[layout.NOW]) - since)
    fair = int(get_section(state, layout.FAIR_VALUE)[row[layout.ASSOCIATION]])
    return (row[layout.STATIC] + fair + int(site[layout.SITE_RATE]) * age) >> FRACTION_BITS
