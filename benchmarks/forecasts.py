"""Forecasts of the wait beside the floor and Slurm's own plan, walked forward over tables.

`python -m benchmarks.forecasts E.npz... [--family xgboost] [--json]`: on rolling windows of these
tables, each window forecast by trees that have learned from what was known before it.
`--learned L.npz...`: all of E.npz instead, by trees that have learned from L.npz; `--model
models/NAME/VERSION` then takes a trained one, whose own tables L.npz must be. Where the twin was
asked, it is one of the forecasts; `--twin` lets trees learn from it too. Each is judged as it is
and with the rolling adjustment of `policy.conformal`, found at every instant on the hand-overs that
were known by then. Sizes of chain apart; instants an hour apart; 95 % intervals over days.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from mirage.config.paths import get_models_dir
from mirage.domain.arrays import Flags, Floats, Ints
from mirage.episodes.judge.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.errors import InputError
from mirage.features import twin_features
from mirage.features.observation import spec
from mirage.learn.dataset import Rows, list_decision_instants
from mirage.learn.evaluation import forecast_metrics, time_splits
from mirage.learn.settings import load_defaults
from mirage.learn.trees import tree_training
from mirage.learn.trees.ensemble import create_family
from mirage.learn.trees.tree_families import Family
from mirage.policy import registry
from mirage.policy.models import conformal
from mirage.policy.models.quantiles import (
    LEVELS,
    P50,
    P90,
    normalize_quantiles,
    to_hours_after_shift,
)
from mirage.policy.models.tree_model import TreeModel
from mirage.studies.training.trainers import EVERY

SEED = 0
FLOOR, RECENT = "empirical", "recent waits"
TWIN, SLURM = "twin", "slurm"
ROLLING = "{}, rolling"

_HOUR_S = 3600.0
_PLAN = spec.PLACES["plan_wait"]
_SHOWN = [twin_features.LEVELS.index(level) for level in LEVELS]

Told = dict[str, Floats]
"""By forecast: quantiles of the wait [E, D, Q], hours."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The hand-overs of some tables, in order of their start points."""

    rows: Rows
    at: Ints
    """[E, D]: each instant, epoch seconds."""
    twin: Floats | None
    """[E, D, Q]: its log quantiles."""
    days: int = conformal.WINDOW_DAYS
    """Of the rolling adjustment."""

    @classmethod
    def of(cls, tables: Sequence[EpisodeTable], *, twin: bool = False) -> Self:
        """`twin`: trees learn from it. Raises InputError as `Rows.from_tables`."""
        rows = Rows.from_tables(tables, EVERY, twin=twin)
        order = np.argsort(np.concatenate([t.start_point for t in tables]), kind="stable")
        taken = list_decision_instants(len(tables[0].instant_s), EVERY)[:-1]
        at = np.concatenate([t.instants[:, taken] for t in tables])[order]
        asked = [t.twins.get_forecasts(taken) for t in tables if t.twins is not None]
        if len(asked) < len(tables):
            return cls(rows, at, None)
        quantile_h = np.concatenate(asked)[order][..., _SHOWN] / _HOUR_S
        return cls(rows, at, np.log1p(quantile_h))

    @property
    def wait_h(self) -> Floats:
        """[E, D]."""
        return self.rows.wait_h.reshape(self.at.shape)


@dataclass(frozen=True, slots=True)
class Trained:
    """Trees: what they say of later hand-overs, and said of some before, unseen."""

    log_quantiles: Floats
    """[E later, D, Q]: not adjusted."""
    shifts: conformal.QuantileShifts
    """As found at training."""
    held: Ints
    """Hand-overs that were held back then."""
    residuals: Floats
    """[held, D, Q]."""


def fitted(queue: Queue, past: Flags, later: Flags, kind: Family) -> Trained:
    """As `mirage train` does."""
    rows = queue.rows.select_episodes(past)
    newest, residuals = tree_training.compute_newest_residuals(rows, kind)
    forecast = kind.fit_forecast(rows.flat, rows.wait_h)
    return Trained(
        _by_handover(forecast.predict_log_quantiles(queue.rows.select_episodes(later).flat), queue),
        conformal.QuantileShifts.from_residuals(residuals, newest.start_point, newest.nodes),
        np.flatnonzero(past)[-len(newest) :],
        residuals,
    )


