"""Waits counted in bins. Counts can be added up over hours and classes, and still give quantiles.

There are eight bins for each doubling of the wait, so that a quantile is within 5 % of the real
one. The first bin holds waits of 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints

BINS = 256
PER_DOUBLING = 8

Counts = NDArray[np.int64]
"""[BINS]: the number of waits in each bin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitSummary:
    """A summary of waits: their number, and quantiles in seconds."""

    jobs: int
    p10_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None


def assign_bins(wait_s: Ints) -> NDArray[np.uint8]:
    """Return the bin of each wait, [n], of waits [n] in seconds."""
    bin_number = 1 + np.floor(np.log2(np.maximum(wait_s, 1)) * PER_DOUBLING)
    bins: NDArray[np.uint8] = np.where(wait_s < 1, 0, np.minimum(bin_number, BINS - 1)).astype(
        np.uint8
    )
    return bins


def compute_quantiles(counts: Counts, fractiles: Sequence[float]) -> list[float]:
    """Return the quantiles in whole seconds.

    Each is the middle of the bin that holds the least wait at or above its fractile. At least one
    wait is needed.
    """
    reached = np.cumsum(counts)
    places = np.searchsorted(reached, np.asarray(fractiles) * reached[-1] - 1e-9)
    return [float(_MIDDLE_S[min(place, BINS - 1)]) for place in places.tolist()]


def summarize_waits(counts: Counts) -> WaitSummary:
    """Summarize waits: their number and, if there are any, three quantiles."""
    jobs = int(counts.sum())
    if not jobs:
        return WaitSummary(jobs=0)
    p10, p50, p90 = compute_quantiles(counts, (0.1, 0.5, 0.9))
    return WaitSummary(jobs=jobs, p10_s=p10, p50_s=p50, p90_s=p90)


_MIDDLE_S = np.rint(2.0 ** ((np.arange(BINS) - 0.5) / PER_DOUBLING))
_MIDDLE_S[0] = 0.0
