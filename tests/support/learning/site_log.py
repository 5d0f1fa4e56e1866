"""A site's accounting of some weeks as `sacct` prints it: a simulated cluster of eight nodes."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob
from tests.support.episodes.tables import DAY_S, HOUR_S, MONDAY

LONG_S = 2 * HOUR_S
"""The time limit of the long jobs: by it hand-overs have few instants."""
CLUSTER = """\
[cluster]
name = "small"
nodes = 8

[scheduler]
PriorityWeightAge = 1000
PriorityMaxAge = "1-0"
"""
_HEADER = "JobIDRaw|User|Partition|State|Submit|Eligible|Start|End|TimelimitRaw|NNodes|NCPUS"


def build_params() -> Params:
    """The cluster of CLUSTER."""
    return Params(name="small", nodes=8, priority_weight_age=1000, priority_max_age_s=DAY_S)


def build_site_jobs(days: int, *, a_day: int = 48, seed: int = 1) -> list[SimJob]:
    """Build the jobs of so many days: most are short, and the long ones ask for two hours."""
    draw = np.random.default_rng(seed)
    count = days * a_day
    submit = np.sort(draw.integers(0, days * DAY_S, size=count)) + MONDAY
    is_long = draw.random(count) < 0.5
    nodes = np.where(is_long, draw.choice([1, 2], size=count, p=[0.7, 0.3]), 1)
    limit_s = np.where(is_long, LONG_S, HOUR_S // 2)
    used = draw.choice([0.4, 1.0], size=count, p=[0.1, 0.9])
    return [
        SimJob(
            job_id=i + 1,
            submit=int(submit[i]),
            nodes=int(nodes[i]) * 2,
            time_limit_s=int(limit_s[i]),
            run_s=int(limit_s[i] * used[i]),
            user=f"u{draw.integers(6)}",
        )
        for i in range(count)
    ]


def write_sacct(
    path: Path,
    jobs: list[SimJob],
    *,
    without: Iterable[range] = (),
    accounted: bool = True,
    params: Params | None = None,
) -> Path:
    """Write what `sacct` would have printed of these jobs on that cluster, or
    on one of other `params`.

    `without`: days of the log whose submissions are missing. Unaccounted jobs have not ended.
    """
    params = params or build_params()
    workload = Workload.from_jobs(params, jobs)
    sim = Simulator(params, workload, now=MONDAY - 1)
    sim.run_out()
    missing_days = {day for days in without for day in days}
    rows = [_HEADER]
    for job, start, end in zip(workload.jobs, sim.start.tolist(), sim.end.tolist(), strict=True):
        if (job.submit - MONDAY) // DAY_S in missing_days:
            continue
        state, ended = ("COMPLETED", end) if accounted else ("RUNNING", "Unknown")
        times = f"{job.submit}|{job.submit}|{start}|{ended}"
        minutes = job.time_limit_s // 60
        rows.append(f"{job.job_id}|{job.user}||{state}|{times}|{minutes}|{job.nodes}|{job.nodes}")
    path.write_text("\n".join([*rows, ""]))
    return path
