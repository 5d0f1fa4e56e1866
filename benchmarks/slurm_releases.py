"""What Slurm's release changes on the training weeks: waits, hand-overs, decisions, training.

    python -m benchmarks.slurm_releases DIR [--cluster ls6 ...] [--part replay ...] [--json]

The simulator plans the training weeks of the developers' clusters with the backfill of 22.05, 24.11
and 26.05. The cluster files of these clusters plan by number, where the release changes nothing.
So each cluster here gives its whole nodes by name (select/cons_tres, OverSubscribe=EXCLUSIVE). One
variant plans by number, and one has 22.05's backfill every 29 s instead of 30, which shows how much
is chance. The parts, with a row for each variant:

- replay: waits, the mean wait over five intervals of backfill, and the share of jobs that start at
  another time than with 22.05;
- plain: plain Slurm's interruption at many start points, and the share of hand-overs whose
  interruption differs by over an hour from 22.05's;
- rules: the gap that rules close on fewer hand-overs, and the share of hand-overs at which a rule
  frees the successor over an hour sooner or later than with 22.05;
- training: the cost of trees that learned from 22.05's hand-overs, and of trees that learned from
  the variant's own, on rolling windows of the variant's; the share of hand-overs that the two free
  over an hour apart;
- twin: as rules, of the policies that ask the twin, on fewer hand-overs. The shipped model learned
  from these weeks, so its gap is too good; only its differences count.

Tables of hand-overs are made in DIR if they are not there yet, so an interrupted run goes on.
No validation week is read: jobs that were submitted in them are left out of the traces.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.leaderboard import PRICE, SHIPPED, TRAINED
from benchmarks.slurm_releases_sites import BASE, SPARSER, VARIANTS, Site
from benchmarks.validation_windows import SHARED
from mirage.domain.arrays import Flags, Ints
from mirage.domain.time_units import HOUR_S
from mirage.episodes.judge.evaluation import HandoverOutcomes
from mirage.episodes.judge.paired_test import PairedDifference
from mirage.learn.dataset import Rows
from mirage.learn.evaluation import time_splits
from mirage.learn.settings import load_defaults
from mirage.learn.trees import stopping, tree_training
from mirage.learn.trees.ensemble import create_family
from mirage.policy.rules.late_threshold import is_late_enough
from mirage.studies.evaluation.evaluation_document import compute_figures
from mirage.studies.evaluation.policy_evaluation import Evaluation
from mirage.studies.training.trainers import EVERY

PARTS = ("replay", "plain", "rules", "training", "twin")
INTERVALS_S = (28, 29, 30, 31, 32)
RULES = ("quantile", "planned-quantile")
ASKING = ("twin", "auto")
MODEL = "shipped model"
FAMILY = "xgboost"
"""The quickest family to fit; it costs on Lonestar6 what the others cost."""
ROLLING = 2
"""Windows on which trees are judged."""
ANOTHER_S = 60
"""A job that starts more seconds sooner or later starts at another time."""


def measure_replay(site: Site, base: NDArray[np.int64]) -> dict[str, Any]:
    """Measure the waits of a replay, and how many starts differ from those of `base`."""
    submit, start = site.replay()
    both = (start >= 0) & (base[1] >= 0)
    apart_s = np.abs(start - base[1])[both]
    wait_h = _compute_waits(submit, start)
    p50, p90 = np.quantile(wait_h, [0.5, 0.9])
    means = [
        float(_compute_waits(*replace(site, variant=other).replay()).mean())
        for other in (replace(site.variant, bf_interval_s=each) for each in INTERVALS_S)
    ]
    return {
        "jobs": len(submit),
        "started": len(wait_h),
        "wait_h": {"p50": float(p50), "p90": float(p90), "mean": float(wait_h.mean())},
        "mean_wait_h_by_interval": dict(zip(INTERVALS_S, means, strict=True)),
        "starts_differ_pct": _compute_share(apart_s > ANOTHER_S),
        "starts_differ_over_hour_pct": _compute_share(apart_s > HOUR_S),
        "mean_apart_h": float(apart_s.mean() / HOUR_S),
    }


def _compute_waits(submit: Ints, start: Ints) -> NDArray[np.float64]:
    """Hours, of the jobs that started."""
    waits: NDArray[np.float64] = (start - submit)[start >= 0] / HOUR_S
    return waits


def compare_plain(hours: NDArray[np.float64], base: NDArray[np.float64]) -> dict[str, Any]:
    """Compare plain Slurm's interruption at start points, hours [E]."""
    apart_h = np.abs(hours - base)
    return {
        "episodes": len(hours),
        "interruption_h": float(hours.mean()),
        "zero_interruption_pct": _compute_share(hours <= 0.0),
        "differs_over_hour_pct": _compute_share(apart_h > 1.0),
        "mean_apart_h": float(apart_h.mean()),
    }


