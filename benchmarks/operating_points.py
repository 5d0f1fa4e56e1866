"""How the price of an operating point is best found, from tables of training weeks.

    python -m benchmarks.operating_points E.npz... [--twin]

On rolling windows of the tables, each decided by an ensemble that has learned from what was known
before it. Each window in turn is left out: from the others each way takes, for each budget of
overlap, the least price at which what it looks at is within the budget, and the window left out
shows what came of it. `kept`: of the windows in which the lowest price breaks the budget, how many
keep it; `excess`: by how much the others break it, hours; `two`: the same with two windows in a row
left out. docs/decisions/0021-operating-points.md judges by them.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.episodes.judge.day_bootstrap import compute_means, draw_day_counts
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.evaluation.operating_points import OVERLAPS_H, PRICES, compute_overlap_bound
from mirage.learn.settings import load_defaults
from mirage.learn.trees import stopping
from mirage.learn.trees.ensemble import create_family
from mirage.learn.trees.tree_training import PRICES as FACTOR_PRICES
from mirage.policy.rules.late_threshold import is_late_enough
from mirage.studies.training.trainers import EVERY

_DAY_S = 86400
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Decided:
    """Hand-overs of one size, each decided at every price by who had not seen it."""

    x_h: Floats
    """[P, E], signed hours."""
    plain_h: Floats
    """[E]: left to plain Slurm."""
    window: Ints
    start_point: Ints

    def part(self, which: Any) -> "Decided":
        return Decided(
            self.x_h[:, which], self.plain_h[which], self.window[which], self.start_point[which]
        )

    @property
    def overlap_h(self) -> Floats:
        """[P, E]."""
        return np.maximum(-self.x_h, 0.0)

    @property
    def day(self) -> Ints:
        return self.start_point // _DAY_S


Way = Callable[[Decided], Floats]
"""[P]: what has to be within the budget."""


def _mean(seen: Decided) -> Floats:
    found: Floats = seen.overlap_h.mean(axis=1)
    return found


def _upper(percent: float) -> Way:
    def upper(seen: Decided) -> Floats:
        counts = draw_day_counts(seen.start_point, draws=_DRAWS)
        return np.array([np.percentile(compute_means(counts, h), percent) for h in seen.overlap_h])

    return upper


def _worst(seen: Decided) -> Floats:
    return _largest(seen, seen.window)


def _worst_third(seen: Decided) -> Floats:
    """Of three windows, as a card has."""
    return _largest(seen, np.arange(len(seen.window)) * 3 // len(seen.window))


def _largest(seen: Decided, group: Ints) -> Floats:
    parts = [seen.overlap_h[:, group == g].mean(axis=1) for g in np.unique(group)]
    found: Floats = np.max(parts, axis=0)
    return found


def _heavier(seen: Decided) -> Floats:
    """The days on which plain Slurm interrupts longer than on the median day."""
    day_of = np.unique(seen.day, return_inverse=True)[1]
    load_h = np.bincount(day_of, np.maximum(seen.plain_h, 0.0)) / np.bincount(day_of)
    found: Floats = seen.overlap_h[:, load_h[day_of] >= np.median(load_h)].mean(axis=1)
    return found


def _fortnight(seen: Decided) -> Floats:
    return np.array([compute_overlap_bound(h, seen.start_point) for h in seen.overlap_h])


WAYS: dict[str, Way] = {
    "mean": _mean,
    "upper 95 %": _upper(95.0),
    "upper 97.5 %": _upper(97.5),
    "heavier half": _heavier,
    "worst third": _worst_third,
    "worst window": _worst,
    "fortnight": _fortnight,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One budget in a window left out, by one way's price."""

    price: float | None
    overlap_h: float
    share: float
    """Of plain Slurm's interruption that is left."""
    breakable: bool
    """The lowest price would break it."""


