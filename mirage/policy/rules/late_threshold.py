"""The boundary: how likely a late start must be before the standby is freed."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def compute_threshold(price: float, factor: float) -> float:
    """Return the P(late) whose odds are `factor` x the overlap price. With factor 1 this is the
    newsvendor's fractile."""
    odds = factor * price
    return odds / (1.0 + odds)


def is_late_enough(late: ArrayLike, price: float, factor: float) -> NDArray[np.bool_]:
    """Return whether to free the successor, given the forecast of P(late)."""
    found: NDArray[np.bool_] = np.asarray(late) >= compute_threshold(price, factor)
    return found
