"""Intervals by resampling whole days: hand-overs of one day share the cluster's load."""

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats
from mirage.domain.time_units import DAY_S

DRAWS = 2000
"""The number of resamples."""
SEED = 20230213
LEVEL_PCT = 95.0
"""The share of the resamples that an interval holds, in percent."""


def draw_day_counts(start_point: NDArray[np.int64], *, draws: int = DRAWS) -> Floats:
    """Draw how often each episode is in each resample: [draws, E].

    Days (UTC, of the start point) that have episodes are drawn with replacement, as many as there
    are. An episode counts as often as its day was drawn.
    """
    days, day_of = np.unique(np.asarray(start_point) // DAY_S, return_inverse=True)
    if not len(days):
        return np.zeros((draws, 0))
    generator = np.random.default_rng(SEED)
    counts = generator.multinomial(len(days), np.full(len(days), 1.0 / len(days)), size=draws)
    return np.asarray(counts[:, day_of], dtype=np.float64)


def count_days(start_point: NDArray[np.int64]) -> int:
    """Count the days that have episodes."""
    return len(np.unique(np.asarray(start_point) // DAY_S))


def compute_means(counts: Floats, values: Floats) -> Floats:
    """Compute the mean of `values` [E] in each resample: [draws]; NaN in a resample without a
    value."""
    total = counts.sum(axis=1)
    sums = counts @ values
    means: Floats = np.divide(sums, total, out=np.full(len(total), np.nan), where=total > 0)
    return means


def compute_interval(resampled: Floats) -> tuple[float, float] | None:
    """Return the middle LEVEL_PCT of a figure over the resamples; None if it is NaN in all."""
    values = resampled[np.isfinite(resampled)]
    if not len(values):
        return None
    tail = (100.0 - LEVEL_PCT) / 2
    low, high = np.percentile(values, [tail, 100.0 - tail])
    return float(low), float(high)
