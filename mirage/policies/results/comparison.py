"""Compares results on the same past hand-overs: which policy has clearly cost less."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Floats, Ints
from mirage.domain.decision import Waits
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.policies.rules.lead_rules import select_like_waits
from mirage.policies.rules.return_rule import BACK_S

LAST_JOBS, ENOUGH = 50, 10
"""The load is the mean wait of the last LAST_JOBS similar jobs. With fewer than ENOUGH of them,
jobs of other sizes count too."""


@dataclass(frozen=True, slots=True)
class Results:
    """N hand-overs of one size of chain on one cluster, each under P policies."""

    names: tuple[str, ...]
    """[P]: the names of the policies."""
    start_point: Ints
    """[N]: submission of the predecessor, epoch seconds, ascending, each once."""
    known_at: Ints
    """[N]: when the predecessor and its successors under all policies had ended or started."""
    load_h: Floats
    """[N]: the load in hours, from the waits that were known when the predecessor started."""
    x_h: Floats
    """[N, P]: start of the successor - end of the predecessor, hours; NaN where not known."""
    returns: Floats | None = None
    """[N, P]: how often the link gave its nodes back; None: no returns were played, as in the
    cards of older models."""

    @classmethod
    def create_empty(cls) -> Self:
        empty = np.zeros(0, dtype=np.int64)
        return cls((), empty, empty, np.zeros(0), np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.start_point)

    def select_known(self, at: int) -> Self:
        """Select the hand-overs that had ended by then."""
        if (self.known_at <= at).all():
            return self
        return self.select_rows(self.known_at <= at)

    def select_rows(self, rows: Ints | NDArray[np.bool_]) -> Self:
        """Select some of the hand-overs, by their numbers or by a mask [N]."""
        return type(self)(
            self.names,
            self.start_point[rows],
            self.known_at[rows],
            self.load_h[rows],
            self.x_h[rows],
            None if self.returns is None else self.returns[rows],
        )

    def compute_cost_h(self, name: str, price: float) -> Floats:
        """Return the cost in hours [N]; NaN where the policy has no outcome."""
        if name not in self.names:
            return np.full(len(self), np.nan)
        place = self.names.index(name)
        x_h = self.x_h[:, place]
        cost_h: Floats = np.maximum(x_h, 0.0) + price * np.maximum(-x_h, 0.0)
        if self.returns is not None:
            cost_h += price * self.returns[:, place] * (BACK_S / HOUR_S)
        return cost_h


def merge_results(parts: Sequence[Results]) -> Results:
    """Merge sets of results into one. A start point in several sets becomes one row; the later
    set wins where both have a value."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.names))
    points = [np.zeros(0, dtype=np.int64), *(part.start_point for part in parts)]
    start_point = np.unique(np.concatenate(points))
    known_at = np.zeros(len(start_point), dtype=np.int64)
    load_h = np.zeros(len(start_point))
    x_h = np.full((len(start_point), len(names)), np.nan)
    returns = np.zeros(x_h.shape)
    for part in parts:
        rows = np.searchsorted(start_point, part.start_point)
        known_at[rows] = np.maximum(known_at[rows], part.known_at)
        load_h[rows] = part.load_h
        for p, name in enumerate(part.names):
            has_value = np.isfinite(part.x_h[:, p])
            place = names.index(name)
            x_h[rows[has_value], place] = part.x_h[has_value, p]
            played = np.zeros(len(part)) if part.returns is None else part.returns[:, p]
            returns[rows[has_value], place] = played[has_value]
    return Results(names, start_point, known_at, load_h, x_h, returns)


