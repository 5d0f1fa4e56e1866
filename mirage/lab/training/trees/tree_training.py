"""Makes a policy from rows: fits a forecast of the wait, calibrates it, and judges on later
weeks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import HOUR_S
from mirage.judging.evaluation import (
    Figures,
    HandoverOutcomes,
    build_class_masks,
    evaluate_policies,
)
from mirage.lab.training.dataset import Rows
from mirage.lab.training.metrics import forecast_metrics, operating_points, time_splits
from mirage.lab.training.metrics.handover_costs import compute_costs
from mirage.lab.training.trees.tree_families import Family, FittedForecast
from mirage.policies.models import conformal, quantiles
from mirage.policies.models.conformal import QuantileShifts
from mirage.policies.rules.release_cost import ReleaseCosts

PRICES = (0.15, 0.5, 1.5)
"""The overlap prices at which the card has what the policy chose on weeks that it had not seen."""
HELD_BACK = 0.2
"""The share of the hand-overs, the newest, on which the forecast's adjustment is found."""
STEPS = 2
"""The number of fits for one policy."""

StepCallback = Callable[[], None]


@dataclass(frozen=True, slots=True)
class TreePolicy:
    """A policy of trees."""

    wait: FittedForecast
    shifts: QuantileShifts
    """The conformal adjustment of the forecast."""

    def choose_instants(
        self, rows: Rows, prices: Sequence[float]
    ) -> dict[float, NDArray[np.int64]]:
        """Choose by price, [E], the instant at which each successor is freed; D for never. An
        early link holds its nodes."""
        wait_s = np.round(self.predict_wait_h(rows) * HOUR_S).reshape(
            len(rows), len(rows.left_h), -1
        )
        left_s = rows.left_h * HOUR_S
        return {
            price: np.array([_find_release(waits, left_s, price) for waits in wait_s])
            for price in prices
        }

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


def _find_release(wait_s: Floats, left_s: Floats, price: float) -> int:
    """Find the first of D instants at which no later release is expected to cost less, by the waits
    [D, Q] that are forecast there; D if there is none."""
    for k, (waits, left) in enumerate(zip(wait_s, left_s, strict=True)):
        if left <= waits[-1]:  # nothing is freed sooner than its longest wait
            best = ReleaseCosts(waits, price, returns=0).choose_release(left)
            if left - best.lead_s < 1:
                return k
    return len(left_s)


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


WindowCallback = Callable[[NDArray[np.bool_], float, NDArray[np.int64]], None]
"""A window's mask [E], a price, and the instants chosen in it."""


def judge_family(
    rows: Rows,
    family: Family,
    windows: int,
    seed: int,
    on_step: StepCallback = lambda: None,
    on_window: WindowCallback = lambda *_: None,
) -> dict[str, Any]:
    """Judge policies on rolling windows: each learns from the past and decides in the weeks after
    it.

    `policies` has the figures of `mirage evaluate`; `fixed-lead` is the constant lead that was best
    in the past. `forecast` has one entry for each window. Calls `on_step` STEPS times for
    each window, and `on_window` for each window and price of `operating_points.PRICES`.
    """
    policies: dict[str, list[HandoverOutcomes]] = {}
    forecasts = []
    for past_mask, window in time_splits.split_rolling(rows, windows):
        past_rows, window_rows = rows.select_episodes(past_mask), rows.select_episodes(window)
        fitted = fit_policy(past_rows, family, on_step)
        forecasts.append(_measure_window_forecast(fitted, past_rows, window_rows, seed))
        by_price = fitted.choose_instants(window_rows, operating_points.PRICES)
        instants_by_policy = choose_baselines(past_rows, window_rows) | {
            family.name: by_price[OVERLAP_PRICE]
        }
        for name, instants in instants_by_policy.items():
            policies.setdefault(name, []).append(build_handovers(window_rows, instants))
        for price, instants in by_price.items():
            on_window(window, price, instants)
    return {
        "overlap_price": OVERLAP_PRICE,
        "policies": summarize_windows(policies),
        "forecast": forecasts,
    }


def _measure_window_forecast(
    fitted: TreePolicy, past_rows: Rows, window_rows: Rows, seed: int
) -> dict[str, Any]:
    floor = forecast_metrics.compute_empirical_h(
        past_rows.logged_rows.wait_h, window_rows.wait_h.size
    )
    metrics = forecast_metrics.measure_forecast(
        fitted.predict_wait_h(window_rows), window_rows.wait_h, floor, seed
    )
    window = {"since": int(window_rows.start_point[0]), "until": int(window_rows.start_point[-1])}
    return window | {"learned_from": len(past_rows), "episodes": len(window_rows)} | metrics


def choose_baselines(past_rows: Rows, window_rows: Rows) -> dict[str, NDArray[np.int64]]:
    """Return the instants [E] chosen by policies that learn nothing, or only one number."""
    cost_h = compute_costs(window_rows.outcome_h, (OVERLAP_PRICE,))[:, :, 0]
    last = cost_h.shape[1] - 1
    return {
        "reactive": np.full(len(window_rows), last),
        "oracle": last - cost_h[:, ::-1].argmin(axis=1),
        "fixed-lead": np.full(
            len(window_rows), find_best_constant(past_rows.logged_rows, OVERLAP_PRICE)
        ),
    }


def find_best_constant(rows: Rows, price: float) -> int:
    """Find the instant with the least mean cost; of equals the last."""
    mean = compute_costs(rows.outcome_h, (price,))[:, :, 0].mean(axis=0)
    return len(mean) - 1 - int(mean[::-1].argmin())


def build_handovers(rows: Rows, instants: NDArray[np.int64]) -> HandoverOutcomes:
    """Build the results of the hand-overs, each freed at its instant of `instants` [E]."""
    left_h = np.append(rows.left_h, 0.0)
    x_h = rows.outcome_h[np.arange(len(rows)), instants]
    return HandoverOutcomes(start_point=rows.start_point, x_h=x_h, lead_h=left_h[instants])


def summarize_windows(policies: dict[str, list[HandoverOutcomes]]) -> Figures:
    """Evaluate all windows together; `reactive` and `oracle` must be among the policies."""
    outcomes: dict[str, HandoverOutcomes] = {
        n: HandoverOutcomes.join_outcomes(p) for n, p in policies.items()
    }
    masks = build_class_masks(outcomes["reactive"].interruption_h)
    return evaluate_policies(outcomes, masks, OVERLAP_PRICE)


def measure_ranges(rows: Rows) -> tuple[Sequence[float], Sequence[float]]:
    """Return the least and the greatest value of each number in the training data: [F] each."""
    return rows.flat.min(axis=0).tolist(), rows.flat.max(axis=0).tolist()
