"""A forecast's numbers, as a model gives them, and the quantiles of the wait that they mean."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mirage.domain.arrays import Floats

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the quantiles that a forecast has."""
P10, P50, P90 = 0, 4, 8
"""Their places."""
ATOM_H = 1 / 60
"""Less is no wait. Trees give a few seconds where jobs start at once, and then each wait of 0 would
lie below all quantiles."""
_ATOM_LOG = float(np.log1p(ATOM_H))


def invert_distribution(within: ArrayLike, thresholds_h: Sequence[float]) -> Floats:
    """[R, Q]: log(1 + hours) at `LEVELS`, from P(wait <= t) [R, J]; linear between thresholds.

    A wait of 0 has a probability of its own. Beyond the last threshold nothing is known: it is
    the largest quantile.
    """
    logs = np.log1p(np.asarray(thresholds_h, dtype=np.float64))
    rising = np.maximum.accumulate(np.asarray(within, dtype=np.float64), axis=1)
    return np.array([[_find_quantile(row, logs, level) for level in LEVELS] for row in rising])


def _find_quantile(rising: Floats, logs: Floats, level: float) -> float:
    j = int(np.searchsorted(rising, level))
    if j == 0:
        return float(logs[0])
    if j == len(rising):
        return float(logs[-1])
    share = (level - rising[j - 1]) / (rising[j] - rising[j - 1])
    return float(logs[j - 1] + share * (logs[j] - logs[j - 1]))


def normalize_quantiles(log_quantiles: ArrayLike) -> Floats:
    """[R, Q]: in order, and under `ATOM_H` exactly 0."""
    ordered = np.sort(np.asarray(log_quantiles, dtype=np.float64), axis=-1)
    found: Floats = np.where(ordered < _ATOM_LOG, 0.0, ordered)
    return found


def to_hours_after_shift(log_quantiles: ArrayLike, shift: ArrayLike) -> Floats:
    """[R, Q], hours: the adjustment [Q] or [R, Q] added, in order, none below 0."""
    found: Floats = np.expm1(
        normalize_quantiles(
            normalize_quantiles(log_quantiles) + np.asarray(shift, dtype=np.float64)
        )
    )
    return found
