"""The builders of a simulator's job and of its dependency."""

from typing import Any

from mirage.simulator.types import Dependency, DependencyKind, SimJob, build_afterany

LIMIT_S = 3600


def make_sim_job(job_id: int = 0, *, limit_s: int = LIMIT_S, **fields: Any) -> SimJob:
    """Build a job that runs to its limit, or for `run_s`. With `job_id` 0 it gets an id later."""
    return SimJob(job_id=job_id, time_limit_s=limit_s, **{"run_s": limit_s, **fields})


def build_planned_release(job_id: int, delay_s: int) -> tuple[Dependency, ...]:
    """Build the dependency of a link with a planned release: `afterany:JOB?after:JOB+MINUTES`.

    One met dependency suffices, so set `any_dependency` too.
    """
    return (*build_afterany(job_id), Dependency(DependencyKind.AFTER, job_id, delay_s))
