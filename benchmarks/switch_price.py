"""What a switch chain brings at a low price of overlap, on the validation windows.

`python -m benchmarks.switch_price DIR` makes the tables DIR/WINDOW-validation.npz that are not
there yet, runs `mirage evaluate --overlap-price 0.05` on each, and prints the table of
docs/use/switch-chain.md. Each run is a reading of the validation windows: write it down in
docs/research/validation-reads.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.leaderboard import build_episode_words
from benchmarks.validation_windows import WINDOWS

PRICE = 0.05
JUDGED = ("ls6-1", "ls6-8", "theta-128")
POLICIES = ("reactive", "switch-quantile", "quantile")
"""Plain Slurm; the rule at the worked-out price; the rule at PRICE."""


def evaluate_window(folder: Path, window: str) -> dict[str, Any]:
    """Return the figures of all hand-overs of a window, by policy. Makes a missing table."""
    table = folder / f"{window}-validation.npz"
    asked = WINDOWS[window]
    if not table.exists():
        days = (asked.since, asked.until)
        _run_mirage("episodes", *build_episode_words(asked, days), "--out", str(table))
    words = [word for name in POLICIES[1:] for word in ("--policy", name)]
    told = json.loads(
        _run_mirage("evaluate", str(table), *words, "--overlap-price", str(PRICE), "--json", "-")
    )
    return {name: told["policies"][name]["all"] for name in POLICIES}


def _run_mirage(*words: str) -> str:
    sys.stderr.write(f"mirage {' '.join(words)}\n")
    command = [sys.executable, "-m", "mirage", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def format_rows(window: str, figures: dict[str, Any]) -> list[str]:
    """Format a row of Markdown for each policy: hours a hand-over, with 95 % intervals."""
    count = figures["reactive"]["episodes"]
    return [
        f"| {window} ({count}) | `{name}` | {_format_figure(told, 'interruption_h')} | "
        f"{_format_figure(told, 'overlap_h')} |"
        for name, told in figures.items()
    ]


def _format_figure(told: dict[str, Any], figure: str) -> str:
    low, high = told[f"{figure}_ci"]
    return f"{told[figure]:.2f} [{low:.2f}, {high:.2f}]"


def main(words: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args(words).folder
    folder.mkdir(exist_ok=True)
    rows = [
        row for window in JUDGED for row in format_rows(window, evaluate_window(folder, window))
    ]
    print("| window (hand-overs) | policy | interruption, h | overlap, h |\n|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
