"""What the simulator is given and what it tells: settings, jobs, records, events."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from mirage.domain.job import JobState

_DAY_S = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """One partition of whole nodes and slurm.conf's settings for it, times in seconds."""

    name: str = "demo"
    nodes: int = 76
    gpus_per_node: int = 4
    cpus_per_node: int = 64
    priority_weight_age: int = 7000
    priority_max_age_s: int = 7 * _DAY_S
    priority_weight_job_size: int = 100
    accrue_always: bool = False
    """PriorityFlags=ACCRUE_ALWAYS: age counts from submission, dependent and held jobs included."""
    max_jobs_pu: int = 0
    """Running jobs per user; 0: no limit."""
    bf_interval_s: int = 30
    bf_window_s: int = 2 * _DAY_S
    bf_resolution_s: int = 60
    bf_max_job_test: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """A job as submitted, with what only its future knows: run time and cancellation."""

    job_id: int = 0
    """0: the simulator gives one at injection."""
    submit: int = 0
    nodes: int = 1
    time_limit_s: int
    run_s: int
    """How long it would run without a limit."""
    user: str = ""
    partition: str = ""
    name: str = ""
    comment: str = ""
    after: int | None = None
    """`afterany:<job id>`: not eligible before that job has ended."""
    cancel_at: int | None = None
    """Its user cancels it then, if it still waits."""


@dataclass(slots=True)
class Record:
    """A job's life so far. Owned by the simulator: read it, do not write it."""

    job: SimJob
    job_id: int
    submit: int
    state: JobState = JobState.PENDING
    after: int | None = None
    held: bool = False
    pinned: int | None = None
    """Bits of the nodes it must have; None: any."""
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    allocated: int = 0
    """Bits of the nodes it has or had."""
    key: int = field(default=0, repr=False)
    """Its static place in the queue (priority.py)."""

    def copied(self) -> "Record":
        twin = Record(self.job, self.job_id, self.submit, self.state, self.after, self.held)
        twin.pinned, twin.eligible, twin.start = self.pinned, self.eligible, self.start
        twin.end, twin.allocated, twin.key = self.end, self.allocated, self.key
        return twin


class EventKind(StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"


class Event(NamedTuple):
    """Something that happened to a job."""

    at: int
    kind: EventKind
    job_id: int


class Entry(NamedTuple):
    """An eligible pending job, packed for the passes. Sorted: ascending `key`, then job id."""

    key: int
    job_id: int
    nodes: int
    time_limit_s: int
