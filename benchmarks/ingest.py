"""Rows a second and peak memory of `mirage ingest`, on SQLite and PostgreSQL, against a floor.

    python -m benchmarks.ingest [TRACE.parquet] [--repeat N] [--json]

The trace is ingested twice into a fresh database: the first time every row is new, the second time
none is. The floor is the plainest thing that stores the same rows: one executemany of INSERT, in
one transaction, into the same table, from tuples that are in memory already. Each measurement is a
process of its own; times are the median over the repeats, memory the largest.
"""

import argparse
import json
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import jobs as jobs_table
from mirage.domain.job import Job
from mirage.history.formats.trace_file import open_trace
from mirage.history.ingest.trace_import import import_trace
from tests.support import postgres

ROOT = Path(__file__).parents[1]
TRACE = ROOT.parent / "shared/traces/tacc-ls6-a100.parquet"
GENERATED_ROWS = 17_300
"""The number of rows of the Lonestar6 trace."""

Figures = dict[str, float]


def main() -> None:
    options = _parse_options()
    if options.one:
        step, url = options.one
        print(json.dumps(_STEPS[step](url, Path(options.trace))))
        return
    with tempfile.TemporaryDirectory(prefix="mirage-bench-") as folder:
        trace = Path(options.trace)
        if not trace.exists():
            trace = Path(folder) / "generated.parquet"
            _generate_trace(trace)
        result: dict[str, object] = {"trace": trace.name, "repeat": options.repeat}
        for name, open_databases in (("sqlite", _open_sqlite), ("postgresql", _open_postgresql)):
            with open_databases(Path(folder)) as fresh_url:
                result[name] = _measure_database(trace, fresh_url, options.repeat)
    print(json.dumps(result, indent=2) if options.json else _format_result(result))


def _measure_database(trace: Path, fresh_url: Callable[[], str], repeat: int) -> dict[str, Figures]:
    runs: dict[str, list[Figures]] = {"floor": [], "first": [], "second": []}
    for _ in range(repeat):
        runs["floor"].append(_run_step("floor", _make_database(fresh_url()), trace))
        url = _make_database(fresh_url())
        for step in ("first", "second"):
            runs[step].append(_run_step("ingest", url, trace))
    return {name: _summarize_runs(step_runs) for name, step_runs in runs.items()}


def _make_database(url: str) -> str:
    schema_migrations.upgrade_schema(url, ROOT / "migrations")
    return url


def _summarize_runs(runs: Sequence[Figures]) -> Figures:
    seconds = statistics.median(run["seconds"] for run in runs)
    last = runs[-1]
    return last | {
        "seconds": round(seconds, 3),
        "rows_per_s": round(last["rows"] / seconds),
        "peak_rss_mib": max(run["peak_rss_mib"] for run in runs),
    }


def _run_step(step: str, url: str, trace: Path) -> Figures:
    argv = [sys.executable, "-m", "benchmarks.ingest", str(trace), "--one", step, url]
    process = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(process.stdout)
    return figures


def _measure_ingest(url: str, trace: Path) -> Figures:
    began = time.perf_counter()
    with open_trace(trace) as trace_file, closing(Store(url)) as store:
        report = import_trace(store, "bench", trace_file)
    seconds = time.perf_counter() - began
    changed = {"added": report.added, "updated": report.updated}
    return _build_figures(report.read, seconds) | changed


def _measure_floor(url: str, trace: Path) -> Figures:
    with closing(Store(url)) as store, store.begin() as tx:
        tx.exec_driver_sql("INSERT INTO clusters (name) VALUES ('bench')")
    with open_trace(trace) as trace_file:
        rows = [_build_row(job) for batch in trace_file.iter_batches() for job in batch]
    insert_rows = _insert_sqlite if url.startswith("sqlite") else _insert_postgresql
    began = time.perf_counter()
    insert_rows(url, rows)
    return _build_figures(len(rows), time.perf_counter() - began)


