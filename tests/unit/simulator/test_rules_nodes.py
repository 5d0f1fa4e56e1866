"""Limits and nodes (docs/reference/simulator.md, sections 4 and 5), each by hand."""

from typing import Any

import pytest

from mirage.simulator.types import (
    NodeEvent,
    NodeGroup,
    Outage,
    Partition,
    Qos,
    Reservation,
    SelectType,
    SimJob,
)
from tests.support.simulator.scenes import T0, Scene, job_at, site

SHARED = {"select_type": SelectType.CONS_TRES}

# Limits


def test_max_jobs_per_user_without_qos() -> None:
    jobs = [job_at(1, user="u"), job_at(2, 5, user="u", account="another"), job_at(3, 6, user="v")]
    assert Scene(site(max_jobs_pu=1), *jobs).starts() == {1: 0, 2: 600, 3: 6}


@pytest.mark.parametrize(
    ("limit", "ask"),
    [
        ({"max_jobs_pu": 2}, {}),
        ({"max_cpus_pu": 5}, {"cpus": 2}),
        ({"max_memory_mib_pu": 59}, {"memory_mib": 20}),
        ({"max_gpus_pu": 2}, {"gpus": 1}),
        ({"max_nodes_pu": 2}, {}),
        ({"max_nodes_pu": 5}, {"nodes": 2}),
    ],
)
def test_a_qos_limits_a_user_in_it_and_nobody_else(
    limit: dict[str, Any], ask: dict[str, int]
) -> None:
    qos = (Qos(name="tight", **limit), Qos(name="loose"))
    params = site(**SHARED, cpus_per_node=9, gpus_per_node=9, memory_mib_per_node=900, qos=qos)
    mine: dict[str, Any] = {"user": "u", **ask}
    tight = [job_at(i, i, **mine) for i in (1, 2, 3)]
    others = [job_at(4, 4, **mine, qos="loose"), job_at(5, 5, **{**mine, "user": "v"})]
    # The third goes over the limit and waits for the first to end, at 601; nobody waits for it.
    assert Scene(params, *tight, *others).starts() == {1: 1, 2: 2, 3: 601, 4: 4, 5: 5}


def test_whole_nodes_count_entirely() -> None:
    params = site(qos=(Qos(max_cpus_pu=7),))
    assert Scene(params, job_at(1, user="u"), job_at(2, user="u")).starts() == {1: 0, 2: 600}


def test_whole_nodes_that_differ_count_each_for_itself() -> None:
    groups = (NodeGroup(count=1, cpus=4, memory_mib=50), NodeGroup(count=3, cpus=4, memory_mib=80))
    params = site(**SHARED, node_groups=groups, qos=(Qos(max_memory_mib_pu=120),))
    jobs = [job_at(i, i, user="u", exclusive=True, node_list=(i,)) for i in (1, 2)]
    assert Scene(params, *jobs).starts() == {1: 1, 2: 601}


@pytest.mark.parametrize(
    ("most", "starts"), [(5, {1: 1, 2: 601, 3: 1201}), (6, {1: 1, 2: 2, 3: 601})]
)
def test_before_its_start_a_whole_node_counts_as_the_smallest(
    most: int, starts: dict[int, int]
) -> None:
    groups = (NodeGroup(count=2, cpus=4), NodeGroup(count=2, cpus=2))
    params = site(node_groups=groups, qos=(Qos(max_cpus_pu=most),))
    jobs = [job_at(i, i, user="u") for i in (1, 2, 3)]
    # 1 has the 4 CPUs of node 0. 2 counts 2 beside them, and 4 once it has node 1.
    assert Scene(params, *jobs).starts() == starts


def test_the_jobs_over_max_submit_are_refused() -> None:
    params = site(qos=(Qos(max_submit_pu=2),))
    jobs = [job_at(i, i, user="u", nodes=4) for i in (1, 2, 3)] + [
        job_at(4, 601, user="u"),
        job_at(5, 4),
    ]
    # 4 comes when 1 has ended: there is room again. 5 is another user's.
    assert Scene(params, *jobs).starts() == {1: 1, 2: 601, 3: None, 4: 1201, 5: 1201}


def test_an_array_runs_as_many_tasks_as_it_may() -> None:
    tasks = [job_at(i, array_id=7, array_limit=2) for i in (1, 2, 3)]
    assert Scene(site(), *tasks, job_at(4, array_id=8)).starts() == {1: 0, 2: 0, 3: 600, 4: 0}


# Whole and shared nodes


_TWO_KINDS = (NodeGroup(count=1, cpus=4), NodeGroup(count=1, cpus=16, gpus=2))


