"""The simulator's speed, beside a C program of the same algorithm that is compiled and run here.

    python -m benchmarks.simulator [--jobs N ...] [--queues N ...] [--sites NODES ...]
                                   [--slurm VERSION ...] [--only PART ...] [--repeat N] [--json]

Seeded workloads (simulator_workloads.py). Both read the same arrays, and every start must be equal:
else this exits 1. Jobs a second are jobs over the CPU seconds of the replay alone, from arrays in
memory to the last end, the best of the repeats, which are taken in turn. `shared` prints how much
longer a job takes with all rules on than a job of whole nodes does, `sites` how much longer on a
site of many nodes than on one of few, at the same load and with the same jobs. The C program
(simulator/peer.c) follows docs/reference/simulator.md as ours does, but knows only whole nodes and
no users. It plans one partition by number and two that overlap by name.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import simulator_workloads as workloads
from benchmarks.simulator_tables import LARGE_NODES, SHARED, TARGET_TO_C, Figures, text
from mirage.sim.packing.workload import Workload
from mirage.sim.simulator import Simulator
from mirage.sim.slurm_release import SlurmRelease, find_release
from mirage.sim.types import Params
from mirage.traces.cluster_files.reader import load_cluster_params

ROOT = Path(__file__).parents[1]
LOADS = (0.90, 1.05)
LARGE_RUNNING, LARGE_HOURS = 1000, 6
TARGET_JOBS_PER_S = {10_000: 150_000, 100_000: 50_000}
TARGET_NAMED_JOBS_PER_S = 30_000
TARGET_TO_WHOLE_NODES = {10_000: 4.0, 100_000: 5.0}
TARGET_LS6_S, TARGET_MEMORY_MIB, TARGET_STARTUP_S = 0.15, 200, 0.6
COMPILE = ("gcc", "-O3", "-march=native", "-std=c11")

_FIRST_STEP = """
import time
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob
sim = Simulator(Params(), [SimJob(job_id=i, nodes=76, time_limit_s=600, run_s=300) for i in (1, 2)])
sim.step(0)
print(time.monotonic())
"""


class Peer:
    """The compiled C program, and a folder for the arrays."""

    def __init__(self, folder: Path) -> None:
        if shutil.which(COMPILE[0]) is None:
            raise SystemExit("the C program of this benchmark needs gcc, which is not on the PATH")
        self._folder = folder
        self._program = folder / "peer"
        source = ROOT / "benchmarks/simulator/peer.c"
        subprocess.run([*COMPILE, "-o", str(self._program), str(source)], check=True)

    def replay(
        self, table: workloads.Table, params: Params, *, until: int = 0, full_plans: bool = False
    ) -> tuple[NDArray[np.int64], Figures]:
        """Start of each row (-1 unknown); seconds, passes, tests."""
        rows, starts = self._folder / "jobs.bin", self._folder / "starts.bin"
        rows.write_bytes(table.bytes())
        numbers = (params.nodes, until, int(full_plans))
        argv = [str(self._program), str(rows), str(starts), *map(str, numbers), *_settings(params)]
        done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
        return np.fromfile(starts, dtype=np.int64), json.loads(done.stdout)


def _settings(p: Params) -> Iterator[str]:
    yield f"bf_interval={p.bf_interval_s}"
    yield f"bf_window={p.bf_window_s}"
    yield f"bf_resolution={p.bf_resolution_s}"
    yield f"bf_max_job_test={p.bf_max_job_test}"
    yield f"sched_interval={p.sched_interval_s}"
    yield f"default_queue_depth={p.default_queue_depth}"
    yield f"PriorityWeightAge={p.priority_weight_age}"
    yield f"PriorityMaxAge={p.priority_max_age_s}"
    yield f"PriorityWeightJobSize={p.priority_weight_job_size}"
    yield f"release={str(find_release(p.slurm_version)).replace('.', '')}"
    yield f"second_partition={len(p.partitions[1].nodes) if len(p.partitions) > 1 else 0}"


def whole_nodes(peer: Peer, options: argparse.Namespace) -> list[Figures]:
    """One row a case: the same jobs through C and through the simulator, planned by number."""
    params = workloads.whole_node_params()
    return _compare_releases(peer, params, workloads.whole_nodes, LOADS, options)


def named_nodes(peer: Peer, options: argparse.Namespace) -> list[Figures]:
    """The same planned by name: the partitions share nodes."""
    params = workloads.named_node_params()
    return _compare_releases(peer, params, workloads.named_nodes, LOADS[:1], options)


def _compare_releases(
    peer: Peer,
    params: Params,
    make_table: Callable[[int, float], workloads.Table],
    loads: Sequence[float],
    options: argparse.Namespace,
) -> list[Figures]:
    return [
        _beside_c(peer, replace(params, slurm_version=v), make_table(count, load), load, options)
        for v in options.slurm
        for count in options.jobs
        for load in loads
    ]


def _beside_c(
    peer: Peer, params: Params, table: workloads.Table, load: float, options: argparse.Namespace
) -> Figures:
    count = len(table)
    workload = Workload.from_jobs(params, workloads.columns(table, params.partitions))
    seconds, c_seconds, equal = [], [], True
    for _ in range(options.repeat):
        expected, c = peer.replay(table, params)
        c_seconds.append(c["seconds"])
        sim, spent = _replayed(params, workload)
        seconds.append(spent)
        equal &= bool(np.array_equal(expected, sim.start))
    ours, floor = count / min(seconds), count / min(c_seconds)
    return {
        "slurm": params.slurm_version,
        "jobs": count,
        "load": load,
        "mean_wait_s": round(float((expected - table.submit).mean())),
        "equal_starts": equal,
        "jobs_per_s": round(ours),
        "c_jobs_per_s": round(floor),
        "to_c": round(floor / ours, 2),
        "target_jobs_per_s": _find_target(params, count),
        "target_to_c": TARGET_TO_C,
    }


def _find_target(params: Params, count: int) -> int | None:
    return TARGET_NAMED_JOBS_PER_S if len(params.partitions) > 1 else TARGET_JOBS_PER_S.get(count)


def _replayed(params: Params, workload: Workload) -> tuple[Simulator, float]:
    began = time.process_time()
    sim = Simulator(params, workload)
    sim.run_out()
    return sim, time.process_time() - began


def shared(_peer: Peer, options: argparse.Namespace) -> list[Figures]:
    """Overlapping partitions, fair share, limits and GPU packing; C has no such thing."""
    cases = [(version, count) for version in options.slurm for count in options.jobs]
    return [_beside_whole_nodes(version, count, options.repeat) for version, count in cases]


def _beside_whole_nodes(version: str, count: int, repeat: int) -> Figures:
    whole = replace(workloads.whole_node_params(), slurm_version=version)
    params = replace(workloads.shared_params(), slurm_version=version)
    table = workloads.whole_nodes(count, LOADS[0])
    few_rules = Workload.from_jobs(whole, workloads.columns(table))
    all_rules = Workload.from_jobs(params, workloads.shared_jobs(count, LOADS[0]))
    turns = [
        (_replayed(params, all_rules)[1], _replayed(whole, few_rules)[1]) for _ in range(repeat)
    ]
    ours, floor = (min(spent) for spent in zip(*turns, strict=True))
    return {
        "slurm": version,
        "jobs": count,
        "load": LOADS[0],
        "jobs_per_s": round(count / ours),
        "target_jobs_per_s": TARGET_NAMED_JOBS_PER_S,
        "to_whole_nodes": round(ours / floor, 2),
        "target_to_whole_nodes": TARGET_TO_WHOLE_NODES.get(count),
    }


def sites(_peer: Peer, options: argparse.Namespace) -> list[Figures]:
    """The same jobs on whole nodes of small and large sites, as many at once as fill each."""
    count = max(options.jobs)
    cases = []
    for nodes in options.sites:
        table = workloads.whole_nodes(count, LOADS[0], nodes=nodes)
        params = workloads.whole_node_params(nodes)
        cases.append((params, Workload.from_jobs(params, workloads.columns(table))))
    turns = [[_replayed(*case)[1] for case in cases] for _ in range(options.repeat)]
    spent = [min(of) for of in zip(*turns, strict=True)]
    return [
        {
            "nodes": nodes,
            "jobs": count,
            "load": LOADS[0],
            "jobs_per_s": round(count / seconds),
            "to_first": round(seconds / spent[0], 2),
        }
        for nodes, seconds in zip(options.sites, spent, strict=True)
    ]


def ls6(_peer: Peer, options: argparse.Namespace) -> Figures | None:
    """The Lonestar6 log with its cluster file; None where they are absent."""
    trace, file = SHARED / "traces/tacc-ls6-a100.parquet", SHARED / "clusters/ls6.toml"
    if not (trace.exists() and file.exists()):
        return None
    from mirage.traces.workloads import replay  # noqa: PLC0415 - pyarrow: 30 MiB that `memory` needs not

    params = load_cluster_params(file)
    began = time.process_time()
    workload = replay.load_workload(trace, params)
    loading = time.process_time() - began
    spent = min(_replayed(params, workload)[1] for _ in range(options.repeat))
    return {
        "jobs": len(workload),
        "load_s": round(loading, 3),
        "replay_s": round(spent, 4),
        "target_s": TARGET_LS6_S,
    }


def queue(peer: Peer, options: argparse.Namespace) -> list[Figures]:
    """Milliseconds of a backfill pass on a full machine of 5,000 nodes, by queue length.

    `pass`: as the clock runs, stopping where nobody further can start; `full`: the whole queue.
    """
    return [_pass_costs(peer, pending, options.repeat) for pending in options.queues]


def _pass_costs(peer: Peer, pending: int, repeat: int) -> Figures:
    table = workloads.at_once(LARGE_RUNNING, pending, nodes=LARGE_NODES)
    tests = pending + LARGE_RUNNING
    params = workloads.whole_node_params(LARGE_NODES, bf_max_job_test=tests)
    workload = Workload.from_jobs(params, workloads.jobs(table))
    settled, until = workloads.EPOCH + 60, workloads.EPOCH + LARGE_HOURS * 3600
    costs: dict[str, list[float]] = {"pass": [], "full": [], "c_pass": [], "c_full": []}
    equal = True
    for _ in range(repeat):
        expected, passes = _c_passes(peer, table, params, settled, until, costs)
        sim = Simulator(params, workload)
        sim.advance_quietly(settled)
        costs["full"].append(_seconds(sim.fork().compute_planned_starts))
        costs["pass"].append(_seconds(lambda sim=sim: sim.advance_quietly(until)) / passes)  # type: ignore[misc]
        equal &= bool(np.array_equal(expected, sim.start))
    best = {f"{name}_ms": round(1000 * min(of), 4) for name, of in costs.items()}
    return {"pending": pending, "passes": passes, "equal_starts": equal, **best}


def _c_passes(
    peer: Peer,
    table: workloads.Table,
    params: Params,
    settled: int,
    until: int,
    costs: dict[str, list[float]],
) -> tuple[NDArray[np.int64], int]:
    """Cost of a pass in C, from two runs; the starts and the number of passes between."""
    for name, full in (("c_full", True), ("c_pass", False)):
        _, before = peer.replay(table, params, until=settled, full_plans=full)
        starts, after = peer.replay(table, params, until=until, full_plans=full)
        passes = after["passes"] - before["passes"]
        costs[name].append(max(0.0, after["seconds"] - before["seconds"]) / passes)
    return starts, passes


def _seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def memory(_peer: Peer, options: argparse.Namespace) -> Figures:
    """Peak memory of a process that generates and replays the largest workload."""
    argv = [sys.executable, "-m", "benchmarks.simulator", "--one", str(max(options.jobs))]
    done = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout)
    return figures | {"target_mib": TARGET_MEMORY_MIB}


def _one(count: int) -> Figures:
    imported = _peak_mib()
    params = workloads.whole_node_params()
    jobs = workloads.columns(workloads.whole_nodes(count, LOADS[0]))
    _replayed(params, Workload.from_jobs(params, jobs))
    return {"jobs": count, "imports_mib": imported, "peak_mib": _peak_mib()}


def _peak_mib() -> float:
    """Of this process image: getrusage's would count the parent's from before the exec."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak_kib = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return round(int(peak_kib) / 1024, 1)


