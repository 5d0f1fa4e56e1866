"""Every policy on every developers' cluster: tables, training, validation, in one command.

`python -m benchmarks.leaderboard DIR [--cluster ls6 ...] [--family forest ...]` makes in DIR what
is not there yet, and prints docs/research/leaderboard.md's tables from it: an interrupted run
goes on, and a
whole one only prints. Some hours on two cores. Each run that reaches `mirage evaluate` is a reading
of the validation windows: write it down in docs/research/validation-reads.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"


@dataclass(frozen=True, slots=True)
class Window:
    """One row of the table in shared/clusters/README.md, for one width of the pair."""

    trace: str
    cluster: str
    nodes: int
    hours: int
    every_h: int
    since: str
    until: str


_LS6 = ("tacc-ls6-a100.parquet", "ls6.toml")
_THETAGPU = ("alcf-thetagpu-2023.parquet", "thetagpu.toml")
_THETA = ("alcf-theta-2023.parquet", "theta.toml")
WINDOWS = {
    "ls6-1": Window(*_LS6, 1, 48, 4, "2023-02-13", "2023-02-24"),
    "ls6-8": Window(*_LS6, 8, 48, 4, "2023-02-13", "2023-02-24"),
    "thetagpu-1": Window(*_THETAGPU, 1, 12, 2, "2023-05-01", "2023-05-29"),
    "thetagpu-4": Window(*_THETAGPU, 4, 12, 2, "2023-05-01", "2023-05-29"),
    "theta-128": Window(*_THETA, 128, 24, 4, "2023-05-01", "2023-05-27"),
    "theta-512": Window(*_THETA, 512, 24, 4, "2023-05-01", "2023-05-27"),
}

TRAINED = {
    "ls6": ("2022-11-07", "2023-02-07"),
    "thetagpu": ("2023-01-01", "2023-04-25"),
    "theta": ("2023-01-01", "2023-04-25"),
}
"""The developers' training windows of shared/clusters/README.md."""
NOTES = {
    "ls6": "Job records of Lonestar6, published by the Texas Advanced Computing Center.",
    "thetagpu": "Job records of ThetaGPU, published by the Argonne Leadership Computing Facility.",
    "theta": "Job records of Theta, published by the Argonne Leadership Computing Facility.",
}
FAMILIES = ("forest", "xgboost", "ensemble", "dqn", "policy-gradient")
SHIPPED = "ensemble"
"""The family that is promoted for `auto`. Two similar models once made it change its choice, at a
cost (docs/research/validation-reads.md)."""
RULES = ("fixed-lead", "quantile", "slurm-estimate", "at-once", "twin")
OTHER_LOADS = {"ls6": (0.85, 1.1), "theta": (0.7, 0.85)}
"""Factors of the load of more tables that models learn from, where that improved the models
(docs/decisions/0023-other-loads.md, 0026-lighter-loads-of-theta.md)."""
PRICE = 0.5
LOADS = ("all", "light", "medium", "heavy")