@pytest.mark.parametrize(
    ("ask", "starts"),
    [
        ({}, {1: 0, 2: 0}),
        ({"gpus": 2}, {1: 0, 2: 600}),
        ({"cpus": 5}, {1: 0, 2: 600}),
        ({"cpus": 17}, {1: 0, 2: None}),
        ({"gpus": 3}, {1: 0, 2: None}),
    ],
)
def test_whole_nodes_have_what_the_job_asks_of_each(
    ask: dict[str, int], starts: dict[int, int | None]
) -> None:
    params = site(nodes=2, select_type=SelectType.CONS_TRES, node_groups=_TWO_KINDS)
    jobs = [job_at(1, cpus=5), job_at(2, exclusive=True, **ask)]
    assert Scene(params, *jobs).starts() == starts


@pytest.mark.parametrize(
    ("ask", "start"),
    [
        ({"cpus": 3}, 0),
        ({"cpus": 4}, 600),
        ({"memory_mib": 60}, 0),
        ({"memory_mib": 61}, 600),
        ({"gpus": 1}, 0),
        ({"gpus": 2}, 600),
        ({"exclusive": True}, 600),
        ({"partition": "whole"}, 600),
    ],
)
def test_what_fits_beside_another_job(ask: dict[str, Any], start: int) -> None:
    node = {"nodes": 1, "cpus_per_node": 4, "gpus_per_node": 2, "memory_mib_per_node": 100}
    partitions = (Partition(), Partition(name="whole", exclusive=True))
    params = site(**SHARED, **node, partitions=partitions)
    first = job_at(1, cpus=1, memory_mib=40, gpus=1)
    assert Scene(params, first, job_at(2, **ask)).starts()[2] == start


@pytest.mark.parametrize("whole", [{"exclusive": True}, {"partition": "whole"}])
def test_a_whole_node_job_shares_with_nobody(whole: dict[str, Any]) -> None:
    partitions = (Partition(), Partition(name="whole", exclusive=True))
    params = site(**SHARED, nodes=1, partitions=partitions)
    assert Scene(params, job_at(1, **whole), job_at(2)).starts()[2] == 600


def test_memory_of_a_node_without_memory_is_not_counted() -> None:
    params = site(**SHARED, nodes=1)
    jobs = [job_at(1, memory_mib=10**9), job_at(2, memory_mib=10**9)]
    assert Scene(params, *jobs).starts() == {1: 0, 2: 0}


def test_nodes_differ() -> None:
    groups = (NodeGroup(count=1, cpus=1), NodeGroup(count=1, cpus=8, memory_mib=10, gpus=1))
    params = site(**SHARED, nodes=2, node_groups=groups)
    jobs = [job_at(1, gpus=1), job_at(2, cpus=7), job_at(3, cpus=2)]
    scene = Scene(params, *jobs)
    assert scene.starts() == {1: 0, 2: 0, 3: 600}
    assert [scene.nodes(i) for i in (1, 2, 3)] == [(1,), (1,), (1,)]


# Which nodes


def test_by_number_takes_the_lowest_and_leaves_pinned_ones_for_last() -> None:
    jobs = [
        job_at(8, user="u", node_list=(3,)),
        job_at(9, 1, user="u", node_list=(0,)),
        job_at(1, 5),
        job_at(2, 6, nodes=2, user="v"),
    ]
    # 9 waits for its user's other job, and would find its node free.
    scene = Scene(site(max_jobs_pu=1), *jobs).until(10)
    assert [scene.nodes(1), scene.nodes(2)] == [(1,), (0, 2)]


def _busy(*nodes: int) -> list[SimJob]:
    return [job_at(90 + n, limit=5000, node_list=(n,)) for n in nodes]


BY_NAME = {"nodes": 10, "partitions": (Partition(), Partition(name="half", nodes=(0, 1, 2, 3, 4)))}


@pytest.mark.parametrize(
    ("busy", "count", "nodes"),
    [
        ((2, 4), 1, (3,)),
        ((2, 4), 2, (0, 1)),
        ((2, 4), 4, (5, 6, 7, 8)),
        ((2, 4), 6, (3, 5, 6, 7, 8, 9)),
        ((1, 3, 5, 7, 9), 3, (0, 2, 4)),
        ((2, 5, 8), 5, (0, 1, 3, 4, 9)),
    ],
)
def test_by_name_takes_the_tightest_run(
    busy: tuple[int, ...], count: int, nodes: tuple[int, ...]
) -> None:
    # Where no run has enough, the largest is taken whole, the rest from the tightest that has.
    scene = Scene(site(**BY_NAME), *_busy(*busy), job_at(1, 5, nodes=count)).until(10)
    assert scene.nodes(1) == nodes


