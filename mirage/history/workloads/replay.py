"""Turns a logged trace into a workload to replay, which has what each user asked for, and the log's
outcomes, which the replay is compared with."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import InputError
from mirage.history.formats.parquet import list_suspect_rows
from mirage.history.formats.trace_file import DUPLICATE, TraceFile, open_trace
from mirage.history.formats.trace_row import TraceFormat
from mirage.history.workloads.asked_resources import set_resources
from mirage.simulator.packing.packed_params import list_partition_nodes
from mirage.simulator.packing.workload import Workload
from mirage.simulator.types import Params, Partition, SimJob

_MOST_NAMES = 10
"""The most clusters that one sentence names."""
Faults = dict[str, list[int]]
"""For each reason, the job ids; for rows that could not be read, the line (in parquet the row) of
the first one."""

LARGER = "more nodes than the cluster has"
NO_NODES = "no nodes"
NO_FATE = "neither a time limit nor an end"
NO_LIMIT = "no time limit: taken as the longest limit or run in the log"
NO_END = "no end logged: taken to run to its limit"
RUNS_ON = "still runs at the log's end, without a limit: holds its nodes until then"
SEVERAL_PARTITIONS = "several partitions: put in the first that takes it"
REPEATED = "job id seen before: replayed under a new number"
UNSORTED = "out of order of submission: sorted"
OVER = "ran over its limit: cut there"
OTHER_PARTITION = "partition not in the cluster file: put in the default one"
ARRAY = "an array in one row: replayed task by task"
ARRAY_UNKNOWN = "an array in one row that does not tell how many tasks wait: taken as one"
OTHER_QOS = "QOS not in the cluster file: put in the default one"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedOutcomes:
    """The log's outcomes of the jobs of a workload, [n] each, in the workload's order. Epoch
    seconds; -1: not known."""

    eligible: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    suspect: NDArray[np.bool_]
    """Rows with a `*_suspect` flag: their wait is not (only) the queue's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A workload, the log's outcomes of its jobs, and the counts and ids of all rows that were left
    out or changed."""

    workload: Workload
    logged: LoggedOutcomes
    read: int
    """Rows in the file: those replayed, refused and skipped."""
    refused: dict[str, int]
    """Rows left out, by reason."""
    assumed: dict[str, int]
    """Rows replayed with a corrected value, by what was corrected."""
    rows_by_reason: Faults
    """The rows of `refused`, `assumed` and `skipped`, by reason."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Valid rows that are not whole jobs of this cluster, by reason: job steps, other clusters."""
    local_zone: str | None = None
    """The zone in which local times were read; None: the log has none."""
    until: int | None = None
    """The log's end in epoch seconds if jobs still ran then. Nothing later is known."""


def load_workload(path: Path, params: Params) -> Workload:
    """Load the jobs of the trace in `path` that the cluster can run, by submission.

    The workload contains what was known at submission, with two exceptions. One is the run time,
    which the simulator cuts at the limit. The other is when a job was cancelled while it waited.
    Raises InputError for a file that cannot be read. Rows that make no sense are left out
    (`load_replay` counts them).
    """
    return load_replay(path, params).workload


def load_replay(
    path: Path, params: Params, cluster: str | None = None, timezone: str | None = None
) -> Replay:
    """Load a workload as `load_workload` does, with the log's outcomes and all faults of its rows.

    `cluster`: if the log names several clusters, the one whose rows are replayed; None: such a log
    is refused. `timezone` is as in `open_trace`. Raises InputError.
    """
    with open_trace(path, timezone=timezone, cluster=cluster) as trace:
        rows, repeat_count = _dedupe_jobs(job for batch in trace.iter_batches() for job in batch)
        check_cluster(path, trace, cluster)
        tally = trace.tally
        suspect = list_suspect_rows(path) if trace.format is TraceFormat.PARQUET else set()
    faults = _FaultRecorder(
        refused=Counter(tally.refused) + Counter({DUPLICATE: repeat_count}),
        assumed=Counter(tally.assumed),
        rows_by_reason={reason: [number] for reason, number in tally.first.items()},
    )
    until = _find_log_end(rows)
    pairs = _convert_jobs(rows, params, faults, until)
    workload = Workload.from_jobs(params, [sim for sim, _ in pairs])
    if workload.refused:
        for reason, ids in workload.refused.items():
            faults.refused[reason] += len(ids)
            faults.rows_by_reason.setdefault(reason, []).extend(ids)
        refused_ids = {job_id for ids in workload.refused.values() for job_id in ids}
        pairs = [pair for pair in pairs if pair[0].job_id not in refused_ids]
    tasks = _expand_arrays(pairs, faults)
    if workload.refused or tasks:
        pairs += tasks
        workload = Workload.from_jobs(params, [sim for sim, _ in pairs])
    return Replay(
        workload=workload,
        logged=_build_logged(workload, {sim.job_id: job for sim, job in pairs}, suspect),
        read=tally.read,
        refused=dict(faults.refused),
        skipped=dict(tally.skipped),
        assumed=dict(faults.assumed),
        rows_by_reason=faults.rows_by_reason,
        local_zone=trace.local_zone,
        until=until if any(_is_still_running(job) for _, job in pairs) else None,
    )


