"""Says whether there is something to learn today, in words that follow "reason:"."""

from dataclasses import dataclass
from datetime import UTC, datetime

from mirage.domain.time_units import DAY_S
from mirage.judging.learning_reason import DayLosses, find_reason_to_learn


@dataclass(frozen=True, slots=True)
class LearningReason:
    """Whether there is something to learn, and why or why not."""

    is_due: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPast:
    """What is known of earlier runs. Instants are epoch seconds."""

    trained_at: int | None
    """When the last training ended; None: nothing has been trained."""
    has_model: bool = False
    """Whether a model of the site is in use."""
    challenger: str | None = None
    """The model that stands for promotion; None: there is none."""
    proposed_at: int = 0
    """Since when it stands."""
    interrupted_at: int | None = None
    """When the run began that was interrupted and can go on; None: there is none."""
    losses: DayLosses | None = None
    """Of the forecasts of the model in use; None: there are none."""


def find_reason(past: LearningPast, *, forced: bool, every_days: int, now: int) -> LearningReason:
    """Find the reason to learn. While a model stands for promotion, nothing is trained: there is
    one challenger at a time."""
    if past.interrupted_at is not None:
        return LearningReason(True, f"the run of {_format(past.interrupted_at)} was interrupted")
    if forced:
        return LearningReason(True, "asked for by --now")
    if past.challenger is not None:
        since = _format(past.proposed_at)
        return LearningReason(False, f"{past.challenger} stands for promotion since {since}")
    reason = find_reason_to_learn(
        has_model=past.has_model,
        last_trained_at=past.trained_at,
        losses=past.losses,
        every_days=every_days,
        now=now,
    )
    if reason is not None:
        return LearningReason(True, reason)
    due = _format((past.trained_at or now) + every_days * DAY_S)
    return LearningReason(False, f"the next training is due on {due}")


def _format(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
