"""The simulator's speed on seeded workloads (simulator_workloads.py).

    python -m benchmarks.simulator [--jobs N ...] [--queues N ...] [--sites NODES ...]
                                   [--slurm VERSION ...] [--only PART ...] [--repeat N] [--json]

Jobs a second are jobs over the CPU seconds of the replay alone, from arrays in memory to the last
end, the best of the repeats. `shared` prints how much longer a job takes with all rules on than a
job of whole nodes does, `sites` how much longer on a site of many nodes than on one of few, at the
same load and with the same jobs; what is compared is run in turns. `benchmarks.against` compares a
part with another commit.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import simulator_workloads as workloads
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.slurm_release import SlurmRelease
from mirage.simulator.types import Params

Figures = dict[str, Any]
"""A row of a table, by column."""

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
LOADS = (0.90, 1.05)
LARGE_NODES, LARGE_RUNNING, LARGE_HOURS = 5000, 1000, 6

_FIRST_STEP = """
import time
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob
sim = Simulator(Params(), [SimJob(job_id=i, nodes=76, time_limit_s=600, run_s=300) for i in (1, 2)])
sim.step(0)
print(time.monotonic())
"""


def whole_nodes(options: argparse.Namespace) -> Iterator[Figures]:
    """128 whole nodes of one partition, planned by number."""
    params = workloads.build_whole_node_params()
    for version, count in _list_cases(options):
        for load in LOADS:
            table = workloads.generate_whole_nodes(count, load)
            yield _measure_table(replace(params, slurm_version=version), table, load, options)


def named_nodes(options: argparse.Namespace) -> Iterator[Figures]:
    """The same with a second partition on half of the nodes, planned by name."""
    for version, count in _list_cases(options):
        params, table = (
            workloads.build_named_node_params(version),
            workloads.generate_named_nodes(count, LOADS[0]),
        )
        yield _measure_table(params, table, LOADS[0], options)


def _list_cases(options: argparse.Namespace) -> list[tuple[str, int]]:
    return [(version, count) for version in options.slurm for count in options.jobs]


def _measure_table(
    params: Params, table: workloads.Table, load: float, options: argparse.Namespace
) -> Figures:
    workload = Workload.from_jobs(params, workloads.build_columns(table, params.partitions))
    turns = [_replay(params, workload) for _ in range(options.repeat)]
    return {
        "slurm": params.slurm_version,
        "jobs": len(table),
        "load": load,
        "mean_wait_s": round(float((turns[0][0].start - table.submit).mean())),
        "jobs_per_s": round(len(table) / min(seconds for _, seconds in turns)),
    }


def _replay(params: Params, workload: Workload) -> tuple[Simulator, float]:
    began = time.process_time()
    sim = Simulator(params, workload)
    sim.run_out()
    return sim, time.process_time() - began


def _replay_in_turns(cases: Sequence[tuple[Params, Workload]], repeat: int) -> list[float]:
    """CPU seconds of each case, the least of the repeats."""
    turns = [[_replay(*case)[1] for case in cases] for _ in range(repeat)]
    return [min(cpu_s) for cpu_s in zip(*turns, strict=True)]


def shared(options: argparse.Namespace) -> Iterator[Figures]:
    """Overlapping partitions, fair share, limits per user, GPU packing; beside whole nodes."""
    for version, count in _list_cases(options):
        whole_params = replace(workloads.build_whole_node_params(), slurm_version=version)
        params = replace(workloads.build_shared_params(), slurm_version=version)
        whole_node_jobs = workloads.build_columns(workloads.generate_whole_nodes(count, LOADS[0]))
        shared_jobs = workloads.generate_shared_jobs(count, LOADS[0])
        cases = [
            (params, Workload.from_jobs(params, shared_jobs)),
            (whole_params, Workload.from_jobs(whole_params, whole_node_jobs)),
        ]
        shared_s, whole_nodes_s = _replay_in_turns(cases, options.repeat)
        yield {
            "slurm": version,
            "jobs": count,
            "jobs_per_s": round(count / shared_s),
            "to_whole_nodes": round(shared_s / whole_nodes_s, 2),
        }


def sites(options: argparse.Namespace) -> Iterator[Figures]:
    """The same jobs on whole nodes of small and large sites, as many at once as fill each."""
    count = max(options.jobs)
    cases = []
    for nodes in options.sites:
        table = workloads.generate_whole_nodes(count, LOADS[0], nodes=nodes)
        params = workloads.build_whole_node_params(nodes)
        cases.append((params, Workload.from_jobs(params, workloads.build_columns(table))))
    cpu_seconds = _replay_in_turns(cases, options.repeat)
    for nodes, site_cpu_s in zip(options.sites, cpu_seconds, strict=True):
        yield {
            "nodes": nodes,
            "jobs": count,
            "jobs_per_s": round(count / site_cpu_s),
            "to_first": round(site_cpu_s / cpu_seconds[0], 2),
        }


def ls6(options: argparse.Namespace) -> Iterator[Figures]:
    """The Lonestar6 log with its cluster file; no row where they are absent."""
    trace, file = SHARED / "traces/tacc-ls6-a100.parquet", SHARED / "clusters/ls6.toml"
    if not (trace.exists() and file.exists()):
        return
    from mirage.history.workloads import replay  # noqa: PLC0415 - pyarrow: 30 MiB that `memory` needs not

    params = load_cluster_params(file)
    began = time.process_time()
    workload = replay.load_workload(trace, params)
    loading = time.process_time() - began
    (cpu_s,) = _replay_in_turns([(params, workload)], options.repeat)
    yield {"jobs": len(workload), "load_s": round(loading, 3), "replay_s": round(cpu_s, 4)}


def queue(options: argparse.Namespace) -> Iterator[Figures]:
    """CPU milliseconds on a full machine of 5,000 nodes: six hours of it, and a plan of all."""
    for pending in options.queues:
        yield _measure_queue(pending, options.repeat)


def _measure_queue(pending: int, repeat: int) -> Figures:
    table = workloads.generate_at_once(LARGE_RUNNING, pending, nodes=LARGE_NODES)
    params = workloads.build_whole_node_params(LARGE_NODES, bf_max_job_test=pending + LARGE_RUNNING)
    workload = Workload.from_jobs(params, workloads.build_jobs(table))
    settled_at, until = workloads.EPOCH + 60, workloads.EPOCH + LARGE_HOURS * 3600
    hours_s, plans_s = [], []
    for _ in range(repeat):
        sim = Simulator(params, workload)
        sim.advance_quietly(settled_at)
        plans_s.append(_measure_seconds(sim.fork().compute_planned_starts))
        hours_s.append(_measure_seconds(lambda sim=sim: sim.advance_quietly(until)))  # type: ignore[misc]
    return {
        "pending": pending,
        "six_hours_ms": round(1000 * min(hours_s), 3),
        "full_ms": round(1000 * min(plans_s), 3),
    }


def _measure_seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def memory(options: argparse.Namespace) -> Iterator[Figures]:
    """Peak memory of a process that generates and replays the largest workload."""
    argv = [sys.executable, "-m", "benchmarks.simulator", "--one", str(max(options.jobs))]
    process = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout)


def _measure_memory(count: int) -> Figures:
    imports_mib = _read_peak_mib()
    params = workloads.build_whole_node_params()
    jobs = workloads.build_columns(workloads.generate_whole_nodes(count, LOADS[0]))
    _replay(params, Workload.from_jobs(params, jobs))
    return {"jobs": count, "imports_mib": imports_mib, "peak_mib": _read_peak_mib()}


def _read_peak_mib() -> float:
    """Of this process image: getrusage's would count the parent's from before the exec."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak_kib = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return round(int(peak_kib) / 1024, 1)