def check_cluster(path: Path, trace: TraceFile, cluster: str | None) -> None:
    """Check, after the trace was read, which clusters its rows name.

    Raises InputError if rows name several clusters and `cluster` is None, or if no row is of
    `cluster`.
    """
    names = ", ".join(sorted(trace.clusters)[:_MOST_NAMES])
    if cluster is None and len(trace.clusters) > 1:
        raise InputError(
            f"{path} holds jobs of several clusters ({names}): name one with --cluster-name "
            "(simulate, calibrate), or make a dump of one cluster (sacct -M NAME)"
        )
    if cluster is not None and trace.clusters and cluster.lower() not in trace.clusters:
        raise InputError(f"{path} holds no job of cluster {cluster}, only of {names}")


def _dedupe_jobs(jobs: Iterable[Job]) -> tuple[list[Job], int]:
    """Return each job once, as in its last row, and the number of repeated rows."""
    by_key: dict[tuple[int, int], Job] = {}
    read = 0
    for job in jobs:
        read += 1
        by_key[job.job_id, job.submit] = job
    return list(by_key.values()), read - len(by_key)


def _find_log_end(rows: Iterable[Job]) -> int:
    """Find the latest instant that the log contains, epoch seconds."""
    return max((max(_iter_instants(job)) for job in rows), default=0)


def _iter_instants(job: Job) -> Iterator[int]:
    yield job.submit
    if job.end is not None and job.state.has_ended:
        yield job.end
    if job.start is not None and not job.state.is_waiting:
        yield job.start + (job.elapsed_s or 0 if job.end is None else 0)


def _is_still_running(job: Job) -> bool:
    return job.state.is_running and job.start is not None and job.end is None


def recompute_cancelled_runs(replay: Replay, params: Params) -> Replay:
    """Return the same log for a cluster that differs only in `cancelled_jobs_run`."""
    jobs = [
        job
        if job.cancel_at is None
        else replace(
            job,
            run_s=_compute_cancelled_run_s(params, job.cancel_at - job.submit, job.time_limit_s),
        )
        for job in replay.workload.jobs
    ]
    return replace(replay, workload=Workload.from_jobs(params, jobs))


@dataclass(slots=True)
class _FaultRecorder:
    refused: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)
    rows_by_reason: Faults = field(default_factory=dict)

    def record_refusal(self, reason: str, job: Job) -> None:
        self.refused[reason] += 1
        self.rows_by_reason.setdefault(reason, []).append(job.job_id)

    def record_assumption(self, assumption: str, job: Job) -> None:
        self.assumed[assumption] += 1
        self.rows_by_reason.setdefault(assumption, []).append(job.job_id)


def _convert_jobs(
    rows: list[Job], params: Params, faults: _FaultRecorder, until: int
) -> list[tuple[SimJob, Job]]:
    rows = _sort_by_submission(rows, faults)
    longest_s = _find_longest_s(rows)
    limits = {job.tasks.array_id: job.tasks.limit for job in rows if job.tasks and job.tasks.limit}
    used_ids: set[int] = set()
    next_id = 1 + max((job.job_id for job in rows), default=0)
    pairs = []
    for job in rows:
        if reason := _explain_unfit(job, params):
            faults.record_refusal(reason, job)
            continue
        sim_job = _build_sim_job(job, params, faults, longest_s=longest_s, until=until)
        sim = _set_array(_assign_partition(sim_job, params, job, faults), job, limits)
        if job.job_id in used_ids:
            faults.record_assumption(REPEATED, job)
            sim, next_id = replace(sim, job_id=next_id), next_id + 1
        used_ids.add(sim.job_id)
        pairs.append((sim, job))
    return set_resources(pairs, params, faults.record_assumption)


def _set_array(sim: SimJob, job: Job, limits: Mapping[JobId, int]) -> SimJob:
    """Return the job as a task of its array, if that has a limit of running tasks."""
    if job.tasks is None or job.tasks.array_id not in limits:
        return sim
    array_id = job.tasks.array_id
    return replace(sim, array_id=array_id, array_limit=limits[array_id])


def _expand_arrays(
    pairs: list[tuple[SimJob, Job]], faults: _FaultRecorder
) -> list[tuple[SimJob, Job]]:
    """Return a job for each further task of a row that stands for several."""
    next_id = 1 + max((sim.job_id for sim, _ in pairs), default=0)
    tasks: list[tuple[SimJob, Job]] = []
    for sim, job in pairs:
        if job.tasks is None or job.tasks.count == 1:
            continue
        faults.record_assumption(ARRAY_UNKNOWN if job.tasks.count is None else ARRAY, job)
        for _ in range(1, job.tasks.count or 1):
            tasks.append((replace(sim, job_id=next_id), job))
            next_id += 1
    return tasks


def _sort_by_submission(rows: list[Job], faults: _FaultRecorder) -> list[Job]:
    latest = -1
    for job in rows:
        if job.submit < latest:
            faults.record_assumption(UNSORTED, job)
        latest = max(latest, job.submit)
    return sorted(rows, key=lambda job: (job.submit, job.job_id))


