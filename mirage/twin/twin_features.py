"""Turns the twin's forecast of a wait into numbers of order one, a model's input.

The forecast comes in as quantiles.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats
from mirage.domain.time_units import HOUR_S

LEVELS = tuple(round(i / 20, 2) for i in range(1, 20))
"""The levels of the quantiles of the wait that are kept: 5 % to 95 %."""

_WAIT_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
_LATENESS_LEVELS = (0.5, 0.8)

FEATURE_NAMES = (
    *(f"twin_wait_p{round(100 * q)}" for q in _WAIT_LEVELS),
    *(f"twin_late_p{round(100 * q)}" for q in _LATENESS_LEVELS),
    "twin_late",
)
"""`twin_wait_p50`: log(1 + hours). `twin_late_p50`: how much later than its predecessor's end the
successor would start, signed log(1 + hours). `twin_late`: P(late)."""

FINGERPRINT = hashlib.sha256("\n".join(("1", *FEATURE_NAMES)).encode()).hexdigest()
"""The hash of the names and of a version. Increase the version ("1") when a number is computed in a
new way under its old name."""


def compute_late_probability(quantile_s: NDArray[Any], left_s: NDArray[Any]) -> Floats:
    """Compute P(wait > time left) [...] from quantiles [..., 19] at `LEVELS`. It is never
    exactly 0 or 1."""
    later: Floats = (quantile_s > np.asarray(left_s)[..., None]).sum(axis=-1)
    return (later + 0.5) / (len(LEVELS) + 1)


def compute_twin_features(quantile_s: NDArray[Any], left_s: NDArray[Any]) -> NDArray[np.float32]:
    """Compute the features [..., len(FEATURE_NAMES)] from quantiles [..., 19] and the predecessor's
    time left, in seconds."""
    wait_h = np.asarray(quantile_s, dtype=np.float64) / HOUR_S
    left_h = np.asarray(left_s, dtype=np.float64)[..., None] / HOUR_S
    scaled_waits = np.log1p(wait_h[..., [LEVELS.index(q) for q in _WAIT_LEVELS]])
    lateness_h = wait_h[..., [LEVELS.index(q) for q in _LATENESS_LEVELS]] - left_h
    scaled_lateness = np.sign(lateness_h) * np.log1p(np.abs(lateness_h))
    columns = (
        scaled_waits,
        scaled_lateness,
        compute_late_probability(quantile_s, left_s)[..., None],
    )
    return np.concatenate(columns, axis=-1).astype(np.float32)
