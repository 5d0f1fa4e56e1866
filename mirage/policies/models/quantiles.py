"""Converts the numbers of a model's forecast into quantiles of the wait."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mirage.domain.arrays import Floats

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The levels of the quantiles of a forecast."""
P10, P50, P90 = 0, 4, 8
"""The places of p10, p50 and p90 in `LEVELS`."""
ATOM_H = 1 / 60
"""A shorter wait than this, in hours, counts as 0. Trees forecast a few seconds where jobs start
at once, and a wait of 0 would then lie below all quantiles."""
_ATOM_LOG = float(np.log1p(ATOM_H))


def invert_distribution(within: ArrayLike, thresholds_h: Sequence[float]) -> Floats:
    """Return log(1 + hours) at `LEVELS` [R, Q], from P(wait <= t) [R, J]. Between thresholds it is
    linear.

    A wait of 0 has a probability of its own. The last threshold is the largest quantile, since
    nothing is known beyond it.
    """
    logs = np.log1p(np.asarray(thresholds_h, dtype=np.float64))
    rising = np.maximum.accumulate(np.asarray(within, dtype=np.float64), axis=1)
    return np.array([[_find_quantile(row, logs, level) for level in LEVELS] for row in rising])


def read_log_quantiles(wait: ArrayLike, thresholds_h: Sequence[float]) -> Floats:
    """Return log(1 + hours) at `LEVELS` [R, Q] from the columns of a forecast [R, J + Q].

    The J columns are P(wait <= t) at the thresholds, the Q columns are log quantiles. If a forecast
    has both, the result is their mean.
    """
    columns, count = np.asarray(wait, dtype=np.float64), len(thresholds_h)
    if not count:
        return columns
    inverted = invert_distribution(columns[:, :count], thresholds_h)
    if columns.shape[1] == count:
        return inverted
    mean: Floats = (inverted + columns[:, count:]) / 2.0
    return mean


def _find_quantile(rising: Floats, logs: Floats, level: float) -> float:
    j = int(np.searchsorted(rising, level))
    if j == 0:
        return float(logs[0])
    if j == len(rising):
        return float(logs[-1])
    share = (level - rising[j - 1]) / (rising[j] - rising[j - 1])
    return float(logs[j - 1] + share * (logs[j] - logs[j - 1]))


def normalize_quantiles(log_quantiles: ArrayLike) -> Floats:
    """Return the quantiles [R, Q] in ascending order. Values under `ATOM_H` become exactly 0."""
    ordered = np.sort(np.asarray(log_quantiles, dtype=np.float64), axis=-1)
    normalized: Floats = np.where(ordered < _ATOM_LOG, 0.0, ordered)
    return normalized


def to_hours_after_shift(log_quantiles: ArrayLike, shift: ArrayLike) -> Floats:
    """Return the quantiles [R, Q] in hours, with the adjustment [Q] or [R, Q] added, in
    ascending order, none below 0."""
    hours: Floats = np.expm1(
        normalize_quantiles(
            normalize_quantiles(log_quantiles) + np.asarray(shift, dtype=np.float64)
        )
    )
    return hours
