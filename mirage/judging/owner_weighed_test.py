"""Tests whether one policy is cheaper than another on the same hand-overs: one vote a person, and
days that share a load count together.

The mean is over owners, and of each owner over days: a burst of hand-overs of one owner on one day
counts once (docs/decisions/0036-one-vote-a-person.md). The interval is Student's t over blocks of
consecutive days, as for means with few clusters: Cameron and Miller, "A Practitioner's Guide to
Cluster-Robust Inference", Journal of Human Resources 50 (2015), section VI; Ibragimov and Müller,
"t-Statistic Based Correlation and Heterogeneity Robust Inference", JBES 28 (2010), for blocks of a
series. docs/decisions/0041-models-of-the-site.md says how often it errs.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.judging.paired_test import FEWEST_DAYS

BLOCK_DAYS = 3
"""Days of a block. A hand-over of 48 h spans three days, and so does a load."""
ERROR = 0.001
"""How often an equal policy may seem cheaper in one judgement. A fortnight has one judgement, a
year 26: by Boole's inequality at most 26 in 1,000 years see an error among independent blocks. The
rest, up to 5 in 100, is for loads that span blocks."""
FEWEST_BLOCKS = 4.0
"""Blocks of equal weight. With fewer nothing is decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeighedDifference:
    """The mean cost a hand-over of one policy less another's, in hours; each owner weighs at most
    one."""

    mean_h: float
    interval_h: tuple[float, float]
    """The ends are each exceeded by chance in `error` of all judgements of equal policies."""
    error: float
    handovers: int
    owners: int
    days: int
    blocks: float
    """How many blocks of equal weight would tell as much."""

    @classmethod
    def from_differences(
        cls, start_point: Ints, owner: Ints, difference_h: Floats, *, error: float = ERROR
    ) -> Self:
        """Compute it from hand-overs [E]. Raises InputError if there is none."""
        if not len(difference_h):
            raise InputError("there is no hand-over to judge by")
        weights = weigh_by_owner(start_point, owner)
        day = np.asarray(start_point) // DAY_S
        mean_h = float(weights @ difference_h / weights.sum())
        _, block_of = np.unique((day - day.min()) // BLOCK_DAYS, return_inverse=True)
        by_block = np.bincount(block_of, weights)
        blocks = float(by_block.sum() ** 2 / (by_block**2).sum())
        sums = np.bincount(block_of, weights * (difference_h - mean_h))
        spread_h = _compute_spread(sums, by_block.sum(), blocks, error)
        return cls(
            mean_h=mean_h,
            interval_h=(mean_h - spread_h, mean_h + spread_h),
            error=error,
            handovers=len(difference_h),
            owners=len(np.unique(owner)),
            days=len(np.unique(day)),
            blocks=blocks,
        )

    @property
    def is_decisive(self) -> bool:
        """Return whether there are days enough to decide at all."""
        return self.days >= FEWEST_DAYS and self.blocks > FEWEST_BLOCKS - 1e-9

    @property
    def is_cheaper(self) -> bool:
        return self.is_decisive and self.interval_h[1] < 0.0

    @property
    def is_dearer(self) -> bool:
        return self.is_decisive and self.interval_h[0] > 0.0

    def build_figures(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            "difference_h": self.mean_h,
            "difference_h_ci": [_drop_infinite(end) for end in self.interval_h],
            "handovers": self.handovers,
            "owners": self.owners,
            "days": self.days,
        }

    def __str__(self) -> str:
        low_h, high_h = self.interval_h
        level = f"{100 - 200 * self.error:g} % interval"
        return (
            f"{self.mean_h:+.3f} h a hand-over ({level} {low_h:+.3f} to {high_h:+.3f} h; "
            f"{self.handovers} hand-overs of {self.owners} owners on {self.days} days)"
        )


def weigh_by_owner(start_point: Ints, owner: Ints) -> Floats:
    """Compute the weights [E]: the days of an owner weigh the same, and together at most 1.

    An owner with hand-overs on fewer than `FEWEST_DAYS` days weighs less than 1: otherwise one
    hand-over of one owner could outweigh the days of all others.
    """
    day = np.asarray(start_point) // DAY_S
    cells, cell_of, in_cell = np.unique(
        np.column_stack([owner, day]), axis=0, return_inverse=True, return_counts=True
    )
    _, owner_of_cell, days_of_owner = np.unique(
        cells[:, 0], return_inverse=True, return_counts=True
    )
    of_cell = 1.0 / np.maximum(days_of_owner[owner_of_cell], FEWEST_DAYS) / in_cell
    weights: Floats = of_cell[cell_of.reshape(-1)]
    return weights


def _compute_spread(sums: NDArray[Any], total: float, blocks: float, error: float) -> float:
    """Return half the width of the interval, in hours; infinite with a single block."""
    if blocks <= 1.0 + 1e-9:
        return float("inf")
    error_h = float(np.sqrt((sums**2).sum() * blocks / (blocks - 1.0)) / total)
    return error_h * compute_t_quantile(1.0 - error, max(blocks - 1.0, 1.0))


@lru_cache(maxsize=256)
def compute_t_quantile(level: float, freedom: float) -> float:
    """Return the quantile of Student's t at `level` in [0.5, 1), for any `freedom` of 1 or more.

    With t = sqrt(freedom) tan(a), the density of the angle a is proportional to cos(a) to the power
    of freedom - 1. That is summed and inverted on a grid, to about five digits.
    """
    angle: NDArray[np.float64] = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1.0)
    share = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    at = np.interp(2.0 * level - 1.0, share / share[-1], angle)
    return float(np.sqrt(freedom) * np.tan(at))


def _drop_infinite(value: float) -> float | None:
    return value if np.isfinite(value) else None
