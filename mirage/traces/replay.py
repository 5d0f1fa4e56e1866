"""A logged trace as a workload to replay: what each user asked for, and what only the log knows."""

from pathlib import Path

from mirage.domain.job import Job, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.sim.types import SimJob
from mirage.traces.readers import open_trace


def workload(path: Path, *, nodes: int) -> list[SimJob]:
    """The jobs of the trace that a machine of `nodes` can run, by submission.

    Nothing logged after submission enters but the run time (capped by the simulator at the limit)
    and, for a job cancelled while it waited, the instant its user gave up.
    """
    with open_trace(path) as trace:
        jobs = [job for batch in trace.batches() for job in batch]
    replayed = [sim for job in jobs if job.nodes <= nodes and (sim := _replayed(job)) is not None]
    return sorted(replayed, key=lambda job: (job.submit, job.job_id))


def _replayed(job: Job) -> SimJob | None:
    """None for a job of which the log knows neither a run time nor a cancellation."""
    run_s, cancel_at = _fate(job)
    if run_s is None and cancel_at is None:
        return None
    limit_s = job.time_limit_s
    if limit_s is None or limit_s == UNLIMITED:
        limit_s = max(run_s or 1, 1)
    return SimJob(
        job_id=job.job_id,
        submit=job.submit,
        nodes=job.nodes,
        time_limit_s=limit_s,
        run_s=limit_s if run_s is None else run_s,
        user=job.user,
        partition=job.partition,
        name=job.name,
        cancel_at=cancel_at,
    )


def _fate(job: Job) -> tuple[int | None, int | None]:
    """(run time, cancellation while pending), seconds and epoch seconds."""
    if job.start is not None and job.end is not None and job.end > job.start:
        return job.end - job.start, None
    never_started = job.state is JobState.CANCELLED or job.start == job.end
    return (None, job.end) if never_started and job.end is not None else (None, None)
