"""Every recorded run of the acceptance tier: docs/develop/test-runs.md counts them by module.

python -m tests.runs record WHERE JUNIT.xml...   # after a run; WHERE says what ran beside it
python -m tests.runs                             # the table of docs/develop/test-runs.md, made anew

A test that failed once without a cause in the product is mended, not repeated:
docs/develop/test-runs.md names the cause of every failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.support.paths import CHECKOUT, DATA, DOCS

RECORDS = DATA / "runs.jsonl"
PAGE = DOCS / "develop" / "test-runs.md"
BEGIN, END = "<!-- python -m tests.runs -->\n", "<!-- until here -->\n"

Run = dict[str, Any]
"""One module once: module, slurm (release, of the testbed's root), at, commit, beside, tests,
failed (names), skipped (count), seconds."""


def read_results(path: Path, *, commit: str, beside: str) -> list[Run]:
    """Return a run for each module in a file of pytest's results."""
    slurm = "24.11" if "24.11" in path.name else "26.05" if "26.05" in path.name else "22.05"
    (suite,) = ElementTree.parse(path).iter("testsuite")  # noqa: S314 - pytest's own
    by_module: dict[str, list[ElementTree.Element]] = defaultdict(list)
    for case in suite.iter("testcase"):
        by_module[case.get("classname", "").rsplit(".", 1)[-1]].append(case)
    return [
        {
            "module": module,
            "slurm": slurm,
            "at": suite.get("timestamp", "")[:16],
            "commit": commit,
            "beside": beside,
            "tests": len(cases),
            "failed": [case.get("name") for case in cases if _has(case, "failure", "error")],
            "skipped": sum(_has(case, "skipped") for case in cases),
            "seconds": round(sum(float(case.get("time", 0)) for case in cases)),
        }
        for module, cases in sorted(by_module.items())
    ]


def record_runs(runs: Iterable[Run]) -> None:
    """Append runs, each once."""
    known = {_identify(run) for run in list_runs()}
    with RECORDS.open("a", encoding="utf-8") as file:
        for run in runs:
            if _identify(run) not in known:
                file.write(json.dumps(run) + "\n")


def list_runs() -> list[Run]:
    """Return all recorded runs, the earliest first."""
    if not RECORDS.exists():
        return []
    return [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]


def format_table(runs: Sequence[Run]) -> str:
    """Return the table: a line for each module and release of Slurm."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run["module"], run["slurm"]].append(run)
    head = [
        "module",
        "Slurm",
        "runs",
        "runs that failed",
        "tests in the last",
        "seconds, least to most",
    ]
    lines = [head, ["---"] * len(head)]
    lines += [_format_cells(*key, group) for key, group in sorted(groups.items())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _format_cells(module: str, slurm: str, runs: Sequence[Run]) -> list[str]:
    seconds = [run["seconds"] for run in runs]
    failed = sum(bool(run["failed"]) for run in runs)
    span = f"{min(seconds)} to {max(seconds)}"
    return [f"`{module}`", slurm, str(len(runs)), str(failed), str(runs[-1]["tests"]), span]


def _has(case: ElementTree.Element, *kinds: str) -> bool:
    return any(case.find(kind) is not None for kind in kinds)


def _identify(run: Mapping[str, Any]) -> tuple[str, str, str]:
    return run["module"], run["slurm"], run["at"]


def _read_commit() -> str:
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(
        words, cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout.strip()


def main(words: Sequence[str]) -> None:
    """Record results, or write the page's table anew."""
    if words[:1] == ["record"]:
        beside, *paths = words[1:]
        for path in paths:
            record_runs(read_results(Path(path), commit=_read_commit(), beside=beside))
        return
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("tests.runs: docs/develop/test-runs.md has lost the marks of its table")
    table = format_table(list_runs())
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