def cells(decided: Decided, way: Way, budget_h: float, together: int) -> Iterator[Cell]:
    """`together` windows in a row left out at a time."""
    last = int(decided.window.max()) + 1
    for first in range(last - together + 1):
        out = (decided.window >= first) & (decided.window < first + together)
        found = np.flatnonzero(way(decided.part(~out)) <= budget_h)
        later = decided.part(out)
        x_h = later.x_h[found[0]] if len(found) else later.plain_h
        plain_h = float(np.maximum(later.plain_h, 0.0).mean())
        yield Cell(
            PRICES[found[0]] if len(found) else None,
            float(np.maximum(-x_h, 0.0).mean()),
            float(np.maximum(x_h, 0.0).mean()) / plain_h if plain_h else 1.0,
            bool(later.overlap_h[0].mean() > budget_h),
        )


def report(decided: Decided) -> list[dict[str, Any]]:
    """A line for each budget and way."""
    return [
        {"budget_h": budget_h, "way": name}
        | _told(list(cells(decided, way, budget_h, 1)), budget_h)
        | {
            f"two_{k}": v
            for k, v in _told(list(cells(decided, way, budget_h, 2)), budget_h).items()
        }
        for budget_h in OVERLAPS_H
        for name, way in WAYS.items()
    ]


def _told(found: list[Cell], budget_h: float) -> dict[str, Any]:
    asked = [cell for cell in found if cell.breakable]
    over = [cell.overlap_h - budget_h for cell in asked if cell.overlap_h > budget_h]
    return {
        "windows": len(asked),
        "kept": len(asked) - len(over),
        "excess_h": float(np.mean(over)) if over else 0.0,
        "left": float(np.mean([cell.share for cell in found])),
        "prices": [cell.price for cell in found],
    }


def decided_by_window(rows: Rows, windows: int) -> dict[int, Decided]:
    """By size of chain."""
    trees = create_family("ensemble", load_defaults(), 0)
    parts, window = [], []
    for place, (learned, judged) in enumerate(time_splits.split_rolling(rows, windows)):
        past, later = rows.select_episodes(learned), rows.select_episodes(judged)
        factor = stopping.choose_factor(
            past, stopping.predict_cross_fitted(past, trees), FACTOR_PRICES
        )
        late = stopping.fit_late_trees(past, trees).predict(later.flat).reshape(len(later), -1)
        parts.append(outcomes(later.outcome_h, late, factor))
        window.append(np.full(len(later), place))
        sys.stderr.write(f"{len(past)} hand-overs, then {len(later)}: factor {factor}\n")
    x_h, at = np.concatenate(parts, axis=1), np.concatenate(window)
    return by_size(rows.select_episodes(np.arange(len(rows)) >= len(rows) - len(at)), x_h, at)


def outcomes(outcome_h: Floats, late: Floats, factor: float) -> Floats:
    """[P, E]."""
    episodes = np.arange(len(outcome_h))
    frees = (stopping.find_first_free(is_late_enough(late, price, factor)) for price in PRICES)
    return np.array([outcome_h[episodes, k] for k in frees])


def by_size(rows: Rows, x_h: Floats, window: Ints) -> dict[int, Decided]:
    """Of the `rows` that were judged."""
    whole = Decided(x_h, rows.outcome_h[:, -1], window, rows.start_point)
    return {n: whole.part(rows.nodes == n) for n in np.unique(rows.nodes).tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", nargs="+", type=Path, metavar="E.npz")
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    rows = Rows.from_tables(
        [EpisodeTable.load(path) for path in words.tables], EVERY, twin=words.twin
    )
    found = {n: report(d) for n, d in decided_by_window(rows, words.windows).items()}
    print(json.dumps(found) if words.json else "\n".join(shown(found)))


def shown(found: dict[int, list[dict[str, Any]]]) -> Iterator[str]:
    yield "| nodes | budget h | way | kept | excess h | left % | two: kept | excess h | prices |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for nodes, lines in found.items():
        for f in lines:
            two = f"{f['two_kept']}/{f['two_windows']} | {f['two_excess_h']:.2f}"
            yield (
                f"| {nodes} | {f['budget_h']} | {f['way']} | {f['kept']}/{f['windows']} "
                f"| {f['excess_h']:.2f} | {100 * f['left']:.0f} | {two} "
                f"| {' '.join(str(p) for p in f['prices'])} |"
            )


if __name__ == "__main__":
    main()
