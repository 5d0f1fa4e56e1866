"""How the boundary's factor is best chosen, from tables of training weeks.

    python -m benchmarks.boundary_factors E.npz... [--twin]

On rolling windows of the tables, what each factor of the ensemble would have cost in a window at
each price, and what came of three ways to choose one in the weeks before: the cheapest; the one
nearest to 1 (the newsvendor's) that is not dearer by more than a standard error over days; the
geometric mean of the cheapest in draws of days with replacement. The last lines are shares of the
reactive cost, summed over the windows: docs/decisions/0017-the-boundary-factor.md judges by them.
"""

import argparse
import sys
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np

from mirage.domain.arrays import Floats
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.settings import load_settings
from mirage.learn.trees import stopping
from mirage.learn.trees.ensemble import create_family
from mirage.learn.trees.stopping import FACTORS
from mirage.learn.trees.tree_training import PRICES
from mirage.studies.training.trainers import EVERY

_DAY_S = 86400
_DRAWS = 200


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args(arguments)
    rows = Rows.from_tables(
        [EpisodeTable.load(path) for path in options.tables], EVERY, twin=options.twin
    )
    totals: dict[str, list[Floats]] = {}
    for window in _windows(rows, options.windows):
        for name, line in window.items():
            totals.setdefault(name, []).append(line)
    reactive_h = np.sum(totals.pop("reactive"), axis=0)
    for name, lines in totals.items():
        share = np.sum(lines, axis=0) / reactive_h
        _say(f"{name}, share of reactive", np.append(share, share.mean()), digits=4)
    return 0


def _windows(rows: Rows, count: int) -> Iterator[dict[str, Floats]]:
    """What each way to choose in the past of a window costs in it: [P] hours, summed."""
    trees = create_family("ensemble", load_settings(None), 0)
    for learned, window in time_splits.split_rolling(rows, count):
        past, later = rows.select_episodes(learned), rows.select_episodes(window)
        before = stopping.predict_cross_fitted(past, trees)
        late = stopping.fit_late_trees(past, trees).predict(later.flat).reshape(len(later), -1)
        _say(f"{len(past)} hand-overs, then {len(later)}; price", np.array(PRICES))
        for factor in FACTORS:
            _say(f"  {factor:.3g}", _costs(later, late, factor).mean(axis=0))
        costs = {"reactive": stopping.compute_costs(later.outcome_h, PRICES)[:, -1]}
        for name, factor in _choices(past, before).items():
            costs[name] = _costs(later, late, factor)
            _say(f"  {name}: {factor:.3g}", costs[name].mean(axis=0))
        yield {name: cost_h.sum(axis=0) for name, cost_h in costs.items()}


def _choices(past: Rows, late: Floats) -> dict[str, float]:
    plain_h = stopping.compute_costs(past.outcome_h, PRICES)[:, -1].mean(axis=0)
    share = np.array([(_costs(past, late, f) / plain_h).mean(axis=1) for f in FACTORS])
    day = past.start_point // _DAY_S
    cheapest = stopping.choose_factor(past, late, PRICES)
    return {
        "cheapest": cheapest,
        "nearest to 1": _nearest(share, day),
        "bagged": _bagged(share, day),
    }


def _nearest(share: Floats, day: np.ndarray) -> float:
    dearer = share - share[share.mean(axis=1).argmin()]
    good = dearer.mean(axis=1) <= _standard_errors(dearer, day)
    tied = [f for f, is_good in zip(FACTORS, good, strict=True) if is_good]
    return min(tied, key=lambda f: abs(log(f)))


def _bagged(share: Floats, day: np.ndarray) -> float:
    """`share`: [N, E], summed by day; each draw takes as many days as there are."""
    _, day_of = np.unique(day, return_inverse=True)
    sums = np.array([np.bincount(day_of, row) for row in share])
    draws = np.random.default_rng(0).integers(sums.shape[1], size=(_DRAWS, sums.shape[1]))
    best = sums[:, draws].sum(axis=2).argmin(axis=0)
    return float(np.exp(np.log(FACTORS)[best].mean()))


def _costs(rows: Rows, late: Floats, factor: float) -> Floats:
    """[E, P]: what each hand-over costs, hours."""
    return stopping.compute_costs_at_factor(
        stopping.compute_costs(rows.outcome_h, PRICES), late, PRICES, factor
    )


def _standard_errors(values: Floats, day: np.ndarray) -> Floats:
    """[N]: of the means of `values` [N, E], whole days being independent."""
    _, day_of = np.unique(day, return_inverse=True)
    off = values - values.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(day_of, row) for row in off])
    found: Floats = np.sqrt((sums**2).sum(axis=1)) / values.shape[1]
    return found


def _say(name: str, line: Floats, digits: int = 2) -> None:
    sys.stdout.write(f"{name:<34}" + "".join(f"{value:8.{digits}f}" for value in line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
