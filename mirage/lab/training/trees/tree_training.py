"""Makes forecasts from rows: fits a forecast of the wait, calibrates it, and fits it again on what
was known before each window of later weeks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mirage.domain.arrays import Flags, Floats
from mirage.lab.training.dataset import Rows
from mirage.lab.training.metrics import forecast_metrics, time_splits
from mirage.lab.training.trees.tree_families import Family, FittedForecast
from mirage.policies.models import conformal, quantiles
from mirage.policies.models.conformal import QuantileShifts

HELD_BACK = 0.2
"""The share of the hand-overs, the newest, on which the forecast's adjustment is found."""
STEPS = 2
"""The number of fits for one policy."""

StepCallback = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TreePolicy:
    """A forecast of trees. `decide_by_cost` makes a policy of it."""

    wait: FittedForecast
    shifts: QuantileShifts
    """The conformal adjustment of the forecast."""

    def predict_wait_h(self, rows: Rows) -> Floats:
        """Predict quantiles of the wait, hours: [E x D, Q]."""
        shift = self.shifts.select_by_nodes(conformal.decode_nodes(rows.flat))
        return quantiles.to_hours_after_shift(self.wait.predict_log_quantiles(rows.flat), shift)


def fit_policy(rows: Rows, family: Family, on_step: StepCallback = lambda: None) -> TreePolicy:
    """Fit a policy. Calls `on_step` STEPS times."""
    shifts = _fit_shifts(rows, family)
    on_step()
    wait = family.fit_forecast(rows.flat, rows.wait_h)
    on_step()
    return TreePolicy(wait=wait, shifts=shifts)


def _fit_shifts(rows: Rows, family: Family) -> QuantileShifts:
    newest_rows, residuals = compute_newest_residuals(rows, family)
    return QuantileShifts.from_residuals(residuals, newest_rows.start_point, newest_rows.nodes)


def compute_newest_residuals(rows: Rows, family: Family) -> tuple[Rows, Floats]:
    """Compute the residuals [E, D, Q] of a forecast on the newest hand-overs, which it has not
    seen."""
    earlier_rows, newest_rows = (
        rows.select_episodes(mask) for mask in time_splits.split_newest(rows, HELD_BACK)
    )
    forecast = family.fit_forecast(earlier_rows.flat, earlier_rows.wait_h)
    return newest_rows, newest_rows.compute_residuals(
        forecast.predict_log_quantiles(newest_rows.flat)
    )


@dataclass(frozen=True, slots=True)
class FittedWindow:
    """A window of later weeks, and the policy of what was known before it."""

    past: Flags
    """[E]: the episodes that the policy was fitted to."""
    window: Flags
    """[E]: the episodes of the window."""
    policy: TreePolicy

    def measure_forecast(self, rows: Rows, seed: int) -> dict[str, Any]:
        """Measure the forecast in the window, for the card. `rows` are those of all episodes."""
        past_rows, window_rows = rows.select_episodes(self.past), rows.select_episodes(self.window)
        floor_h = forecast_metrics.compute_empirical_h(
            past_rows.logged_rows.wait_h, window_rows.wait_h.size
        )
        wait_h = self.policy.predict_wait_h(window_rows)
        return {
            "since": int(window_rows.start_point[0]),
            "until": int(window_rows.start_point[-1]),
            "learned_from": len(past_rows),
            "episodes": len(window_rows),
            **forecast_metrics.measure_forecast(wait_h, window_rows.wait_h, floor_h, seed),
        }


def fit_windows(
    rows: Rows,
    family: Family,
    windows: int,
    on_step: StepCallback = lambda: None,
    share: float = time_splits.NEWER,
) -> Iterator[FittedWindow]:
    """Fit a policy for each rolling window of the newest `share` of the hand-overs, to what was
    known before the window began.

    Calls `on_step` STEPS times for each window. Raises InputError for too few episodes.
    """
    for past, window in time_splits.split_rolling(rows, windows, share):
        policy = fit_policy(rows.select_episodes(past), family, on_step)
        yield FittedWindow(past, window, policy)


def measure_ranges(rows: Rows) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least and the greatest value of each number in the training data: [F] each."""
    return rows.flat.min(axis=0).tolist(), rows.flat.max(axis=0).tolist()
