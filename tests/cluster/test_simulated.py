"""What only the simulated cluster has: its clock and its chain users."""

import pytest

from mirage.cluster.simulated import SimulatedCluster
from mirage.domain.chain import ChainId, find_mark
from mirage.domain.job import Job, JobState
from mirage.errors import ClusterRefused, InputError
from mirage.sim.types import Params, SimJob

CHAIN = ChainId("abcd1234")
HOUR_S = 3600


def cluster(*workload: SimJob, nodes: int = 2) -> SimulatedCluster:
    return SimulatedCluster(Params(nodes=nodes, bf_interval_s=10), workload, now=0)


def links(c: SimulatedCluster) -> dict[int, Job]:
    history = c.history(0, c.now() + 1)
    return {m.index: j for j in history if (m := find_mark(j.comment)) and m.chain_id == CHAIN}


def test_each_link_puts_its_standby_in_place_the_second_it_starts() -> None:
    c = cluster()
    c.submit_chain(CHAIN, links=3, time_limit_s=HOUR_S)
    c.advance(0)
    assert links(c)[2].submit == 0
    c.advance(HOUR_S)
    assert (links(c)[2].start, links(c)[3].submit) == (HOUR_S, HOUR_S)
    c.advance(3 * HOUR_S)
    assert sorted(links(c)) == [1, 2, 3]
    assert all(j.state is JobState.TIMEOUT for j in links(c).values())


def test_a_chain_left_alone_hands_over_when_slurm_lets_it() -> None:
    filler = SimJob(job_id=1, nodes=2, time_limit_s=2 * HOUR_S, run_s=2 * HOUR_S, submit=10)
    c = cluster(filler)
    c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(5 * HOUR_S)
    assert links(c)[2].start == 3 * HOUR_S


def test_scancel_of_a_running_link_ends_the_chain() -> None:
    c = cluster()
    first = c.submit_chain(CHAIN, links=3, time_limit_s=HOUR_S)
    c.advance(60)
    c.cancel(first)
    c.advance(HOUR_S)
    assert sorted(links(c)) == [1, 2]
    assert links(c)[2].state is JobState.CANCELLED
    assert links(c)[2].start is None


def test_an_ended_job_leaves_the_queue_after_min_job_age_but_not_the_history() -> None:
    c = cluster()
    job_id = c.submit_chain(CHAIN, links=1, time_limit_s=100)
    c.advance(400)
    assert c.queue().find(job_id) is not None
    c.advance(1)
    assert c.queue().find(job_id) is None
    assert [j.job_id for j in c.jobs([job_id])] == [job_id]


def test_the_queue_shows_planned_starts_and_slurms_reasons() -> None:
    wide = [SimJob(job_id=i, nodes=2, time_limit_s=100, run_s=100) for i in (1, 2, 3)]
    c = cluster(*wide)
    c.advance(10)
    rows = {int(j.job_id): j for j in c.queue()}
    assert (rows[2].reason, rows[3].reason) == ("Resources", "Priority")
    # Ends are rounded up to bf_resolution (60 s).
    assert (rows[2].start, rows[3].start) == (120, 240)
    assert rows[1].end == 100


def test_a_full_user_is_named_in_the_reason() -> None:
    params = Params(nodes=4, max_jobs_pu=1)
    jobs = [SimJob(job_id=i, time_limit_s=100, run_s=100, user="ann") for i in (1, 2)]
    c = SimulatedCluster(params, jobs)
    c.advance(5)
    assert [j.reason for j in c.queue()] == ["QOSMaxJobsPerUserLimit", "None"]


def test_what_the_simulator_does_not_have_is_refused() -> None:
    c = cluster()
    c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(1)
    standby = links(c)[2].job_id
    with pytest.raises(ClusterRefused, match="dependency"):
        c.free(standby, dependency="singleton")
    with pytest.raises(ClusterRefused, match="Invalid node name"):
        c.pin(standby, dependency="", node_list="nowhere")
    with pytest.raises(InputError, match="at least one link"):
        c.submit_chain(CHAIN, links=0, time_limit_s=HOUR_S)
