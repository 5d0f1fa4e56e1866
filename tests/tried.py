"""The releases of Slurm that Mirage was tried on, and when: for README.md and
docs/admin/install.md.

python -m tests.tried record JUNIT.xml...   # where that Slurm is, after its tests: tests/data/tried
python -m tests.tried                       # the tables, from what was recorded
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mirage.slurm.text.releases import format_release, format_series, parse_version
from tests.support.paths import CHECKOUT

RECORDS = CHECKOUT / "tests" / "data" / "tried"
PAGES = (CHECKOUT / "README.md", CHECKOUT / "docs" / "admin" / "install.md")
BEGIN, END = "<!-- python -m tests.tried -->\n", "<!-- until here -->\n"

_CONF = "ClusterName=x\nSlurmctldHost=localhost\nNodeName=n1\nPartitionName=p Nodes=n1\n"

Record = dict[str, Any]


def record(results: Sequence[Path]) -> Path:
    """Write down what the Slurm of this machine is, and how its tests ended."""
    release = parse_version(_said("sbatch", "--version"))
    if release is None:
        raise SystemExit("tests.tried: no sbatch here says which release it is")
    if missing := [str(path) for path in results if not path.exists()]:
        raise SystemExit(f"tests.tried: no such results: {', '.join(missing)}")
    counts = _counts(results)
    if not counts["tests"]:
        raise SystemExit("tests.tried: those results hold no test")
    found: Record = {
        "slurm": format_release(release),
        "system": platform.freedesktop_os_release()["PRETTY_NAME"],
        "python": platform.python_version(),
        "slurmrestd": _served(),
        "on": datetime.datetime.now(datetime.UTC).date().isoformat(),
        **counts,
    }
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{format_series(release)}.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    return path


def records() -> list[Record]:
    """By release."""
    return [json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))]


def table(found: Sequence[Record]) -> str:
    head = ["Slurm", "on", "Python", "slurmrestd serves", "tests on a real Slurm", "tried on"]
    lines = [head, ["---"] * len(head), *map(_cells, found)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def with_table(page: str, made: str) -> str:
    """The page with what stands between the marks made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit("tests.tried: a page has lost the marks of its table")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


def _cells(one: Record) -> list[str]:
    served = one["slurmrestd"]
    spoken = f"{served[0]} to {served[-1]}" if len(served) > 1 else "".join(served) or "-"
    plural = "s" * (one["modules"] != 1)
    ended = f"{one['passed']} passed, of {one['modules']} module{plural}"
    for word in ("failed", "skipped"):
        ended += f", {one[word]} {word}" * (one[word] > 0)
    return [one["slurm"], one["system"], one["python"], spoken, ended, one["on"]]


def _counts(results: Sequence[Path]) -> Record:
    suites = [s for path in results for s in ElementTree.parse(path).iter("testsuite")]  # noqa: S314 - pytest's own

    def total(*names: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites for name in names)

    modules = {case.get("classname") for suite in suites for case in suite.iter("testcase")}
    failed, skipped = total("failures", "errors"), total("skipped")
    tests = total("tests")
    return {
        "modules": len(modules),
        "tests": tests,
        "passed": tests - failed - skipped,
        "failed": failed,
        "skipped": skipped,
    }


def _served() -> list[str]:
    """By its plug-ins: of data parsers, and up to 23.02 one of each version."""
    names = " ".join(path.name for path in Path("/usr").glob("lib*/**/slurm*/*_v0_0_*.so"))
    found = re.findall(r"(?:data_parser|openapi)_v(0)_(0)_(\d+)\.so", names)
    return sorted({f"v{'.'.join(numbers)}" for numbers in found})


def _said(*words: str) -> str:
    """With a configuration of its own, so that no Slurm need be up."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(_CONF)
        conf.flush()
        env = {**os.environ, "SLURM_CONF": conf.name}
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
        except OSError:
            return ""
    return done.stdout + done.stderr


def main(words: Sequence[str]) -> None:
    if words[:1] == ["record"]:
        print(record([Path(word) for word in words[1:]]))  # noqa: T201 - a command
        return
    made = table(records())
    for page in PAGES:
        page.write_text(with_table(page.read_text(), made))


if __name__ == "__main__":
    main(sys.argv[1:])
