"""Measures how good a forecast of the wait is.

Waits have an atom at zero: half of them may be exactly 0. Then P(wait <= p10) is a half, whatever
the forecast. Coverage is therefore counted by the randomised PIT: u is drawn evenly between the
forecasts of P(wait < w) and of P(wait <= w). If the forecast is right, u is even on [0, 1].
"""

import numpy as np

from mirage.domain.arrays import Floats
from mirage.policies.models.quantiles import LEVELS, P50, P90

_LONGEST_LOG = float(np.log1p(24.0 * 366))


def compute_pinball_h(quantiles_h: Floats, wait_h: Floats) -> float:
    """Compute the mean pinball loss over rows and levels, hours."""
    over = wait_h[:, None] - quantiles_h
    levels = np.asarray(LEVELS)
    return float(np.maximum(levels * over, (levels - 1.0) * over).mean())


def compute_empirical_h(learned_wait_h: Floats, rows: int) -> Floats:
    """Compute the floor [R, Q] that a forecast has to beat: the quantiles of the training waits."""
    quantiles_h = np.quantile(learned_wait_h, LEVELS)
    return np.broadcast_to(quantiles_h, (rows, len(LEVELS)))


def measure_forecast(
    quantiles_h: Floats, wait_h: Floats, floor_h: Floats, seed: int
) -> dict[str, float]:
    """Measure a forecast on waits that it has not seen; `floor_h`: `compute_empirical_h`."""
    u = compute_pit(quantiles_h, wait_h, seed)
    inside = (u >= LEVELS[0]) & (u <= LEVELS[-1])
    return {
        "rows": len(wait_h),
        "pinball_h": compute_pinball_h(quantiles_h, wait_h),
        "pinball_empirical_h": compute_pinball_h(floor_h, wait_h),
        "coverage_p10_p90_pct": 100.0 * float(inside.mean()),
        "below_p90_pct": 100.0 * float((wait_h <= quantiles_h[:, P90]).mean()),
        "pit_below_p90_pct": 100.0 * float((u <= LEVELS[-1]).mean()),
        "median_absolute_error_h": float(np.median(np.abs(wait_h - quantiles_h[:, P50]))),
    }


def compute_pit(quantiles_h: Floats, wait_h: Floats, seed: int) -> Floats:
    """Compute the randomised probability integral transform [R] of each wait under its forecast."""
    rows = len(wait_h)
    logs = np.log1p(quantiles_h)
    knots = np.column_stack([np.zeros(rows), logs, np.full(rows, _LONGEST_LOG)])
    levels, waits = _build_levels(logs), np.log1p(wait_h)
    below, within = (
        _compute_level(knots, levels, waits, strict=strict) for strict in (True, False)
    )
    draws = np.random.default_rng(seed).random(rows)
    pit: Floats = below + draws * (within - below)
    return pit


def _build_levels(logs: Floats) -> Floats:
    """Build the levels [R, Q + 2] of the quantiles, with 0 and 1 at the ends.

    If the atom at zero ends between two levels, it counts as ending in their middle.
    """
    levels = np.tile([0.0, *LEVELS, 1.0], (len(logs), 1))
    last = (logs <= 0.0).sum(axis=1)
    rows = np.flatnonzero(last)
    middle = (levels[rows, last[rows]] + levels[rows, last[rows] + 1]) / 2
    levels[rows, last[rows]] = middle
    return levels


def _compute_level(knots: Floats, levels: Floats, waits: Floats, *, strict: bool) -> Floats:
    """Compute P(W < w) if `strict`, else P(W <= w), [R]: linear between the quantiles `knots`."""
    is_below = knots < waits[:, None] if strict else knots <= waits[:, None]
    upper = np.clip(is_below.sum(axis=1), 1, knots.shape[1] - 1)
    rows = np.arange(len(waits))
    low, high = knots[rows, upper - 1], knots[rows, upper]
    share = np.clip((waits - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)
    before, after = levels[rows, upper - 1], levels[rows, upper]
    level: Floats = before + share * (after - before)
    return np.where(is_below.any(axis=1), level, 0.0)