def test_by_name_the_run_with_the_fewest_free_cpus_is_tightest() -> None:
    loads = [job_at(2, cpus=1, node_list=(0,)), job_at(3, cpus=3, node_list=(3,))]
    wall = [job_at(4, cpus=4, node_list=(2,))]
    scene = Scene(site(**SHARED), *loads, *wall, job_at(1, 5)).until(10)
    # Runs 0-1 with 3 + 4 free CPUs, and 3 with 1.
    assert scene.nodes(1) == (3,)


@pytest.mark.parametrize(("ask", "node"), [({"cpus": 1}, 0), ({"gpus": 1}, 3)])
def test_by_name_nodes_count_alike_for_a_job_that_asks_for_gpus(
    ask: dict[str, int], node: int
) -> None:
    loads = [job_at(2, cpus=3, node_list=(0,)), job_at(3, cpus=3, node_list=(1,))]
    wall = job_at(4, cpus=4, node_list=(2,))
    params = site(**SHARED, gpus_per_node=2)
    scene = Scene(params, *loads, wall, job_at(1, 5, **ask)).until(10)
    # The run 0-1 has two free CPUs, the run 3 four, but one node instead of two.
    assert scene.nodes(1) == (node,)


def test_a_pinned_job_takes_its_nodes_or_waits() -> None:
    scene = Scene(site(), job_at(1), job_at(2, 5, node_list=(0,)), job_at(3, 6, node_list=(3,)))
    assert scene.starts() == {1: 0, 2: 600, 3: 6}
    assert [scene.nodes(2), scene.nodes(3)] == [(0,), (3,)]


@pytest.mark.parametrize("outage", [Outage.DOWN, Outage.DRAIN])
def test_a_node_that_is_away_takes_no_jobs_until_it_returns(outage: Outage) -> None:
    events = (NodeEvent(T0, 0, outage), NodeEvent(T0 + 77, 0, Outage.RESUME))
    jobs = [job_at(1, nodes=4), job_at(2, 5, node_list=(0,), limit=10)]
    assert Scene(site(node_events=events), *jobs).starts() == {1: 77, 2: 677}


def test_jobs_of_a_drained_node_run_on() -> None:
    params = site(nodes=1, node_events=(NodeEvent(T0 + 9, 0, Outage.DRAIN),))
    scene = Scene(params, job_at(1), job_at(2, 5)).until(700)
    assert [scene.end(1), scene.start(2)] == [600, None]


def test_jobs_keep_out_of_a_reservation_that_their_limit_meets() -> None:
    kept = (Reservation(start=T0 + 1000, end=T0 + 2000, nodes=(0, 1)),)
    jobs = [
        job_at(1, limit=1000, node_list=(0,)),
        job_at(2, limit=1001, node_list=(1,)),
        job_at(3, nodes=2, limit=9000, run=100),
        job_at(4, 1999, node_list=(0,)),
    ]
    scene = Scene(site(reservations=kept), *jobs)
    assert scene.starts() == {1: 0, 2: 2000, 3: 0, 4: 2000}
    assert scene.nodes(3) == (2, 3)


def test_a_reservation_without_nodes_has_every_node() -> None:
    kept = (Reservation(start=T0 + 100, end=T0 + 300),)
    assert Scene(site(reservations=kept), job_at(1), job_at(2, limit=99)).starts() == {
        1: 300,
        2: 0,
    }


def test_a_job_keeps_to_its_partition() -> None:
    params = site(partitions=(Partition(nodes=(0, 1)), Partition(name="b", nodes=(1, 2))))
    scene = Scene(params, job_at(1, nodes=2), job_at(2, partition="b"), job_at(3, 1, partition="b"))
    assert scene.starts() == {1: 0, 2: 0, 3: 600}
    assert scene.nodes(2) == (2,)


def test_others_leave_a_requeued_job_the_nodes_that_it_asks_for() -> None:
    jobs = [
        job_at(1, node_list=(0,), nice=10**6),
        job_at(2, limit=300),
        job_at(3, 50, nodes=2, limit=500),
        job_at(4, 400),
    ]
    scene = Scene(site(nodes=2), *jobs).until(100)
    scene.sim.requeue(1)
    # 4 is ahead of 1 when 3 gives both nodes back, and takes the one that 1 does not want.
    assert scene.starts() == {1: 800, 2: 0, 3: 300, 4: 800}
