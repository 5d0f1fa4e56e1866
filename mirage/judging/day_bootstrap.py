"""Intervals by resampling whole days: hand-overs of one day share the cluster's load."""

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats
from mirage.domain.time_units import DAY_S

DRAWS = 2000
SEED = 20230213
LEVEL_PCT = 95.0


def draw_day_counts(start_point: NDArray[np.int64], *, draws: int = DRAWS) -> Floats:
    """Draw how often each episode is in each resample: [draws, E].

    Days (UTC, of the start point) that have episodes are drawn with replacement, as many as there
    are. An episode counts as often as its day was drawn.
    """
    found, day_of = np.unique(np.asarray(start_point) // DAY_S, return_inverse=True)
    if not len(found):
        return np.zeros((draws, 0))
    generator = np.random.default_rng(SEED)
    drawn = generator.multinomial(len(found), np.full(len(found), 1.0 / len(found)), size=draws)
    return np.asarray(drawn[:, day_of], dtype=np.float64)


def count_days(start_point: NDArray[np.int64]) -> int:
    """Count the days that have episodes."""
    return len(np.unique(np.asarray(start_point) // DAY_S))


def compute_means(counts: Floats, values: Floats) -> Floats:
    """Compute the mean of `values` [E] in each resample: [draws]; NaN in a resample without a
    value."""
    total = counts.sum(axis=1)
    sums = counts @ values
    drawn: Floats = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    return drawn


def compute_interval(drawn: Floats) -> tuple[float, float] | None:
    """Return the middle LEVEL_PCT of the resamples that have a value; None if none has."""
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return None
    tail = (100.0 - LEVEL_PCT) / 2
    low, high = np.percentile(known, [tail, 100.0 - tail])
    return float(low), float(high)
