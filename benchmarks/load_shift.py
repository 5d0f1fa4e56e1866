"""Trees beside the twin where the load is another than they learned from; tables of training weeks.

    python -m benchmarks.load_shift E.npz...

Four rolling windows of the newer half, and three thirds of the weeks by what plain Slurm's
interruption comes to in them: each third in turn is decided by who has learned from the others
only. Ways to P(late), each with its own factor of the boundary, found in what was learned from:
the ensemble as it is; without the twin's numbers; the mean of either with the twin's P(late); the
twin's P(late) corrected by trees fitted to what it misses, wholly and by half; the twin's alone.
Prints costs as shares of plain Slurm's at three prices, by third and of the windows together:
docs/decisions/0022-trees-beside-the-twin.md judges by the last column.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mirage.domain.arrays import Flags, Floats, Observations
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.features.observation import spec
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.settings import load_defaults
from mirage.learn.trees import stopping
from mirage.learn.trees.ensemble import create_family
from mirage.learn.trees.tree_training import PRICES
from mirage.studies.training.trainers import EVERY

WINDOWS = 4
_THIRDS = ("light third", "medium third", "heavy third")
_WEEK_S = 7 * 86400
_TREES = create_family("ensemble", load_defaults(), 0)

Ways = dict[str, Floats]
"""P(late) [R] by way."""
Split = tuple[str, Flags, Flags]
"""What is judged, and the masks [E] of what is learned from and of what is judged."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    paths = parser.parse_args(words).tables
    rows = Rows.from_tables([EpisodeTable.load(path) for path in paths], EVERY, twin=True)
    told: dict[str, list[tuple[str, Floats]]] = {}
    for name, learned, judged in splits(rows):
        _say(f"{name}: from {learned.sum()}", [f"{judged.sum()} hand-overs"])
        for way, cost_h in costs(
            rows.select_episodes(learned), rows.select_episodes(judged)
        ).items():
            told.setdefault(way, []).append((name, cost_h))
            _say(f"  {way}", cost_h.mean(axis=0))
    plain = told.pop("plain Slurm")
    for way, found in told.items():
        _say(way, _shares(found, plain))


def _shares(found: list[tuple[str, Floats]], plain: list[tuple[str, Floats]]) -> list[float]:
    """Of the windows together, of each third, and the mean of these two kinds, over the prices."""
    windows, *thirds = (_share(_of(found, k), _of(plain, k)) for k in ("window", *_THIRDS))
    return [windows, *thirds, (windows + float(np.mean(thirds))) / 2]


def _of(costs: list[tuple[str, Floats]], kind: str) -> Floats:
    """[E, P], hours."""
    return np.concatenate([cost_h for name, cost_h in costs if name == kind])


def _share(cost_h: Floats, plain_h: Floats) -> float:
    """Of plain Slurm's; where that is next to nothing, of LEAST_COST_H."""
    least = np.maximum(plain_h.mean(axis=0), stopping.LEAST_COST_H)
    return float((cost_h.mean(axis=0) / least).mean())


def splits(rows: Rows) -> Iterator[Split]:
    for learned, judged in time_splits.split_rolling(rows, WINDOWS):
        yield "window", learned, judged
    week = rows.start_point // _WEEK_S
    number, week_of = np.unique(week, return_inverse=True)
    plain_h = np.bincount(week_of, np.maximum(rows.outcome_h[:, -1], 0.0)) / np.bincount(week_of)
    third_of = np.argsort(np.argsort(plain_h)) * len(_THIRDS) // len(number)
    for third, name in enumerate(_THIRDS):
        judged = third_of[week_of] == third
        yield name, _apart(rows, judged), judged


def _apart(rows: Rows, judged: Flags) -> Flags:
    """Those that share no time with any that is judged."""
    begins, ends = rows.start_point[judged], np.sort(rows.known_at[judged])
    # `start_point` ascends: one that has begun, and is not yet known, at some time of another's.
    begun = np.searchsorted(begins, rows.known_at, side="left")
    known = np.searchsorted(ends, rows.start_point, side="right")
    shared_none: Flags = ~judged & (begun == known)
    return shared_none


def costs(past: Rows, later: Rows) -> dict[str, Floats]:
    """[E, P] by way, hours."""
    cost_h = stopping.compute_costs(later.outcome_h, PRICES)
    found = {"plain Slurm": cost_h[:, -1]}
    before, after = _cross_fitted(past), fitted(past, later)
    for way, late in after.items():
        factor = stopping.choose_factor(past, before[way].reshape(len(past), -1), PRICES)
        found[way] = stopping.compute_costs_at_factor(
            cost_h, late.reshape(len(later), -1), PRICES, factor
        )
    return found


def _cross_fitted(rows: Rows) -> Ways:
    """What `stopping.predict_cross_fitted` does, of each way."""
    found: Ways = {}
    for learned, judged in time_splits.split_into_blocks(rows, stopping.BLOCKS):
        for way, late in fitted(
            rows.select_episodes(learned), rows.select_episodes(judged)
        ).items():
            whole = found.setdefault(way, np.zeros((len(rows), len(rows.left_h))))
            whole[judged] = late.reshape(-1, len(rows.left_h))
    return found


def fitted(past: Rows, later: Rows) -> Ways:
    """P(late) later, [E x D] each."""
    late, twin = stopping.label_late(past), later.flat[:, -1].astype(np.float64)
    missed = late - past.flat[:, -1]
    trees = _fit(past.flat, late, later.flat)
    blind = _fit(_own(past), late, _own(later))
    correction = _fit(past.flat, missed, later.flat)
    return {
        "as it is": trees,
        "without the twin": blind,
        "mean with the twin": (trees + twin) / 2,
        "mean of without and the twin": (blind + twin) / 2,
        "twin, corrected": twin + correction,
        "twin, half corrected": twin + correction / 2,
        "twin": twin,
    }


def _fit(learned: Observations, target: Floats, asked: Observations) -> Floats:
    return _TREES.fit_mean(learned, target[:, None]).predict(asked)[:, 0]


def _own(rows: Rows) -> Observations:
    """Without the numbers of the twin."""
    return rows.flat[:, : len(spec.NAMES)]


def _say(name: str, line: Sequence[object] | Floats) -> None:
    cells = (f"{cell:>16}" if isinstance(cell, str) else f"{cell:8.3f}" for cell in line)
    sys.stdout.write(f"{name:<34}{''.join(cells)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
