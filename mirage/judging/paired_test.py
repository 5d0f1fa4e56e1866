"""Two policies on the same hand-overs: is the new one cheaper than the old, or was it luck?"""

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
"""Of fewer days the resamples cannot tell luck: where all days say the same, so do all resamples.
Five days all favour an equal policy once in 32 tries, six once in 64; the upper end of a 95 %
interval may be wrong once in 40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean cost a hand-over of the new policy less the old one's, in hours."""

    mean_h: float
    interval_h: tuple[float, float]
    """95 %, over resampled days."""
    handovers: int
    days: int

    @classmethod
    def from_outcomes(
        cls, new: HandoverOutcomes, old: HandoverOutcomes, overlap_price: float
    ) -> Self:
        """`new` and `old` have the same hand-overs, one at least, in the same order."""
        each_h = new.compute_cost_h(overlap_price) - old.compute_cost_h(overlap_price)
        found = compute_interval(compute_means(draw_day_counts(new.start_point), each_h))
        assert found is not None  # noqa: S101 - there is a hand-over, so each resample has some
        return cls(
            mean_h=float(each_h.mean()),
            interval_h=found,
            handovers=len(each_h),
            days=count_days(new.start_point),
        )

    @property
    def is_cheaper(self) -> bool:
        """Return whether the new policy beats the old one: the whole interval lies below zero.

        A lower mean is no proof. If two policies are equally good, the new one has the lower mean
        every other time, and every retraining is another try. If the interval's upper end is at
        zero or above, a policy that is no better, or worse, may show such results by luck. To keep
        the old policy costs what it has cost so far. A worse policy costs hours at each hand-over
        until somebody notices. So the doubt counts against the new policy.

        A new policy that is only equal is accepted 4 times in 100 with three weeks of days. With
        six days, whose resamples are a little too alike, it is accepted 9 times. If one load lasts
        three days, these numbers are 17 and 21 (tests/integration/judging/test_paired_test.py). A
        worse policy is accepted more seldom.
        """
        return self.days >= FEWEST_DAYS and self.interval_h[1] < 0.0