@dataclass(frozen=True, slots=True)
class Board:
    """The tables, models and results of some clusters, in one folder."""

    folder: Path
    families: Sequence[str]

    def make_table(self, window: str, part: str) -> Path:
        """Make the table of a window's pairs if it does not exist, and return its path."""
        path = self.folder / f"{window}-{part}.npz"
        window_of_table = WINDOWS[window]
        days = (
            TRAINED[_get_cluster(window)]
            if part == "train"
            else (window_of_table.since, window_of_table.until)
        )
        if not path.exists():
            self._mirage(
                "episodes",
                *_build_episode_words(window_of_table, days),
                "--twin",
                "--out",
                path.name,
            )
        return path

    def _make_table_at_load(self, window: str, load: float) -> Path:
        """Make the table of every third start point of the training weeks at this load if it does
        not exist, and return its path."""
        path = self.folder / f"{window}-train-x{load}.npz"
        if not path.exists():
            dense_window = WINDOWS[window]
            sparse = replace(dense_window, every_h=3 * dense_window.every_h)
            words = _build_episode_words(sparse, TRAINED[_get_cluster(window)])
            self._mirage("episodes", *words, "--load", str(load), "--twin", "--out", path.name)
        return path

    def train(self, cluster: str) -> None:
        """Train a model of each family on both sizes of chain, if it does not exist."""
        windows = _list_windows(cluster)
        tables = [self.make_table(window, "train").name for window in windows]
        for load in OTHER_LOADS.get(cluster, ()):
            tables += [self._make_table_at_load(window, load).name for window in windows]
        for family in self.families:
            out = _get_model_path(family, cluster)
            if not (self.folder / out).exists():
                note = ["--note", NOTES[cluster]]
                self._mirage("train", family, *tables, "--twin", *note, "--out", out)
        if SHIPPED in self.families:
            self._mirage("models", "promote", _get_model_path(SHIPPED, cluster), "--force")

    def judge(self, window: str, price: float) -> dict[str, Any]:
        """Evaluate all policies at a price (`mirage evaluate`), and return figures by policy."""
        path = self.folder / f"{window}-at-{price}.json"
        if not path.exists():
            table = self.make_table(window, "validation")
            models = [_get_model_path(family, _get_cluster(window)) for family in self.families]
            words = [f"--policy={name}" for name in (*RULES, "auto", *models)]
            words += ["--overlap-price", str(price), "--json", path.name]
            words += ["--plot", f"{window}.svg"] if price == PRICE else []
            self._mirage("evaluate", table.name, *words)
        policies: dict[str, Any] = json.loads(path.read_text())["policies"]
        return policies

    def read_card(self, family: str, cluster: str) -> dict[str, Any]:
        card: dict[str, Any] = json.loads(
            (self.folder / _get_model_path(family, cluster) / "card.json").read_text()
        )
        return card

    def _mirage(self, *words: str) -> None:
        sys.stderr.write(f"mirage {' '.join(words)}\n")
        command = [sys.executable, "-m", "mirage", *words]
        subprocess.run(command, cwd=self.folder, stdout=sys.stderr, check=True)


def _build_episode_words(window: Window, days: tuple[str, str]) -> list[str]:
    """Return the words of `mirage episodes` for a window's pairs that begin on these days."""
    words = [str(SHARED / "traces" / window.trace)]
    words += ["--cluster", str(SHARED / "clusters" / window.cluster)]
    words += ["--nodes", str(window.nodes), "--time-limit", f"{window.hours}:00:00"]
    return [*words, "--every", f"{window.every_h}h", "--from", days[0], "--until", days[1]]


def _get_cluster(window: str) -> str:
    return window.rpartition("-")[0]


def _list_windows(cluster: str) -> list[str]:
    return [window for window in WINDOWS if _get_cluster(window) == cluster]


def _get_model_path(family: str, cluster: str) -> str:
    return f"models/{family}-{cluster}/1"


def _format_rows(policies: dict[str, Any], load: str) -> Iterator[str]:
    """Format a row for each policy, the cheapest first."""
    for name, by_class in sorted(policies.items(), key=lambda item: item[1][load]["cost_h"]):
        figures = by_class[load]
        closed = (
            "" if figures["gap_closed"] is None else _with_interval(figures, "gap_closed", ".2f")
        )
        yield (
            f"| {name} | {_with_interval(figures, 'interruption_h', '.2f')} "
            f"| {figures['overlap_h']:.2f} "
            f"| {figures['zero_interruption_pct']:.0f} "
            f"| {_with_interval(figures, 'cost_h', '.2f')} | {closed} |"
        )


def _with_interval(figures: dict[str, Any], name: str, form: str) -> str:
    low, high = figures[f"{name}_ci"]
    return f"{figures[name]:{form}} [{low:{form}}, {high:{form}}]"


def _format_window(board: Board, window: str) -> Iterator[str]:
    policies = board.judge(window, PRICE)
    for load in LOADS:
        count = policies["reactive"][load]["episodes"]
        if not count or (load != "all" and count == policies["reactive"]["all"]["episodes"]):
            continue
        yield from _format_table(
            f"### {window}, {load}: {count} hand-overs",
            "policy, interruption h, overlap h, none %, cost h, gap closed",
            _format_rows(policies, load),
        )


