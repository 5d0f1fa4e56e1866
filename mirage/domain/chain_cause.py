"""Values for who brought a chain into its state, why, and what the chain is at risk of.

What Mirage does depends on these values. `chains/explanations.py` turns them into sentences for
readers.
"""

from dataclasses import dataclass
from enum import StrEnum

from mirage.domain.job import JobId


class Actor(StrEnum):
    USER = "user"
    """The owner, or another user with the right to, asked for it."""
    MIRAGE = "mirage"
    """Mirage concluded it from the states of the links."""


class Reason(StrEnum):
    """Why a chain is in its state."""

    ASKED = "asked"
    NEVER_SEEN = "never-seen"
    """Slurm has never shown a job of the chain."""
    NEVER_STARTED = "never-started"
    """Its jobs were cancelled while they waited."""
    LINK_CANCELLED = "link-cancelled"
    ALL_LINKS_RAN = "all-links-ran"
    TOTAL_RAN = "total-ran"
    """Its links have run for as long as `Chain.total_s` asks."""
    LINK_ENDED = "link-ended"
    """Nothing followed that link. `Cause.detail` is the state that it ended in."""
    FAILED_FAST = "links-failed-fast"
    BRIEF = "links-brief"
    """Links in a row ran for less than a minute."""
    TURNED_AWAY = "link-turned-away"
    """The link's own guard ended it after earlier links had failed."""
    STANDBY_GONE = "standby-gone"
    """The standby is gone for the second time. `Cause.detail` is the state of its job."""
    OWN_LIMIT = "own-limit"
    """An active chain's standby waits for a limit that its predecessor takes up. `Cause.detail` is
    Slurm's word."""
    WAITS_FOR = "waits-for"
    """An active chain's link has its nodes and waits for the script of an earlier one to end.
    `Cause.detail` is the number of that link, and of its job."""
    UNRECORDED = "unrecorded"
    """An earlier release kept a sentence alone: `Cause.detail` is that sentence."""


class Risk(StrEnum):
    """Why the next link may start late."""

    NO_STANDBY = "NoStandby"
    VANISHED = "StandbyVanished"
    UNKNOWN = "LinkUnknown"
    REFUSED = "SubmitRefused"
    """Stored by an earlier release, which submitted links itself. `ChainRisk.detail` has Slurm's
    words."""
    LATE = "LateByForecast"
    """By the forecast, nine in ten such links start after their predecessor's end."""
    MOVE_REFUSED = "MoveRefused"
    """Slurm refused Mirage's last move of the link, or did not do it. `ChainRisk.detail` has
    Slurm's words."""
    HINDERED = "Hindered"
    """Slurm does not start the link, for a reason that has nothing to do with the queue.
    `ChainRisk.detail` is Slurm's word for the reason (`slurm.text.pending_reasons`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The actor and the reason behind a chain's state."""

    actor: Actor
    reason: Reason
    by: str = ""
    """The name of the user who asked."""
    link: int | None = None
    """The link that the cause names, and its job."""
    job_id: JobId | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRisk:
    """The risk of a chain, with the link and the job."""

    of: Risk
    link: int | None = None
    job_id: JobId | None = None
    detail: str = ""

    @property
    def word(self) -> str:
        """Return the risk as one word of a fixed set: Slurm's word if Slurm gives one."""
        return self.detail if self.of is Risk.HINDERED else self.of.value


def build_user_cause(by: str) -> Cause:
    return Cause(actor=Actor.USER, reason=Reason.ASKED, by=by)


def build_mirage_cause(
    reason: Reason, link: int | None = None, job_id: JobId | None = None, detail: str = ""
) -> Cause:
    return Cause(actor=Actor.MIRAGE, reason=reason, link=link, job_id=job_id, detail=detail)
