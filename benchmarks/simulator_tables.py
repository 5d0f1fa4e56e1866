"""The figures of benchmarks/simulator.py as tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Figures = dict[str, Any]

SHARED = Path(__file__).parents[2] / "shared"
LARGE_NODES = 5000
TARGET_TO_C = 2.2


def text(result: Figures) -> str:
    """The parts as tables."""
    writers = {
        "whole_nodes": _list_whole_nodes,
        "named_nodes": _list_named_nodes,
        "shared": _shared_lines,
        "sites": _site_lines,
        "queue": _queue_lines,
    }
    lines: list[str] = []
    for name, figures in result.items():
        if name in writers:
            lines += [*writers[name](figures), ""]
        else:
            lines.append(_line(name, figures))
    return "\n".join(lines)


def _list_whole_nodes(rows: list[Figures]) -> Iterator[str]:
    yield "Slurm's rules, 128 whole nodes, 30 s backfill, 1,000 tests; jobs a CPU second"
    yield from _list_beside_c(rows)


def _list_named_nodes(rows: list[Figures]) -> Iterator[str]:
    yield "The same with a second partition on half of the nodes, planned by name"
    yield from _list_beside_c(rows)


def _list_beside_c(rows: list[Figures]) -> Iterator[str]:
    yield (
        f"{'Slurm':>8}{'jobs':>8}{'load':>6}{'ours':>10}{'target':>10}{'C':>10}{'C / ours':>10}"
        f"{'starts':>10}"
    )
    for r in rows:
        wanted = "" if r["target_jobs_per_s"] is None else f"{r['target_jobs_per_s']:,}"
        equal = "equal" if r["equal_starts"] else "DIFFER"
        yield (
            f"{r['slurm']:>8}{r['jobs']:8,}{r['load']:6.2f}{r['jobs_per_s']:10,}{wanted:>10}"
            f"{r['c_jobs_per_s']:10,}{r['to_c']:10.2f}{equal:>10}"
        )
    yield f"target C / ours: at most {TARGET_TO_C}"


def _shared_lines(rows: list[Figures]) -> Iterator[str]:
    yield "Two overlapping partitions, fair share, limits per user, GPU packing; jobs a CPU second"
    yield "and how many times as long a job takes as with whole nodes alone"
    yield (
        f"{'Slurm':>8}{'jobs':>8}{'load':>6}{'ours':>10}{'target':>10}{'times':>10}{'at most':>10}"
    )
    for r in rows:
        most = r["target_to_whole_nodes"] or ""
        yield (
            f"{r['slurm']:>8}{r['jobs']:8,}{r['load']:6.2f}{r['jobs_per_s']:10,}"
            f"{r['target_jobs_per_s']:10,}{r['to_whole_nodes']:10.2f}{most:>10}"
        )


def _site_lines(rows: list[Figures]) -> Iterator[str]:
    yield "The same jobs on whole nodes; a job's time over that on the first site"
    yield f"{'nodes':>8}{'jobs':>8}{'load':>6}{'ours':>10}{'times':>10}"
    for r in rows:
        yield (
            f"{r['nodes']:8,}{r['jobs']:8,}{r['load']:6.2f}{r['jobs_per_s']:10,}{r['to_first']:10.2f}"
        )


def _queue_lines(rows: list[Figures]) -> Iterator[str]:
    yield f"A backfill pass on {LARGE_NODES:,} nodes, full; milliseconds of CPU by queue length"
    yield f"{'pending':>8}{'pass':>10}{'C':>10}{'whole plan':>12}{'C':>10}{'starts':>10}"
    for r in rows:
        equal = "equal" if r["equal_starts"] else "DIFFER"
        yield (
            f"{r['pending']:8,}{r['pass_ms']:10.3f}{r['c_pass_ms']:10.3f}{r['full_ms']:12.3f}"
            f"{r['c_full_ms']:10.3f}{equal:>10}"
        )


def _line(name: str, figures: Figures | None) -> str:
    if figures is None:
        return f"{name}: skipped, the trace is not in {SHARED}"
    lines = {
        "ls6": "Lonestar6 log, {jobs:,} jobs: {replay_s} s after {load_s} s of loading"
        " (target {target_s})",
        "memory": "peak memory of a process that replays {jobs:,} jobs: {peak_mib} MiB,"
        " {imports_mib} of them after the imports (target {target_mib})",
        "startup": "from process start to the first step: {first_step_s} s (target {target_s})",
    }
    return lines[name].format(**figures)
