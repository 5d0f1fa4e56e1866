"""The price of overlap for a chain whose links switch, from the waits of similar jobs."""

import numpy as np
from numpy.typing import NDArray

from mirage.policy.rules.lead_rules import compute_best_fractile, compute_quantile

LEAST_SWITCH_PRICE, MOST_SWITCH_PRICE = 0.01, 0.1


def compute_switch_price(start_up_s: float, missed_s: float, limit_s: float) -> float:
    """The price in hours of interruption for an hour of overlap. All of them are seconds."""
    return min(MOST_SWITCH_PRICE, max(LEAST_SWITCH_PRICE, (start_up_s + missed_s) / limit_s))


def estimate_missed_s(waits: NDArray[np.int64], start_up_s: float, limit_s: float) -> float:
    """The interruption to be expected, in seconds, at the lead that the start-up alone asks for.

    `waits`: seconds, of like jobs; 0 where there are none.
    """
    if not len(waits):
        return 0.0
    first = compute_switch_price(start_up_s, 0.0, limit_s)
    lead_s = compute_quantile(waits, compute_best_fractile(first))
    return float(np.maximum(0.0, waits - lead_s).mean())
