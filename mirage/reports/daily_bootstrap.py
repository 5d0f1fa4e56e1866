"""Intervals of sums and shares that are kept by day. Whole days are resampled, as with episodes."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mirage.judging.day_bootstrap import DRAWS, SEED, compute_interval
from mirage.judging.paired_test import FEWEST_DAYS

Interval = tuple[float, float]


def bootstrap_sum(daily: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of the sum over the days; None: too few days."""
    if len(daily) < FEWEST_DAYS:
        return None
    return compute_interval(_draw_resamples(len(daily)) @ np.asarray(daily, dtype=np.float64))


def bootstrap_share(part: Sequence[float], whole: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of sum(part) / sum(whole), over days on which `whole` is not 0.

    None: too few days.
    """
    days = [(p, w) for p, w in zip(part, whole, strict=True) if w > 0]
    if len(days) < FEWEST_DAYS:
        return None
    parts, wholes = np.array(days, dtype=np.float64).T
    resamples = _draw_resamples(len(days))
    return compute_interval((resamples @ parts) / (resamples @ wholes))


@lru_cache(maxsize=8)
def _draw_resamples(days: int) -> NDArray[np.float64]:
    """Return how often each day is in each resample, [DRAWS, days]."""
    generator = np.random.default_rng(SEED)
    return generator.multinomial(days, np.full(days, 1.0 / days), size=DRAWS).astype(np.float64)
