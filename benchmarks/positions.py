"""Position policies on the live simulator: pinned, freed, held, in every regime.

`python -m benchmarks.positions [--json] [--out DIR] [--every-h 12]`: Lonestar6's log, the
developers' training weeks (7 November 2022 to 7 February 2023). First pairs of 48 h, one hand-over
at a time; then chains of 7 links among the log's jobs. Finished parts are kept in DIR, and the same
command goes on where it was interrupted. 12 minutes of CPU.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.positions_load import LOADS, Load, summarize_chains, summarize_others
from benchmarks.positions_pairs import POLICIES, Pairs, summarize_pairs
from benchmarks.positions_regimes import REGIMES, SHARED
from mirage.cli.ui.progress import show_progress

Part = Pairs | Load
SIZES = (1, 8)
_LOADED = ("age", "fair share, own user")


def list_parts(every_h: int) -> Iterator[Part]:
    for regime in REGIMES:
        for nodes in SIZES if not regime.gpus else (1,):
            yield Pairs(regime, nodes, every_h)
    for regime in (r for r in REGIMES if r.name in _LOADED):
        yield Load(regime, 0, False, "reactive")
        for per_cent in LOADS:
            for early in (False, True):
                for policy in POLICIES:
                    yield Load(regime, per_cent, early, policy.name)


def measure_part(part: Part, folder: Path) -> dict[str, Any]:
    """Return the figures of a part: as an earlier command stored them, or measured now."""
    every = f", every {part.every_h} h" if isinstance(part, Pairs) else ""
    path = folder / f"{part.name}{every}.json".replace(" ", "-").replace("%", "pct")
    if not path.exists():
        unfinished_path = path.with_suffix(".part")
        unfinished_path.write_text(json.dumps(part.measure()), encoding="utf-8")
        unfinished_path.replace(path)
    figures_of_part: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures_of_part


def build_report(parts_measured: list[tuple[Part, dict[str, Any]]]) -> dict[str, Any]:
    pairs = {
        part.name: summarize_pairs(measurement)
        for part, measurement in parts_measured
        if isinstance(part, Pairs)
    }
    by_name = {part.name: figures_of_part for part, figures_of_part in parts_measured}
    loads: dict[str, Any] = {}
    for part, figures_of_part in parts_measured:
        if isinstance(part, Load):
            reactive = by_name[replace(part, policy="reactive").name]
            baseline = None if part.policy == "reactive" else reactive
            loads[part.name] = {
                "others": summarize_others(figures_of_part, baseline),
                "chains": summarize_chains(figures_of_part, baseline),
            }
    return {"pairs": pairs, "load": loads}


def _with_interval(value: list[float]) -> str:
    return f"{value[0]:6.2f} [{value[1]:.2f}, {value[2]:.2f}]"


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")


def print_report(result: dict[str, Any]) -> None:
    for name, cell in result["pairs"].items():
        _print_line(
            f"\n{name}: {cell['handovers']} hand-overs; "
            f"best one-move rule {cell['best_one_move']}; "
            f"best constant lead {cell['best_lead_h']:.1f} h"
        )
        _print_line(
            "policy          cost h  interr.  overlap  none %  touches  "
            "cost less reactive      less the best one-move  less the one-move oracle"
        )
        for policy, row in cell["policies"].items():
            _print_line(
                f"{policy:14} {row['cost_h']:7.2f} {row['interruption_h']:8.2f} "
                f"{row['overlap_h']:8.2f} "
                f"{row['zero_interruption_pct']:7.0f} {row['touches']:8.2f}  "
                f"{_with_interval(row['less_reactive_h']):22}  "
                f"{_with_interval(row['less_one_move_h']):22}  "
                f"{_with_interval(row['less_oracle_h'])}"
            )
    if result["load"]:
        _print_line("\nchains among the log's jobs: the others' waits, and the chains'")
    for name, cell in result["load"].items():
        _print_line(_format_load_line(name, cell))


def _format_load_line(name: str, cell: dict[str, Any]) -> str:
    others, chains = cell["others"], cell["chains"]
    line = f"{name:62} others mean {others['wait_mean_h']:.3f} h, p90 {others['wait_p90_h']:.2f} h"
    if "more_than_reactive_h" in others:
        line += (
            f", more than under reactive: mean {_with_interval(others['more_than_reactive_h'])}, "
            f"p90 {others['p90_more_h']:.2f}"
        )
    if chains:
        line += (
            f"; {chains['handovers']} hand-overs: cost {chains['cost_h']:.2f} h, interruption "
            f"{chains['interruption_h']:.2f}, overlap {chains['overlap_h']:.2f}, touches "
            f"{chains['touches']:.2f} (most {chains['most_touches']})"
        )
        if "less_reactive_h" in chains:
            line += f", cost less reactive {_with_interval(chains['less_reactive_h'])}"
        line += (
            f"; {chains['chains']} chains covered {chains['covered_pct']:.1f} %, "
            f"{chains['node_h']:.0f} node-hours, {chains['twice_node_h']:.0f} of them twice"
        )
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--every-h", type=int, default=12, help="between two start points")
    parser.add_argument(
        "--out", type=Path, default=Path(tempfile.gettempdir()) / "mirage-positions"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"positions: the traces are not there: {SHARED}")
    options.out.mkdir(parents=True, exist_ok=True)
    parts_to_measure = list(list_parts(options.every_h))
    parts_measured: list[tuple[Part, dict[str, Any]]] = []
    with show_progress("positions", len(parts_to_measure)) as on_progress:
        for part in parts_to_measure:
            parts_measured.append((part, measure_part(part, options.out)))
            on_progress()
    answer = build_report(parts_measured)
    if options.json:
        _print_line(json.dumps(answer, indent=1))
    else:
        print_report(answer)


if __name__ == "__main__":
    main()
