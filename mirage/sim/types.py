"""Types of what the simulator is given and what it tells: the site, its settings, jobs, events.

Every rule behind a field is in docs/reference/simulator.md. Times are epoch seconds, durations
seconds.
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
    """slurm.conf's SelectType: the unit that jobs are given."""

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
    """A quality of service and its limits; 0: no limit."""

    name: str = DEFAULT_QOS
    priority: int = 0
    overrides_max_time: bool = False
    """Flag PartitionTimeLimit: MaxTime of partitions does not bind its jobs."""
    max_jobs_pu: int = 0
    """Running jobs per user."""
    max_submit_pu: int = 0
    """Pending and running jobs per user; a job above it is refused."""
    max_cpus_pu: int = 0
    max_memory_mib_pu: int = 0
    max_gpus_pu: int = 0
    max_nodes_pu: int = 0
    """The four of MaxTRESPU, over the user's running jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes kept from jobs in [start, end)."""

    start: int
    end: int
    nodes: tuple[int, ...] = ()
    """Empty: every node."""
    name: str = ""


class Outage(StrEnum):
    """The change that happens to a node."""

    DOWN = "down"
    """Its jobs end there and then, and are requeued where they may be."""
    DRAIN = "drain"
    """Its jobs run on; no new ones."""
    RESUME = "resume"


class NodeEvent(NamedTuple):
    at: int
    node: int
    outage: Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """A cluster and slurm.conf's settings for it. The file that gives one:
    docs/admin/clusters.md."""

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
    """The first is the default. Empty: one, with `max_jobs_pu`."""
    shares: tuple[tuple[str, int], ...] = ()
    """Fair-share shares of accounts; 1 for those not named."""
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
    """PriorityFlags=ACCRUE_ALWAYS: age counts from submission, dependent and held jobs included."""
    max_jobs_pu: int = 0
    """Running jobs per user; 0: no limit."""
    sched_interval_s: int = 60
    """OFF: no main pass, also not after a change."""
    default_queue_depth: int = 100
    bf_interval_s: int = 30
    """OFF: no backfill pass, and no planned starts."""
    bf_window_s: int = 2 * DAY_S
    bf_resolution_s: int = 60
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    over_time_limit_s: int = 0
    """OverTimeLimit: how long a job may run beyond its limit. Plans go by the limit alone."""
    cancelled_jobs_run: bool = False
    """In a replay, a job that the log has cancelled while it waited may start before its
    cancellation. True: it runs as long as its user had waited. False: it runs for no time, as
    logged."""


class DependencyKind(StrEnum):
    """sbatch --dependency's words."""

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
    """The dependency of a chain's link."""
    return (Dependency(DependencyKind.AFTERANY, job_id),)


def build_planned_release(job_id: int, delay_s: int) -> tuple[Dependency, ...]:
    """The dependency of a link with a planned release: `afterany:JOB?after:JOB+MINUTES`. One of
    the two suffices (`any_dependency`)."""
    return (*build_afterany(job_id), Dependency(DependencyKind.AFTER, job_id, delay_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimJob:
    """A job as submitted, with what only its future knows: run time, failure, cancellation."""

    job_id: int = 0
    """0: the simulator gives one at injection."""
    submit: int = 0
    nodes: int = 1
    cpus: int = 0
    """CPUs per node if nodes are shared; 0: one."""
    memory_mib: int = 0
    """Per node."""
    gpus: int = 0
    """Per node."""
    exclusive: bool = False
    """Whole nodes, where nodes are shared."""
    time_limit_s: int
    run_s: int
    """Its run time without a time limit, in seconds."""
    fails: bool = False
    """Ends with a non-zero exit code."""
    user: str = ""
    account: str = ""
    partition: str = ""
    """Empty: the default one."""
    qos: str = ""
    """Empty: the default one."""
    name: str = ""
    comment: str = ""
    nice: int = 0
    begin: int = 0
    """--begin; 0: none."""
    held: bool = False
    """--hold: by its user."""
    dependencies: tuple[Dependency, ...] = ()
    """All must be met, or one where `any_dependency` is set."""
    any_dependency: bool = False
    """`?` between the dependencies, in place of commas."""
    node_list: tuple[int, ...] = ()
    """--nodelist: exactly these nodes, as many as `nodes`; empty: any."""
    array_id: int = 0
    """Tasks of one array have the same; 0: no array."""
    array_limit: int = 0
    """Running tasks of the array (`--array=...%N`); 0: no limit."""
    requeue: bool = True
    cancel_at: int | None = None
    """The instant at which its user cancels it if it still waits."""
    priority: int | None = None
    """The priority that Slurm shows at the simulator's first instant, for jobs of a real queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job's life so far, as it stood when it was asked for."""

    job: SimJob
    job_id: int
    submit: int
    state: JobState
    dependencies: tuple[Dependency, ...] = ()
    """Those not yet met."""
    any_dependency: bool = False
    """One of them is enough."""
    held: bool = False
    held_by_admin: bool = False
    node_list: tuple[int, ...] = ()
    """The nodes it asks for by number; empty: any."""
    eligible: int | None = None
    start: int | None = None
    end: int | None = None
    allocated: tuple[int, ...] = ()
    """The nodes it has or had."""
    priority: int = 0
    """As squeue prints it; 0 where it is not pending or held."""


class EventKind(StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"
    REQUEUED = "requeued"
    REFUSED = "refused"


class Event(NamedTuple):
    """Something that happened to a job."""

    at: int
    kind: EventKind
    job_id: int
