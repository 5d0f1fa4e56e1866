"""Operating points: the price at which jobs run side by side no longer than a site allows.

In half of all other weeks the overlap is above its mean over the judged weeks. So the price is the
least at which most fortnights of the judged days stay within the limit.
docs/decisions/0021-operating-points.md has the alternatives.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S

OVERLAPS_H = (1.0, 2.5)
"""Limits that a site may set instead of a price: hours that jobs may run side by side."""
PRICES = (
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7),
    *(0.85, 1.0, 1.2, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0),
)
"""The prices among which an operating point is searched. Agents stop at the highest price that they
learn from."""
FORTNIGHT_DAYS = 14
CERTAINTY_PCT = 95.0
"""The share of resampled fortnights, in percent, whose overlap must be within the limit."""

_DRAWS = 2000
_SEED = 20230213


def find_operating_point(
    prices: Sequence[float],
    find_outcomes_h: Callable[[float], Floats],
    start_point: Ints,
    limit_h: float,
) -> dict[str, Any]:
    """Find the least price at which the overlap is within the limit, for a card.

    `compute_overlap_bound` of the overlap is compared with the limit. `find_outcomes_h` returns the
    signed outcomes [E] at one of the prices, in hours, of hand-overs with these start points [E].
    The overlap falls as the price rises, so `prices`, ascending, are halved and few are played.
    Returns the price with means per hand-over, in hours; the price is None if none is high enough.
    """
    first, last = 0, len(prices) if len(start_point) else 0
    point: dict[str, Any] = {"price": None}
    while first < last:
        middle = (first + last) // 2
        x_h = find_outcomes_h(prices[middle])
        overlap_h = np.maximum(-x_h, 0.0)
        upper_h = compute_overlap_bound(overlap_h, start_point)
        if upper_h > limit_h:
            first = middle + 1
            continue
        last = middle
        point = {
            "price": prices[middle],
            "overlap_h": float(overlap_h.mean()),
            "overlap_bound_h": upper_h,
            "interruption_h": float(np.maximum(x_h, 0.0).mean()),
            "zero_interruption_pct": 100.0 * float((x_h <= 0.0).mean()),
        }
    return point


def compute_overlap_bound(overlap_h: Floats, start_point: Ints) -> float:
    """Compute the mean overlap, hours, within which CERTAINTY_PCT of resampled fortnights stay."""
    days, day_of = np.unique(start_point // DAY_S, return_inverse=True)
    count, sums = np.bincount(day_of), np.bincount(day_of, overlap_h)
    drawn_days = np.random.default_rng(_SEED).integers(len(days), size=(_DRAWS, FORTNIGHT_DAYS))
    means = sums[drawn_days].sum(axis=1) / count[drawn_days].sum(axis=1)
    return float(np.percentile(means, CERTAINTY_PCT))
