"""A present without its future, and other futures written into it."""

from dataclasses import fields, replace

import numpy as np
import pytest

from mirage.errors import ClusterRefused
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import NONE
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import NodeEvent, Outage, Params, SelectType, SimJob, build_afterany
from mirage.twin.future_removal import Arrivals, Present
from mirage.twin.piecework import finish_work
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, add_requests, generate_jobs

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
    now, among = BEGIN + 12 * HOUR + 7, generate_jobs(seed)
    jobs = [
        replace(j, cancel_at=None) if j.submit <= now else j for j in add_requests(among, params)
    ]
    jobs = sorted(jobs, key=lambda job: (job.submit, job.job_id))
    simulator = Simulator(params, jobs, now=BEGIN)
    simulator.advance(now)
    job = SimJob(nodes=3, time_limit_s=20 * HOUR, run_s=20 * HOUR, user="new", cpus=8)
    present = Present(simulator, [job for job in jobs if job.submit > now])
    present.add_probe(job)
    run_s, arrivals = true_future(jobs, present, now)
    real = simulator.fork()
    expected = real.run_until_started(real.inject(job))
    assert expected is not None
    assert finish_work(present.simulate_starts(run_s, [(FAR, arrivals)])) == [expected]


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
    present.turn_into_probe(2)
    # The wider one goes first.
    present.add_probe(SimJob(nodes=2, time_limit_s=HOUR, run_s=HOUR))
    end = BEGIN + 8 * HOUR
    assert finish_work(present.simulate_starts(run_s, [(FAR, NOBODY)])) == [end + 1, end]


def test_the_simulator_is_left_as_it_is() -> None:
    simulator = Simulator(PARAMS, generate_jobs(2), now=BEGIN)
    simulator.advance(BEGIN + 20 * HOUR)
    before = simulator.arena.state.copy()
    present = Present(simulator, [SimJob(time_limit_s=HOUR, run_s=HOUR, user="someone new")])
    present.add_probe(SimJob(time_limit_s=HOUR, run_s=HOUR, user="new too"))
    finish_work(present.simulate_starts(np.full(999, HOUR), [(FAR, NOBODY)]))
    assert (simulator.arena.state == before).all()


def test_only_what_waits_can_be_let_go() -> None:
    jobs = [SimJob(job_id=1, submit=BEGIN, time_limit_s=HOUR, run_s=HOUR)]
    simulator = Simulator(PARAMS, jobs, now=BEGIN)
    simulator.advance(BEGIN)
    for job_id in (1, 99):
        with pytest.raises(ClusterRefused, match="no longer pending"):
            Present(simulator).turn_into_probe(job_id)


def test_arrivals_take_their_turns_and_a_cancelled_one_leaves() -> None:
    job = SimJob(nodes=16, time_limit_s=HOUR, run_s=HOUR)
    simulator = Simulator(PARAMS, [], now=BEGIN)
    # It keeps all nodes until the arrivals are there, and the probe lets them go first.
    simulator.inject(replace(job, run_s=40))
    simulator.advance(BEGIN)
    present = Present(simulator, [job])
    present.add_probe(replace(job, nice=5000))
    arrivals = Arrivals(
        at=BEGIN + np.array([10, 20, 30]),
        kind=np.zeros(3, np.int64),
        run_s=np.full(3, HOUR),
        cancel_at=np.array([NONE, BEGIN + 60, NONE]),
    )
    run_s = np.full(64, 40)
    [start] = finish_work(present.simulate_starts(run_s, [(FAR, arrivals)]))
    assert start == BEGIN + 40 + 2 * HOUR
    # No arrival is seen before its span.
    first = Arrivals(**{f.name: getattr(arrivals, f.name)[:1] for f in fields(Arrivals)})
    spans = [(BEGIN + 15, first), (FAR, arrivals)]
    assert finish_work(present.simulate_starts(run_s, spans)) == [BEGIN + 40 + 2 * HOUR]


def test_a_probe_takes_nothing_from_others() -> None:
    """An hour is left on one node and three on the other. The narrow probe, first in the queue,
    would keep its node for a day; the wide one is asked about in the same future."""
    simulator = Simulator(replace(PARAMS, nodes=2), [], now=BEGIN)
    for hours in (1, 3):
        simulator.inject(SimJob(time_limit_s=hours * HOUR, run_s=hours * HOUR))
    simulator.advance(BEGIN)
    day = SimJob(time_limit_s=24 * HOUR, run_s=24 * HOUR)
    present = Present(simulator)
    present.add_probe(day)
    present.add_probe(replace(day, nodes=2, nice=5000))
    run_s = present.live[:, layout.LIMIT].copy()
    narrow, wide = finish_work(present.simulate_starts(run_s, [(FAR, NOBODY)]))
    assert (narrow, wide) == (BEGIN + HOUR, BEGIN + 3 * HOUR)


def test_a_job_that_depends_on_a_probe_does_not_start_after_it() -> None:
    simulator = Simulator(replace(PARAMS, nodes=1), [], now=BEGIN)
    runs = simulator.inject(SimJob(time_limit_s=8 * HOUR, run_s=8 * HOUR))
    simulator.advance(BEGIN)
    standby = simulator.inject(
        SimJob(time_limit_s=8 * HOUR, run_s=HOUR, dependencies=build_afterany(runs))
    )
    simulator.inject(
        SimJob(time_limit_s=8 * HOUR, run_s=HOUR, dependencies=build_afterany(standby))
    )
    present = Present(simulator)
    present.turn_into_probe(standby)
    present.add_probe(SimJob(time_limit_s=8 * HOUR, run_s=HOUR, nice=5000))
    [first, last] = finish_work(present.simulate_starts(np.full(64, HOUR), [(FAR, NOBODY)]))
    assert first == BEGIN + HOUR
    # The last one would wait for the dependent's hour.
    assert last == first + 1
