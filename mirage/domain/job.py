"""One Slurm batch job, as the queue or the accounting tells it.

Instants are epoch seconds (int), durations seconds: what Slurm, the traces, the simulator and the
database all speak (docs/decisions/0002). None is "not known" or "not yet".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

JobId = NewType("JobId", int)


class JobState(StrEnum):
    """Slurm's job states, as `squeue -o %T` and `sacct -o State` spell them (squeue(1))."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    SIGNALING = "SIGNALING"
    STAGE_OUT = "STAGE_OUT"
    RESIZING = "RESIZING"
    REQUEUED = "REQUEUED"
    """Accounting's word for a run that ended so; the job has a newer record and waits again."""
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    REVOKED = "REVOKED"
    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    DEADLINE = "DEADLINE"
    FAILED = "FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    TIMEOUT = "TIMEOUT"
    UNKNOWN = "UNKNOWN"
    """A word Mirage does not know: the job is there, nothing is concluded from it."""

    @property
    def waiting(self) -> bool:
        return self in _WAITING

    @property
    def running(self) -> bool:
        """Holds nodes. A completing job still does, but its work has ended."""
        return self in _RUNNING

    @property
    def ended(self) -> bool:
        return self in _ENDED


_WAITING = frozenset(
    {
        JobState.PENDING,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.RESV_DEL_HOLD,
        JobState.SPECIAL_EXIT,
    }
)
_RUNNING = frozenset(
    {
        JobState.CONFIGURING,
        JobState.RUNNING,
        JobState.COMPLETING,
        JobState.STOPPED,
        JobState.SUSPENDED,
        JobState.SIGNALING,
        JobState.STAGE_OUT,
        JobState.RESIZING,
    }
)
_ENDED = frozenset(
    {
        JobState.BOOT_FAIL,
        JobState.CANCELLED,
        JobState.COMPLETED,
        JobState.DEADLINE,
        JobState.FAILED,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.PREEMPTED,
        JobState.REQUEUED,
        JobState.REVOKED,
        JobState.TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a job. (cluster, job_id, submit) names it: Slurm reuses ids after a purge."""

    job_id: JobId
    submit: int
    state: JobState
    user: str = ""
    uid: int | None = None
    account: str = ""
    partition: str = ""
    qos: str = ""
    name: str = ""
    reason: str = ""
    """Why a pending job waits, in Slurm's word."""
    priority: int | None = None
    eligible: int | None = None
    start: int | None = None
    """The start; for a pending job in the queue, the start that Slurm's backfill plans."""
    end: int | None = None
    """The end; for a running job in the queue, its end by the time limit."""
    elapsed_s: int | None = None
    """How long it ran, where that is not from start to end: it was suspended. Of one that runs, so
    far. Only accounting tells it, and the history does not keep it."""
    time_limit_s: int | None = None
    """`timelimit.UNLIMITED` where there is none."""
    nodes: int = 1
    cpus: int = 0
    gpus: int = 0
    memory_mib: int = 0
    """Over all its nodes; 0: not known. Only traces tell it, and the history does not keep it."""
    exit_code: str = ""
    dependency: str = ""
    node_list: str = ""
    comment: str = ""
    array: bool = False
    """A pending array stands in the queue as one row, whatever its number of tasks."""
    submit_line: str = ""

    @property
    def never_ran(self) -> bool:
        """Ended while it waited, which some accounting tells with a start that is the end; a job
        that failed in its first second has such a start as well, and ran."""
        return self.start is not None and self.start == self.end and self.state in _NEVER_STARTED

    @property
    def ready(self) -> int:
        """From when on Slurm could have started it, as far as is known."""
        return max(self.eligible or 0, self.submit)

    @property
    def waited_s(self) -> int | None:
        """Of a job as it is kept, whose start is no plan. None: it has not run."""
        return None if self.start is None or self.never_ran else max(0, self.start - self.ready)


_NEVER_STARTED = frozenset({JobState.CANCELLED, JobState.DEADLINE, JobState.REVOKED})
