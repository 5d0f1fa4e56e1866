"""Every start equals that of the obvious simulator, on random small cases."""

import random

import pytest

from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob
from tests.sim.reference import start_times

SECONDS = 700


def random_case(seed: int) -> tuple[Params, list[SimJob]]:
    r = random.Random(seed)  # noqa: S311 (a test case, no secret)
    nodes = r.choice([1, 2, 3, 5, 8])
    params = Params(
        nodes=nodes,
        priority_weight_age=r.choice([0, 10, 1000]),
        priority_max_age_s=r.choice([40, 10_000]),
        priority_weight_job_size=r.choice([0, 100, 3000]),
        accrue_always=r.random() < 0.3,
        max_jobs_pu=r.choice([0, 0, 1, 2]),
        bf_interval_s=r.choice([1, 7, 30]),
        bf_window_s=r.choice([60, 400]),
        bf_resolution_s=r.choice([1, 10, 25]),
        bf_max_job_test=r.choice([2, 100]),
    )
    jobs = []
    for job_id in range(1, r.choice([6, 14, 24, 70])):
        submit = r.randrange(200)
        limit = r.randrange(1, 90)
        jobs.append(
            SimJob(
                job_id=job_id,
                submit=submit,
                nodes=r.randrange(1, nodes + 1),
                time_limit_s=limit,
                run_s=r.randrange(1, limit + 20),
                user=r.choice("abc"),
                after=r.randrange(1, job_id) if job_id > 1 and r.random() < 0.15 else None,
                cancel_at=submit + r.randrange(1, 60) if r.random() < 0.15 else None,
            )
        )
    # A job can only wait for one that was submitted before it.
    by_id = {j.job_id: j for j in jobs}
    return params, [j for j in jobs if j.after is None or by_id[j.after].submit < j.submit]


@pytest.mark.parametrize("block", range(12))
def test_starts_equal_those_of_the_obvious_simulator(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        params, jobs = random_case(seed)
        sim = Simulator(params, jobs, now=0)
        sim.advance(SECONDS - 1)
        ours = {r.job_id: r.start for r in [*sim.ended, *sim.records.values()]}
        assert ours == start_times(params, jobs, SECONDS), f"seed {seed}: {params}"
