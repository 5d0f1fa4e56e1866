"""The types of the simulator's input and output: the site, its settings, jobs, events.

The rule behind each field is in docs/reference/simulator.md. Instants are epoch seconds, durations
are seconds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mirage.domain.job import JobState
from mirage.domain.time_units import DAY_S

DEFAULT_PARTITION = "batch"
DEFAULT_QOS = "normal"
OFF = -1
"""The value of sched_interval and bf_interval that turns the scheduler off."""


class SelectType(StrEnum):
    """slurm.conf's SelectType: what a job is allocated."""

    LINEAR = "select/linear"
    """Whole nodes."""
    CONS_TRES = "select/cons_tres"
    """CPUs, memory and GPUs of nodes that jobs share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """`count` equal nodes, in the order of slurm.conf."""

    count: int
    cpus: int
    memory_mib: int = 0
    """0: memory is not counted."""
    gpus: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition; partitions may share nodes."""

    name: str = DEFAULT_PARTITION
    nodes: tuple[int, ...] = ()
    """Ascending node numbers, from 0; empty: every node."""
    priority_tier: int = 1
    """PriorityTier: jobs of a higher tier come before all others."""
    priority_job_factor: int = 1
    """PriorityJobFactor."""
    max_time_s: int = 0
    """MaxTime; 0: no limit."""
    exclusive: bool = False
    """OverSubscribe=EXCLUSIVE: whole nodes under cons_tres too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """A quality of service and its limits. A limit of 0 is no limit."""

    name: str = DEFAULT_QOS
    priority: int = 0
    overrides_max_time: bool = False
    """The flag PartitionTimeLimit: the MaxTime of partitions does not bind jobs of this QOS."""
    max_jobs_pu: int = 0
    """Running jobs per user."""
    max_submit_pu: int = 0
    """Pending and running jobs per user; a job above it is refused."""
    max_cpus_pu: int = 0
    max_memory_mib_pu: int = 0
    max_gpus_pu: int = 0
    max_nodes_pu: int = 0
    """The four limits of MaxTRESPU, summed over the user's running jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes that jobs may not use in [start, end)."""

    start: int
    end: int
    nodes: tuple[int, ...] = ()
    """Empty: every node."""
    name: str = ""


class Outage(StrEnum):
    """A change of a node's state."""

    DOWN = "down"
    """The node's jobs end at once, and are requeued if they allow it."""
    DRAIN = "drain"
    """The node's jobs run on; no new job starts there."""
    RESUME = "resume"


class NodeEvent(NamedTuple):
    at: int
    node: int
    outage: Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """A cluster and the settings of its slurm.conf. docs/admin/clusters.md describes the file."""

    name: str = "demo"
    slurm_version: str = ""
    """SLURM_VERSION, which decides whose backfill is simulated (slurm_release.py); empty: not
    known."""
    nodes: int = 76
    gpus_per_node: int = 4
    cpus_per_node: int = 64
    memory_mib_per_node: int = 0
    node_groups: tuple[NodeGroup, ...] = ()
    """Groups of equal nodes, if nodes differ. Their counts sum to `nodes`. Empty: all nodes are
    as the four fields above say."""
    partitions: tuple[Partition, ...] = (Partition(),)
    """The first is the default."""
    qos: tuple[Qos, ...] = ()
    """The first QOS is the default. Empty: there is one QOS, with `max_jobs_pu`."""
    shares: tuple[tuple[str, int], ...] = ()
    """The fair-share shares of accounts; 1 for accounts not named."""
    reservations: tuple[Reservation, ...] = ()
    node_events: tuple[NodeEvent, ...] = ()
    select_type: SelectType = SelectType.LINEAR
    priority_weight_age: int = 7000
    priority_max_age_s: int = 7 * DAY_S
    priority_weight_job_size: int = 100
    priority_favor_small: bool = False
    priority_weight_partition: int = 0
    priority_weight_qos: int = 0
    priority_weight_fairshare: int = 0
    priority_decay_half_life_s: int = 7 * DAY_S
    priority_calc_period_s: int = 300
    accrue_always: bool = False
    """PriorityFlags=ACCRUE_ALWAYS: age counts from submission, also for dependent and held jobs."""
    max_jobs_pu: int = 0
    """The most running jobs of one user; 0: no limit."""
    sched_interval_s: int = 60
    """The seconds between main passes. OFF: no main pass at all."""
    default_queue_depth: int = 100
    bf_interval_s: int = 30
    """The seconds between backfill passes. OFF: no backfill pass, and no planned starts."""
    bf_window_s: int = 2 * DAY_S
    bf_resolution_s: int = 60
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    over_time_limit_s: int = 0
    """OverTimeLimit: the seconds that a job may run beyond its time limit. Plans ignore it."""
    cancelled_jobs_run: bool = False
    """In a replay, a job that was cancelled while it waited may start before that instant. True: it
    runs for as long as its user had waited. False: it runs for 0 s, as logged."""