def _format_points(board: Board, window: str) -> Iterator[str]:
    """Format `auto` at the prices that gave each bound of overlap in its model's training weeks."""
    reactive = board.judge(window, PRICE)["reactive"]["all"]
    for point in board.read_card(SHIPPED, _get_cluster(window))["operating_points"]:
        if point["nodes"] != WINDOWS[window].nodes or point["price"] is None:
            continue
        figures = board.judge(window, point["price"])["auto"]["all"]
        reduction = _format_reduction(figures["interruption_h"], reactive["interruption_h"])
        yield (
            f"| {window} | {point['overlap_at_most_h']} | {point['price']} "
            f"| {figures['overlap_h']:.2f} | {figures['interruption_h']:.2f} | {reduction} "
            f"| {figures['zero_interruption_pct']:.0f} |"
        )


def _format_reduction(now_h: float, before_h: float) -> str:
    return f"{100 * (1 - now_h / before_h):.0f} %" if before_h else ""


def _format_beside_paper(board: Board, window: str) -> Iterator[str]:
    """Format how much less interruption `auto` leaves than plain Slurm, by load class."""
    policies = board.judge(window, PRICE)
    for load in LOADS:
        reactive, auto = policies["reactive"][load], policies["auto"][load]
        if not reactive["episodes"]:
            continue
        reduction = _format_reduction(auto["interruption_h"], reactive["interruption_h"])
        yield (
            f"| {window} | {load} ({reactive['episodes']}) | {reactive['interruption_h']:.2f} "
            f"| {auto['interruption_h']:.2f} | {reduction} "
            f"| {reactive['zero_interruption_pct']:.0f} "
            f"| {auto['zero_interruption_pct']:.0f} | {auto['overlap_h']:.2f} |"
        )


def _format_training(board: Board, cluster: str) -> Iterator[str]:
    for family in board.families:
        card = board.read_card(family, cluster)
        policies = card["metrics"]["policies"]
        family_row, reactive = policies[family]["all"], policies["reactive"]["all"]
        yield (
            f"| {cluster} | {family} | {card['wall_s']:.0f} | {reactive['cost_h']:.2f} "
            f"| {family_row['cost_h']:.2f} | {_with_interval(family_row, 'gap_closed', '.2f')} |"
        )


def _format_table(title: str, columns: str, rows: Iterable[str]) -> Iterator[str]:
    """Format a table: the title, `columns` (names with ", " between), and the rows."""
    names = columns.split(", ")
    yield f"\n{title}\n"
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    yield from rows


def _format_document(board: Board, clusters: Sequence[str]) -> Iterator[str]:
    windows = [window for window in WINDOWS if _get_cluster(window) in clusters]
    yield "## Validation, price 0.5"
    for window in windows:
        yield from _format_window(board, window)
    yield from _format_table(
        "## Operating points of `auto`",
        "window, overlap at most h, price, overlap h, interruption h, less, none %",
        chain.from_iterable(_format_points(board, window) for window in windows),
    )
    yield from _format_table(
        "## `auto` by load class, as the paper tells its results",
        "window, load (hand-overs), plain h, h, less, plain none %, none %, overlap h",
        chain.from_iterable(_format_beside_paper(board, window) for window in windows),
    )
    yield from _format_table(
        "## Training: rolling windows of the training weeks, both sizes together",
        "cluster, family, s, reactive cost h, cost h, gap closed",
        chain.from_iterable(_format_training(board, cluster) for cluster in clusters),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--cluster", action="append", choices=list(TRAINED))
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--only-train", action="store_true", help="Leave validation unread.")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"leaderboard: the traces are not there: {SHARED}")
    (options.folder / "models").mkdir(parents=True, exist_ok=True)
    board = Board(options.folder, options.family or FAMILIES)
    clusters = options.cluster or list(TRAINED)
    for cluster in clusters:
        board.train(cluster)
    if not options.only_train:
        print("\n".join(_format_document(board, clusters)))


if __name__ == "__main__":
    main()
