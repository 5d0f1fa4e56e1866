"""OverTimeLimit: jobs run on beyond the limit that plans go by."""

from mirage.domain.job import JobState
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob


def test_a_job_runs_on_beyond_its_limit_for_as_long_as_it_may() -> None:
    params = Params(nodes=1, over_time_limit_s=60)
    jobs = [
        SimJob(job_id=1, submit=0, time_limit_s=600, run_s=640),
        SimJob(job_id=2, submit=1, time_limit_s=600, run_s=9000),
    ]
    simulator = Simulator(params, jobs)
    simulator.advance(10)
    assert simulator.compute_planned_starts() == {2: 600}
    simulator.run_out()
    assert list(simulator.end) == [640, 640 + 660]
    assert [simulator.get_job_state(row) for row in (0, 1)] == [
        JobState.COMPLETED,
        JobState.TIMEOUT,
    ]


def test_who_is_over_the_limit_still_holds_the_nodes() -> None:
    params = Params(nodes=2, over_time_limit_s=600)
    jobs = [
        SimJob(job_id=1, submit=0, time_limit_s=600, run_s=1000),
        # Ahead of the next two, for more than is free: only backfill could start them.
        SimJob(job_id=2, submit=1, time_limit_s=600, run_s=600, nodes=2),
        SimJob(job_id=3, submit=700, time_limit_s=60, run_s=60, nodes=2),
    ]
    simulator = Simulator(params, jobs)
    simulator.advance(960)
    assert simulator.compute_planned_starts() == {2: 1020, 3: 1620}
    simulator.run_out()
    assert list(simulator.start) == [0, 1000, 1600]
