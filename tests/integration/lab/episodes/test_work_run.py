"""A chain on a simulated cluster, played until its work is done."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.domain.ports import Policy
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.work_run import Work, WorkRun, run_work
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob

HOUR = 3600
LIMIT = 10 * HOUR
FAR = 1000 * HOUR
TWO_NODES = Params(nodes=2, sched_interval_s=60, bf_interval_s=30)
LINK = SimJob(nodes=1, exclusive=True, time_limit_s=LIMIT, run_s=LIMIT, user="us")


def play(
    policy: Policy,
    *others: SimJob,
    work_h: float = 25,
    startup_s: int = 0,
    at_most: int = FAR,
    returns: int = 0,
) -> WorkRun:
    """A chain that is submitted at 0 to two nodes, beside these jobs."""
    workload = Workload.from_jobs(TWO_NODES, others or [other(0, 1, at=FAR)])
    sim = Simulator(TWO_NODES, workload, now=0)
    log = LogJobs.from_workload(workload)
    work = Work(
        link=LINK,
        work_s=round(work_h * HOUR),
        startup_s=startup_s,
        overlap_price=0.5,
        most_returns=returns,
    )
    return run_work(sim, work, policy, log, at_most=at_most)


def other(job_id: int, hours: float, *, nodes: int = 1, at: int = 0) -> SimJob:
    run_s = round(hours * HOUR)
    return SimJob(
        job_id=job_id + 100, submit=at, nodes=nodes, time_limit_s=run_s, run_s=run_s, user="them"
    )


def test_on_an_idle_cluster_plain_slurm_needs_little_more_than_the_work() -> None:
    run = play(Reactive())
    assert run.finished is not None
    assert run.began is not None
    assert run.links == 3
    assert run.ran_s == 25 * HOUR
    assert run.finished - run.began == 25 * HOUR + run.interrupted_s
    assert 0 <= run.interrupted_s <= 2 * 60


def test_each_link_loses_its_startup_time() -> None:
    run = play(Reactive(), work_h=19, startup_s=HOUR)
    assert (run.links, run.ran_s) == (3, 22 * HOUR)


def test_a_link_that_starts_at_once_idles_until_its_predecessor_ends() -> None:
    run = play(AtOnce(), work_h=15)
    assert run.finished is not None
    assert run.idle_s > 0
    assert run.ran_s == 15 * HOUR + run.idle_s


@pytest.mark.parametrize("returns", [1, 2])
def test_a_link_that_starts_at_once_gives_its_nodes_back(returns: int) -> None:
    """It waited for nothing, so it is released again five minutes before its predecessor's end."""
    run = play(AtOnce(), work_h=15, returns=returns)
    assert run.finished is not None
    assert run.returns == 1
    assert run.links == 2
    assert 360 < run.idle_s <= 360 + 300
    assert run.ran_s == 15 * HOUR + run.idle_s
    assert run.interrupted_s == 0


def test_a_link_that_is_released_too_late_again_is_interrupted() -> None:
    # The other node is free for link 2 as it is released, 2.5 hours before link 1's end. Then the
    # node is theirs until after that end.
    crowd = [other(1, 12, at=round(7.6 * HOUR))]
    run = play(AtOnce(), *crowd, work_h=15, returns=2)
    assert run.finished is not None
    assert run.returns == 1
    assert run.interrupted_s <= 120


def test_an_interruption_is_the_wait_between_two_links() -> None:
    # Both nodes are theirs for six hours as soon as link 1 has ended. Who is released 2.5 hours
    # before that comes first, and has the other node half an hour before link 1 ends.
    crowd = [other(1, 9.5), other(2, 6, nodes=2, at=round(9.4 * HOUR))]
    reactive = play(Reactive(), *crowd, work_h=15)
    assert reactive.finished is not None
    assert 6 * HOUR <= reactive.interrupted_s <= 6 * HOUR + 300
    assert reactive.idle_s == 0
    early = play(AtOnce(), *crowd, work_h=15)
    assert early.finished == 15 * HOUR
    assert early.interrupted_s == 0
    assert HOUR / 2 - 300 <= early.idle_s <= HOUR / 2


def test_no_link_is_released_earlier_than_max_overlap_allows() -> None:
    run = play(AtOnce(), work_h=15)
    assert 0 < run.idle_s <= LIMIT / 4


@pytest.mark.parametrize("at_most", [5 * HOUR, 12 * HOUR])
def test_work_that_is_not_done_in_the_time_has_no_end(at_most: int) -> None:
    assert play(Reactive(), at_most=at_most).finished is None


def test_a_chain_that_never_starts_has_no_link() -> None:
    crowd = [other(i, 400) for i in (1, 2)]
    run = play(Reactive(), *crowd, at_most=300 * HOUR)
    assert (run.began, run.finished, run.links, run.ran_s) == (None, None, 0, 0)


def test_the_log_shows_the_waits_of_the_jobs_that_have_started() -> None:
    jobs = [other(1, 5, nodes=2), other(2, 1, nodes=1, at=HOUR)]
    workload = Workload.from_jobs(TWO_NODES, [replace(job, user="them") for job in jobs])
    sim = Simulator(TWO_NODES, workload, now=0)
    sim.advance_quietly(3 * HOUR)
    log = LogJobs.from_workload(workload)
    assert log.collect_waits(sim.start).nodes.tolist() == [2]
    sim.advance_quietly(8 * HOUR)
    waits = log.collect_waits(sim.start)
    assert waits.nodes.tolist() == [2, 1]
    assert np.all(waits.wait_s[1] >= 4 * HOUR)
