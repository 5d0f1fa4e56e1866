"""What deciding costs the service: a thousand hand-overs in one tick, and a single one.

`python -m benchmarks.decisions [--model models/NAME/VERSION ...] [--models-dir DIR] [--json]`

A simulated cluster of 1,400 nodes on which 1,000 chains each have a running link and a standby
behind it, beside some 1,500 other jobs and a day of history; a real SQLite store. Timed is
`services.provision` in shadow mode: the hand-overs are read, observed live, decided by the model
and written down. The model is a copy with the bounds of what it has learned from taken off, so that
it is asked whatever cluster it was trained on; a run in which the rule stood in even once is no
result. A model that wants the twin is asked about those hand-overs alone whose turn the tick's
budget reached (`asked_a_tick`); the others wait. Beside it, in the same way, the rule `quantile`,
which is shown no observation. Each policy has a process of its own that opens the store and does
nothing but decide: its peak of memory is told. Ticks are a minute apart, on one state of the queue.
Making the scene is not timed, nor is the first tick, which loads model and kernels. On a
machine that others use too, the CPU figures are the ones to read.
"""

import argparse
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mirage.chains import link_sync
from mirage.config.paths import get_models_dir
from mirage.database.chains import decisions
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.decision import Decision, PolicyView
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Snapshot
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, GRAPH
from mirage.policies.models.scope import Scope
from mirage.provision.cluster_observer import Observer
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.polling.live_ingest import ingest_history, ingest_queue
from mirage.provision.provision_tick import provision_handovers
from mirage.shipped_files import get_data_dir
from mirage.simulator.types import Params, SimJob

CHAINS, JOBS, HOURS = 1000, 2600, 20
LIMIT_H = 48
"""The time limit of a link, which has one node."""
RULE = "quantile"
SNAPSHOT_FILE = "snapshot.pickle"
"""The file of the queue and the nodes of the scene: the store keeps only their sums."""
_NO_BOUNDS = {"low": -1e9, "high": 1e9}
HOUR_S = 3600
BEGIN = 1_675_000_000
PARAMS = Params(
    name="thousand",
    nodes=1400,
    priority_weight_age=7000,
    priority_max_age_s=7 * 86400,
    bf_window_s=48 * HOUR_S,
)
NO_LIMITS = Limits(
    max_lead_s=10**9,
    min_gain_s=0,
    user_overlap_node_h=1e12,
    account_overlap_node_h=1e12,
    cluster_overlap_node_h=1e12,
)