_STEPS: dict[str, Callable[[str, Path], Figures]] = {
    "ingest": _measure_ingest,
    "floor": _measure_floor,
}


def _build_row(job: Job) -> dict[str, object]:
    values = {c.name: getattr(job, c.name) for c in jobs_table.columns if c.name != "cluster_id"}
    return {"cluster_id": 1, **values, "state": job.state.value}


def _insert_sqlite(url: str, rows: list[dict[str, object]]) -> None:
    statement = _build_statement(":{}")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.executemany(statement, rows)


def _insert_postgresql(url: str, rows: list[dict[str, object]]) -> None:
    statement = _build_statement("%({})s")
    with psycopg.connect(url) as connection:
        connection.cursor().executemany(statement.encode(), rows)


def _build_statement(placeholder: str) -> str:
    names = [c.name for c in jobs_table.columns]
    columns = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(placeholder.format(name) for name in names)
    return f"INSERT INTO jobs ({columns}) VALUES ({values})"  # noqa: S608 - our own names


def _build_figures(rows: int, seconds: float) -> Figures:
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": rows, "seconds": seconds, "peak_rss_mib": round(peak_kib / 1024, 1)}


@contextmanager
def _open_sqlite(folder: Path) -> Iterator[Callable[[], str]]:
    urls: list[str] = []

    def create_url() -> str:
        urls.append(f"sqlite:///{folder}/{len(urls)}.db")
        return urls[-1]

    yield create_url


@contextmanager
def _open_postgresql(_folder: Path) -> Iterator[Callable[[], str]]:
    with postgres.running_postgres() as url:
        names: list[str] = []

        def create_url() -> str:
            names.append(f"bench{len(names)}")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {names[-1]}".encode())
            return url.replace("/postgres?", f"/{names[-1]}?")

        yield create_url


def _generate_trace(path: Path) -> None:
    """Write a trace with as many rows as the Lonestar6 trace has, of similar jobs."""
    rng = random.Random(0)  # noqa: S311 - no secrets here
    rows = []
    for number in range(GENERATED_ROWS):
        submit = 1_667_300_000 + number * 600
        start = submit + rng.choice((0, 0, 0, 3600, 40_000))
        limit_s = rng.choice((3600, 7200, 86_400, 172_800))
        row: dict[str, object] = dict.fromkeys(("account", "qos", "eligible", "cpus"))
        row |= {"job_id": str(400_000 + number), "user": f"{rng.randrange(367):05}"}
        row |= {"partition": "gpu-a100", "state": "COMPLETED", "exit_code": "0:0"}
        row |= {"submit": submit, "start": start, "end": start + rng.randrange(limit_s)}
        row |= {"timelimit_s": limit_s, "nodes": 1, "gpus": 3, "name": "train.sh"}
        rows.append(row)
    pq.write_table(pa.Table.from_pylist(rows), path)


def _format_result(result: dict[str, object]) -> str:
    header = f"{'':24}{'rows':>8}{'seconds':>9}{'rows/s':>9}{'peak MiB':>10}"
    lines = [
        f"{result['trace']}, median of {result['repeat']}",
        f"{header}{'of floor':>10}{'added':>8}",
    ]
    names = {"floor": "plain INSERTs", "first": "first ingest", "second": "second ingest"}
    for database in ("sqlite", "postgresql"):
        runs = result[database]
        assert isinstance(runs, dict)  # noqa: S101 - for the type checker
        for step, name in names.items():
            run = runs[step]
            share = run["rows_per_s"] / runs["floor"]["rows_per_s"]
            lines.append(
                f"{database + ' ' + name:24}{run['rows']:8}{run['seconds']:9.3f}"
                f"{run['rows_per_s']:9}{run['peak_rss_mib']:10}{share:10.0%}"
                f"{run.get('added', run['rows']):8}"
            )
    return "\n".join(lines)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", nargs="?", default=str(TRACE))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("STEP", "URL"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