def compute_load_h(jobs: Waits, nodes: int, time_limit_s: int) -> float:
    """Compute the mean wait of similar jobs that started lately, in hours; 0 if there are none."""
    waits = select_like_waits(jobs, nodes, time_limit_s, enough=ENOUGH)[-LAST_JOBS:]
    return float(waits.mean()) / HOUR_S if len(waits) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """The weight of a past hand-over in a decision about one that begins now."""

    half_life_days: float = 30.0
    load_width: float = 2.0
    """The width of the normal density over log(1 + hours) of the load."""
    fewest_days: float = 4.0
    """With results of fewer days (of equal weight), the first candidate in the order decides."""

    def compute_weights(self, results: Results, now: int, load: float) -> Floats:
        """Compute the weights [N] of past hand-overs, each at most 1."""
        age_days = (now - results.start_point) / DAY_S
        distance = (np.log1p(results.load_h) - np.log1p(load)) / self.load_width
        weights: Floats = np.exp2(-age_days / self.half_life_days) * np.exp(-(distance**2) / 2)
        return weights

    def is_clearly_positive(self, values: Floats, weights: Floats, day: Ints) -> bool:
        """Return whether the mean of `values` [N] exceeds its standard error by days.

        Days are taken as independent. Hand-overs of one day share the cluster's load, so a day's
        hand-overs count together. NaN values are left out.
        """
        has_value = np.isfinite(values)
        if not has_value.any():
            return False
        values, weights = values[has_value], weights[has_value]
        _, day_numbers = np.unique(day[has_value], return_inverse=True)
        by_day = np.bincount(day_numbers, weights)
        total = by_day.sum()
        days = total**2 / (by_day**2).sum() if total > 0.0 else 0.0
        if days < self.fewest_days:
            return False
        mean = (weights * values).sum() / total
        sums = np.bincount(day_numbers, weights * (values - mean))
        error = np.sqrt((sums**2).sum() * days / (days - 1.0)) / total
        return bool(mean > error)


def find_beaten(
    models: Sequence[str], rivals: Sequence[str], results: Results, price: float, fewest_days: float
) -> frozenset[str]:
    """Return the models that have cost more than one of the rivals (`explain_beaten`)."""
    reasons = {m: explain_beaten(m, rivals, results, price, fewest_days) for m in models}
    return frozenset(model for model, reason in reasons.items() if reason is not None)


def explain_beaten(
    model: str, rivals: Sequence[str], results: Results, price: float, fewest_days: float
) -> str | None:
    """Explain by which rival a model is beaten: the first one that has cost less, in the mean over
    the hand-overs of both. None: by none. Hand-overs of fewer than `fewest_days` days show nothing.
    """
    for rival in rivals:
        costs = _compute_mean_costs((model, rival), results, price, fewest_days)
        if costs is not None and costs[0] > costs[1]:
            return f"it costs {costs[0]:.2f} h a hand-over, and {rival} {costs[1]:.2f} h"
    return None


def order_by_cost(
    names: Sequence[str], results: Results, price: float, fewest_days: float
) -> list[str]:
    """Return the names, the cheapest first, by the mean over the hand-overs of all of them.

    Names without results come last. With hand-overs of fewer than `fewest_days` days in common,
    the order stays.
    """
    judged = [name for name in names if name in results.names]
    costs = _compute_mean_costs(judged, results, price, fewest_days)
    if costs is None:
        return list(names)
    ordered = [judged[place] for place in np.argsort(costs, kind="stable")]
    return [*ordered, *(name for name in names if name not in judged)]


def _compute_mean_costs(
    names: Sequence[str], results: Results, price: float, fewest_days: float
) -> Floats | None:
    """Compute the mean cost of each name, hours, over the hand-overs of all; None: too few days."""
    if not names or not len(results):
        return None
    cost_h = np.column_stack([results.compute_cost_h(name, price) for name in names])
    has_all = np.isfinite(cost_h).all(axis=1)
    if len(np.unique(results.start_point[has_all] // DAY_S)) < fewest_days:
        return None
    means: Floats = cost_h[has_all].mean(axis=0)
    return means


def choose_cheapest(
    order: Sequence[str], results: Results, weights: Floats, price: float, weighing: Weighing
) -> tuple[str, tuple[str, ...]]:
    """Return the first name in the order, unless a later one has clearly cost less.

    A later one that takes its place is compared with those after it in turn. The second result has
    the names that were chosen on the way and then replaced.
    """
    day = results.start_point // DAY_S
    chosen, dearer = order[0], list[str]()
    for other in order[1:]:
        saved_h = results.compute_cost_h(chosen, price) - results.compute_cost_h(other, price)
        if weighing.is_clearly_positive(saved_h, weights, day):
            dearer.append(chosen)
            chosen = other
    return chosen, tuple(dearer)