def startup(_peer: Peer, options: argparse.Namespace) -> Figures:
    """Seconds from the start of a process to its first step, kernels cached by the run before."""
    _first_step_s()
    best = min(_first_step_s() for _ in range(options.repeat))
    return {"first_step_s": round(best, 3), "target_s": TARGET_STARTUP_S}


def _first_step_s() -> float:
    began = time.monotonic()
    argv = [sys.executable, "-c", _FIRST_STEP]
    done = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout) - began


PARTS: dict[str, Callable[[Peer, argparse.Namespace], Any]] = {
    "whole_nodes": whole_nodes,
    "named_nodes": named_nodes,
    "shared": shared,
    "sites": sites,
    "ls6": ls6,
    "queue": queue,
    "memory": memory,
    "startup": startup,
}


BESIDE_C = ("whole_nodes", "named_nodes", "queue")
"""The parts in which every start must equal C's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 1 where a start differs from C's."""
    options = _options(arguments)
    if options.one:
        print(json.dumps(_one(options.one)))
        return 0
    with tempfile.TemporaryDirectory(prefix="mirage-bench-") as folder:
        peer = Peer(Path(folder))
        _warm_up()
        result = {name: PARTS[name](peer, options) for name in PARTS if name in options.only}
    print(json.dumps(result, indent=2) if options.json else text(result))
    rows = [row for part in BESIDE_C for row in result.get(part, ())]
    return 0 if all(row["equal_starts"] for row in rows) else 1


def _warm_up() -> None:
    """Compile, or load from the cache, what the parts will call."""
    few = workloads.jobs(workloads.whole_nodes(200, 1.0))
    _replayed(params := workloads.whole_node_params(), Workload.from_jobs(params, few))
    sharing = workloads.shared_params()
    _replayed(sharing, Workload.from_jobs(sharing, workloads.shared_jobs(200, 1.0)))
    sim = Simulator(params, few)
    sim.advance_quietly(few[100].submit)
    sim.fork().compute_planned_starts()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queues", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000])
    parser.add_argument("--sites", type=int, nargs="+", default=[1000, 10_000, 50_000])
    releases = [str(release) for release in SlurmRelease]
    parser.add_argument("--slurm", nargs="+", choices=releases, default=releases)
    parser.add_argument("--only", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
