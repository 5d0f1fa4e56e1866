"""How the boundary's factor is best chosen, from tables of training weeks.

    python -m benchmarks.boundary_factors E.npz... [--twin]

On rolling windows of the tables, what each factor of the ensemble would have cost in a window at
each price, and what came of two ways to choose one in the weeks before: the cheapest, or the one
nearest to 1 (the newsvendor's) that is not dearer by more than a standard error over days.
"""

import argparse
import sys
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np

from mirage.cli.training import EVERY
from mirage.episodes.table import EpisodeTable
from mirage.learn import folds, stopping
from mirage.learn.ensemble import family
from mirage.learn.rows import Floats, Rows
from mirage.learn.settings import read
from mirage.learn.stopping import FACTORS
from mirage.learn.train import PRICES
from mirage.policy.boundary import late_enough

_DAY_S = 86400


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--windows", type=int, default=3)
    options = parser.parse_args(arguments)
    rows = Rows.of([EpisodeTable.load(path) for path in options.tables], EVERY, twin=options.twin)
    totals: dict[str, list[Floats]] = {"cheapest": [], "nearest to 1": []}
    for chosen, cost_h in _windows(rows, options.windows):
        for factor, line in zip(FACTORS, cost_h, strict=True):
            _say(f"  {factor}", line)
        for name, factor in chosen.items():
            totals[name].append(cost_h[FACTORS.index(factor)])
            _say(f"  {name}: {factor}", totals[name][-1])
    for name, lines in totals.items():
        _say(f"{name}, mean of the windows", np.mean(lines, axis=0))
    return 0


def _windows(rows: Rows, count: int) -> Iterator[tuple[dict[str, float], Floats]]:
    """What each way chooses in the past of a window, and costs in it: [factors, P] hours."""
    trees = family("ensemble", read(None), 0)
    for learned, window in folds.rolling(rows, count):
        past, later = rows.part(learned), rows.part(window)
        before = stopping.cross_fitted(past, trees)
        late = stopping.fitted(past, trees).predict(later.flat).reshape(len(later), -1)
        cost_h = np.array([_costs(later, late, factor).mean(axis=0) for factor in FACTORS])
        _say(f"{len(past)} hand-overs, then {len(later)}; price", np.array(PRICES))
        yield _choices(past, before), cost_h


def _choices(past: Rows, late: Floats) -> dict[str, float]:
    plain_h = stopping.costs(past.outcome_h, PRICES)[:, -1].mean(axis=0)
    share = np.array([(_costs(past, late, f) / plain_h).mean(axis=1) for f in FACTORS])
    dearer = share - share[share.mean(axis=1).argmin()]
    good = dearer.mean(axis=1) <= _standard_errors(dearer, past.start_point // _DAY_S)
    tied = [f for f, is_good in zip(FACTORS, good, strict=True) if is_good]
    nearest = min(tied, key=lambda f: abs(log(f)))
    return {"cheapest": stopping.factor(past, late, PRICES), "nearest to 1": nearest}


def _costs(rows: Rows, late: Floats, factor: float) -> Floats:
    """[E, P]: what each hand-over costs, hours."""
    cost_h = stopping.costs(rows.outcome_h, PRICES)
    frees = [stopping.first_free(late_enough(late, price, factor)) for price in PRICES]
    return np.column_stack([cost_h[np.arange(len(rows)), k, p] for p, k in enumerate(frees)])


def _standard_errors(values: Floats, day: np.ndarray) -> Floats:
    """[N]: of the means of `values` [N, E], whole days being independent."""
    _, day_of = np.unique(day, return_inverse=True)
    off = values - values.mean(axis=1, keepdims=True)
    sums = np.array([np.bincount(day_of, row) for row in off])
    found: Floats = np.sqrt((sums**2).sum(axis=1)) / values.shape[1]
    return found


def _say(name: str, line: Floats) -> None:
    sys.stdout.write(f"{name:<34}" + "".join(f"{value:8.2f}" for value in line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
