"""Tests whether a new policy is cheaper than the old one on the same hand-overs, beyond luck."""

from dataclasses import dataclass
from typing import Self

from mirage.judging.day_bootstrap import (
    compute_interval,
    compute_means,
    count_days,
    draw_day_counts,
)
from mirage.judging.evaluation import HandoverOutcomes

FEWEST_DAYS = 6
"""The fewest days that are compared. With fewer, all days may favour a policy by luck, and then all
resamples favour it too. Five days all favour an equal policy once in 32 tries, six days once in 64;
the upper end of a 95 % interval may be wrong once in 40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean cost a hand-over of the new policy less the old one's, in hours."""

    mean_h: float
    interval_h: tuple[float, float]
    """The 95 % interval over resampled days."""
    handovers: int
    days: int

    @classmethod
    def from_outcomes(
        cls, new: HandoverOutcomes, old: HandoverOutcomes, overlap_price: float
    ) -> Self:
        """Compare two policies. `new` and `old` have the same hand-overs in the same order; there
        must be one at least."""
        differences_h = new.compute_cost_h(overlap_price) - old.compute_cost_h(overlap_price)
        counts = draw_day_counts(new.start_point)
        interval_h = compute_interval(compute_means(counts, differences_h))
        assert interval_h is not None  # noqa: S101 - there is a hand-over, so each resample has some
        return cls(
            mean_h=float(differences_h.mean()),
            interval_h=interval_h,
            handovers=len(differences_h),
            days=count_days(new.start_point),
        )

    @property
    def is_cheaper(self) -> bool:
        """Return whether the new policy beats the old one: the whole interval lies below zero.

        A lower mean is no proof. If two policies are equally good, the new one has the lower mean
        every other time, and every retraining is another try. If the interval's upper end is at
        zero or above, a policy that is no better, or worse, may show such results by luck. The old
        policy goes on to cost what it has cost so far. A worse policy costs hours at each hand-over
        until somebody notices. So in doubt the old policy stays.

        A new policy that is only equal is accepted 4 times in 100 with three weeks of days. With
        six days, whose resamples are a little too alike, it is accepted 9 times. If one load lasts
        three days, these numbers are 17 and 21 (tests/integration/judging/test_paired_test.py). A
        worse policy is accepted more seldom.
        """
        return self.days >= FEWEST_DAYS and self.interval_h[1] < 0.0
