"""What only the simulated cluster has: its clock and its chain users."""

import pytest

from mirage.domain.chain import ChainId, find_mark
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused, InputError
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.simulator.types import NodeGroup, Outage, Params, Partition, Qos, SelectType, SimJob
from tests.support.cluster.nodes import set_node_outage
from tests.support.simulator.jobs import make_sim_job

CHAIN = ChainId("abcd1234")
HOUR_S = 3600


def cluster(*workload: SimJob, nodes: int = 2) -> SimulatedCluster:
    return SimulatedCluster(Params(nodes=nodes, bf_interval_s=10), workload, now=0)


def links(c: SimulatedCluster) -> dict[int, Job]:
    history = c.fetch_history(0, c.read_clock() + 1)
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
    c.cancel_job(first, owner=owner_of(c, first))
    c.advance(HOUR_S)
    assert sorted(links(c)) == [1, 2]
    assert links(c)[2].state is JobState.CANCELLED
    assert links(c)[2].start is None


def test_an_ended_job_leaves_the_queue_after_min_job_age_but_not_the_history() -> None:
    c = cluster()
    job_id = c.submit_chain(CHAIN, links=1, time_limit_s=100)
    c.advance(400)
    assert c.fetch_queue().find_job(job_id) is not None
    c.advance(1)
    assert c.fetch_queue().find_job(job_id) is None
    assert [j.job_id for j in c.fetch_job_records([job_id])] == [job_id]


def test_the_queue_shows_planned_starts_and_slurms_reasons() -> None:
    wide = [SimJob(job_id=i, nodes=2, time_limit_s=100, run_s=100) for i in (1, 2, 3)]
    c = cluster(*wide)
    c.advance(10)
    rows = {int(j.job_id): j for j in c.fetch_queue()}
    assert (rows[2].reason, rows[3].reason) == ("Resources", "Priority")
    # Ends are rounded up to bf_resolution (60 s).
    assert (rows[2].planned_start, rows[3].planned_start) == (120, 240)
    assert (rows[2].start, rows[1].expected_end) == (None, 100)


def test_the_first_of_every_partition_waits_for_resources() -> None:
    params = Params(nodes=1, partitions=(Partition(), Partition(name="debug")))
    names = ["batch", "batch", "debug", "", "debug"]
    jobs = [
        SimJob(job_id=i, time_limit_s=100, run_s=100, partition=name)
        for i, name in enumerate(names, start=1)
    ]
    c = SimulatedCluster(params, jobs)
    c.advance(5)
    rows = {int(j.job_id): j for j in c.fetch_queue()}
    assert [rows[i].reason for i in (2, 3, 4, 5)] == ["Resources"] * 2 + ["Priority"] * 2
    assert rows[4].partition == "batch"


def test_a_full_user_is_named_in_the_reason() -> None:
    params = Params(nodes=4, max_jobs_pu=1)
    jobs = [SimJob(job_id=i, time_limit_s=100, run_s=100, user="ann") for i in (1, 2)]
    c = SimulatedCluster(params, jobs)
    c.advance(5)
    assert [j.reason for j in c.fetch_queue()] == ["QOSMaxJobsPerUserLimit", ""]


def test_what_the_simulator_does_not_have_is_refused() -> None:
    c = cluster()
    c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(1)
    standby = links(c)[2].job_id
    with pytest.raises(ClusterRefused, match="dependency"):
        c.free_standby(standby, owner=owner_of(c, standby), dependency="singleton")
    with pytest.raises(ClusterRefused, match="Invalid node name"):
        c.pin_standby(standby, owner=owner_of(c, standby), dependency="", node_list="nowhere")
    with pytest.raises(InputError, match="at least one link"):
        c.submit_chain(CHAIN, links=0, time_limit_s=HOUR_S)


def busy(*ends: int, fails: bool = False) -> list[SimJob]:
    """One-node jobs 1, 2, ... that end so many seconds after 0."""
    return [
        make_sim_job(i, limit_s=HOUR_S, run_s=end, fails=fails)
        for i, end in enumerate(ends, start=1)
    ]


def owner_of(c: SimulatedCluster, job_id: JobId) -> int:
    job = c.fetch_queue().find_job(job_id)
    assert job is not None
    assert job.uid is not None
    return job.uid


def standby_of(c: SimulatedCluster) -> Job:
    job = c.fetch_queue().find_job(links(c)[2].job_id)
    assert job is not None
    return job


def test_every_dependency_of_a_standby_counts() -> None:
    c = cluster(*busy(100, 200), nodes=4)
    c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(1)
    c.set_dependency(
        standby_of(c).job_id,
        owner=owner_of(c, standby_of(c).job_id),
        dependency="afterany:1,afterok:2",
    )
    assert standby_of(c).dependency == "afterany:1(unfulfilled),afterok:2(unfulfilled)"
    c.advance(149)
    assert standby_of(c).dependency == "afterok:2(unfulfilled)"
    c.advance(100)
    assert (standby_of(c).state, standby_of(c).start) == (JobState.RUNNING, 200)


def test_a_dependency_that_can_no_longer_be_met_is_said() -> None:
    c = cluster(*busy(100, fails=True), nodes=4)
    c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(1)
    c.set_dependency(
        standby_of(c).job_id, owner=owner_of(c, standby_of(c).job_id), dependency="afterok:1"
    )
    c.advance(200)
    assert standby_of(c).state is JobState.PENDING
    assert standby_of(c).reason == "DependencyNeverSatisfied"


