"""The builder of a simulator's job."""

from typing import Any

from mirage.sim.types import SimJob

LIMIT_S = 3600


def make_sim_job(job_id: int = 0, *, limit_s: int = LIMIT_S, **fields: Any) -> SimJob:
    """It runs to its limit, unless `run_s` says otherwise; 0: the simulator numbers it."""
    return SimJob(job_id=job_id, time_limit_s=limit_s, **{"run_s": limit_s, **fields})