def served(queue: Queue, past: Flags, later: Flags, kind: Family, model: TreeModel) -> Trained:
    """A model's own graph and shifts; what it said before is its family's, fitted without."""
    newest, residuals = tree_training.compute_newest_residuals(
        queue.rows.select_episodes(past), kind
    )
    logs = model.predict_log_quantiles(queue.rows.select_episodes(later).flat)
    held = np.flatnonzero(past)[-len(newest) :]
    return Trained(_by_handover(logs, queue), model.shifts, held, residuals)


def told(queue: Queue, past: Flags, later: Flags, trees: Mapping[str, Trained]) -> Told:
    """What each forecast says of the later hand-overs [E later, D, Q]."""
    floor = np.zeros((len(queue.rows), *queue.at.shape[1:], len(LEVELS)))
    found = {FLOOR: _empirical(queue, past, later)}
    found[RECENT] = _walked(queue, floor, np.flatnonzero(past | later), later)
    for name, made in trees.items():
        logs = np.full_like(floor, np.nan)
        logs[later] = made.log_quantiles
        waits = np.log1p(queue.wait_h[made.held])[..., None]
        logs[made.held] = waits - made.residuals
        shift = made.shifts.select_by_nodes(queue.rows.nodes[later])[:, None]
        found[name] = _hours(made.log_quantiles, shift)
        known = np.concatenate([made.held, np.flatnonzero(later)])
        found[ROLLING.format(name)] = _walked(queue, logs, known, later)
    if queue.twin is not None:
        found[TWIN] = np.expm1(queue.twin[later])
        known = np.flatnonzero(past | later)
        found[ROLLING.format(TWIN)] = _walked(queue, queue.twin, known, later)
    return found


def _walked(queue: Queue, logs: Floats, known: Ints, later: Flags) -> Floats:
    """[E later, D, Q], hours: adjusted by those of the `known` that were known at each instant."""
    rows, nodes = queue.rows, queue.rows.nodes
    found = np.empty(logs[later].shape)
    for size in np.unique(nodes[later]).tolist():
        pool = known[nodes[known] == size]
        residuals = np.log1p(queue.wait_h[pool])[..., None] - normalize_quantiles(logs[pool])
        asked = later & (nodes == size)
        shift = conformal.compute_rolling_shifts(
            residuals, rows.start_point[pool], rows.known_at[pool], queue.at[asked], queue.days
        )
        found[nodes[later] == size] = _hours(logs[asked], shift)
    return found


def _empirical(queue: Queue, past: Flags, later: Flags) -> Floats:
    """The quantiles of the waits of chains of this size that were learned from."""
    nodes = queue.rows.nodes
    by_size = {
        size: np.quantile(queue.wait_h[past & (nodes == size)], LEVELS)
        for size in np.unique(nodes[later]).tolist()
    }
    each = np.array([by_size[size] for size in nodes[later].tolist()])
    return np.repeat(each[:, None], queue.at.shape[1], axis=1)


def _hours(logs: Floats, shift: Floats) -> Floats:
    moved = np.broadcast_to(shift, logs.shape).reshape(-1, len(LEVELS))
    return to_hours_after_shift(logs.reshape(-1, len(LEVELS)), moved).reshape(logs.shape)


def _by_handover(logs: Floats, queue: Queue) -> Floats:
    return logs.reshape(-1, queue.at.shape[1], len(LEVELS))


@dataclass(frozen=True, slots=True)
class Scored:
    """A forecast of the later hand-overs of one size: means over each one's instants, [E]."""

    pinball_h: Floats
    inside_pct: Floats
    below_p90_pct: Floats
    pit_below_p90_pct: Floats
    error_h: Floats
    median_error_h: float
    """Over all instants."""

    @classmethod
    def of(cls, quantile_h: Floats, wait_h: Floats) -> Self:
        """Of quantiles [E, D, Q] and waits [E, D]."""
        over = wait_h[..., None] - quantile_h
        levels = np.asarray(LEVELS)
        loss = np.maximum(levels * over, (levels - 1.0) * over)
        flat = quantile_h.reshape(-1, len(LEVELS))
        u = forecast_metrics.compute_pit(flat, wait_h.ravel(), SEED).reshape(wait_h.shape)
        error = np.abs(over[..., P50])
        return cls(
            loss.mean(axis=(1, 2)),
            100.0 * ((u >= LEVELS[0]) & (u <= LEVELS[-1])).mean(axis=1),
            100.0 * (over[..., P90] <= 0.0).mean(axis=1),
            100.0 * (u <= LEVELS[-1]).mean(axis=1),
            error.mean(axis=1),
            float(np.median(error)),
        )


