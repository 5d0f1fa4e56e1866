"""What the worker needs compiled is compiled before it asks, in a process beside it."""

import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.snapshot import Snapshot
from mirage.errors import InputError
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.provision.cluster_observer import Observer
from mirage.service.service_run import KernelCompiler
from mirage.simulator.types import Params, SelectType
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, add_requests, generate_jobs

SITES = {
    "whole nodes": PARAMS,
    "shared nodes": replace(PARAMS, select_type=SelectType.CONS_TRES, accrue_always=True),
}
FORETELL = """
import pickle, sys
from pathlib import Path
from numba.core.registry import CPUDispatcher
from mirage.twin.futures.submission_history import SubmissionHistory
from mirage.observation.running_stats import RunningStats
from mirage.observation.feature_vector import SnapshotObserver
from mirage.twin.forecast import Twin
from mirage.service.kernel_warmup import compile_kernels
from tests.support.observation.scene import BEGIN, make_handover_input

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("mirage.")]
    found = {f for module in modules for f in vars(module).values() if isinstance(f, CPUDispatcher)}
    return {(f.__module__, f.__name__, str(types)) for f in found for types in f.signatures}

params, snapshot, past = pickle.loads(Path(sys.argv[1]).read_bytes())
compile_kernels(params)
before, now = compiled(), snapshot.queue.taken_at
assert len(before) > 10
look = SnapshotObserver(snapshot, params, RunningStats.from_accounting(past, now))
look.observe_link(make_handover_input(now))
history = SubmissionHistory.from_accounting(params, past, BEGIN, now)
Twin(samples=20).forecast_from_queue(look, make_handover_input(now), history, seed=1)
print(sorted(compiled() - before))
"""


def seen(params: Params) -> tuple[Snapshot, list[object]]:
    """A busy cluster after a day, and its accounting."""
    cluster = SimulatedCluster(params, add_requests(generate_jobs(3), params), now=BEGIN)
    cluster.advance(24 * HOUR)
    snapshot = Snapshot(queue=cluster.fetch_queue(), nodes=cluster.fetch_nodes())
    return snapshot, list(cluster.fetch_history(BEGIN, cluster.read_clock()))


@pytest.mark.parametrize("site", SITES)
def test_what_a_busy_cluster_needs_was_compiled_for_an_idle_one(site: str, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    file.write_bytes(pickle.dumps((SITES[site], *seen(SITES[site]))))
    words = [sys.executable, "-c", FORETELL, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_until_then_nothing_is_looked_at(sqlite_store: Store) -> None:
    snapshot, _ = seen(PARAMS)
    observer = Observer(params=PARAMS, is_compiled=lambda: False)
    with sqlite_store.read() as tx, pytest.raises(InputError, match="being compiled"):
        observer.observe_cluster(tx, 1, snapshot)


def test_a_compiler_that_fails_is_done_as_well(tmp_path: Path) -> None:
    compiler = KernelCompiler(tmp_path / "no-such-file.toml")
    compiler.start()
    deadline = time.monotonic() + 60
    while not compiler.is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert KernelCompiler(None).is_done()
