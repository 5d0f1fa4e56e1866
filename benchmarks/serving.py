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

from benchmarks.serving_load import Answers, ask_steadily
from mirage.database.access.tokens import Token
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Role
from mirage.web.api.app import create_app
from mirage.web.identity import tokens
from mirage.web.pages.app import _PAGES, mount_pages
from mirage.web.shared.context import ApiContext
from tests.support import postgres
from tests.support.api.running import NOW
from tests.support.database.copying import copy_url
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
"""Lists as people narrow them, in addition to each whole list."""
_LEFT_OUT = {f"/api/v1/chains/{CHAIN}/next"}
"""Only chains of mode submit have this address, and there are none."""


def list_addresses(context: ApiContext) -> list[str]:
    """List every GET of the app that needs no more than a chain's id; no files, no models."""
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
        address = path.replace("{chain_id}", CHAIN)
        if "{" not in address and address not in _LEFT_OUT:
            query = _QUERIES.get(address)
            addresses_read.append(f"{address}?{query}" if query else address)
    return [*addresses_read, *_NARROWED]


@contextmanager
def serve(url: str, folder: Path, core: int) -> Iterator[tuple[str, int, Path]]:
    """Run a service on that core; yield its address, its process, and the file of its ticks."""
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


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one database."""

    answers: dict[str, Answers]
    quiet_s: list[float]
    loaded_s: list[float]
    memory_mib: float
    files: dict[str, tuple[float, float]]
    """By format: seconds and MiB of the file of all jobs."""
    after_mib: float
    """Memory once the files are written."""


def measure_database(url: str, folder: Path, seconds: float, rate: float) -> Run:
    secret = _create_token(url)
    headers = {"Authorization": f"Bearer {secret}", "Accept": "text/html,application/json"}
    with serve(url, folder, core=0) as (address, process, ticks):
        _wait_until_ready(address)
        paths = list_addresses(_build_context(url))
        asyncio.run(ask_steadily(address, paths, rate=10, seconds=len(paths) / 5, headers=headers))
        time.sleep(seconds / 4)
        quiet_from = time.time()
        time.sleep(seconds / 2)
        loaded_from = time.time()
        interleaved_paths = [
            path for name in paths for path in (name, *([HEALTH] if name != HEALTH else []))
        ]
        answers = asyncio.run(
            ask_steadily(address, interleaved_paths, rate=rate, seconds=seconds, headers=headers)
        )
        loaded_until = time.time()
        memory_mib = read_peak_mib(process)
        files = {kind: _fetch_file(address, kind, headers) for kind in ("csv", "parquet")}
        after_mib = read_peak_mib(process)
    ticks_seen = [json.loads(line) for line in ticks.read_text().splitlines()]
    return Run(
        answers=answers,
        quiet_s=[t["s"] for t in ticks_seen if quiet_from <= t["at"] < loaded_from],
        loaded_s=[t["s"] for t in ticks_seen if loaded_from <= t["at"] < loaded_until],
        memory_mib=memory_mib,
        files=files,
        after_mib=after_mib,
    )


def _build_context(url: str) -> ApiContext:
    return ApiContext(
        store=Store(url), cluster_id=1, cluster_name="lab", admins=(), clock=lambda: NOW
    )


def _create_token(url: str) -> str:
    token = Token(
        name="load",
        role=Role.ADMIN,
        created_at=NOW,
        created_by="benchmark",
        expires_at=NOW + 86400,
    )
    with closing(Store(url)) as store, store.begin() as tx:
        return tokens.create_token(tx, token, cluster_id=1)[1]


def _wait_until_ready(address: str) -> None:
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


def _fetch_file(address: str, kind: str, headers: dict[str, str]) -> tuple[float, float]:
    began, size = time.monotonic(), 0
    path = f"{address}/api/v1/jobs?format={kind}"
    with httpx.stream("GET", path, headers=headers, timeout=120, trust_env=False) as answer:
        for part in answer.iter_raw():
            size += len(part)
    return time.monotonic() - began, size / 2**20


def read_peak_mib(process: int) -> float:
    """Read the peak memory of the process, MiB; 0: it has ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def format_table(name: str, outcome: Run) -> list[str]:
    """Format a table in Markdown; addresses slower than SLOW_S are marked."""
    health_s = outcome.answers[HEALTH].durations_s
    health_p50 = percentile(health_s, 0.5)
    lines = [f"### {name}", "", "| address | requests | p50 ms | p99 ms | p50 to /healthz | KiB |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for path, answers in sorted(
        outcome.answers.items(), key=lambda p: -percentile(p[1].durations_s, 0.99)
    ):
        p50, p99 = percentile(answers.durations_s, 0.5), percentile(answers.durations_s, 0.99)
        failures = {s: n for s, n in answers.statuses.items() if s != httpx.codes.OK}
        mark = f" {failures}" if failures else " slow" if p99 > SLOW_S else ""
        lines.append(
            f"| {path}{mark} | {len(answers.durations_s)} | {p50 * 1e3:.1f} | {p99 * 1e3:.1f} | "
            f"{p50 / health_p50:.1f} | {answers.size / 1024:.0f} |"
        )
    quiet_s, loaded_s = outcome.quiet_s, outcome.loaded_s
    other_s = [
        s
        for path, answers in outcome.answers.items()
        if path != HEALTH
        for s in answers.durations_s
    ]
    other_p99, health_p99 = percentile(other_s, 0.99), percentile(health_s, 0.99)
    lines += [
        "",
        f"All but /healthz: p50 {percentile(other_s, 0.5) * 1e3:.1f} ms, "
        f"p99 {other_p99 * 1e3:.0f} ms "
        f"({len(other_s)} requests), {other_p99 / health_p99:.1f} times /healthz's "
        f"{health_p99 * 1e3:.0f} ms.",
        f"Worker's tick: {median(quiet_s):.2f} s without load, {median(loaded_s):.2f} s with it "
        f"(medians of {len(quiet_s)} and {len(loaded_s)}; at most {max(quiet_s):.2f} and "
        f"{max(loaded_s):.2f}).",
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
                copy_url(url, urls["postgresql"])
            slow = 0
            for name in [options.only] if options.only else list(urls):
                outcome = measure_database(urls[name], folder, options.seconds, options.rate)
                print("\n".join(format_table(name, outcome)), flush=True)
                slow += sum(
                    percentile(h.durations_s, 0.99) > SLOW_S for h in outcome.answers.values()
                )
            print(f"Load average {os.getloadavg()[0]:.1f}.")
    finally:
        shutil.rmtree(folder)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