def figures(found: Told, wait_h: Floats, planned_h: Floats, start_point: Ints) -> dict[str, Any]:
    """{forecast: figures} of one size; NAME_ci are intervals over resampled days.

    `under_floor_pct`: how much lower the pinball loss is than the empirical quantiles';
    `under_trained_pct`: the same of a rolling adjustment and the forecast as it was.
    """
    counts = draw_day_counts(start_point)
    scores = {name: Scored.of(quantiles, wait_h) for name, quantiles in found.items()}
    planned = np.abs(wait_h - planned_h)
    whole: dict[str, Any] = {SLURM: {"median_error_h": float(np.median(planned))}}
    whole[SLURM] |= _mean("error_h", planned.mean(axis=1), counts)
    for name, score in scores.items():
        line: dict[str, Any] = {"median_error_h": score.median_error_h}
        for figure in ("pinball_h", "inside_pct", "below_p90_pct", "pit_below_p90_pct", "error_h"):
            line |= _mean(figure, getattr(score, figure), counts)
        line |= _less("under_floor_pct", score.pinball_h, scores[FLOOR].pinball_h, counts)
        line |= _less("error_under_slurm_pct", score.error_h, planned.mean(axis=1), counts)
        before = name.removesuffix(ROLLING.format(""))
        if before != name:
            line |= _less("under_trained_pct", score.pinball_h, scores[before].pinball_h, counts)
        whole[name] = line
    return whole


def _mean(name: str, values: Floats, counts: Floats) -> dict[str, Any]:
    return {
        name: float(values.mean()),
        f"{name}_ci": compute_interval(compute_means(counts, values)),
    }


def _less(name: str, values: Floats, than: Floats, counts: Floats) -> dict[str, Any]:
    if not than.any():
        return {name: None, f"{name}_ci": None}
    drawn = 100.0 * (
        1.0 - compute_means(counts, values) / np.maximum(compute_means(counts, than), 1e-9)
    )
    return {
        name: 100.0 * float(1.0 - values.mean() / than.mean()),
        f"{name}_ci": compute_interval(drawn),
    }


@dataclass(frozen=True, slots=True)
class Split:
    """Masks [E]: learned from, and forecast."""

    past: Flags
    later: Flags


def splits(rows: Rows, since: int | None, windows: int) -> list[Split]:
    """All from `since` on, or rolling windows of the newer half."""
    if since is None:
        return [Split(*masks) for masks in time_splits.split_rolling(rows, windows)]
    later = rows.start_point >= since
    return [Split((rows.known_at <= since) & ~later, later)]


def report(
    queue: Queue, cut: Sequence[Split], kind: Family, model: TreeModel | None = None
) -> dict[str, Any]:
    """By size of chain: {"handovers": ..., "windows": [...], "forecasts": `figures`}."""
    parts = []
    for split in cut:
        if model is None:
            made = fitted(queue, split.past, split.later, kind)
        else:
            made = served(queue, split.past, split.later, kind, model)
        parts.append(told(queue, split.past, split.later, {kind.name: made}))
    rows = np.concatenate([np.flatnonzero(split.later) for split in cut])
    window = np.repeat(np.arange(len(cut)), [int(split.later.sum()) for split in cut])
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    nodes = queue.rows.nodes[rows]
    return {
        str(size): _of_size(queue, whole, rows, np.where(nodes == size, window, -1))
        for size in np.unique(nodes).tolist()
    }


