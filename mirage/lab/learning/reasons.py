"""Says whether there is a reason to learn today."""

from dataclasses import dataclass
from datetime import UTC, datetime

from mirage.domain.time_units import DAY_S


@dataclass(frozen=True, slots=True)
class LearningReason:
    """Whether there is something to learn, and why, in words after a colon."""

    is_given: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPast:
    """What is known of earlier runs. Instants are epoch seconds."""

    trained_at: int | None
    """When the last training ended; None: nothing has been trained."""
    challenger: str | None = None
    """The model that stands for promotion; None: there is none."""
    proposed_at: int = 0
    """Since when it decides in shadow."""
    interrupted_at: int | None = None
    """When the run began that was interrupted and can go on; None: there is none."""
    lost_band: str | None = None
    """Why the forecast of the model in use is no longer good enough; None: it is."""


def find_reason(past: LearningPast, *, forced: bool, every_days: int, now: int) -> LearningReason:
    """Find the reason to learn. While a model stands for promotion, nothing is trained: there is
    one challenger at a time."""
    if past.interrupted_at is not None:
        return LearningReason(True, f"the run of {_format(past.interrupted_at)} was interrupted")
    if forced:
        return LearningReason(True, "asked for by --now")
    if past.challenger is not None:
        since = _format(past.proposed_at)
        return LearningReason(False, f"{past.challenger} decides in shadow since {since}")
    if past.trained_at is None:
        return LearningReason(True, "no model of this site has been trained yet")
    return _find_change(past, past.trained_at, every_days, now)


def _find_change(past: LearningPast, trained_at: int, every_days: int, now: int) -> LearningReason:
    days = (now - trained_at) // DAY_S
    if days >= every_days:
        return LearningReason(True, f"{days} days have passed since the last training")
    if past.lost_band is not None:
        return LearningReason(True, past.lost_band)
    due = _format(trained_at + every_days * DAY_S)
    return LearningReason(False, f"the last training was {days} days ago, the next is due on {due}")


def _format(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
