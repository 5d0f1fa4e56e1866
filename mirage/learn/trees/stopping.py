"""Chooses the instant to free: the threshold on P(late) that costs least over whole hand-overs.

A forecast gives P(late): the probability that the successor, freed now, would start after its
predecessor's end. If the wait were the same at every instant, the newsvendor's rule would be right:
free as soon as the odds of being late reach the overlap price. But waits change, and freeing cannot
be undone. The threshold is therefore odds = factor x price. The factor is one number for all
prices, found by search over the tables, which have the cost of freeing at every instant.
docs/research/train.md describes the alternatives that were tried.
"""

from collections.abc import Callable, Sequence
from math import log

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.trees.tree_families import Family, Trees
from mirage.policy.rules.late_threshold import is_late_enough

FACTORS = (0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4)
"""The factors that the search tries. 1 is the newsvendor's rule."""
BLOCKS = 4
"""The blocks of cross-fitting."""
LEAST_COST_H = 0.1
"""The least cost of plain Slurm by which other costs are divided, hours."""

StepCallback = Callable[[], None]


def label_late(rows: Rows) -> Floats:
    """Return [E x D]: 1 if the successor, freed then, started after its predecessor's end."""
    return (rows.outcome_h[:, :-1] > 0.0).astype(np.float64).ravel()


def compute_costs(outcome_h: Floats, prices: Sequence[float]) -> Floats:
    """Compute interruption + price x overlap, hours: [..., P]."""
    interruption = np.maximum(outcome_h, 0.0)[..., None]
    overlap = np.maximum(-outcome_h, 0.0)[..., None]
    found: Floats = interruption + np.asarray(prices) * overlap
    return found


def find_first_free(frees: Flags) -> Ints:
    """Return the instant [E] that decisions [E, D] choose; D if none frees."""
    found: Ints = np.where(frees.any(axis=1), frees.argmax(axis=1), frees.shape[1])
    return found


def predict_cross_fitted(rows: Rows, family: Family, told: StepCallback = lambda: None) -> Floats:
    """Predict P(late) [E, D], each episode by trees that saw no hand-over of its block of time.

    Trees that know the outcomes would be too sure of themselves.
    """
    found = np.zeros((len(rows), len(rows.left_h)))
    for learned, judged in time_splits.split_into_blocks(rows, BLOCKS):
        trees = fit_late_trees(rows.select_episodes(learned), family)
        found[judged] = trees.predict(rows.select_episodes(judged).flat).reshape(-1, found.shape[1])
        told()
    return found


def fit_late_trees(rows: Rows, family: Family) -> Trees:
    """Fit trees that predict P(late) from the observation."""
    return family.fit_mean(rows.flat, label_late(rows)[:, None])


def choose_factor(rows: Rows, probability: Floats, prices: Sequence[float]) -> float:
    """Choose the factor of FACTORS with the least cost over all prices. Of equals, choose the one
    nearest to 1.

    Costs are shares of plain Slurm's cost at each price.
    """
    shares = compute_cost_shares(rows, probability, prices).mean(axis=1)
    ranked = sorted(zip(shares, FACTORS, strict=True), key=lambda s: (s[0], abs(log(s[1]))))
    return ranked[0][1]


def compute_cost_shares(rows: Rows, probability: Floats, prices: Sequence[float]) -> Floats:
    """Compute the mean cost at each factor and price, divided by plain Slurm's: [factors, P]."""
    cost_h = compute_costs(rows.outcome_h, prices)
    reactive = np.maximum(cost_h[:, -1].mean(axis=0), LEAST_COST_H)
    means = [compute_costs_at_factor(cost_h, probability, prices, f).mean(axis=0) for f in FACTORS]
    found: Floats = np.array(means) / reactive
    return found


def compute_costs_at_factor(
    cost_h: Floats, probability: Floats, prices: Sequence[float], factor: float
) -> Floats:
    """Compute the cost [E, P] of each hand-over, freed at this threshold; hours.

    `cost_h` as from `compute_costs`.
    """
    chosen = [find_first_free(is_late_enough(probability, price, factor)) for price in prices]
    episodes = np.arange(len(cost_h))
    return np.column_stack([cost_h[episodes, k, p] for p, k in enumerate(chosen)])