def _of_size(queue: Queue, whole: Told, rows: Ints, window: Ints) -> dict[str, Any]:
    """`window` [E]: which one each hand-over is of, -1 for those of other sizes."""

    def of(mine: Flags) -> dict[str, Any]:
        own = rows[mine]
        part = {name: quantiles[mine] for name, quantiles in whole.items()}
        planned_h = np.expm1(queue.rows.observations[own, :, _PLAN].astype(np.float64))
        return figures(part, queue.wait_h[own], planned_h, queue.rows.start_point[own])

    return {
        "handovers": int((window >= 0).sum()),
        "mean_wait_h": float(queue.wait_h[rows[window >= 0]].mean()),
        "forecasts": of(window >= 0),
        "windows": [of(window == w) for w in np.unique(window[window >= 0])],
    }


def _shown(found: Mapping[str, Any]) -> Iterator[str]:
    for size, told_of in found.items():
        waited = f"mean wait {told_of['mean_wait_h']:.2f} h"
        yield f"{size} node(s): {told_of['handovers']} hand-overs, {waited}\n"
        yield (
            "| | pinball h | below the floor % | below as it was % | p10-p90 % "
            "| P(wait <= p90) % | PIT <= 0.9 % | median error h | mean error h "
            "| p10-p90 by window | P(wait <= p90) |"
        )
        yield "|---|---|---|---|---|---|---|---|---|---|---|"
        for name, f in told_of["forecasts"].items():
            yield _line(name, f, [window[name] for window in told_of["windows"]])
        yield ""


def _line(name: str, f: Mapping[str, Any], windows: Sequence[Mapping[str, Any]]) -> str:
    if name == SLURM:
        return f"| slurm | | | | | | | {f['median_error_h']:.2f} | {f['error_h']:.2f} | | |"
    inside, below = (
        ", ".join(f"{w[which]:.0f}" for w in windows) for which in ("inside_pct", "below_p90_pct")
    )
    cells = (
        f"{f['pinball_h']:.3f}",
        _with_interval(f, "under_floor_pct"),
        _with_interval(f, "under_trained_pct"),
        _with_interval(f, "inside_pct"),
        _with_interval(f, "below_p90_pct"),
        f"{f['pit_below_p90_pct']:.0f}",
        f"{f['median_error_h']:.2f}",
        f"{f['error_h']:.2f}",
        inside,
        below,
    )
    return f"| {name} | {' | '.join(cells)} |"


def _with_interval(f: Mapping[str, Any], name: str) -> str:
    if f.get(name) is None:
        return ""
    low, high = f[f"{name}_ci"]
    return f"{f[name]:.0f} [{low:.0f}, {high:.0f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tables", type=Path, nargs="+", metavar="E.npz")
    parser.add_argument("--learned", type=Path, nargs="+", default=[], metavar="L.npz")
    parser.add_argument("--family", choices=("forest", "xgboost", "ensemble"), default="xgboost")
    parser.add_argument("--twin", action="store_true", help="Trees learn from the twin.")
    parser.add_argument("--model", help="models/NAME/VERSION; with --learned.")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--days", type=int, default=conformal.WINDOW_DAYS, help="Of the window.")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    later, learned = ([EpisodeTable.load(p) for p in ps] for ps in (words.tables, words.learned))
    kind, twin, model = create_family(words.family, load_defaults(), SEED), words.twin, None
    if words.model:
        if not learned:
            parser.error("--model needs --learned: the tables that it was trained on")
        card = registry.load_model(words.model, get_models_dir()).artefact
        if not isinstance(card.model, TreeModel):
            raise InputError(f"{words.model} has no forecast of the wait")
        kind, twin, model = _as_in(card.card), card.card["twin"] is not None, card.model
    queue = replace(Queue.of([*learned, *later], twin=twin), days=words.days)
    since = min(int(t.start_point[0]) for t in later) if learned else None
    found = report(queue, splits(queue.rows, since, words.folds), kind, model)
    print(json.dumps(found) if words.json else "\n".join(_shown(found)))


def _as_in(card: Mapping[str, Any]) -> Family:
    told_of = card["settings"]
    settings = told_of if card["family"] == "ensemble" else {card["family"]: told_of}
    return create_family(
        card["family"], {**load_defaults(), **{k: _plain(v) for k, v in settings.items()}}, 0
    )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != "seed"}


if __name__ == "__main__":
    main()
