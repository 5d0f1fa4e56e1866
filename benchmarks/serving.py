"""How fast pages and lists are while the worker works: `python -m benchmarks.serving`.

A database of 200,000 jobs, 2,000 chains and a year of ten-minute snapshots, in SQLite and in
PostgreSQL; the service (API, pages, worker: benchmarks/serving_site.py) on one core, 50 requests a
second over every address of the app that is read, from another core. Written for each: p50, p99,
the ratio to /healthz in the same run; the worker's tick with and without load; memory.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
from fastapi.routing import APIRoute
from sqlalchemy import func, insert, select, text

from benchmarks.serving_load import Answers, steadily
from mirage.database.access.tokens import Token
from mirage.database.schema import schema_migrations, tables
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Role
from mirage.web.api.app import create_app
from mirage.web.identity import tokens
from mirage.web.pages.app import _PAGES, mount_pages
from mirage.web.shared.context import ApiContext
from tests.support import postgres
from tests.support.api.running import NOW
from tests.support.web.seeded import CHAIN, Size, seed

FULL = Size(chains=2000, jobs=200_000, days=365)
RATE = 50.0
SLOW_S = 0.2
MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations"
HEALTH = "/healthz"
_QUERIES = {
    "/api/v1/forecasts": "partition=gpu&nodes=4&time_limit_s=172800",
    "/api/v1/events": "for_s=0",
}
_NARROWED = (
    "/api/v1/jobs?partition=gpu&state=COMPLETED",
    "/api/v1/jobs?user=bob&limit=500",
    "/api/v1/chains?state=active&partition=gpu",
    "/api/v1/chains?limit=500",
    "/api/v1/decisions?effect=done",
    "/api/v1/handovers?user=bob",
)
"""Lists as people narrow them, beside each list as it is."""
_LEFT_OUT = {f"/api/v1/chains/{CHAIN}/next"}
"""Of a chain of mode submit alone, and none is."""
_CHUNK = 5000


def addresses(context: ApiContext) -> list[str]:
    """Every GET of the app that needs no more than a chain's id; no files, no models."""
    app = create_app(context)
    mount_pages(app)
    paths = [path for path, methods in app.openapi()["paths"].items() if "get" in methods]
    paths += [
        route.path
        for router, _ in _PAGES
        for route in router.routes
        if isinstance(route, APIRoute) and "GET" in (route.methods or ())
    ]
    addresses_read = []
    for path in dict.fromkeys(paths):
        named = path.replace("{chain_id}", CHAIN)
        if "{" not in named and named not in _LEFT_OUT:
            query = _QUERIES.get(named)
            addresses_read.append(f"{named}?{query}" if query else named)
    return [*addresses_read, *_NARROWED]


