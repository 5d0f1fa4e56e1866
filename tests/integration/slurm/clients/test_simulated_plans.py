"""Planned releases on the simulated cluster, in Slurm's words (reference: slurm-26.05.md 5)."""

import pytest

from mirage.domain.chain import ChainId, find_mark
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.simulator.types import Params

CHAIN = ChainId("abcd1234")
NOW = 1_000_000
HOUR = 3600


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Two nodes: a chain's first link runs, and the second stands behind it."""
    made = SimulatedCluster(Params(nodes=2, bf_interval_s=10), now=NOW)
    made.submit_chain(CHAIN, links=3, time_limit_s=HOUR)
    made.advance(30)
    return made


def find_link_job(cluster: SimulatedCluster, index: int) -> Job:
    return next(
        job
        for job in cluster.fetch_queue()
        if (mark := find_mark(job.comment)) is not None and mark.index == index
    )


def plan(cluster: SimulatedCluster, minutes: int, predecessor: JobId | None = None) -> str:
    before = find_link_job(cluster, 1).job_id if predecessor is None else predecessor
    text = f"afterany:{before}?after:{before}+{minutes}"
    standby = find_link_job(cluster, 2)
    cluster.set_dependency(standby.job_id, owner=standby.uid or 0, dependency=text)
    return text


def test_it_is_shown_as_squeue_shows_it(cluster: SimulatedCluster) -> None:
    plan(cluster, 20)
    standby, before = find_link_job(cluster, 2), find_link_job(cluster, 1).job_id
    assert standby.dependency == f"afterany:{before}(unfulfilled)?after:{before}+20(unfulfilled)"
    assert (standby.reason, standby.eligible) == ("Dependency", None)


def test_it_is_eligible_so_many_minutes_after_the_start(cluster: SimulatedCluster) -> None:
    plan(cluster, 20)
    start = find_link_job(cluster, 1).start or 0
    cluster.advance(start + 20 * 60 - 1 - cluster.read_clock())
    assert find_link_job(cluster, 2).state is JobState.PENDING
    cluster.advance(61)
    standby = find_link_job(cluster, 2)
    assert (standby.eligible, standby.dependency) == (start + 20 * 60, "")
    assert standby.state is JobState.RUNNING
    assert find_link_job(cluster, 1).state is JobState.RUNNING


def test_or_at_the_predecessors_end() -> None:
    cluster = SimulatedCluster(Params(nodes=2, bf_interval_s=10), now=NOW)
    cluster.submit_chain(CHAIN, links=3, time_limit_s=HOUR, run_s=600)
    cluster.advance(30)
    plan(cluster, 20)
    cluster.advance(700)
    before, standby = find_link_job(cluster, 1), find_link_job(cluster, 2)
    assert (before.state, standby.state) == (JobState.COMPLETED, JobState.RUNNING)
    assert standby.eligible == before.end


def test_a_delay_that_is_over_is_met_at_once(cluster: SimulatedCluster) -> None:
    cluster.advance(600)
    plan(cluster, 5)
    assert find_link_job(cluster, 2).eligible == cluster.read_clock()


def test_behind_a_job_that_is_forgotten_it_is_free(cluster: SimulatedCluster) -> None:
    plan(cluster, 5, JobId(424242))
    assert find_link_job(cluster, 2).eligible == cluster.read_clock()


def test_one_that_was_requeued_counts_anew(cluster: SimulatedCluster) -> None:
    plan(cluster, 20)
    cluster.advance(600)
    cluster.requeue_job(find_link_job(cluster, 1).job_id)
    cluster.advance(900)
    again = find_link_job(cluster, 1).start or 0
    assert again > NOW + 600
    assert find_link_job(cluster, 2).eligible is None
    cluster.advance(again + 1200 - cluster.read_clock())
    assert find_link_job(cluster, 2).eligible == again + 1200


def test_it_is_moved_taken_back_and_dropped(cluster: SimulatedCluster) -> None:
    before, standby = find_link_job(cluster, 1), find_link_job(cluster, 2)
    plan(cluster, 20)
    plan(cluster, 40)
    cluster.advance(1300)
    assert find_link_job(cluster, 2).eligible is None
    held = f"afterany:{before.job_id}"
    cluster.set_dependency(standby.job_id, owner=standby.uid or 0, dependency=held)
    assert find_link_job(cluster, 2).dependency == f"{held}(unfulfilled)"
    cluster.advance(1300)
    assert find_link_job(cluster, 2).eligible is None
    cluster.free_standby(standby.job_id, owner=standby.uid or 0, dependency="")
    assert find_link_job(cluster, 2).eligible == cluster.read_clock()


@pytest.mark.parametrize("text", ["afterany:1?singleton", "afterok:1_3", "afterburst:1"])
def test_other_lists_are_not_simulated(cluster: SimulatedCluster, text: str) -> None:
    standby = find_link_job(cluster, 2)
    with pytest.raises(ClusterRefused, match="dependency problem"):
        cluster.set_dependency(standby.job_id, owner=standby.uid or 0, dependency=text)
