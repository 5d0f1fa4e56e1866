"""The facts of a hand-over that a policy sees, and the policy's decision."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mirage.domain.chain import OVERLAP_PRICE, Position
from mirage.domain.snapshot import Queue


class Mode(StrEnum):
    """The mode of a cluster or a partition: how far Mirage goes there."""

    OBSERVE = "observe"
    SHADOW = "shadow"
    """Decide and log, touch nothing: the default on install."""
    ACT = "act"


class Action(StrEnum):
    """A move of the standby successor, or none."""

    WAIT = "wait"
    FREE = "free"
    PIN = "pin"
    HOLD = "hold"
    PLAN = "plan"
    """Keep the standby held, with a planned release in its dependency, which Slurm carries out."""
    SUBMIT = "submit"
    """Submit the successor, eligible at once; for a chain of mode submit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A forecast of the standby's wait, in seconds, if it became eligible now."""

    p50_s: float
    p10_s: float | None = None
    p90_s: float | None = None
    samples: int = 0
    waits_s: tuple[int, ...] = ()
    """Equally likely waits, where a whole distribution is forecast; they are not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Waits known at the decision instant, oldest first; columns of equal length.

    `wait_s` = start - eligible of a started job, or start - freed of a past hand-over.
    """

    start: NDArray[np.int64]
    wait_s: NDArray[np.int64]
    nodes: NDArray[np.int64]
    time_limit_s: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.wait_s)


RECENT_JOBS = 1000
"""The number of jobs, the last that started, that a view shows, in service and in replays."""
RECENT_HANDOVERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """Everything a policy may see at one decision instant. Nothing in it is later than `now`."""

    now: int
    predecessor_end: int
    """When the predecessor ends at the latest (`Link.get_planned_end`)."""
    predecessor_start: int | None = None
    """When the predecessor started; None: a whole time limit before its end."""
    cluster: str = ""
    """The name of the cluster, as cluster files have it; empty: not known."""
    partition: str
    nodes: int
    time_limit_s: int
    """The standby's partition, nodes and time limit."""
    overlap_price: float = OVERLAP_PRICE
    jobs: Waits
    """The waits of jobs of the partition that started recently."""
    handovers: Waits
    """The waits of past hand-overs on this cluster, of chains of this size class."""
    queue: Queue
    free_nodes: int
    observation: NDArray[np.float32] | None = None
    """[F], as `observation.spec` defines it; None: it cannot be computed."""
    why_unobserved: str = "there is no observation"
    """Why there is no observation."""
    window: NDArray[np.float32] | None = None
    """[W, F]: the observations of this run so far, ten minutes apart. The last one is
    `observation`. None: they are not kept."""
    twin_s: NDArray[np.int32] | None = None
    """[19]: quantiles of the wait in seconds if the standby were eligible now, at
    `twin.twin_features.LEVELS`, by the twin's last answer. None: the twin was not asked."""
    why_no_twin: str = "the twin was not asked"
    """Why there is no answer of the twin."""
    position: Position = Position.HELD
    """The position of the standby."""
    planned_start: int | None = None
    """The standby's start that Slurm's backfill plans in its present position; None: not known."""
    can_pin: bool = False
    """Whether the standby may be pinned: the admin allows it, the predecessor's nodes are up, and
    they have no room for both links, so that it cannot start there before its predecessor ends."""
    max_overlap_s: int | None = None
    """Seconds before its predecessor's end at which the standby may start; None: unbounded."""
    floor_reached_at: int | None = None
    """When the predecessor will have worked for its floor (`policies.rules.overlap_bound`). Before
    this instant nothing is released. None: there is no floor."""
    nobody_waits: bool = False
    """Whether at the last look no job waited for nodes of the predecessor's partition. Then the
    standby starts at its predecessor's end, on the predecessor's nodes."""
    counts_no_wait: bool = False
    """Whether `max_overlap_s` bounds the release itself, as if the wait were 0. So it is if the
    standby once started earlier than `max_overlap_s` allows, or if the running link of an
    unregistered chain planned the release."""
    returns: int = 0
    """How often the standby may still give its nodes back, should it start early
    (`policies.rules.release_cost`)."""
    accrues_always: bool = False
    """Whether the standby earns age in every position (PriorityFlags=ACCRUE_ALWAYS)."""

    @property
    def time_left_s(self) -> int:
        return self.predecessor_end - self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A policy's decision, with a sentence for the admin."""

    action: Action
    reason: str
    policy: str
    forecast: Forecast | None = None
    release_at: int | None = None
    """When its policy expects to release the standby; of a PLAN, when Slurm will. At or after the
    predecessor's end: never early. None: the policy does not say."""
