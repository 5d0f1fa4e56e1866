"""Computes what hand-overs cost, and the instants that decisions choose."""

from collections.abc import Sequence

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints


def compute_costs(outcome_h: Floats, prices: Sequence[float]) -> Floats:
    """Compute interruption + price x overlap, hours: [..., P]."""
    interruption = np.maximum(outcome_h, 0.0)[..., None]
    overlap = np.maximum(-outcome_h, 0.0)[..., None]
    costs: Floats = interruption + np.asarray(prices) * overlap
    return costs


def find_first_free(frees: Flags) -> Ints:
    """Return the instant [E] that decisions [E, D] choose; D if none frees."""
    first: Ints = np.where(frees.any(axis=1), frees.argmax(axis=1), frees.shape[1])
    return first
