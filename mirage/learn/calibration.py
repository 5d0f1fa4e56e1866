"""How good a forecast of the wait is, and the adjustment that makes its quantiles come true.

Waits have an atom at zero: half of them may be exactly 0, and then P(wait <= p10) is a half
whatever the forecast. Coverage is therefore counted by the randomised PIT: u drawn evenly between
P(wait < w) and P(wait <= w) as forecast, which is even on [0, 1] where the forecast is right.
"""

import numpy as np

from mirage.learn.rows import Floats
from mirage.policy.quantiles import LEVELS

_LONGEST_LOG = float(np.log1p(24.0 * 366))


def shift(log_quantiles: Floats, wait_h: Floats) -> Floats:
    """[Q]: what to add to each quantile so that as many waits lie below it as it says.

    Conformal: the empirical quantile of the residuals on a window that was not learned from.
    """
    residuals = np.log1p(wait_h)[:, None] - log_quantiles
    pairs = zip(residuals.T, LEVELS, strict=True)
    return np.array([np.quantile(column, level) for column, level in pairs])


def pinball_h(quantiles_h: Floats, wait_h: Floats) -> float:
    """Mean pinball loss over rows and levels, hours."""
    over = wait_h[:, None] - quantiles_h
    levels = np.asarray(LEVELS)
    return float(np.maximum(levels * over, (levels - 1.0) * over).mean())


def empirical_h(learned_wait_h: Floats, rows: int) -> Floats:
    """[R, Q]: the floor of all forecasts, the quantiles of the waits learned from."""
    found = np.quantile(learned_wait_h, LEVELS)
    return np.broadcast_to(found, (rows, len(LEVELS)))


def figures(quantiles_h: Floats, wait_h: Floats, floor_h: Floats, seed: int) -> dict[str, float]:
    """What is told of a forecast on waits it has not seen; `floor_h`: `empirical_h`."""
    u = pit(quantiles_h, wait_h, seed)
    inside = (u >= LEVELS[0]) & (u <= LEVELS[-1])
    return {
        "rows": len(wait_h),
        "pinball_h": pinball_h(quantiles_h, wait_h),
        "pinball_empirical_h": pinball_h(floor_h, wait_h),
        "coverage_p10_p90_pct": 100.0 * float(inside.mean()),
        "below_p90_pct": 100.0 * float((wait_h <= quantiles_h[:, -1]).mean()),
        "median_absolute_error_h": float(np.median(np.abs(wait_h - quantiles_h[:, 2]))),
    }


def pit(quantiles_h: Floats, wait_h: Floats, seed: int) -> Floats:
    """[R]: the randomised probability integral transform of each wait under its forecast."""
    ends = np.zeros(len(wait_h)), np.full(len(wait_h), _LONGEST_LOG)
    known = np.column_stack([ends[0], np.log1p(quantiles_h), ends[1]])
    waits = np.log1p(wait_h)
    below, within = (_level(known, waits, strict=strict) for strict in (True, False))
    drawn = np.random.default_rng(seed).random(len(waits))
    found: Floats = below + drawn * (within - below)
    return found


def _level(known: Floats, waits: Floats, *, strict: bool) -> Floats:
    """P(W < w), or <=, of the distribution that is linear between its quantiles."""
    levels = np.array([0.0, *LEVELS, 1.0])
    passed = known < waits[:, None] if strict else known <= waits[:, None]
    upper = np.clip(passed.sum(axis=1), 1, known.shape[1] - 1)
    rows = np.arange(len(waits))
    low, high = known[rows, upper - 1], known[rows, upper]
    width = np.maximum(high - low, 1e-12)
    share = np.clip((waits - low) / width, 0.0, 1.0)
    found: Floats = levels[upper - 1] + share * (levels[upper] - levels[upper - 1])
    return np.where(passed.any(axis=1), found, 0.0)
