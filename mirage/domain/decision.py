"""The facts of a hand-over that a policy is shown, and its answer."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from mirage.domain.chain import Position
from mirage.domain.handover import OVERLAP_PRICE
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
    """Held, with the release written into its dependency: Slurm alone carries that out."""
    SUBMIT = "submit"
    """Of a chain without standing jobs: the successor is submitted, eligible at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A forecast of the standby's wait, in seconds, if it became eligible now."""

    p50_s: float
    p10_s: float | None = None
    p90_s: float | None = None
    samples: int = 0


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
"""So many of the jobs that started last a view shows, in service and in replays."""
RECENT_HANDOVERS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyView:
    """Everything a policy may see at one decision instant. Nothing in it is later than `now`."""

    now: int
    predecessor_end: int
    """At the latest (`Link.get_planned_end`)."""
    predecessor_start: int | None = None
    """None: a whole time limit before its end."""
    cluster: str = ""
    """Its name, as cluster files have it; empty where it is not known."""
    partition: str
    nodes: int
    time_limit_s: int
    """Of the standby."""
    overlap_price: float = OVERLAP_PRICE
    jobs: Waits
    """Jobs of the partition that started lately."""
    handovers: Waits
    """Past hand-overs on this cluster of chains of this size class."""
    queue: Queue
    free_nodes: int
    observation: NDArray[np.float32] | None = None
    """[F], of `features.observation.spec`; None where it cannot be made."""
    unobserved: str = "there is no observation"
    """Why there is none."""
    window: NDArray[np.float32] | None = None
    """[W, F]: the observations of this run so far, ten minutes apart, the last one `observation`;
    None where they are not kept."""
    twin_s: NDArray[np.int32] | None = None
    """[19]: quantiles of the wait, were the standby eligible now, at `twin_features.LEVELS`,
    seconds: the twin's last answer. None where it was not asked."""
    position: Position = Position.HELD
    """Where the standby stands."""
    planned_start: int | None = None
    """Of the standby, as Slurm's backfill plans it where it stands; None: no plan is known."""
    can_pin: bool = False
    """It may stand pinned: the admin lets it, the predecessor's nodes are up, and they have no room
    for both links, so that it cannot start there before its predecessor ends."""
    max_overlap_s: int | None = None
    """How early before its predecessor's end it may start; None: nothing bounds it."""
    sent_back: bool = False
    """It started earlier than that once, and forecasts of its wait are believed no more."""
    accrues_always: bool = False
    """It earns age in every position: PriorityFlags=ACCRUE_ALWAYS."""

    @property
    def time_left_s(self) -> int:
        return self.predecessor_end - self.now


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A policy's answer, with the sentence an admin reads."""

    action: Action
    reason: str
    policy: str
    forecast: Forecast | None = None
    release_at: int | None = None
    """When its policy expects to release the standby; of a PLAN, when Slurm will. At or after the
    predecessor's end: never early. None: the policy does not say."""
