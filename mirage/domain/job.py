"""One Slurm batch job, as the queue or accounting shows it.

Instants are epoch seconds (int) and durations seconds, as in Slurm, the traces, the simulator and
the database (docs/decisions/0002). None is "not known" or "not yet".
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypedDict

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
    """The tasks of an array that one row stands for."""

    array_id: JobId
    count: int | None = 1
    """The number of tasks; None: not known, since Slurm cuts long lists off."""
    limit: int = 0
    """The most tasks that run at once (`--array=...%N`); 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a job. (cluster, job_id, submit) identifies it: Slurm reuses ids after a purge.

    Slurm shows one start and one end for every job, and what they mean depends on the state. Here
    each meaning has a field of its own. Parsers sort the instants with `place_instants`.
    """

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
    """Whether the job is a pending array, which is one row of the queue whatever its number of
    tasks."""
    heterogeneous: bool = False
    """Whether the job is the leader of a heterogeneous job, with the resources of all components.
    The history does not keep this value."""
    tasks: ArrayTasks | None = None
    """The tasks of an array that the row stands for; None: the row is no array's. Only dumps of
    sacct have this value, and the history does not keep it."""
    submit_line: str = ""

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


class JobInstants(TypedDict):
    """A job's instants, by the fields of `Job`."""

    start: int | None
    end: int | None
    planned_start: int | None
    expected_end: int | None
    cancelled_at: int | None


def place_instants(
    state: JobState, start: int | None, end: int | None, node_list: str = ""
) -> JobInstants:
    """Sort the start and the end that Slurm shows for a job into the fields that they mean.

    For a waiting job the start is planned, and the end means nothing. For a running job the end is
    expected by its time limit; a completing job's work has ended already. A job that left the queue
    without having run (`has_not_run`) has no start, and was cancelled at its end.

    Every parser must use this function, and nothing else may: a stored record keeps its instants.
    """
    instants = JobInstants(
        start=start, end=end, planned_start=None, expected_end=None, cancelled_at=None
    )
    if state in _WAITING:
        instants["start"], instants["planned_start"] = None, start
        instants["end"] = None
    elif state in _RUNNING:
        if state is not JobState.COMPLETING:
            instants["end"], instants["expected_end"] = None, end
    elif end is not None and has_not_run(state, start, end, node_list):
        instants["start"], instants["cancelled_at"] = None, end
    return instants


def has_not_run(
    state: JobState,
    start: int | None,
    end: int | None,
    node_list: str,
    *,
    unassigned: bool = False,
) -> bool:
    """Return whether a job that is over has not run, as far as its record shows.

    `unassigned`: Slurm says in words that the job got no nodes ("None assigned"). Without such
    words, accounting shows the end of a job that was cancelled while it waited also as its start. A
    job that failed in its first second has such a start too, but it ran, and so did a job whose
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
    """Compute the wait in seconds of a job that started at `start`. `database.jobs.job_times` has
    the same rule in SQL, and `snapshot.compute_waits_s` for columns.

    For the wait of a standby, pass as `submit` the instant at which it was freed or its predecessor
    ended. If a hold was lifted after that, `eligible` is later, so that a pause does not count.
    """
    return max(0, start - compute_ready_at(submit, eligible))


MAY_NOT_HAVE_RUN = frozenset({JobState.CANCELLED, JobState.DEADLINE, JobState.REVOKED})
