"""The boundary of stopping: how likely it must be to come late before the standby is freed."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def compute_threshold(price: float, factor: float) -> float:
    """P(late) at which its odds are `factor` x the overlap price; factor 1 is the newsvendor's."""
    odds = factor * price
    return odds / (1.0 + odds)


def is_late_enough(late: ArrayLike, price: float, factor: float) -> NDArray[np.bool_]:
    """Return whether to free the successor, given the forecast of P(late)."""
    found: NDArray[np.bool_] = np.asarray(late) >= compute_threshold(price, factor)
    return found
