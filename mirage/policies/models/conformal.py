"""The conformal adjustment: shifts each quantile of a forecast by the errors of recent forecasts.

Residuals are log(1 + wait in hours) less the forecast's log quantiles
(`quantiles.normalize_quantiles`), of forecasts that had not learned from the wait. A quantile is
moved by the residuals' quantile at its own level, over the hand-overs of a recent window, so
that as many waits lie below it as it says (split conformal; Vovk,
Gammerman and Shafer, 2005), for each size of chain apart.

The instants of a hand-over, and the hand-overs of a day, share the cluster's load: they are no
samples of their own. So the finite-sample level of conformal prediction counts days: of n values in
order the k-th is taken where k / (n + 1) is the level, which moves the outer quantiles further out
the fewer days there are. docs/research/train.md says how the window was chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.time_units import DAY_S
from mirage.observation import spec
from mirage.policies.models.quantiles import LEVELS

WINDOW_DAYS = 21
"""Hand-overs that begin more days than this before the newest one are not used."""
FEWEST = 5
"""With fewer hand-overs than this the forecast is not adjusted."""

_NODES = spec.PLACES["successor_nodes"]


@dataclass(frozen=True, slots=True)
class QuantileShifts:
    """The numbers to add to each log quantile."""

    all: Floats
    """[Q]: the shifts for chain sizes that have no shifts of their own."""
    by_nodes: Mapping[int, Floats]
    """[Q] each."""

    @classmethod
    def from_residuals(cls, residuals: Floats, start_point: Ints, nodes: Ints) -> Self:
        """Build the shifts from hand-overs whose waits are known.

        residuals [E, D, Q], start points and nodes [E].
        """
        sizes, counts = np.unique(nodes, return_counts=True)
        common_sizes = sizes[counts >= FEWEST].tolist()
        by_nodes = {
            n: compute_shift(residuals[nodes == n], start_point[nodes == n]) for n in common_sizes
        }
        return cls(compute_shift(residuals, start_point), by_nodes)

    @classmethod
    def from_card(cls, forecast: Mapping[str, Any]) -> Self:
        """Build the shifts from a card's `forecast`; older cards have one for all sizes."""
        by_nodes = forecast.get("shift_by_nodes", {})
        return cls(
            np.array(forecast["shift"], dtype=np.float64),
            {int(nodes): np.array(shift, dtype=np.float64) for nodes, shift in by_nodes.items()},
        )

    def to_card(self) -> dict[str, Any]:
        """Return the fields of a card that `from_card` reads."""
        by_nodes = {str(nodes): shift.tolist() for nodes, shift in self.by_nodes.items()}
        return {"shift": self.all.tolist(), "shift_by_nodes": by_nodes}

    def select_by_nodes(self, nodes: Ints) -> Floats:
        """Return the shifts [R, Q] for chains with `nodes` [R] nodes."""
        return np.array([self.by_nodes.get(n, self.all) for n in nodes.tolist()])


def decode_nodes(observations: NDArray[np.float32]) -> Ints:
    """Return the successor's nodes [...], decoded from observations [..., F]."""
    return np.rint(np.expm1(observations[..., _NODES].astype(np.float64))).astype(np.int64)


def compute_shift(residuals: Floats, start_point: Ints) -> Floats:
    """Compute the shifts [Q] from the newest hand-overs whose waits are known. residuals: [E, D,
    Q]. The result is zero if there are too few."""
    if len(start_point) < FEWEST:
        return np.zeros(len(LEVELS))
    recent = start_point > start_point.max() - WINDOW_DAYS * DAY_S
    days = len(np.unique(start_point[recent] // DAY_S))
    return compute_residual_quantiles(residuals[recent].reshape(-1, len(LEVELS)), days)


def compute_residual_quantiles(
    residuals: Floats, days: int, levels: Sequence[float] = LEVELS
) -> Floats:
    """Compute the residuals' quantile [Q] at each forecast level. residuals: [n, Q], from the
    given number of days."""
    pairs = zip(residuals.T, _adjust_levels(days, levels), strict=True)
    return np.array([np.quantile(column, level) for column, level in pairs])


def _adjust_levels(days: int, levels: Sequence[float] = LEVELS) -> Floats:
    """Return the levels [Q] for numpy. The k-th of n values is taken where k / (n + 1) is the
    level, and numpy counts (k - 1) / (n - 1)."""
    n = max(days, 2)
    wider: Floats = 0.5 + (np.asarray(levels) - 0.5) * (n + 1) / (n - 1)
    return np.clip(wider, 0.0, 1.0)
