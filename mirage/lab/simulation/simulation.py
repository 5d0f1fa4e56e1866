"""Replay a trace on a simulated cluster, and compare the waits with those of the log."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mirage.domain.job import JobState
from mirage.domain.time_units import DAY_S, HOUR_S, WEEK_S
from mirage.errors import InputError
from mirage.history.workloads.asked_resources import get_partition, has_whole_nodes
from mirage.history.workloads.replay import Replay
from mirage.lab.simulation.fidelity import (
    RAMP_UP_S,
    Fidelity,
    Window,
    choose_window,
    measure_fidelity,
)
from mirage.simulator.packing.packed_params import compute_least_resources
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

ProgressCallback = Callable[[float], None]
"""Is called with the share of the trace's time that has been simulated, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitHours:
    """The waits, in hours, of the jobs that started in the replay; None if none did."""

    mean: float | None
    median: float | None
    p90: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationReport:
    """The report of `mirage simulate`. Seconds are simulated time, except `wall_s`."""

    jobs: int
    started: int
    simulated_s: int
    """From the first submission to the last end, or to the log's end if jobs still ran then."""
    wall_s: float
    """Seconds that the replay took, without reading the file and without compilation."""
    jobs_per_s: float
    wait_h: WaitHours
    fidelity: Fidelity | None
    """None: no job can be judged."""
    not_judged: str | None
    """Why no job can be judged; None: some jobs are judged."""
    window: Window
    """The submissions that `measure_fidelity` judges."""


def build_simulator(replay: Replay, params: Params) -> Simulator:
    """Build a simulator at the replay's first submission, with its functions compiled.

    Raises InputError if the trace has no job to replay.
    """
    if not len(replay.workload):
        raise InputError(f"none of {replay.read} rows can be replayed{_format_reasons(replay)}")
    Simulator(params, [SimJob(job_id=1, time_limit_s=1, run_s=1)]).run_out()
    return Simulator(params, replay.workload)


def simulate_replay(
    replay: Replay, sim: Simulator, window: Window | None, on_progress: ProgressCallback | None
) -> SimulationReport:
    """Run `sim` to the end of all its jobs, or to the end of the log if jobs still ran then.

    `sim` was built for the replay.
    """
    workload = replay.workload
    clock_start = time.perf_counter()
    if on_progress is not None:
        _advance_by_weeks(sim, int(workload.submit[0]), int(workload.submit[-1]), on_progress)
    run_to_log_end(replay, sim)
    wall_s = time.perf_counter() - clock_start
    window = window or choose_window(workload.submit, replay.logged)
    until = replay.until or max(int(sim.end.max()), int(workload.submit[-1]))
    waits_h = ((sim.start - workload.submit) / HOUR_S)[sim.start >= 0]
    fidelity = measure_fidelity(workload.submit, sim.start, replay.logged, window)
    return SimulationReport(
        jobs=len(workload),
        started=len(waits_h),
        simulated_s=until - int(workload.submit[0]),
        wall_s=wall_s,
        jobs_per_s=len(workload) / wall_s,
        wait_h=_compute_wait_hours(waits_h),
        fidelity=fidelity if fidelity.jobs else None,
        not_judged=None if fidelity.jobs else _explain_not_judged(replay, window),
        window=window,
    )


def run_to_log_end(replay: Replay, sim: Simulator) -> None:
    """Run `sim` to the end of all its jobs, or to the end of the log if jobs still ran then."""
    if replay.until is None:
        sim.run_out()
    else:
        sim.advance_quietly(replay.until)


def _advance_by_weeks(sim: Simulator, first: int, last: int, on_progress: ProgressCallback) -> None:
    for instant in range(first + WEEK_S, last, WEEK_S):
        sim.advance_quietly(instant)
        on_progress((instant - first) / (last - first))


def _explain_not_judged(replay: Replay, window: Window) -> str:
    if not (replay.logged.start >= 0).any():
        return "the log has no starts"
    if window.begin >= window.end:
        days = RAMP_UP_S // DAY_S
        return f"no submission in the log is later than {days} days after its first start"
    return "no job submitted in that time started in both log and replay without being suspect"


def _format_reasons(replay: Replay) -> str:
    left_out = [*replay.refused.items(), *replay.skipped.items()]
    reasons = ", ".join(f"{reason} ({rows})" for reason, rows in left_out)
    return f": {reasons}" if reasons else ""


def _compute_wait_hours(waits_h: np.ndarray) -> WaitHours:
    if not len(waits_h):
        return WaitHours(mean=None, median=None, p90=None)
    return WaitHours(
        mean=float(waits_h.mean()),
        median=float(np.median(waits_h)),
        p90=float(np.quantile(waits_h, 0.9)),
    )


def write_jobs(path: Path, replay: Replay, sim: Simulator) -> None:
    """Write the replay's jobs as a parquet trace.

    The columns are those of docs/reference/traces.md and the starts of the log. Raises InputError
    if `path` cannot be written.
    """
    jobs = replay.workload.jobs
    params = sim.params
    states = [sim.get_job_state(row) for row in range(len(jobs))]
    start, end = _mask_unknown(sim.start), _mask_unknown(sim.end)
    resources = _JobResources(params)
    cpus, memory_mib, gpus = zip(*(resources.compute_total(job) for job in jobs), strict=True)
    string, integer = pa.string(), pa.int64()
    columns = {
        "job_id": pa.array([str(job.job_id) for job in jobs], string),
        "user": pa.array([job.user for job in jobs], string),
        "account": pa.array([job.account for job in jobs], string),
        "partition": pa.array([job.partition or params.partitions[0].name for job in jobs], string),
        "qos": pa.array([job.qos for job in jobs], string),
        "state": pa.array([state.value for state in states], string),
        "submit": pa.array(replay.workload.submit, integer),
        "eligible": pa.nulls(len(jobs), integer),
        "start": start,
        "end": end,
        "timelimit_s": pa.array([job.time_limit_s for job in jobs], integer),
        "nodes": pa.array([job.nodes for job in jobs], integer),
        "gpus": pa.array(gpus, integer),
        "cpus": pa.array(cpus, integer),
        "memory_mib": pa.array(memory_mib, integer),
        "exit_code": pa.array(["1:0" if s is JobState.FAILED else "0:0" for s in states], string),
        "name": pa.array([job.name for job in jobs], string),
        "logged_start": _mask_unknown(replay.logged.start),
        "logged_end": _mask_unknown(replay.logged.end),
    }
    try:
        pq.write_table(pa.table(columns), path, compression="zstd")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


class _JobResources:
    """Counts the CPUs, MiB and GPUs that jobs are given."""

    def __init__(self, params: Params) -> None:
        self._params = params
        self._least_by_partition = {
            p.name: compute_least_resources(params, p) for p in params.partitions
        }

    def compute_total(self, job: SimJob) -> tuple[int, ...]:
        """Return CPUs, MiB and GPUs over all nodes of the job.

        For whole nodes of different sizes, each node counts as the smallest of the partition, as
        in the simulator.
        """
        node_amounts = (max(job.cpus, 1), job.memory_mib, job.gpus)
        if has_whole_nodes(job, self._params):
            node_amounts = self._least_by_partition[get_partition(job, self._params).name]
        return tuple(job.nodes * amount for amount in node_amounts)


def _mask_unknown(instants: np.ndarray) -> pa.Array:
    return pa.array(instants, pa.int64(), mask=instants < 0)