def test_a_requeued_run_stays_in_accounting_and_the_job_waits_under_a_new_submission() -> None:
    c = cluster()
    first = c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(60)
    c.requeue_job(first)
    waiting = c.fetch_queue().find_job(first)
    assert waiting is not None
    assert (waiting.state, waiting.submit, waiting.reason) == (JobState.PENDING, 60, "BeginTime")
    runs = [j for j in c.fetch_history(0, 61) if j.job_id == first]
    assert [(j.state, j.submit, j.start, j.end) for j in runs] == [
        (JobState.REQUEUED, 0, 0, 60),
        (JobState.PENDING, 60, None, None),
    ]


def test_a_requeued_link_has_one_standby_when_it_runs_again() -> None:
    c = cluster(nodes=4)
    first = c.submit_chain(CHAIN, links=2, time_limit_s=HOUR_S)
    c.advance(60)
    c.requeue_job(first)
    c.advance(300)
    again = c.fetch_queue().find_job(first)
    assert again is not None
    assert (again.state, again.start) == (JobState.RUNNING, 180)
    assert len([j for j in c.fetch_queue() if find_mark(j.comment)]) == 2
    assert standby_of(c).dependency == f"afterany:{first}(unfulfilled)"


def test_jobs_of_a_node_that_goes_down_are_requeued() -> None:
    c = cluster()
    first = c.submit_chain(CHAIN, links=1, time_limit_s=HOUR_S)
    c.advance(60)
    down, other = sorted(c.fetch_nodes(), key=lambda node: node.state)
    assert (down.state, other.state) == ("allocated", "idle")
    set_node_outage(c, down.name, Outage.DOWN)
    set_node_outage(c, other.name, Outage.DRAIN)
    assert sorted(n.state for n in c.fetch_nodes()) == ["down", "drained"]
    c.advance(300)
    assert {j.state for j in c.fetch_history(0, 400)} == {JobState.REQUEUED, JobState.PENDING}
    set_node_outage(c, down.name, Outage.RESUME)
    c.advance(60)
    job = c.fetch_queue().find_job(first)
    assert job is not None
    assert (job.state, job.node_list) == (JobState.RUNNING, down.name)


def test_shared_nodes_tell_what_of_them_is_taken() -> None:
    params = Params(
        nodes=2, cpus_per_node=64, gpus_per_node=4, select_type=SelectType.CONS_TRES, name="lab"
    )
    jobs = [
        SimJob(job_id=i, cpus=16, gpus=1, time_limit_s=100, run_s=100, user=f"u{i}") for i in (1, 2)
    ]
    c = SimulatedCluster(params, jobs)
    c.submit_chain(CHAIN, links=1, time_limit_s=HOUR_S)
    c.advance(1)
    nodes = {n.name: (n.state, n.cpus_used, n.gpus_used) for n in c.fetch_nodes()}
    assert sorted(nodes.values()) == [("allocated", 64, 4), ("mixed", 32, 2)]
    shown = {int(j.job_id): (j.cpus, j.gpus) for j in c.fetch_queue()}
    assert (shown[1], shown[int(links(c)[1].job_id)]) == ((16, 1), (64, 4))


def test_nodes_differ_by_their_groups_and_partitions() -> None:
    groups = (NodeGroup(count=1, cpus=8), NodeGroup(count=2, cpus=64, gpus=4))
    partitions = (Partition(), Partition(name="gpu", nodes=(1, 2)))
    params = Params(
        nodes=3, node_groups=groups, partitions=partitions, qos=(Qos(), Qos(name="high"))
    )
    jobs = [
        SimJob(job_id=1, nodes=2, time_limit_s=100, run_s=100, partition="gpu", qos="high"),
        SimJob(job_id=2, nodes=2, time_limit_s=100, run_s=100, partition="gpu", submit=1),
    ]
    c = SimulatedCluster(params, jobs)
    c.advance(10)
    nodes = [(n.partitions, n.cpus, n.gpus, n.gpus_used) for n in c.fetch_nodes()]
    assert nodes == [(("batch",), 8, 0, 0)] + [(("batch", "gpu"), 64, 4, 4)] * 2
    shown = {int(j.job_id): j for j in c.fetch_queue()}
    assert [(shown[i].qos, shown[i].partition) for i in (1, 2)] == [
        ("high", "gpu"),
        ("normal", "gpu"),
    ]
    # One waits, and is shown with what it would have.
    assert [(shown[i].cpus, shown[i].gpus) for i in (1, 2)] == [(128, 8)] * 2


def test_a_users_own_node_list_stays_and_mirages_goes() -> None:
    def waits(number: int, *nodes: int) -> SimJob:
        return make_sim_job(number, limit_s=100, node_list=nodes, held=True)

    c = cluster(waits(1, 1), waits(2), nodes=2)
    other = c.fetch_nodes()[0].name
    c.advance(0)

    def asked() -> list[tuple[int, ...]]:
        return [
            record.node_list
            for record in sorted(c.simulator.list_pending(), key=lambda r: r.job_id)
        ]

    with pytest.raises(ClusterRefused, match=f"asks for nodes itself .{c.fetch_nodes()[1].name}."):
        c.pin_standby(JobId(1), owner=owner_of(c, JobId(1)), dependency="", node_list=other)
    c.pin_standby(JobId(2), owner=owner_of(c, JobId(2)), dependency="", node_list=other)
    assert asked() == [(1,), (0,)]
    for job_id in (1, 2):
        c.free_standby(JobId(job_id), owner=owner_of(c, JobId(job_id)), dependency="")
    assert asked() == [(1,), ()]
