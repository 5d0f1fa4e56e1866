"""Rules of stopping beside each other, on rolling folds of training tables.

`python -m benchmarks.stopping_rules E.npz...`: the best constant lead of the past, the newsvendor's
boundary on P(late), the boundary that `mirage train` searches for, and least-squares Monte Carlo:
the difference in cost between freeing now and following the policy so far, regressed on the
observation, twice improved from the constant lead. Trees of both families; mean cost in hours.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Flags, Floats
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.trees import stopping, tree_training
from mirage.learn.trees.tree_families import Boosted, Family, Forest, Trees
from mirage.policy.rules.late_threshold import is_late_enough
from mirage.studies.training.trainers import EVERY

PRICES = tree_training.PRICES
ROUNDS = 3

Chosen = list[NDArray[np.int64]]
"""By price: [E]."""


def advantages(cost_h: Floats, frees: Flags) -> Floats:
    """[E, D, P]: the cost of freeing now - of waiting on and following `frees` ([E, D, P])."""
    found = np.empty(frees.shape)
    later = cost_h[:, -1]
    for k in range(frees.shape[1] - 1, -1, -1):
        found[:, k] = cost_h[:, k] - later
        later = np.where(frees[:, k], cost_h[:, k], later)
    return found


def monte_carlo(past: Rows, later: Rows, family: Family) -> Chosen:
    cost_h = stopping.compute_costs(past.outcome_h, PRICES)
    leads = [tree_training.find_best_constant(past, price) for price in PRICES]
    frees = np.arange(len(past.left_h))[:, None] >= np.array(leads)
    frees = np.broadcast_to(frees, (len(past), *frees.shape))
    for _ in range(ROUNDS - 1):
        frees = _improved(past, advantages(cost_h, frees), family)
    model = _regression(past, advantages(cost_h, frees), family)
    return [stopping.find_first_free(d) for d in np.moveaxis(_decisions(model, later), 2, 0)]


def _improved(rows: Rows, target: Floats, family: Family) -> Flags:
    """Cross-fitted: trees that know the outcomes would think waiting too cheap."""
    frees = np.zeros(target.shape, dtype=np.bool_)
    for learned, judged in time_splits.split_into_blocks(rows, stopping.BLOCKS):
        model = _regression(rows.select_episodes(learned), target[learned], family)
        frees[judged] = _decisions(model, rows.select_episodes(judged))
    return frees


def _regression(rows: Rows, target: Floats, family: Family) -> Trees:
    return family.fit_mean(rows.flat, target.reshape(-1, len(PRICES)))


def _decisions(model: Trees, rows: Rows) -> Flags:
    advantage = model.predict(rows.flat).reshape(len(rows), -1, len(PRICES))
    return np.asarray(advantage < 0.0)


def boundaries(past: Rows, later: Rows, family: Family) -> Iterator[tuple[str, Chosen]]:
    searched = stopping.choose_factor(past, stopping.predict_cross_fitted(past, family), PRICES)
    late = stopping.fit_late_trees(past, family).predict(later.flat).reshape(len(later), -1)
    for name, factor in (("newsvendor", 1.0), ("searched", searched)):
        frees = [is_late_enough(late, price, factor) for price in PRICES]
        yield f"{family.name} {name}", [stopping.find_first_free(f) for f in frees]


def rules(past: Rows, later: Rows) -> Iterator[tuple[str, Chosen]]:
    last = len(later.left_h)
    yield "reactive", [np.full(len(later), last) for _ in PRICES]
    leads = (tree_training.find_best_constant(past, price) for price in PRICES)
    yield "constant lead", [np.full(len(later), k) for k in leads]
    for kind in (Forest, Boosted):
        family = kind()
        yield from boundaries(past, later, family)
        yield f"{family.name} Monte Carlo", monte_carlo(past, later, family)


def costs_by_rule(rows: Rows, windows: int) -> dict[str, list[Floats]]:
    """[P] for each window: mean cost, hours."""
    found: dict[str, list[Floats]] = {}
    for learned, window in time_splits.split_rolling(rows, windows):
        later = rows.select_episodes(window)
        cost_h = stopping.compute_costs(later.outcome_h, PRICES)
        for name, chosen in rules(rows.select_episodes(learned), later):
            by_price = [cost_h[np.arange(len(later)), k, p].mean() for p, k in enumerate(chosen)]
            found.setdefault(name, []).append(np.array(by_price))
        found.setdefault("oracle", []).append(cost_h.min(axis=1).mean(axis=0))
    return found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    given = parser.parse_args(words)
    rows = Rows.from_tables([EpisodeTable.load(path) for path in given.tables], EVERY)
    print("rule, by price", *PRICES, "(mean of the windows; the windows at 0.5)", sep="  ")
    for name, windows in costs_by_rule(rows, 3).items():
        means = "  ".join(f"{cost:5.2f}" for cost in np.mean(windows, axis=0))
        print(f"{name:22} {means}   {' '.join(f'{w[1]:5.2f}' for w in windows)}")


if __name__ == "__main__":
    main()