def compare_policies(judged: Evaluation, base: Evaluation) -> dict[str, Any]:
    """Return the figures of each policy, with the share of hand-overs decided unlike in `base`."""
    told = {}
    for name, by_class in compute_figures(judged, PRICE).items():
        ours, theirs = _get_leads(judged, name), _get_leads(base, name)
        apart_h = np.array([abs(ours[key] - theirs[key]) for key in ours.keys() & theirs.keys()])
        told[MODEL if name.startswith("models/") else name] = by_class["all"] | {
            "decided_otherwise_pct": _compute_share(apart_h > 1.0)
        }
    return told


def _get_leads(judged: Evaluation, name: str) -> dict[tuple[int, int], float]:
    """Return how long before the predecessor's end each successor was freed, hours."""
    return {
        (place, point): lead_h
        for place in range(len(judged.tables))
        for handovers in [judged.collect_handovers(name, [place])]
        for point, lead_h in zip(
            handovers.start_point.tolist(), handovers.lead_h.tolist(), strict=True
        )
    }


Freeing = Callable[[Rows], Ints]
"""Returns the instant [E] at which each successor is freed."""


def compare_training(by_variant: Mapping[str, Rows]) -> dict[str, dict[str, Any]]:
    """Compare, by variant, trees that learned from BASE's hand-overs with trees that learned from
    the variant's own. Both are judged on later hand-overs of the variant."""
    judged: dict[str, dict[str, list[HandoverOutcomes]]] = {}
    for since, until in _list_spans(by_variant[BASE]):
        learned = {
            name: _fit_trees(rows.select_episodes(rows.known_at <= since))
            for name, rows in by_variant.items()
        }
        for name, rows in by_variant.items():
            later = rows.select_episodes((since <= rows.start_point) & (rows.start_point < until))
            frees = {"base": learned[BASE], "own": learned[name], "reactive": _free_last}
            for which, free in frees.items():
                outcomes = tree_training.build_handovers(later, free(later))
                judged.setdefault(name, {}).setdefault(which, []).append(outcomes)
    return {name: _summarize_training(parts) for name, parts in judged.items()}


def _summarize_training(parts: Mapping[str, Sequence[HandoverOutcomes]]) -> dict[str, Any]:
    whole = {which: HandoverOutcomes.join_outcomes(each) for which, each in parts.items()}
    saved = PairedDifference.from_outcomes(whole["own"], whole["base"], PRICE)
    return {
        "episodes": saved.handovers,
        "cost_h": {which: float(one.compute_cost_h(PRICE).mean()) for which, one in whole.items()},
        "decided_otherwise_pct": _compute_share(
            np.abs(whole["own"].lead_h - whole["base"].lead_h) > 1.0
        ),
        "own_less_base_h": saved.mean_h,
        "own_less_base_h_ci": saved.interval_h,
    }


def _list_spans(rows: Rows) -> list[tuple[int, int]]:
    """List the beginning and end of each rolling window, epoch seconds."""
    windows = [window for _, window in time_splits.split_rolling(rows, ROLLING)]
    begins = [int(rows.start_point[window].min()) for window in windows]
    return list(zip(begins, [*begins[1:], int(rows.start_point.max()) + 1], strict=True))


def _fit_trees(past: Rows) -> Freeing:
    family = create_family(FAMILY, load_defaults(), 0)
    probability = stopping.predict_cross_fitted(past, family)
    factor = stopping.choose_factor(past, probability, tree_training.PRICES)
    trees = stopping.fit_late_trees(past, family)

    def free(later: Rows) -> Ints:
        late = trees.predict(later.flat).reshape(len(later), -1)
        return stopping.find_first_free(is_late_enough(late, PRICE, factor))

    return free


def _free_last(later: Rows) -> Ints:
    return np.full(len(later), later.outcome_h.shape[1] - 1)


def _compute_share(which: Flags) -> float:
    """Per cent."""
    return float(100.0 * which.mean())


