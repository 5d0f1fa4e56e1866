"""Chains and links. A chain keeps one computation running over many jobs, its links."""

import hashlib
import re
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NewType

from mirage.domain.chain_cause import Actor, Cause, ChainRisk
from mirage.domain.job import JobId, JobState
from mirage.domain.time_units import HOUR_S
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import IllegalTransition

ChainId = NewType("ChainId", str)

OVERLAP_PRICE = 0.5
"""λ: the cost of an hour of overlap in hours of interruption, unless the user says otherwise."""

MAX_LINKS = 1000
"""The most links of a chain: a week of links of ten minutes. More is a typing error."""

MAX_RETURNS = 9
"""The most returns of a link that a user may ask for."""

_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH, _ID_TIE, _ID_TIE_DIGITS = 20, 4, 5

_MARK = re.compile(r"(?:^|\s)mirage:(?P<chain>[a-z0-9]{8,32}):(?P<index>[1-9]\d{0,5})(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark by which Slurm shows that a job is a link: `mirage:<chain>:<link>` in its comment."""

    chain_id: ChainId
    index: int

    def __str__(self) -> str:
        return f"mirage:{self.chain_id}:{self.index}"


def find_mark(comment: str) -> Mark | None:
    """Return the last mark in a job's comment; None: there is none. The last one counts, since the
    wrapper appends its mark to the user's comment."""
    matches = list(_MARK.finditer(comment))
    if not matches:
        return None
    return Mark(ChainId(matches[-1]["chain"]), int(matches[-1]["index"]))


def is_made_for(chain_id: ChainId, uid: int) -> bool:
    """Return whether the id may be one of this user's chains.

    The last four characters of the wrapped sbatch's ids are a hash of the other characters and the
    user's uid (make_id in mirage_slurm/wrapper/chain.py). An id of another form tells
    nothing, so the answer for it is True.
    """
    if len(chain_id) != _ID_LENGTH or not set(chain_id) <= set(_ID_ALPHABET):
        return True
    random_part, tie = chain_id[:-_ID_TIE], chain_id[-_ID_TIE:]
    bits = int(
        hashlib.sha256(f"{random_part}:{uid}".encode("ascii")).hexdigest()[:_ID_TIE_DIGITS], 16
    )
    return tie == "".join(_ID_ALPHABET[bits >> low & 31] for low in (15, 10, 5, 0))


MAX_OVERLAP_S = 4 * 3600
"""The largest overlap that a chain allows by default."""
_OVERLAP_SHARE = 4


def get_default_overlap_s(time_limit_s: int | None) -> int:
    """Return how early a link may start, in seconds, where its user has not said.

    It is four hours, or a quarter of the time limit where that is less. The links' own rule is in
    mirage_slurm/carrier/overlap.sh.
    """
    if time_limit_s is None or time_limit_s == UNLIMITED:
        return MAX_OVERLAP_S
    return min(MAX_OVERLAP_S, time_limit_s // _OVERLAP_SHARE)


class Presubmit(StrEnum):
    """The party that puts the links into the queue."""

    NEXT = "next"
    """Each link submits its successor when it starts."""
    ALL = "all"
    """The user's submission submits all links, for sites where nodes may not submit."""


class Style(StrEnum):
    """The style of a link that starts early: what it does beside its predecessor."""

    SEQUENTIAL = "sequential"
    """It holds its nodes, and does not run the script until the predecessor has ended."""
    CONCURRENT = "concurrent"
    """It runs its script at once. Rows without a style, from older releases, mean this style
    too."""
    SWITCH = "switch"
    """The predecessor saves and ends early."""
    WAIT = "wait"
    """The successor waits, warm, for the predecessor's end."""
    SERVE = "serve"
    """The predecessor drains once the successor serves."""


class ChainMode(StrEnum):
    """The mode of a chain: it tells whether the successor stands in the queue."""

    STANDBY = "standby"
    SUBMIT = "submit"
    """The successor is submitted at the moment at which it is to be eligible."""


class ChainState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    """No further link starts until somebody resumes the chain. The running link continues."""
    FINISHED = "finished"
    """All links ran, or the user reported that the work is done."""
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in {ChainState.FINISHED, ChainState.CANCELLED, ChainState.FAILED}


_NEXT_CHAIN: dict[ChainState, frozenset[ChainState]] = {
    ChainState.ACTIVE: frozenset(ChainState) - {ChainState.ACTIVE},
    ChainState.PAUSED: frozenset(ChainState) - {ChainState.PAUSED},
    ChainState.FINISHED: frozenset(),
    ChainState.CANCELLED: frozenset(),
    ChainState.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain; its owner is the uid that Slurm reports for its jobs."""

    chain_id: ChainId
    uid: int
    user: str = ""
    state: ChainState = ChainState.ACTIVE
    links_planned: int | None = None
    """The planned number of links; None: the chain was found in Slurm without a registration, and
    only its links know the number."""
    policy: str | None = None
    """The chain's policy; None: the cluster's default."""
    overlap_price: float = OVERLAP_PRICE
    """What an hour of overlap costs, in hours of interruption."""
    asked_price: float | None = None
    """The price that its user gave; None: Mirage computes it by the style
    (`chains.overlap_price`)."""
    start_up_s: int | None = None
    """Seconds of a link's start-up in style switch, by the chain's own hand-overs; None: none
    yet."""
    missed_s: int | None = None
    """Seconds of interruption that its computed price expects; None: no price has been computed."""
    total_s: int | None = None
    """The chain ends when its links have run this many seconds in total; None: it ends after
    `links_planned` links."""
    max_overlap_s: int | None = None
    """Seconds before its predecessor's end at which a link may start. The guard of a link that
    starts earlier sends it back into the queue. 0: links never overlap; None: the default
    (`get_allowed_overlap_s`)."""
    presubmit: Presubmit = Presubmit.NEXT
    style: Style | None = None
    mode: ChainMode = ChainMode.STANDBY
    min_runtime_s: int | None = None
    """A link that fails after less than this many seconds has failed fast; None: ten minutes."""
    max_returns: int | None = None
    """How often an early link may give its nodes back; None: not stated. Links of older plugins
    state nothing and never give nodes back."""
    created_at: int = 0
    cause: Cause | None = None
    """Who brought the chain into this state, and why; None: the chain simply continues."""
    at_risk: ChainRisk | None = None
    resumed_at: int | None = None
    """When somebody last resumed the chain."""
    registered_job: JobId | None = None
    """The first link's job, by the registration; None: the registration named none, or there was
    none."""

    @property
    def is_registered(self) -> bool:
        """True if the chain was registered by its user, or for its user."""
        return self.links_planned is not None

    @property
    def asks_to_end(self) -> bool:
        """True if a link, as soon as it is ready, asks its predecessor to end."""
        return self.style in {Style.SWITCH, Style.SERVE}

    @property
    def actor(self) -> Actor | None:
        """The party that brought the chain into its state; None: there is no cause."""
        return None if self.cause is None else self.cause.actor

    def get_allowed_overlap_s(self, predecessor: "Link | None") -> int:
        """Return how early the successor may start, in seconds before the predecessor's end.

        `predecessor` None: no link is known yet.
        """
        if self.max_overlap_s is not None:
            return self.max_overlap_s
        limit_s = None if predecessor is None else predecessor.time_limit_s
        if self.style is Style.SWITCH and limit_s is not None and limit_s != UNLIMITED:
            return limit_s  # nothing runs twice: as early as its predecessor starts
        if self.style is None:  # its links are from before there was a default for each time limit
            return MAX_OVERLAP_S if self.is_registered else 0
        return get_default_overlap_s(limit_s)

    def count_allowed_returns(self, most: int = MAX_RETURNS) -> int:
        """Return how often an early link gives its nodes back at most, where an admin allows
        `most`. mirage_may_return of mirage_slurm/carrier/overlap.sh knows the same chains."""
        stands = self.mode is ChainMode.STANDBY and self.presubmit is Presubmit.NEXT
        if self.style is not Style.SEQUENTIAL or not stands or self.max_overlap_s == 0:
            return 0
        return min(self.max_returns or 0, most)

    def move_to(self, target: ChainState, cause: Cause | None = None) -> "Chain":
        if target not in _NEXT_CHAIN[self.state]:
            if target == self.state:
                raise IllegalTransition(f"chain {self.chain_id} is {self.state} already")
            raise IllegalTransition(
                f"chain {self.chain_id} is {self.state}: it cannot become {target}"
            )
        return replace(self, state=target, cause=cause, at_risk=None)


class LinkState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class Planner(StrEnum):
    """The party that wrote a standby's planned release into its dependency."""

    SERVICE = "service"
    LINK = "link"
    """The running link, without a service."""
    USER = "user"
    """The chain's owner or an admin, by hand. Mirage leaves such a plan as it is."""


class Position(StrEnum):
    """The position of a standby successor."""

    HELD = "held"
    """Behind `afterany:<predecessor>`, with a planned release or without."""
    PINNED = "pinned"
    """Eligible, but only on the predecessor's own nodes."""
    FREE = "free"
    """Eligible anywhere."""


_NEXT_LINK: dict[LinkState, frozenset[LinkState]] = {
    LinkState.PENDING: frozenset({LinkState.RUNNING, LinkState.ENDED}),
    # Back to PENDING: Slurm requeues a job after preemption or node failure.
    LinkState.RUNNING: frozenset({LinkState.ENDED, LinkState.PENDING}),
    LinkState.ENDED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link: one job of a chain. Index 1 is the chain's first job."""

    chain_id: ChainId
    index: int
    job_id: JobId
    submit: int
    state: LinkState = LinkState.PENDING
    position: Position = Position.HELD
    partition: str = ""
    account: str = ""
    nodes: int = 1
    time_limit_s: int | None = None
    eligible: int | None = None
    freed_at: int | None = None
    """When Mirage, or a planned release in Slurm, made the link eligible; None: not yet."""
    freed_by: Planner | None = None
    """Who released the link or planned its release."""
    plan_min: int | None = None
    """Minutes after its predecessor's start at which the link's dependency makes it eligible; None:
    the dependency has no planned release."""
    planned_release: int | None = None
    """The instant of the planned release; None also while the predecessor has not started."""
    planned_by: Planner | None = None
    """Who planned the release; USER without a plan: somebody removed a plan by hand."""
    start: int | None = None
    end: int | None = None
    end_state: JobState | None = None
    seen_at: int = 0
    """The instant of the last snapshot that showed the link's job."""
    reason: str = ""
    """Slurm's pending reason, without lists of nodes; empty once the job no longer waits."""
    hindered: str = ""
    """The last cause of this wait that no forecast could know (`slurm.text.pending_reasons`): a
    hold, a limit, maintenance. Such a wait neither judges a forecast nor teaches one."""
    planned_start: int | None = None
    """The start that Slurm plans while the job waits, by squeue; None: Slurm plans none, for
    example for a held job."""
    held_at: int | None = None
    """When Mirage held the job; None: Mirage does not hold it."""
    expected_end: int | None = None
    """When Slurm will end the running job, by squeue."""
    replaced_at: int | None = None
    """When the link's job last replaced a job that was gone without having run."""
    returns: int = 0
    """How many jobs of the link gave their nodes back beside the running predecessor."""
    returned_s: int = 0
    """Seconds for which these jobs held the link's nodes."""
    returned_at: int | None = None
    """When the last of these jobs ended."""
    returned_left_s: int | None = None
    """Seconds that the predecessor had left then, by its time limit; None: it had no known end."""
    returned_wait_s: int | None = None
    """Seconds that the last of these jobs had waited once eligible; None: not known."""

    @property
    def returned_node_h(self) -> float:
        """Return the node-hours that the link held and gave back."""
        return self.returned_s / HOUR_S * self.nodes

    @property
    def has_vanished(self) -> bool:
        """True if the link ended without having run: cancelled while it waited, or past its
        deadline."""
        return self.state is LinkState.ENDED and self.start is None

    def replace(self, **values: Any) -> "Link":
        """Return the link with these values. If nothing changes, as at most looks, it is this very
        object."""
        has_values = all(getattr(self, name) == value for name, value in values.items())
        return self if has_values else replace(self, **values)

    def move_to(self, target: LinkState) -> "Link":
        if target is self.state:
            return self
        if target not in _NEXT_LINK[self.state]:
            raise IllegalTransition(
                f"link {self.chain_id}:{self.index} is {self.state}: it cannot become {target}"
            )
        return replace(self, state=target)

    def get_standing_release(self) -> int | None:
        """Return when the plan in the waiting link's dependency makes it eligible; None: none does.

        A plan makes nothing eligible while Slurm gives another reason than the dependency: a hold,
        a begin time, a dependency that cannot be met.
        """
        is_waiting = self.state is LinkState.PENDING and self.position is Position.HELD
        return self.planned_release if is_waiting and self.reason in _BEHIND else None

    def get_planned_end(self) -> int | None:
        """Return when Slurm ends the link's job at the latest; None when unknown or unlimited.

        Slurm ends it by its time limit, or later: time for which a job was suspended does not
        count. Slurm's word is earlier where the job is being preempted, and may run again.
        """
        if self.start is None or self.time_limit_s is None or self.time_limit_s == UNLIMITED:
            return None
        return max(self.start + self.time_limit_s, self.expected_end or 0)


_BEHIND = frozenset({"", "None", "Dependency"})
"""Slurm's reasons for a job that waits only for its dependency. Not every answer has a reason."""

get_observed_values = attrgetter(*(field.name for field in fields(Link) if field.name != "seen_at"))
"""Returns the values of a link that a look at the queue may change. `seen_at` is not among them: it
changes at every look."""
