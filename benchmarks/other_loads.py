"""Whether tables at other loads make trees better where the load shifts; training weeks only.

    python -m benchmarks.other_loads LOGGED.npz... LIGHTER.npz... HEAVIER.npz...

Tables of one cluster at its logged load and at others (`mirage episodes --load`). The newer half of
the weeks is cut into three windows; in each, hand-overs at each load are decided by the ensemble as
it learns from what was known before the window: from tables at the logged load alone; or from those
and the other loads, but never from the load that is judged unless that is the logged one. Where all
tables have the twin's answers the ensemble knows them; besides the mean of its P(late) and the
twin's decides, and the twin's alone, each with its own factor (that of the twin alone is found at
the logged load, that of the others at all loads learned from). Prints what each costs at three
prices as shares of plain Slurm's (where that is next to nothing, of 0.1 h), by window, and the
hours at price 0.5: docs/decisions/0023-other-loads.md and 0024-the-mean-with-the-twin.md judge by
it.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.handover import OVERLAP_PRICE
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.settings import load_defaults
from mirage.learn.trees import stopping
from mirage.learn.trees.ensemble import create_family
from mirage.learn.trees.tree_training import PRICES
from mirage.studies.training.trainers import EVERY

WINDOWS = 3
_TREES = create_family("ensemble", load_defaults(), 0)
_LOGGED, _OTHERS, _TWIN = "logged load alone", "other loads too", "twin"
_MEAN, _FACTOR = ", mean with the twin", ", factor as logged"


@dataclass(frozen=True, slots=True)
class Judged:
    """What plain Slurm and each way cost at one load; [E, P] each, hours."""

    plain: Floats
    by_way: dict[str, Floats]

    @classmethod
    def together(cls, parts: Sequence["Judged"]) -> "Judged":
        ways = {way: np.concatenate([p.by_way[way] for p in parts]) for way in parts[0].by_way}
        return cls(np.concatenate([p.plain for p in parts]), ways)

    def lines(self, load: float, when: str) -> Iterator[str]:
        least = np.maximum(self.plain.mean(axis=0), stopping.LEAST_COST_H)
        at = PRICES.index(OVERLAP_PRICE)
        for way, cost_h in self.by_way.items():
            share = float((cost_h.mean(axis=0) / least).mean())
            yield (
                f"| {load} | {when} | {len(cost_h)} | {way} | {share:.3f} "
                f"| {cost_h[:, at].mean():.2f} | {self.plain[:, at].mean():.2f} |"
            )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    tables = [EpisodeTable.load(path) for path in parser.parse_args(words).tables]
    by_load: dict[float, list[EpisodeTable]] = {}
    for table in tables:
        by_load.setdefault(table.about.load, []).append(table)
    _say("| load | window | hand-overs | way | share of plain Slurm's | h at 0.5 | plain h |")
    _say("|---|---|---|---|---|---|---|")
    if 1.0 not in by_load:
        sys.exit("other_loads: a table at the trace's own load is needed")
    logged = _rows(by_load[1.0])
    windows = (window for _, window in time_splits.split_rolling(logged, WINDOWS))
    edges = [int(logged.start_point[window].min()) for window in windows]
    for load in sorted(by_load):
        parts = []
        for number, judged in enumerate(_windows(_rows(by_load[load]), edges)):
            parts.append(_judged(by_load, load, judged))
            for line in parts[-1].lines(load, str(number + 1)):
                _say(line)
        for line in Judged.together(parts).lines(load, "all"):
            _say(line)


def _rows(tables: Sequence[EpisodeTable]) -> Rows:
    return Rows.from_tables(tables, EVERY, twin=all(table.twins is not None for table in tables))


def _windows(rows: Rows, edges: Sequence[int]) -> Iterator[Rows]:
    for since, until in zip(edges, [*edges[1:], sys.maxsize], strict=True):
        yield rows.select_episodes((rows.start_point >= since) & (rows.start_point < until))


def _judged(by_load: dict[float, list[EpisodeTable]], load: float, judged: Rows) -> Judged:
    cost_h = stopping.compute_costs(judged.outcome_h, PRICES)
    begins = int(judged.start_point.min())
    others = [t for at, ts in by_load.items() if at == 1.0 or at != load for t in ts]
    logged = _before(_rows(by_load[1.0]), begins)
    whole = _before(_rows(others), begins)
    ways = _spent(logged, judged, cost_h, _LOGGED) | _spent(whole, judged, cost_h, _OTHERS)
    if judged.twin is not None:
        ways[_TWIN] = _by(_twin(logged), _twin(judged), logged, cost_h)
    return Judged(cost_h[:, -1], ways)


def _before(rows: Rows, begins: int) -> Rows:
    return rows.select_episodes(rows.known_at <= begins)


def _spent(past: Rows, judged: Rows, cost_h: Floats, way: str) -> dict[str, Floats]:
    """By way: of the ensemble that has learned from the past, and of its mean with the twin."""
    known = stopping.predict_cross_fitted(past, _TREES)
    late = stopping.fit_late_trees(past, _TREES).predict(judged.flat).reshape(len(judged), -1)
    found = {way: _by(known, late, past, cost_h)}
    if judged.twin is not None:
        with_twin = (known + _twin(past)) / 2, (late + _twin(judged)) / 2
        found[way + _MEAN] = _by(*with_twin, past, cost_h)
    if not past.as_logged.all():
        at = past.as_logged
        found[way + _FACTOR] = _by(known[at], late, past.select_episodes(at), cost_h)
    return found


def _by(known: Floats, late: Floats, past: Rows, cost_h: Floats) -> Floats:
    """[E, P]: freed by P(late), the factor found by what was `known` of it in the past."""
    factor = stopping.choose_factor(past, known, PRICES)
    return stopping.compute_costs_at_factor(cost_h, late, PRICES, factor)


def _twin(rows: Rows) -> Floats:
    """[E, D]: P(late), the last of its numbers."""
    return rows.flat[:, -1].astype(np.float64).reshape(len(rows), -1)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