def generate_jobs(rng: random.Random) -> Iterator[SimJob]:
    """Generate the jobs of others: more than the 400 nodes that chains leave can run."""
    for i in range(JOBS):
        limit_s = rng.choice((HOUR_S // 2, 2 * HOUR_S, 12 * HOUR_S, 48 * HOUR_S))
        yield SimJob(
            job_id=i + 1,
            submit=BEGIN + rng.randrange(HOURS * HOUR_S),
            nodes=rng.choice((1, 1, 1, 2, 4, 8)),
            time_limit_s=limit_s,
            run_s=int(limit_s * min(1.1, rng.expovariate(3))),
            user=f"user-{rng.randrange(150)}",
        )


def stage_scene(folder: Path) -> dict[str, int]:
    """Play the scene and store it in a database in `folder`. Return its sizes."""
    cluster = SimulatedCluster(PARAMS, generate_jobs(random.Random(1)), now=BEGIN - 1)  # noqa: S311
    for i in range(CHAINS):
        cluster.submit_chain(
            ChainId(f"chain{i:05d}"), links=3, time_limit_s=LIMIT_H * HOUR_S, user=f"user-{i % 200}"
        )
    cluster.advance(HOURS * HOUR_S)
    url = get_database_url(folder)
    schema_migrations.upgrade_schema(url, get_data_dir("migrations"))
    queue, nodes = cluster.fetch_queue(), cluster.fetch_nodes()
    with closing(Store(url)) as store:
        with store.begin() as tx:
            cluster_id = clusters.ensure_cluster(tx, PARAMS.name)
        counts, _ = ingest_history(store, cluster, cluster_id, (BEGIN - 1, queue.taken_at))
        with store.begin() as tx:
            ingest_queue(tx, cluster_id, queue, nodes)
            link_sync.sync_links(tx, cluster_id, link_sync.list_marked_jobs(queue), queue.taken_at)
            clusters.set_history_until(tx, cluster_id, queue.taken_at)
    folder.joinpath(SNAPSHOT_FILE).write_bytes(pickle.dumps(Snapshot(queue=queue, nodes=nodes)))
    return {"in_the_queue": len(queue), "in_the_history": counts.added}


def get_database_url(folder: Path) -> str:
    return f"sqlite:///{folder}/mirage.db"


def list_fitting_models(under: Path) -> Iterator[str]:
    """List the models whose scope has such links; other models leave them to the rule."""
    for folder in registry.list_model_folders(under):
        scope = Scope.from_card(json.loads(folder.joinpath(CARD).read_text()))
        if scope.explain_outside(1, LIMIT_H * HOUR_S) is None:
            yield registry.format_model_name(folder)


def copy_unbounded(model: str, under: Path, folder: Path) -> None:
    """Copy the model, without the ranges of its training: no observation is strange to the copy."""
    folder_of_model = registry.resolve_folder(model, under)
    copy = folder / folder_of_model.parent.name / folder_of_model.name
    copy.mkdir(parents=True)
    copy.joinpath(GRAPH).write_bytes(folder_of_model.joinpath(GRAPH).read_bytes())
    card = json.loads(folder_of_model.joinpath(CARD).read_text())
    ends = {end: [bound] * len(card["seen"][end]) for end, bound in _NO_BOUNDS.items()}
    copy.joinpath(CARD).write_text(json.dumps(card | {"seen": ends}))


class TimedPolicy:
    """A policy, and the seconds that each of its answers took: wall and CPU."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name, self.needs = policy, policy.name, policy.needs
        self.decide_outright, self.explain_unfit = policy.decide_outright, policy.explain_unfit
        self.durations_s: list[tuple[float, float]] = []

    def decide(self, view: PolicyView) -> Decision:
        began, cpu_before_s = time.perf_counter(), time.thread_time()
        decision = self._policy.decide(view)
        self.durations_s.append((time.perf_counter() - began, time.thread_time() - cpu_before_s))
        return decision


def measure_policy(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    """Measure `rounds` ticks of one policy over the scene in `folder`, in this process."""
    policy = TimedPolicy(registry.get_policy(name, folder / "models"))
    settings = DecisionSettings(
        get_policy=lambda _: policy,
        default_policy=name,
        limits=NO_LIMITS,
        observer=Observer(params=PARAMS),
    )
    with closing(Store(get_database_url(folder))) as store:
        with store.read() as tx:
            (cluster_id,) = clusters.list_cluster_names(tx)
        scene = cluster_id, pickle.loads(folder.joinpath(SNAPSHOT_FILE).read_bytes())  # noqa: S301 - ours
        first_s, _ = measure_seconds(partial(run_tick, store, scene, settings, 0))
        policy.durations_s.clear()
        ticks = [
            measure_seconds(partial(run_tick, store, scene, settings, i))
            for i in range(1, rounds + 1)
        ]
        with store.read() as tx:
            rows = decisions.list_decisions(tx, 1, limit=CHAINS)
    single_ms, single_cpu_ms = np.array(policy.durations_s).T * 1e3
    wall_s, cpu_s = np.array(ticks).T
    return {
        "policy": name,
        "answered": {row.policy for row in rows} == {policy.name}
        and not any(f"so {RULE} decides" in row.reason for row in rows),
        "asked_a_tick": len(policy.durations_s) / rounds,
        "first_tick_s": first_s,
        "tick_s": float(np.median(wall_s)),
        "tick_cpu_s": float(np.median(cpu_s)),
        "least_tick_s": float(wall_s.min()),
        "single_p50_ms": float(np.quantile(single_ms, 0.5)),
        "single_p99_ms": float(np.quantile(single_ms, 0.99)),
        "single_cpu_p99_ms": float(np.quantile(single_cpu_ms, 0.99)),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run_tick(
    store: Store, scene: tuple[int, Snapshot], settings: DecisionSettings, minute: int
) -> None:
    cluster_id, snapshot = scene
    queue = replace(snapshot.queue, taken_at=snapshot.queue.taken_at + 60 * minute)
    # In shadow mode no command goes to the cluster, so any cluster will do.
    provision_handovers(
        store,
        SimulatedCluster(Params(nodes=1)),
        cluster_id,
        replace(snapshot, queue=queue),
        settings,
    )


def measure_seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds of a call: wall and CPU."""
    began, cpu_before_s = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - began, time.process_time() - cpu_before_s


def measure_in_process(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    words = [sys.executable, "-m", "benchmarks.decisions", "--within", str(folder)]
    words += ["--model", name, "--rounds", str(rounds)]
    process = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True, env=os.environ)
    result: dict[str, Any] = json.loads(process.stdout)
    return result


def print_table(rows: list[dict[str, Any]]) -> None:
    print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = (f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values())
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", action="append", help="Default: all for such links.")
    parser.add_argument("--models-dir", type=Path, default=get_models_dir())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--within", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.within:
        print(json.dumps(measure_policy(options.model[0], options.within, options.rounds)))
        return
    models = options.model or list(list_fitting_models(options.models_dir))
    if not models:
        sys.exit(f"decisions: {options.models_dir} has no model for links of {LIMIT_H} h on a node")
    with tempfile.TemporaryDirectory(prefix="mirage-decisions-") as temporary:
        folder = Path(temporary)
        scene = stage_scene(folder)
        for model in models:
            copy_unbounded(model, options.models_dir, folder / "models")
        rows = [measure_in_process(name, folder, options.rounds) for name in (RULE, *models)]
    result = {"chains": CHAINS, **scene, "rounds": options.rounds, "policies": rows}
    if options.json:
        print(json.dumps(result))
    else:
        print_table(rows)
    silent = [row["policy"] for row in rows if not row["answered"]]
    if silent:
        sys.exit(f"decisions: not every hand-over was decided by {', '.join(silent)}")


if __name__ == "__main__":
    main()
