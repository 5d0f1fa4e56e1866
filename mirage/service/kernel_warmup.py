"""Compiles the simulator's functions for models and the twin, by running them once.

`python -m mirage.service.kernel_warmup [FILE]`.

numba compiles a function at its first call: a minute or more after an installation or an upgrade.
It keeps each function on disk as soon as it is compiled (`simulator.arrays.jit`), so a process that
was stopped in the middle does not begin again. In the worker that would be a minute without a
look at the queue, so this module runs in a process of its own (`service_run.KernelCompiler`), and
once more at the installation of the Debian package (deploy/deb/postinst). It compiles for the
cluster of the cluster file, or, without that file, for a cluster like the demo's.
"""

import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue, Snapshot
from mirage.domain.time_units import HOUR_S
from mirage.history.cluster_files.reader import load_cluster_file
from mirage.observation.feature_vector import SnapshotObserver
from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import RunningStats
from mirage.simulator.arrays import jit
from mirage.simulator.types import Params
from mirage.twin.forecast import Twin
from mirage.twin.futures.submission_history import SubmissionHistory

_NOW = 1000 * HOUR_S


def main(arguments: Sequence[str]) -> int:
    """Compile for the cluster file in `arguments`. Raises ConfigError if it cannot be read."""
    with suppress(OSError):  # the service's unit allows no change of priority
        os.nice(19)
    file = load_cluster_file(Path(arguments[0])) if arguments else None
    with _wait_for_other_compiler():
        if file is None:
            compile_kernels(Params())
        else:
            compile_kernels(file.params, file.node_names)
    return 0


@contextmanager
def _wait_for_other_compiler() -> Iterator[None]:
    """Compile alone: what another process compiled meanwhile is then only loaded.

    A cache that cannot be written has no lock, and nothing to share.
    """
    try:
        os.makedirs(jit.CACHE, exist_ok=True)
        lock = os.open(f"{jit.CACHE}/compiling.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel drops it with the process
        yield
    finally:
        os.close(lock)


def compile_kernels(params: Params, node_names: Sequence[str] = ()) -> None:
    """Forecast one hand-over on a cluster where one job runs and another one waits."""
    names = node_names or [f"n{number}" for number in range(params.nodes)]
    pending = _build_job(params, 1, _NOW - HOUR_S, JobState.PENDING)
    running = _complete_job(_build_job(params, 2, _NOW - HOUR_S, JobState.RUNNING), 2 * HOUR_S)
    running = replace(running, node_list=names[0])
    hours = range(24, 24 * 14, 6)
    past = [
        _complete_job(
            _build_job(params, hour, _NOW - hour * HOUR_S, JobState.COMPLETED), HOUR_S // 2
        )
        for hour in hours
    ]
    nodes = tuple(_build_node(params, name, busy=name == names[0]) for name in names)
    snapshot = Snapshot(queue=Queue.from_jobs(_NOW, [pending, running]), nodes=nodes)
    observer = SnapshotObserver(snapshot, params, RunningStats.from_accounting(past, _NOW))
    link = HandoverInput(
        nodes=1,
        time_limit_s=pending.time_limit_s or 0,
        user=pending.user,
        partition=pending.partition,
        cpus=1,
        predecessor_submit=running.submit,
        predecessor_start=running.submit,
        predecessor_end=_NOW + HOUR_S,
    )
    observer.observe_link(link)
    history = SubmissionHistory.from_accounting(params, past, past[-1].submit, _NOW)
    Twin(samples=2).forecast_from_queue(observer, link, history, seed=1)


def _build_job(params: Params, job_id: int, at: int, state: JobState) -> Job:
    return Job(
        job_id=JobId(job_id),
        submit=at,
        eligible=at,
        state=state,
        user="alice",
        partition=params.partitions[0].name,
        time_limit_s=2 * HOUR_S,
        cpus=1,
        priority=1,
    )


def _complete_job(job: Job, run_s: int) -> Job:
    return replace(job, start=job.submit, end=job.submit + run_s)


def _build_node(params: Params, name: str, *, busy: bool) -> Node:
    return Node(
        name=name,
        partitions=(params.partitions[0].name,),
        state="mixed" if busy else "idle",
        cpus=params.cpus_per_node,
        cpus_used=int(busy),
        gpus=params.gpus_per_node,
        gpus_used=0,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
