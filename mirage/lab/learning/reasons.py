"""Says whether there is something to learn today, in words that follow "reason:"."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S
from mirage.judging.owner_weighed_test import weigh_by_owner

BAND_DAYS = 14
"""The newest days with forecasts that are looked at."""
WORSE_DAYS = 11
"""The champion left its band if it forecast worse than `quantile` on so many of these days. Of two
equally good forecasts one is worse on 11 or more of 14 independent days in 29 of 1,000 cases."""
_WEEK_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class DayLosses:
    """The pinball losses of some days: a value a day, oldest first."""

    day: Ints
    """[D]: days since the epoch, UTC."""
    champion: Floats
    """[D]: the champion's mean loss on the day; each owner weighs the same."""
    quantile: Floats
    """[D]: that of `quantile`, on the same hand-overs."""
    measured_at: int = 0
    """Epoch seconds."""

    @classmethod
    def from_forecasts(
        cls,
        *,
        start_point: Ints,
        owner: Ints,
        champion: Floats,
        quantile: Floats,
        measured_at: int = 0,
    ) -> Self:
        """Average losses [E] of hand-overs by day; those without both losses (NaN) are left out."""
        has_both = np.isfinite(champion) & np.isfinite(quantile)
        at = np.asarray(start_point)[has_both]
        days, day_of = np.unique(at // DAY_S, return_inverse=True)
        weights = weigh_by_owner(at, np.asarray(owner)[has_both])
        total = np.bincount(day_of, weights, minlength=len(days))

        def average(losses: Floats) -> Floats:
            return np.bincount(day_of, weights * losses[has_both], minlength=len(days)) / total

        return cls(
            day=days,
            champion=average(champion),
            quantile=average(quantile),
            measured_at=measured_at,
        )

    @property
    def worse_days(self) -> int:
        """Return on how many of the newest `BAND_DAYS` days the champion's loss was the greater."""
        return int((self.champion > self.quantile)[-BAND_DAYS:].sum())


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
    """Find the reason to learn: no model yet, some days passed, or forecasts that have become worse
    than the rule's.

    While a model stands for promotion, nothing is trained: there is one challenger at a time. The
    same bad forecasts are a reason once: the models of that training have seen what they missed.
    """
    if past.interrupted_at is not None:
        return LearningReason(True, f"the run of {_format(past.interrupted_at)} was interrupted")
    if forced:
        return LearningReason(True, "asked for by --now")
    if past.challenger is not None:
        since = _format(past.proposed_at)
        return LearningReason(False, f"{past.challenger} stands for promotion since {since}")
    reason = _explain_due(past, every_days, now)
    if reason is not None:
        return LearningReason(True, reason)
    due = _format((past.trained_at or now) + every_days * DAY_S)
    return LearningReason(False, f"the next training is due on {due}")


def _explain_due(past: LearningPast, every_days: int, now: int) -> str | None:
    if past.trained_at is None:
        return "no training is on record" if past.has_model else "no model"
    age_s = now - past.trained_at
    if age_s >= every_days * DAY_S:
        return "a week passed" if every_days == _WEEK_DAYS else f"{every_days} days passed"
    losses = past.losses
    is_news = losses is not None and losses.measured_at > past.trained_at
    if losses is not None and is_news and losses.worse_days >= WORSE_DAYS:
        days = min(BAND_DAYS, len(losses.day))
        return (
            f"pinball left its band: worse than quantile on {losses.worse_days} of the newest "
            f"{days} days"
        )
    return None


def _format(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