class DependencyKind(StrEnum):
    """The words of sbatch --dependency."""

    AFTER = "after"
    AFTERANY = "afterany"
    AFTEROK = "afterok"
    AFTERNOTOK = "afternotok"


class Dependency(NamedTuple):
    kind: DependencyKind
    job_id: int
    delay_s: int = 0
    """For `after`: the job may start this many seconds after the start of that job
    (`after:JOB+MINUTES`)."""


def build_afterany(job_id: int) -> tuple[Dependency, ...]:
    """Build the dependency of a chain's link on its predecessor."""
    return (Dependency(DependencyKind.AFTERANY, job_id),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """A job as submitted, with its future: run time, failure, cancellation."""

    job_id: int = 0
    """The job id; 0: the simulator assigns one."""
    submit: int = 0
    nodes: int = 1
    cpus: int = 0
    """CPUs per node if nodes are shared; 0 counts as 1."""
    memory_mib: int = 0
    """MiB per node."""
    gpus: int = 0
    """GPUs per node."""
    exclusive: bool = False
    """Whether the job takes whole nodes where nodes are shared."""
    time_limit_s: int
    run_s: int
    """The run time that the job would have without a time limit, seconds."""
    fails: bool = False
    """Whether the job ends with a non-zero exit code."""
    user: str = ""
    account: str = ""
    partition: str = ""
    """The partition; empty: the default one."""
    qos: str = ""
    """The QOS; empty: the default one."""
    name: str = ""
    comment: str = ""
    nice: int = 0
    begin: int = 0
    """--begin, epoch seconds; 0: none."""
    held: bool = False
    """--hold: a hold by the job's user."""
    dependencies: tuple[Dependency, ...] = ()
    """All must be met; with `any_dependency` one suffices."""
    any_dependency: bool = False
    """Whether `?` stands between the dependencies instead of commas."""
    node_list: tuple[int, ...] = ()
    """--nodelist: exactly these nodes, as many as `nodes`; empty: any nodes."""
    array_id: int = 0
    """The number that all tasks of one array share; 0: no array."""
    array_limit: int = 0
    """The most running tasks of the array (`--array=...%N`); 0: no limit."""
    requeue: bool = True
    cancel_at: int | None = None
    """The instant at which the user cancels the job if it still waits; None: never."""
    priority: int | None = None
    """The priority that Slurm shows at the simulator's first instant, for jobs of a real queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job's life up to the instant of the query."""

    job: SimJob
    job_id: int
    submit: int
    state: JobState
    dependencies: tuple[Dependency, ...] = ()
    """The dependencies that are not yet met."""
    any_dependency: bool = False
    """Whether one met dependency suffices."""
    held: bool = False
    held_by_admin: bool = False
    node_list: tuple[int, ...] = ()
    """The numbers of the nodes that the job asks for; empty: any nodes."""
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    allocated: tuple[int, ...] = ()
    """The nodes that the job has or had."""
    priority: int = 0
    """The priority as squeue prints it; 0 for a job that is held or not pending."""


class EventKind(StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"
    REQUEUED = "requeued"
    REFUSED = "refused"


class Event(NamedTuple):
    """An event of a job."""

    at: int
    kind: EventKind
    job_id: int