@contextmanager
def served(url: str, folder: Path, core: int) -> Iterator[tuple[str, int, Path]]:
    """A service on that core; its address, its process, and the file of its ticks."""
    ticks = folder / "ticks.jsonl"
    ticks.unlink(missing_ok=True)
    words = [sys.executable, "-m", "benchmarks.serving_site", url, str(NOW), str(ticks)]
    with (
        (folder / "service.log").open("w") as log,
        subprocess.Popen(
            ["taskset", "-c", str(core), *words], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            line = process.stdout.readline() if process.stdout else ""
            yield line.strip(), process.pid, ticks
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def copied(source: str, target: str) -> None:
    """All rows of a database of SQLite, in one of PostgreSQL."""
    schema_migrations.upgrade_schema(target, MIGRATIONS)
    with closing(Store(source)) as old, closing(Store(target)) as new:
        with old.read() as read, new.begin() as write:
            for table in tables.metadata.sorted_tables:
                rows = read.execution_options(yield_per=_CHUNK).execute(select(table)).mappings()
                while part := rows.fetchmany(_CHUNK):
                    write.execute(insert(table), [dict(row) for row in part])
                if "id" in table.c:
                    last = write.scalar(select(func.max(table.c.id))) or 1
                    name = f"pg_get_serial_sequence('{table.name}', 'id')"
                    write.execute(text(f"SELECT setval({name}, {last})"))
        with new.begin() as write:
            write.exec_driver_sql("ANALYZE")


@dataclass(frozen=True, slots=True)
class Run:
    """What one database gave."""

    answers: dict[str, Answers]
    quiet_s: list[float]
    loaded_s: list[float]
    memory_mib: float
    files: dict[str, tuple[float, float]]
    """By format: seconds and MiB of the file of all jobs."""
    after_mib: float
    """Memory once the files are written."""


def run(url: str, folder: Path, seconds: float, rate: float) -> Run:
    secret = _token(url)
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/html,application/json"}
    with served(url, folder, core=0) as (address, process, ticks):
        _wait(address)
        paths = addresses(_context(url))
        asyncio.run(steadily(address, paths, rate=10, seconds=len(paths) / 5, headers=headers))
        time.sleep(seconds / 4)
        quiet = time.time()
        time.sleep(seconds / 2)
        began = time.time()
        spaced = [path for name in paths for path in (name, *([HEALTH] if name != HEALTH else []))]
        answers = asyncio.run(
            steadily(address, spaced, rate=rate, seconds=seconds, headers=headers)
        )
        ended = time.time()
        memory = _memory_mib(process)
        files = {kind: _file(address, kind, headers) for kind in ("csv", "parquet")}
        after = _memory_mib(process)
    ticks_seen = [json.loads(line) for line in ticks.read_text().splitlines()]
    return Run(
        answers=answers,
        quiet_s=[t["s"] for t in ticks_seen if quiet <= t["at"] < began],
        loaded_s=[t["s"] for t in ticks_seen if began <= t["at"] < ended],
        memory_mib=memory,
        files=files,
        after_mib=after,
    )


def _context(url: str) -> ApiContext:
    return ApiContext(
        store=Store(url), cluster_id=1, cluster_name="lab", admins=(), clock=lambda: NOW
    )


def _token(url: str) -> str:
    token = Token(
        name="load",
        role=Role.ADMIN,
        created_at=NOW,
        created_by="benchmark",
        expires_at=NOW + 86400,
    )
    with closing(Store(url)) as store, store.begin() as tx:
        return tokens.create_token(tx, token, cluster_id=1)[1]


def _wait(address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(address + HEALTH, trust_env=False).raise_for_status()
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _file(address: str, kind: str, headers: dict[str, str]) -> tuple[float, float]:
    began, size = time.monotonic(), 0
    path = f"{address}/api/v1/jobs?format={kind}"
    with httpx.stream("GET", path, headers=headers, timeout=120, trust_env=False) as answer:
        for part in answer.iter_raw():
            size += len(part)
    return time.monotonic() - began, size / 2**20


def _memory_mib(process: int) -> float:
    """The most it ever had."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(peak) / 1024


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def format_table(name: str, outcome: Run) -> list[str]:
    """A table in Markdown; what is slower than SLOW_S is marked."""
    health = outcome.answers[HEALTH].took_s
    base = percentile(health, 0.5)
    lines = [f"### {name}", "", "| address | requests | p50 ms | p99 ms | p50 to /healthz | KiB |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for path, answers in sorted(
        outcome.answers.items(), key=lambda p: -percentile(p[1].took_s, 0.99)
    ):
        p50, p99 = percentile(answers.took_s, 0.5), percentile(answers.took_s, 0.99)
        wrong = {s: n for s, n in answers.statuses.items() if s != httpx.codes.OK}
        mark = f" {wrong}" if wrong else " slow" if p99 > SLOW_S else ""
        lines.append(
            f"| {path}{mark} | {len(answers.took_s)} | {p50 * 1e3:.1f} | {p99 * 1e3:.1f} | "
            f"{p50 / base:.1f} | {answers.size / 1024:.0f} |"
        )
    quiet, loaded = outcome.quiet_s, outcome.loaded_s
    every = [
        s for path, answers in outcome.answers.items() if path != HEALTH for s in answers.took_s
    ]
    late = percentile(every, 0.99), percentile(health, 0.99)
    lines += [
        "",
        f"All but /healthz: p50 {percentile(every, 0.5) * 1e3:.1f} ms, p99 {late[0] * 1e3:.0f} ms "
        f"({len(every)} requests), {late[0] / late[1]:.1f} times /healthz's "
        f"{late[1] * 1e3:.0f} ms.",
        f"Worker's tick: {median(quiet):.2f} s without load, {median(loaded):.2f} s with it "
        f"(medians of {len(quiet)} and {len(loaded)}; at most {max(quiet):.2f} and "
        f"{max(loaded):.2f}).",
        f"Memory at most {outcome.memory_mib:.0f} MiB; "
        f"{outcome.after_mib:.0f} MiB after the files.",
        "All jobs as a file: "
        + ", ".join(f"{k} {s:.1f} s, {m:.1f} MiB" for k, (s, m) in outcome.files.items())
        + ".",
        "",
    ]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0, help="under load, each database")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--jobs", type=int, default=FULL.jobs)
    parser.add_argument("--chains", type=int, default=FULL.chains)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    options = parser.parse_args()
    os.sched_setaffinity(0, {1} if os.cpu_count() != 1 else {0})
    folder = Path(tempfile.mkdtemp(prefix="mirage-serving-"))
    try:
        with ExitStack() as stack:
            url = f"sqlite:///{folder}/mirage.db"
            schema_migrations.upgrade_schema(url, MIGRATIONS)
            with closing(Store(url)) as store:
                seed(store, Size(chains=options.chains, jobs=options.jobs, days=FULL.days))
            urls = {"sqlite": url}
            if options.only != "sqlite":
                urls["postgresql"] = stack.enter_context(postgres.running_postgres())
                copied(url, urls["postgresql"])
            slow = 0
            for name in [options.only] if options.only else list(urls):
                outcome = run(urls[name], folder, options.seconds, options.rate)
                print("\n".join(format_table(name, outcome)), flush=True)
                slow += sum(percentile(h.took_s, 0.99) > SLOW_S for h in outcome.answers.values())
            print(f"Load average {os.getloadavg()[0]:.1f}.")
    finally:
        shutil.rmtree(folder)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