def startup(options: argparse.Namespace) -> Iterator[Figures]:
    """Seconds from the start of a process to its first step, kernels cached by the run before."""
    _measure_first_step_s()
    best = min(_measure_first_step_s() for _ in range(options.repeat))
    yield {"first_step_s": round(best, 3)}


def _measure_first_step_s() -> float:
    began = time.monotonic()
    argv = [sys.executable, "-c", _FIRST_STEP]
    process = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return float(process.stdout) - began


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Figures]]] = {
    part.__name__: part
    for part in (whole_nodes, named_nodes, shared, sites, ls6, queue, memory, startup)
}


def format_rows(rows: Sequence[Figures]) -> Iterator[str]:
    """Format the lines of a table."""
    for cells in ([*rows[0]], *([*row.values()] for row in rows)) if rows else ():
        yield "".join(f"{cell:>16}" for cell in cells)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse_options(arguments)
    if options.one:
        print(json.dumps(_measure_memory(options.one)))
        return
    _warm_up()
    result = {name: [*PARTS[name](options)] for name in PARTS if name in options.only}
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, rows in result.items():
        print(f"{name}: {PARTS[name].__doc__}", *format_rows(rows), "", sep="\n")


def _warm_up() -> None:
    """Compile, or load from the cache, what the parts will call."""
    few_jobs = workloads.build_jobs(workloads.generate_whole_nodes(200, 1.0))
    _replay(params := workloads.build_whole_node_params(), Workload.from_jobs(params, few_jobs))
    shared_params = workloads.build_shared_params()
    _replay(
        shared_params, Workload.from_jobs(shared_params, workloads.generate_shared_jobs(200, 1.0))
    )
    sim = Simulator(params, few_jobs)
    sim.advance_quietly(few_jobs[100].submit)
    sim.fork().compute_planned_starts()


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
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
    main()
