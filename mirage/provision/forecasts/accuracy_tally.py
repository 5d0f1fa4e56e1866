"""Sums up forecast accuracy: the forecasts of one day, or of several days together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from mirage.domain.arrays import Floats
from mirage.twin.twin_features import LEVELS

ATOM_S = 60
"""A wait below this many seconds counts as no wait: the scheduler's own pass takes that long."""

CELLS = len(LEVELS) + 1
"""Cells of the probability integral transform (PIT), each between two neighbouring levels."""
_EDGES = np.concatenate(([0.0], 30.0 * 1.2 ** np.arange(60)))
"""Edges of the histogram of absolute errors, in seconds; the last is 16 days."""
_P10, _P50, _P90 = (LEVELS.index(q) for q in (0.1, 0.5, 0.9))


def _make_empty_cells() -> list[float]:
    return [0.0] * CELLS


def _make_empty_errors() -> list[int]:
    return [0] * len(_EDGES)


def _make_empty_losses() -> list[float]:
    return [0.0, 0.0, 0.0]


@dataclass(slots=True)
class Tally:
    """Sums over forecasts whose outcome is known; all times are seconds."""

    count: int = 0
    gave_up: int = 0
    """Jobs that never started. They have no wait, and are not in `count`."""
    waited: int = 0
    """Jobs that waited ATOM_S or longer."""
    pit: list[float] = field(default_factory=_make_empty_cells)
    """[CELLS]: outcomes between two levels; one on several levels is shared among them."""
    errors: list[int] = field(default_factory=_make_empty_errors)
    """Histogram of |median - wait|."""
    pinball_s: list[float] = field(default_factory=_make_empty_losses)
    """Sums of the pinball loss at p10, p50, p90."""
    both: int = 0
    """Jobs for which Slurm planned a start at the instant of the forecast."""
    both_errors: list[int] = field(default_factory=_make_empty_errors)
    """Histogram of |median - wait| of the jobs in `both`."""
    slurm_errors: list[int] = field(default_factory=_make_empty_errors)
    """Histogram of |Slurm's plan - wait| of the jobs in `both`."""

    @classmethod
    def from_stored(cls, stored: Any) -> Self:
        return cls(**(stored or {}))

    def to_stored(self) -> dict[str, Any]:
        """Return the tally as plain numbers and lists, for JSON."""
        return asdict(self)

    def add_outcome(self, quantiles_s: tuple[int, ...], wait_s: int, slurm_s: int | None) -> None:
        """Add one outcome, in seconds.

        `quantiles_s` are the forecast's quantiles at `LEVELS`, `wait_s` is the true wait, and
        `slurm_s` the wait by Slurm's plan, if Slurm had one.
        """
        forecast_s = _round_short_waits(np.array(quantiles_s, dtype=np.float64))
        wait = float(_round_short_waits(np.array([wait_s], dtype=np.float64))[0])
        self.count += 1
        self.waited += int(wait > 0.0)
        self.pit = (np.asarray(self.pit) + compute_pit_cells(forecast_s, wait)).tolist()
        error_s = abs(float(forecast_s[_P50]) - wait)
        self.errors[_find_bin(error_s)] += 1
        for i, (level, at) in enumerate(((0.1, _P10), (0.5, _P50), (0.9, _P90))):
            self.pinball_s[i] += compute_pinball_loss(float(forecast_s[at]), wait, level)
        if slurm_s is not None:
            self.both += 1
            self.both_errors[_find_bin(error_s)] += 1
            self.slurm_errors[_find_bin(abs(slurm_s - wait))] += 1

    @classmethod
    def merge_all(cls, parts: Sequence["Tally"]) -> Self:
        """Return the sum of all these tallies; an empty tally for none."""
        if not parts:
            return cls()
        return cls(
            count=sum(part.count for part in parts),
            gave_up=sum(part.gave_up for part in parts),
            waited=sum(part.waited for part in parts),
            pit=_sum_columns([part.pit for part in parts]),
            errors=_sum_columns([part.errors for part in parts]),
            pinball_s=_sum_columns([part.pinball_s for part in parts]),
            both=sum(part.both for part in parts),
            both_errors=_sum_columns([part.both_errors for part in parts]),
            slurm_errors=_sum_columns([part.slurm_errors for part in parts]),
        )

    @property
    def covered(self) -> float:
        """Return the number of outcomes between p10 and p90."""
        return float(sum(self.pit[_P10 + 1 : _P90 + 1]))


def compute_pit_cells(quantiles_s: Floats, wait_s: float) -> Floats:
    """Return float64[CELLS], summing to 1: the cell of the quantiles that the wait lies in.

    If several quantiles equal the wait (many forecasts say "no wait"), the outcome is shared evenly
    among the cells around them. That is the mean of the randomised PIT, without random numbers.
    """
    low = int(np.searchsorted(quantiles_s, wait_s, side="left"))
    high = int(np.searchsorted(quantiles_s, wait_s, side="right"))
    cells = np.zeros(CELLS)
    cells[low : high + 1] = 1.0 / (high + 1 - low)
    return cells


def compute_pinball_loss(forecast_s: float, wait_s: float, level: float) -> float:
    """Return the pinball loss, in seconds; the true quantile of that level has the least loss."""
    over_s = forecast_s - wait_s
    return max((1.0 - level) * over_s, -level * over_s)


def compute_median(errors: list[int]) -> float | None:
    """Return the median of a histogram of errors, in seconds; None if the histogram is empty.

    The result is exact to one bin, a fifth of the value.
    """
    counts = np.asarray(errors, dtype=np.float64)
    total = counts.sum()
    if not total:
        return None
    cumulative = np.cumsum(counts)
    at = int(np.searchsorted(cumulative, total / 2))
    before = cumulative[at] - counts[at]
    low = float(_EDGES[at])
    high = float(_EDGES[at + 1]) if at + 1 < len(_EDGES) else low
    return low + (high - low) * float((total / 2 - before) / counts[at])


def _round_short_waits(seconds: Floats) -> Floats:
    rounded: Floats = np.where(seconds < ATOM_S, 0.0, seconds)
    return rounded


def _find_bin(error_s: float) -> int:
    return int(np.searchsorted(_EDGES, error_s, side="right")) - 1


def _sum_columns(columns: Sequence[list[Any]]) -> list[Any]:
    """Return the sums of the lists, element by element."""
    return [sum(cells) for cells in zip(*columns, strict=True)]
