"""Says whether there is reason to learn anew: no model yet, a week passed, or forecasts that have
become worse than the rule's."""

from dataclasses import dataclass
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

NO_MODEL, FORECASTS_WORSE = "no model", "pinball left its band"


@dataclass(frozen=True, slots=True, kw_only=True)
class DayLosses:
    """The pinball losses of some days: a value a day, oldest first."""

    day: Ints
    """[D]: days since the epoch, UTC."""
    champion: Floats
    """[D]: the champion's mean loss on the day; each owner weighs the same."""
    quantile: Floats
    """[D]: that of `quantile`, on the same hand-overs."""

    @classmethod
    def from_forecasts(
        cls, *, start_point: Ints, owner: Ints, champion: Floats, quantile: Floats
    ) -> Self:
        """Average losses [E] of hand-overs by day; those without both losses (NaN) are left out."""
        known = np.isfinite(champion) & np.isfinite(quantile)
        at = np.asarray(start_point)[known]
        days, day_of = np.unique(at // DAY_S, return_inverse=True)
        weights = weigh_by_owner(at, np.asarray(owner)[known])
        total = np.bincount(day_of, weights, minlength=len(days))

        def average(losses: Floats) -> Floats:
            return np.bincount(day_of, weights * losses[known], minlength=len(days)) / total

        return cls(day=days, champion=average(champion), quantile=average(quantile))

    @property
    def worse_days(self) -> int:
        """Return on how many of the newest `BAND_DAYS` days the champion's loss was the greater."""
        return int((self.champion > self.quantile)[-BAND_DAYS:].sum())


def find_reason_to_learn(
    *,
    has_model: bool,
    last_trained_at: int | None,
    losses: DayLosses | None,
    every_days: int,
    now: int,
) -> str | None:
    """Return why there is something to learn; None if there is nothing.

    `last_trained_at`: when a training last ended, in epoch seconds; None: never. `losses`: of the
    champion's forecasts; None: there are none. A training of the last day is no reason to train
    again, whatever the forecasts say: its models have seen what they were wrong about.
    """
    if last_trained_at is None:
        return NO_MODEL if not has_model else "no training is on record"
    age_s = now - last_trained_at
    if age_s >= every_days * DAY_S:
        return "a week passed" if every_days == 7 else f"{every_days} days passed"  # noqa: PLR2004
    if losses is not None and age_s >= DAY_S and losses.worse_days >= WORSE_DAYS:
        days = min(BAND_DAYS, len(losses.day))
        return (
            f"{FORECASTS_WORSE}: worse than quantile on {losses.worse_days} of the newest {days} "
            "days"
        )
    return None
