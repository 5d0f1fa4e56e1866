"""Writes the demo's figures into README.md and docs/research/results.md, between their marks.

    python -m tests.support.demo_figures                # every column: half an hour on 2 cores
    python -m tests.support.demo_figures 0              # the first column: two minutes
    python -m tests.support.demo_figures 0=demo.json    # from what `demo --once --json` printed

`tests/integration/cli/test_demo.py` checks the first column, and
`tests/unit/project/test_demo_figures.py` that the README has the other figures of the results page.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.paths import CHECKOUT, DOCS

README, RESULTS = CHECKOUT / "README.md", DOCS / "research" / "results.md"
COLUMNS: Sequence[tuple[str, str]] = (
    ("heavy, seed 1", ""),
    ("heavy, seed 2", "--seed 2"),
    ("heavy, seed 3", "--seed 3"),
    ("medium, seed 1", "--preset medium"),
    ("light, seed 1", "--preset light"),
    ("heavy, seed 1, `--no-pin`", "--no-pin"),
)
"""The headings of the results page, and the words that make each column."""
PINNED, FREE = 0, len(COLUMNS) - 1
OURS, PLAIN = "auto", "reactive"
_DATE = "made on"
_HEAD = """\
                  hand-      inter-   overlap   none    cost   saved
 policy           overs   ruption h         h      %       h       %"""
_CELL = re.compile(r"[\d.]+")

Policies = Mapping[str, Mapping[str, Any]]
"""What `mirage demo --json` prints of each policy."""


def run_demo(words: str) -> Policies:
    argv = [sys.executable, "-m", "mirage", "demo", "--once", "--json", "--port", "0"]
    process = subprocess.run([*argv, *words.split()], stdout=subprocess.PIPE, text=True, check=True)
    policies: Policies = json.loads(process.stdout)["policies"]
    return policies


def render_table(policies: Policies) -> str:
    """The README's table: Mirage's default policy, and plain Slurm."""
    lines = [_HEAD]
    for name in (OURS, PLAIN):
        figures = policies[name]
        saved = figures["less_than_reactive_pct"]
        lines.append(
            f" {name:<16}{figures['handovers']:>6}{figures['interruption_h']:>12.2f}"
            f"{figures['overlap_h']:>10.2f}{figures['zero_interruption_pct']:>7.0f}"
            f"{figures['cost_h']:>8.2f}" + ("" if name == PLAIN else f"{saved:>8.0f}")
        )
    return "\n".join(["```", *lines, "```"])


def render_column(policies: Policies) -> dict[str, str]:
    """Cost (interruption / overlap) by policy, the lowest cost in bold."""
    least = min(round(figures["cost_h"], 2) for figures in policies.values())
    cells = {}
    for name, figures in policies.items():
        parts = f"{figures['interruption_h']:.2f} / {figures['overlap_h']:.2f}"
        cell = f"{figures['cost_h']:.2f} ({parts})"
        cells[name] = f"**{cell}**" if round(figures["cost_h"], 2) == least else cell
    return cells


def render_costs(ours: str, plain: str) -> str:
    return f"{float(ours):.1f} h instead of {float(plain):.1f} h"


def read_block(page: Path, name: str) -> str:
    return _find_block(page.read_text(encoding="utf-8"), name)[2].strip()


def write_block(page: Path, name: str, text: str) -> None:
    whole = page.read_text(encoding="utf-8")
    begin, end, old = _find_block(whole, name)
    text = f"\n{text}\n" if "\n" in old else text
    page.write_text(whole[:begin] + text + whole[end:], encoding="utf-8")


def _find_block(whole: str, name: str) -> tuple[int, int, str]:
    match = re.search(f"<!-- demo: {name} -->(.*?)<!-- end -->", whole, re.DOTALL)
    if match is None:
        raise SystemExit(f"no block {name!r}")
    return *match.span(1), match[1]


def read_columns() -> dict[str, list[str]]:
    """Read the results page's table: its cells by the word that begins the row."""
    lines = read_block(RESULTS, "columns").splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].split(" ")[0] if row[0] != _DATE else _DATE: row[1:] for row in rows}


def read_cost(rows: Mapping[str, Sequence[str]], policy: str, column: int) -> str:
    match = _CELL.search(rows[policy][column])
    assert match is not None
    return match[0]


def write_columns(policies_by_column: Mapping[int, Policies]) -> None:
    rows = read_columns()
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    for column, policies in policies_by_column.items():
        for name, cell in render_column(policies).items():
            rows.setdefault(name, ["-"] * len(COLUMNS))[column] = cell
        rows[_DATE][column] = today
    row_names = {OURS: f"{OURS} (the default)"}
    lines = ["| policy | " + " | ".join(heading for heading, _ in COLUMNS) + " |"]
    lines += ["|---" * (1 + len(COLUMNS)) + "|"]
    lines += [f"| {row_names.get(n, n)} | " + " | ".join(cells) + " |" for n, cells in rows.items()]
    write_block(RESULTS, "columns", "\n".join(lines))


def write_readme_costs() -> None:
    """Copy the costs of the results page into the sentences of the README and the results page."""
    rows = read_columns()
    pages = (("pinned", PINNED, (README,)), ("unpinned", FREE, (README, RESULTS)))
    for name, column, where in pages:
        for page in where:
            text = render_costs(*(read_cost(rows, policy, column) for policy in (OURS, PLAIN)))
            write_block(page, name, text)


def main(words: Sequence[str]) -> None:
    policies_by_column = {}
    for word in words or [str(column) for column in range(len(COLUMNS))]:
        column, _, file = word.partition("=")
        policies_by_column[int(column)] = (
            json.loads(Path(file).read_text())["policies"]
            if file
            else run_demo(COLUMNS[int(column)][1])
        )
        sys.stdout.write(
            f"{COLUMNS[int(column)][0]}: {render_column(policies_by_column[int(column)])}\n"
        )
    if PINNED in policies_by_column:
        write_block(README, "table", render_table(policies_by_column[PINNED]))
    write_columns(policies_by_column)
    write_readme_costs()


if __name__ == "__main__":
    main(sys.argv[1:])