def _explain_unfit(job: Job, params: Params) -> str:
    """Explain why the job cannot be replayed. Empty if it can."""
    if job.nodes < 1:
        return NO_NODES
    if job.nodes > params.nodes:
        return LARGER
    end_facts = (_get_limit_s(job), job.end, _compute_run_s(job))
    if all(value is None for value in end_facts) and not _is_still_running(job):
        return NO_FATE
    return ""


def _get_limit_s(job: Job) -> int | None:
    limit_s = job.time_limit_s
    return None if not limit_s or limit_s == UNLIMITED else limit_s


def _find_longest_s(rows: Iterable[Job]) -> int:
    """Return the longest time limit in the log, or run time of a job without a limit, in
    seconds."""
    return max((_get_limit_s(job) or _compute_run_s(job) or 1 for job in rows), default=1)


def _compute_run_s(job: Job) -> int | None:
    """Return the job's run time in seconds; None: it never ran, still runs, or it is not known."""
    if job.has_never_run or job.state.is_running:
        return None
    if job.elapsed_s is not None:
        return job.elapsed_s
    return None if job.start is None or job.end is None else job.end - job.start


def _build_sim_job(
    job: Job, params: Params, faults: _FaultRecorder, *, longest_s: int, until: int
) -> SimJob:
    limit_s = _get_limit_s(job)
    if limit_s is None and _is_still_running(job):
        faults.record_assumption(RUNS_ON, job)
        # Long enough that the job still runs at the log's end, whenever the replay starts it.
        run_s, cancel_at = until - job.submit + 1, None
        limit_s = max(longest_s, run_s)
    else:
        if limit_s is None:
            faults.record_assumption(NO_LIMIT, job)
            limit_s = longest_s
        run_s, cancel_at = _resolve_fate(job, limit_s, params, faults)
    return SimJob(
        job_id=job.job_id,
        submit=job.submit,
        nodes=job.nodes,
        time_limit_s=limit_s,
        run_s=run_s,
        fails=job.state is JobState.FAILED,
        user=job.user,
        account=job.account,
        name=job.name,
        cancel_at=cancel_at,
    )


def _resolve_fate(
    job: Job, limit_s: int, params: Params, faults: _FaultRecorder
) -> tuple[int, int | None]:
    """Return the run time in seconds, and the instant at which the user cancels the waiting job;
    None: never."""
    if job.cancelled_at is not None:
        waited_s = job.cancelled_at - job.submit
        return _compute_cancelled_run_s(params, waited_s, limit_s), job.cancelled_at
    run_s = _compute_run_s(job)
    if run_s is None:
        faults.record_assumption(NO_END, job)
        return limit_s, None
    if run_s > limit_s + _GRACE_S:
        faults.record_assumption(OVER, job)
    return run_s, None


def _compute_cancelled_run_s(params: Params, waited_s: int, limit_s: int) -> int:
    """Return the run time in seconds of a job that was cancelled while it waited in the log, if the
    replay starts it before its cancellation."""
    return min(max(waited_s, 1), limit_s) if params.cancelled_jobs_run else 0


_GRACE_S = 300
"""Slurm ends a job up to this many seconds after its limit (KillWait, and its clock of whole
minutes)."""


def _assign_partition(sim: SimJob, params: Params, job: Job, faults: _FaultRecorder) -> SimJob:
    """Set the job's partition and QOS to the log's if the cluster file has them."""
    names = job.partition.split(",")
    matches = [p for name in names for p in params.partitions if p.name == name]
    if matches:
        sim = replace(
            sim, partition=next((p for p in matches if _can_take(params, p, sim)), matches[0]).name
        )
        if len(names) > 1:
            faults.record_assumption(SEVERAL_PARTITIONS, job)
    elif job.partition and len(params.partitions) > 1:
        faults.record_assumption(OTHER_PARTITION, job)
    if job.qos in {q.name for q in params.qos}:
        sim = replace(sim, qos=job.qos)
    elif job.qos and params.qos:
        faults.record_assumption(OTHER_QOS, job)
    return sim


def _can_take(params: Params, partition: Partition, sim: SimJob) -> bool:
    fits_limit = not partition.max_time_s or sim.time_limit_s <= partition.max_time_s
    return fits_limit and sim.nodes <= len(list_partition_nodes(params, partition))


def _build_logged(
    workload: Workload, rows: dict[int, Job], suspect: set[tuple[int, int]]
) -> LoggedOutcomes:
    jobs = [rows[int(job_id)] for job_id in workload.job_id]
    eligible = [-1 if job.eligible is None else job.eligible for job in jobs]
    start = [-1 if job.start is None else job.start for job in jobs]
    end = [-1 if job.end is None else job.end for job in jobs]
    return LoggedOutcomes(
        eligible=np.array(eligible, np.int64),
        start=np.array(start, np.int64),
        end=np.array(end, np.int64),
        suspect=np.array([(job.job_id, job.submit) in suspect for job in jobs], bool),
    )
