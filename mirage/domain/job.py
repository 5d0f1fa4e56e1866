"""One Slurm batch job, as the queue or the accounting tells it.

Instants are epoch seconds (int), durations seconds: what Slurm, the traces, the simulator and the
database all speak (docs/decisions/0002). None is "not known" or "not yet".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NewType, Self

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
    EXPEDITING = "EXPEDITING"
    """To be requeued before all other jobs once the epilogs of its nodes have failed (sbatch
    --requeue=expedite, since 25.11). Until then it waits, and may end up held."""
    REQUEUED = "REQUEUED"
    """Accounting's word for a run that ended by a requeue. The job has a newer record and waits
    again."""
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
    """A word that Mirage does not know. The job exists, and nothing else is concluded."""

    @property
    def is_waiting(self) -> bool:
        return self in _WAITING

    @property
    def is_running(self) -> bool:
        """True if the job holds nodes. A completing job still does, but its work has ended."""
        return self in _RUNNING

    @property
    def has_ended(self) -> bool:
        return self in _ENDED


_WAITING = frozenset(
    {
        JobState.PENDING,
        JobState.EXPEDITING,
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


@dataclass(frozen=True, slots=True)
class ArrayTasks:
    """What one row says of an array."""

    array_id: JobId
    count: int | None = 1
    """The tasks that the row stands for; None: not known, for Slurm cuts long lists."""
    limit: int = 0
    """The most tasks that run at once (`--array=...%N`); 0: no limit."""


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
    """Slurm's pending reason."""
    priority: int | None = None
    eligible: int | None = None
    start: int | None = None
    """When the job began to run; None: it has not run."""
    end: int | None = None
    """When the job ended, whether it had run or not."""
    elapsed_s: int | None = None
    """Seconds that the job ran, if that is not from start to end because it was suspended; so far,
    if it still runs. Only accounting has this value, and the history does not keep it."""
    planned_start: int | None = None
    """When Slurm's backfill plans to start the waiting job."""
    expected_end: int | None = None
    """When the time limit will end the running job."""
    cancelled_at: int | None = None
    """When the job left the queue without having run."""
    time_limit_s: int | None = None
    """Seconds; `timelimit.UNLIMITED`: there is no limit."""
    nodes: int = 1
    cpus: int = 0
    gpus: int | None = 0
    """None: the job has GPUs, and their number is not known."""
    memory_mib: int = 0
    """MiB over all its nodes; 0: not known. Only traces have this value, and the history does not
    keep it."""
    exit_code: str = ""
    dependency: str = ""
    node_list: str = ""
    comment: str = ""
    array: bool = False
    """A pending array stands in the queue as one row, whatever its number of tasks."""
    heterogeneous: bool = False
    """The leader of a heterogeneous job, with the resources of all its components. The history does
    not keep this value."""
    tasks: ArrayTasks | None = None
    """The tasks of an array that the row stands for; None: of none. Only dumps of sacct have this
    value, and the history does not keep it."""
    submit_line: str = ""

    def __post_init__(self) -> None:
        """Slurm tells one start and one end of every job, and its state what they mean. Each goes
        into the field of that meaning, whoever has read them."""
        if self.start is None and self.end is None:
            return
        if self.state in _WAITING:
            plan = self.planned_start if self.start is None else self.start
            self._set_instants(start=None, end=None, planned_start=plan)
        elif self.state in _RUNNING:
            if self.end is not None and self.state is not JobState.COMPLETING:
                self._set_instants(end=None, expected_end=self.end)
        elif has_not_run(self.state, self.start, self.end, self.node_list):
            self._set_instants(start=None, cancelled_at=self.end)

    @classmethod
    def from_history(cls, **fields: Any) -> Self:
        """A stored record, whose instants stand in the fields of their meaning: a job that was seen
        to run has run, though it was cancelled in its first second and its nodes are not known."""
        job = cls(**fields)
        job._set_instants(**{n: fields[n] for n in ("start", "end", "cancelled_at")})
        return job

    def _set_instants(self, **instants: int | None) -> None:
        for name, instant in instants.items():
            object.__setattr__(self, name, instant)

    @property
    def has_never_run(self) -> bool:
        """True if the job left the queue without having run."""
        return self.cancelled_at is not None

    @property
    def wait_s(self) -> int | None:
        """The job's wait in seconds; None: the job has not run."""
        return (
            None if self.start is None else compute_wait_s(self.start, self.submit, self.eligible)
        )


def has_not_run(
    state: JobState,
    start: int | None,
    end: int | None,
    node_list: str,
    *,
    unassigned: bool = False,
) -> bool:
    """Return whether a job that is over has not run, as far as its record tells.

    `unassigned` says that Slurm's word for its nodes is that it got none ("None assigned"). Where
    no word is known, accounting gives a job that was cancelled while it waited its end as its
    start. A job that failed in its first second has such a start as well, and ran; so did one whose
    nodes are known. A job that completed without a start did run, but its start is not known.
    """
    if start is None:
        return end is not None and state is not JobState.COMPLETED
    if node_list:
        return False
    return unassigned or (start == end and state in MAY_NOT_HAVE_RUN)


def compute_ready_at(submit: int, eligible: int | None) -> int:
    """Return the instant from which a job's wait counts.

    It is the later of submission and eligibility: a requeued job may be eligible before its
    submission.
    """
    return submit if eligible is None else max(eligible, submit)


def compute_wait_s(start: int, submit: int, eligible: int | None) -> int:
    """Compute how long a job waited that started then; `store.jobs.job_times` says the same in SQL
    and `snapshot.compute_waits_s` of columns.

    For the wait of a standby `submit` is when it was freed, or its predecessor ended: Slurm's own
    `eligible` is later where a hold was lifted in between, and a pause is no wait.
    """
    return max(0, start - compute_ready_at(submit, eligible))


MAY_NOT_HAVE_RUN = frozenset({JobState.CANCELLED, JobState.DEADLINE, JobState.REVOKED})