def measure_cluster(
    folder: Path, cluster: str, parts: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Measure the parts, each by variant."""
    sites = {variant.name: Site(folder, cluster, variant) for variant in VARIANTS}
    told: dict[str, dict[str, dict[str, Any]]] = {}
    if "replay" in parts:
        base = sites[BASE].replay()
        told["replay"] = {name: measure_replay(site, base) for name, site in sites.items()}
    if "plain" in parts:
        hours = {name: site.measure_plain() for name, site in sites.items()}
        told["plain"] = {name: compare_plain(one, hours[BASE]) for name, one in hours.items()}
    if "rules" in parts or "training" in parts:
        judged = {name: site.judge(RULES) for name, site in sites.items()}
        told["rules"] = {n: compare_policies(one, judged[BASE]) for n, one in judged.items()}
        if "training" in parts:
            rows = {name: Rows.from_tables(one.tables, EVERY) for name, one in judged.items()}
            told["training"] = compare_training(rows)
    if "twin" in parts:
        names = (*ASKING, f"models/{SHIPPED}-{cluster}")
        judged = {name: site.judge(names, SPARSER) for name, site in sites.items()}
        told["twin"] = {n: compare_policies(one, judged[BASE]) for n, one in judged.items()}
    return told


Told = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By cluster and part, the figures of each variant."""


def render_tables(told: Told) -> Iterator[str]:
    """Yield the lines of the tables, in Markdown."""
    tables: dict[str, tuple[str, Callable[[Mapping[str, Any]], list[str]]]] = {
        "replay": (
            "jobs, wait p50 h, p90 h, mean h, mean over intervals h, other start %, over 1 h %",
            _list_replay_cells,
        ),
        "plain": (
            "hand-overs, interruption h, none %, differs by over 1 h %, mean difference h",
            _list_plain_cells,
        ),
        "rules": (_list_policy_columns(RULES), _list_policy_cells),
        "training": (
            "hand-overs, plain h, learned from 22.05 h, from its own h, own less 22.05 h, "
            "decided otherwise %",
            _list_training_cells,
        ),
        "twin": (_list_policy_columns((*ASKING, MODEL)), _list_policy_cells),
    }
    for part, (columns, list_cells) in tables.items():
        lines = [
            f"| {' | '.join((cluster, name, *list_cells(figures)))} |"
            for cluster, by_part in told.items()
            for name, figures in by_part.get(part, {}).items()
        ]
        if lines:
            heads = ("cluster", "variant", *columns.split(", "))
            yield f"\n{part}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|"
            yield from lines


def _list_policy_columns(names: Sequence[str]) -> str:
    columns = [
        column for name in names for column in (f"{name}: gap closed", "decided otherwise %")
    ]
    return ", ".join(("hand-overs", "plain interruption h", *columns))


def _list_policy_cells(policies: Mapping[str, Any]) -> list[str]:
    plain = policies["reactive"]
    cells = [str(plain["episodes"]), _format(plain, "interruption_h")]
    for name, figures in policies.items():
        if name not in ("reactive", "oracle"):
            cells += [
                "" if figures["gap_closed"] is None else _format(figures, "gap_closed"),
                f"{figures['decided_otherwise_pct']:.0f}",
            ]
    return cells


def _list_replay_cells(figures: Mapping[str, Any]) -> list[str]:
    waits = [f"{figures['wait_h'][key]:.2f}" for key in ("p50", "p90", "mean")]
    means = list(figures["mean_wait_h_by_interval"].values())
    spread = f"{np.mean(means):.2f} ({min(means):.2f} to {max(means):.2f})"
    shares = [f"{figures[f'starts_differ_{key}pct']:.1f}" for key in ("", "over_hour_")]
    return [str(figures["jobs"]), *waits, spread, *shares]


def _list_plain_cells(figures: Mapping[str, Any]) -> list[str]:
    shares = [f"{figures[f'{key}_pct']:.0f}" for key in ("zero_interruption", "differs_over_hour")]
    hours = [f"{figures[key]:.2f}" for key in ("interruption_h", "mean_apart_h")]
    return [str(figures["episodes"]), hours[0], *shares, hours[1]]


def _list_training_cells(figures: Mapping[str, Any]) -> list[str]:
    costs = [f"{figures['cost_h'][key]:.2f}" for key in ("reactive", "base", "own")]
    saved = _format(figures, "own_less_base_h")
    return [str(figures["episodes"]), *costs, saved, f"{figures['decided_otherwise_pct']:.0f}"]


def _format(figures: Mapping[str, Any], name: str) -> str:
    low, high = figures[f"{name}_ci"]
    return f"{figures[name]:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--cluster", action="append", choices=list(TRAINED))
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"slurm_releases: the traces are not there: {SHARED}")
    words.folder.mkdir(parents=True, exist_ok=True)
    told = {
        cluster: measure_cluster(words.folder.absolute(), cluster, words.part or PARTS)
        for cluster in words.cluster or TRAINED
    }
    print(json.dumps(told, indent=1) if words.json else "\n".join(render_tables(told)))


if __name__ == "__main__":
    main()
