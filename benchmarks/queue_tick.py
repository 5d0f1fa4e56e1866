"""Seconds of a squeue answer of 100,000 jobs: parsed and stored, on the worker's second look.

    python -m benchmarks.queue_tick [--against CHECKOUT] [--jobs N] [--repeat N] [--json]

The first look stores every job. On the second a hundredth of the jobs have moved on. Measured is
the second: text to values, snapshot and history into a fresh SQLite database. `--against` measures
another checkout in the same run, in turns, and tells the ratio. Each measurement is a process of
its own; times are the median over the repeats.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from mirage.services.ingest.live_ingest import ingest_queue
from mirage.slurm.commands import squeue
from mirage.store.database import schema_migrations
from mirage.store.database.engine import Store
from mirage.store.operations import clusters

ROOT = Path(__file__).parents[1]
NOW = 1_700_000_000
_SEPARATOR = "\x1fsecret"

Measured = dict[str, float]


def main() -> None:
    options = _options()
    if options.one:
        print(json.dumps(_measure(options.jobs)))
        return
    checkouts = {"this": ROOT} | ({"against": options.against} if options.against else {})
    runs: dict[str, list[Measured]] = {name: [] for name in checkouts}
    for _ in range(options.repeat):
        for name, checkout in checkouts.items():
            runs[name].append(_child(Path(checkout), options.jobs))
    result: dict[str, object] = {"jobs": options.jobs, "repeat": options.repeat}
    medians = {name: _median(several) for name, several in runs.items()}
    result |= medians
    if options.against:
        this, other = medians["this"], medians["against"]
        result["ratio"] = {name: round(this[name] / other[name], 3) for name in this}
    print(json.dumps(result, indent=2) if options.json else _text(result))


def _median(runs: list[Measured]) -> Measured:
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in runs[0]}


def _child(checkout: Path, jobs: int) -> Measured:
    """This file, on the packages of the checkout: it may have no such benchmark."""
    argv = [sys.executable, __file__, "--one", "--jobs", str(jobs)]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(
        argv, cwd=checkout, check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    measured: Measured = json.loads(done.stdout)
    return measured


def _measure(jobs: int) -> Measured:
    first, second = _answer(jobs, moved=False), _answer(jobs, moved=True)
    with tempfile.TemporaryDirectory(prefix="mirage-bench-") as folder:
        url = f"sqlite:///{folder}/queue.db"
        schema_migrations.upgrade_schema(url, Path.cwd() / "migrations")
        with closing(Store(url)) as store:
            before = squeue.parse_queue(first, NOW, _SEPARATOR)
            with store.begin() as tx:
                cluster_id = clusters.ensure_cluster(tx, "bench")
                ingest_queue(tx, cluster_id, before, None)
            began = time.perf_counter()
            queue = squeue.parse_queue(second, NOW + 60, _SEPARATOR)
            parsed = time.perf_counter()
            with store.begin() as tx:
                ingest_queue(tx, cluster_id, queue, None, before=before)
            stored = time.perf_counter()
    return {"parse_s": parsed - began, "store_s": stored - parsed, "all_s": stored - began}


def _answer(jobs: int, *, moved: bool) -> str:
    return "".join(_row(number, moved=moved and number % 100 == 0) for number in range(1, jobs + 1))


def _row(number: int, *, moved: bool) -> str:
    runs = number % 10 == 0 or moved
    cells = {
        **dict.fromkeys(squeue.FIELDS, "(null)"),
        **dict.fromkeys(("ArrayTaskID", "HetJobID", "tres-per-job"), "N/A"),
        "tres-per-task": "N/A",
        "NumTasks": "2",
        "tres-per-socket": "N/A",
        "Sockets": "*",
        "JobID": str(number),
        "UserName": f"user{number % 500}",
        "UserID": str(1000 + number % 500),
        "Account": "ml",
        "Partition": "gpu",
        "QOS": "normal",
        "State": "RUNNING" if runs else "PENDING",
        "Reason": "None" if runs else "Priority",
        "PriorityLong": str(4_294_000_000 - number),
        "SubmitTime": str(NOW - 5000),
        "EligibleTime": str(NOW - 5000),
        "StartTime": str(NOW - 100) if runs else "N/A",
        "EndTime": str(NOW + 86_300) if runs else "N/A",
        "TimeLimit": "1-00:00:00",
        "NumNodes": "2",
        "NumCPUs": "128",
        "tres-alloc": "cpu=128,mem=500G,node=2,billing=128,gres/gpu=8" if runs else "(null)",
        "tres-per-node": "gres:gpu:a100:4",
        "NodeList": f"gpu[{number % 90 + 10},{number % 90 + 100}]" if runs else "",
        "Name": f"train-{number % 40}",
    }
    return "".join(f"{cells[name]}{_SEPARATOR}" for name in squeue.FIELDS) + "\n"


def _text(result: dict[str, object]) -> str:
    lines = [f"{result['jobs']} jobs, second look, median of {result['repeat']}"]
    for name in ("this", "against", "ratio"):
        if name in result:
            figures = result[name]
            assert isinstance(figures, dict)  # noqa: S101 - for the type checker
            told = "  ".join(f"{what} {figure:.3f}" for what, figure in figures.items())
            lines.append(f"{name:8} {told}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout of the project")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
