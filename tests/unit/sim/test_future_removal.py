"""A present without its future, and other futures written into it."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ClusterRefused
from mirage.sim.arrays import layout
from mirage.sim.arrays.layout import NONE
from mirage.sim.future_removal import Arrivals, Present
from mirage.sim.simulator import Simulator
from mirage.sim.types import NodeEvent, Outage, Params, SelectType, SimJob
from tests.support.features.scene import BEGIN, HOUR, PARAMS, dressed, workload

FAR = BEGIN + 365 * 24 * HOUR
NOBODY = Arrivals(
    at=np.zeros(0, np.int64),
    kind=np.zeros(0, np.int64),
    run_s=np.zeros(0, np.int64),
    cancel_at=np.zeros(0, np.int64),
)
SITES = [
    PARAMS,
    replace(PARAMS, select_type=SelectType.CONS_TRES, cpus_per_node=64),
    replace(PARAMS, priority_weight_fairshare=5000),
]


def true_future(jobs: list[SimJob], present: Present, now: int) -> tuple[np.ndarray, Arrivals]:
    """What the workload itself says; `present` has its coming jobs as kinds, in their order."""
    by_id = {job.job_id: job for job in jobs}
    ids = present.live[:, layout.ID].tolist()
    run_s = np.array([by_id[i].run_s if i in by_id else 1 for i in ids], dtype=np.int64)
    coming = [job for job in jobs if job.submit > now]
    return run_s, Arrivals(
        at=np.array([job.submit for job in coming]),
        kind=np.arange(len(coming)),
        run_s=np.array([job.run_s for job in coming]),
        cancel_at=np.array([NONE if j.cancel_at is None else j.cancel_at for j in coming]),
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("params", SITES, ids=["whole", "shared", "fair-share"])
def test_with_the_true_future_written_in_a_job_starts_when_it_does(
    params: Params, seed: int
) -> None:
    now, among = BEGIN + 12 * HOUR + 7, workload(seed)
    jobs = [replace(j, cancel_at=None) if j.submit <= now else j for j in dressed(among, params)]
    jobs = sorted(jobs, key=lambda job: (job.submit, job.job_id))
    simulator = Simulator(params, jobs, now=BEGIN)
    simulator.advance(now)
    job = SimJob(nodes=3, time_limit_s=20 * HOUR, run_s=20 * HOUR, user="new", cpus=8)
    present = Present(simulator, [job for job in jobs if job.submit > now])
    future_job = present.submit_job(job)
    run_s, arrivals = true_future(jobs, present, now)
    run_s[present.live[:, layout.ID] == future_job] = job.run_s
    real = simulator.fork()
    expected = real.run_until_started(real.inject(job))
    assert expected is not None
    assert present.simulate_start(future_job, FAR, run_s, arrivals) == expected


def test_what_the_trace_knows_of_later_is_gone() -> None:
    outage = NodeEvent(BEGIN + 3 * HOUR, 0, Outage.DOWN)
    params = replace(PARAMS, nodes=2, node_events=(outage,))
    jobs = [
        SimJob(job_id=1, submit=BEGIN, nodes=2, time_limit_s=8 * HOUR, run_s=HOUR, fails=True),
        SimJob(job_id=2, submit=BEGIN, time_limit_s=HOUR, run_s=1, cancel_at=BEGIN + 2 * HOUR),
        SimJob(job_id=3, submit=BEGIN + 2 * HOUR, time_limit_s=HOUR, run_s=1),
    ]
    simulator = Simulator(params, jobs, now=BEGIN)
    simulator.advance(BEGIN + 60)
    simulator.inject(SimJob(time_limit_s=HOUR, run_s=HOUR), at=BEGIN + HOUR // 2)
    present = Present(simulator)
    run_s = np.full(64, layout.FAR >> 1)
    own = present.submit_job(SimJob(nodes=2, time_limit_s=HOUR, run_s=HOUR))
    ends = BEGIN + np.array([8, 9]) * HOUR
    # The wider one goes first.
    assert present.simulate_start(own, FAR, run_s, NOBODY) == ends[0]
    assert present.simulate_start(2, FAR, run_s, NOBODY) == ends[1]


def test_the_simulator_is_left_as_it_is() -> None:
    simulator = Simulator(PARAMS, workload(2), now=BEGIN)
    simulator.advance(BEGIN + 20 * HOUR)
    before = simulator.arena.state.copy()
    present = Present(simulator, [SimJob(time_limit_s=HOUR, run_s=HOUR, user="someone new")])
    own = present.submit_job(SimJob(time_limit_s=HOUR, run_s=HOUR, user="new too"))
    present.simulate_start(own, FAR, np.full(999, HOUR), NOBODY)
    assert (simulator.arena.state == before).all()


def test_only_what_waits_can_be_let_go() -> None:
    jobs = [SimJob(job_id=1, submit=BEGIN, time_limit_s=HOUR, run_s=HOUR)]
    simulator = Simulator(PARAMS, jobs, now=BEGIN)
    simulator.advance(BEGIN)
    for job_id in (1, 99):
        with pytest.raises(ClusterRefused, match="no longer pending"):
            Present(simulator).clear_restrictions(job_id)


def test_arrivals_take_their_turns_and_a_cancelled_one_leaves() -> None:
    job = SimJob(nodes=16, time_limit_s=HOUR, run_s=HOUR)
    present = Present(Simulator(PARAMS, [], now=BEGIN), [job])
    arrivals = Arrivals(
        at=BEGIN + np.array([10, 20, 30]),
        kind=np.zeros(3, np.int64),
        run_s=np.full(3, HOUR),
        cancel_at=np.array([NONE, BEGIN + 60, NONE]),
    )
    starts = [present.simulate_start(i, FAR, np.zeros(0, np.int64), arrivals) for i in (1, 2, 3)]
    assert starts == [BEGIN + 10, None, BEGIN + HOUR + 10]
