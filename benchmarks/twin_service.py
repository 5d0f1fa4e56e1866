"""The worker on a site of thousands of jobs where all hand-overs ask the twin.

`python -m benchmarks.twin_service [--minutes 60] [--against TREE]`: the site of
`benchmarks.twin_groups` (5,000 nodes, 20,000 waiting jobs, 1,000 chains of 40 shapes) and a worker
in shadow mode with the policy `twin`. The cluster's clock is the CPU time that Mirage takes and the
time that it sleeps, so other work on the machine counts for nothing: CPU seconds of the ticks and
of the longest stretch without a look at the clock, and the share of a core. `TREE`: another
checkout of Mirage that runs the same afterwards.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.simulator_workloads import whole_nodes
from benchmarks.twin_groups import SITE_NODES, Site
from mirage.cluster.simulated.cluster import SimulatedCluster
from mirage.config.paths import get_data_dir
from mirage.domain.decision import Decision, PolicyView
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.policy.twin.twin_policy import TwinPolicy
from mirage.services.forecasts.shape_forecaster import ShapeForecaster
from mirage.services.models.kernel_warmup import compile_kernels
from mirage.services.observation.cluster_observer import Observer
from mirage.services.provision.decision_context import Rules
from mirage.store.database import schema_migrations
from mirage.store.database.engine import Store
from mirage.store.jobs import job_history
from mirage.store.operations import clusters
from mirage.worker import Worker

_HOUR_S, _DAY_S = 3600, 86400


class LiveSite(SimulatedCluster):
    """The site, on the clock of its only user: what that one computes and sleeps."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.simulator.params, now=site.simulator.now)
        self.simulator = site.simulator
        self._began, self._slept_s = site.simulator.now, 0.0
        self._zero_s, self._own_s = time.process_time(), 0.0

    def read_cpu_s(self) -> float:
        """Return the CPU seconds that were not this cluster's own."""
        return time.process_time() - self._zero_s - self._own_s

    def sleep(self, seconds: float) -> None:
        self._slept_s += seconds

    def read_clock(self) -> int:
        return self._began + int(self.read_cpu_s() + self._slept_s)

    def fetch_queue(self) -> Queue:
        with self._take_own_time():
            return super().fetch_queue()

    def fetch_nodes(self) -> tuple[Node, ...]:
        with self._take_own_time():
            return super().fetch_nodes()

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        with self._take_own_time():
            return iter(list(super().fetch_history(since, until)))

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        with self._take_own_time():
            return super().fetch_job_records(job_ids)

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        with self._take_own_time():
            return super().fetch_requested_nodes(job_ids)

    @contextmanager
    def _take_own_time(self) -> Iterator[None]:
        begun, now = time.process_time(), self.read_clock()
        try:
            self.simulator.advance(max(now, self.simulator.now))
            yield
        finally:
            self._own_s += time.process_time() - begun


@dataclass(frozen=True, slots=True)
class CountingPolicy(TwinPolicy):
    """The twin's policy; counts the decisions with an answer and those without."""

    answered: list[bool] = field(default_factory=list)

    def decide(self, view: PolicyView) -> Decision:
        self.answered.append(view.twin_s is not None)
        return TwinPolicy.decide(self, view)


class TimedWorker(Worker):
    """Notes the CPU seconds of its ticks."""

    read_cpu_s: Callable[[], float]
    ticks_s: list[float]

    def run_tick(self) -> None:
        begun = self.read_cpu_s()
        super().run_tick()
        self.ticks_s.append(self.read_cpu_s() - begun)


def build_past(now: int) -> list[Job]:
    """Eight days of jobs that have ended, or not yet been seen to."""
    table = whole_nodes(60_000, 1.0, seed=5, nodes=SITE_NODES)
    wait_s = np.random.default_rng(5).exponential(4 * _HOUR_S, len(table)).astype(np.int64)
    columns = (table.submit, wait_s, table.nodes, table.limit_s, table.run_s, table.user)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Job(
            job_id=JobId(1_000_000 + i),
            submit=at,
            eligible=at,
            start=at + waited_s,
            end=at + waited_s + run_s,
            state=JobState.COMPLETED,
            user=f"u{user:03}",
            partition="batch",
            nodes=nodes,
            time_limit_s=limit_s,
        )
        for i, (at, waited_s, nodes, limit_s, run_s, user) in enumerate(rows)
        if at + waited_s + run_s <= now
    ]


def measure(minutes: int, folder: Path) -> dict[str, Any]:
    site = Site()
    params, now = site.simulator.params, site.simulator.now
    compile_kernels(params)
    url = f"sqlite:///{folder / 'mirage.db'}"
    schema_migrations.upgrade_schema(url, get_data_dir("migrations"))
    store = Store(url, durable=False)
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "site")
        job_history.upsert_jobs(tx, cluster_id, build_past(now))
        clusters.set_history_until(tx, cluster_id, now)
    policy, stop = CountingPolicy(), threading.Event()
    rules = Rules(policy=lambda _: policy, default="twin", observer=Observer(params=params))
    cluster = LiveSite(site)
    worker = TimedWorker(
        *(store, cluster, cluster_id),
        rules=rules,
        foreteller=ShapeForecaster(),
        chains_a_day=10_000,
    )
    worker.read_cpu_s, worker.ticks_s = cluster.read_cpu_s, []
    stretches_s, looked_at = list[float](), 0.0

    def sleep(seconds: float) -> None:
        nonlocal looked_at
        stretches_s.append(cluster.read_cpu_s() - looked_at)
        looked_at = cluster.read_cpu_s()
        cluster.sleep(seconds)
        if cluster.read_clock() >= now + 60 * minutes:
            stop.set()

    worker.run(stop, sleep)
    passed_s = cluster.read_clock() - now
    answered = np.array(policy.answered)
    return {
        "cluster_minutes": passed_s / 60,
        "ticks": len(worker.ticks_s),
        "median_tick_s": float(np.median(worker.ticks_s)),
        "longest_ticks_s": sorted(worker.ticks_s)[:-4:-1],
        "longest_stretch_s": max(stretches_s, default=0.0),
        "cpu_s": cluster.read_cpu_s(),
        "share_of_a_core": cluster.read_cpu_s() / passed_s,
        "decisions": len(answered),
        "with_an_answer_pct": 100.0 * float(answered.mean()) if len(answered) else 0.0,
    }


def measure_tree(tree: Path, minutes: int) -> dict[str, Any]:
    """Run this measurement with the Mirage of another checkout."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(__file__).parent, Path(folder) / "benchmarks")
        command = [sys.executable, "-m", "benchmarks.twin_service", "--minutes", str(minutes)]
        paths = os.pathsep.join((folder, str(tree)))
        run = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--against", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = measure(words.minutes, Path(folder))
    if words.against is not None:
        told = {"here": told, "against": measure_tree(words.against, words.minutes)}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
