"""A simulator stood up from what a cluster shows."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Node, Queue, Snapshot
from mirage.domain.timelimit import UNLIMITED
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.observation import feature_vector
from mirage.observation.running_stats import RunningStats
from mirage.simulator.from_queue import build_queue_simulator
from mirage.simulator.types import Params, Partition, Qos, SelectType
from tests.integration.observation.test_feature_vector import SITES
from tests.support.jobs import make_job
from tests.support.observation.groups import get_group_slice
from tests.support.observation.scene import (
    BEGIN,
    HOUR,
    add_requests,
    generate_jobs,
    make_handover_input,
    play_jobs,
)
from tests.support.simulator.views import list_free_nodes, list_pending_ids

NOW = BEGIN


_job = partial(
    make_job,
    submit=NOW - 600,
    eligible=NOW - 500,
    user="bob",
    partition="gpu",
    priority=100,
    time_limit_s=HOUR,
)


def _nodes(states: str) -> tuple[Node, ...]:
    given: dict[str, Any] = {"partitions": ("gpu",), "cpus": 4, "cpus_used": 0}
    given |= {"gpus": 0, "gpus_used": 0}
    words = {"i": "idle", "d": "down", "a": "allocated"}
    return tuple(
        Node(
            name=f"n{i}",
            partitions=("gpu",),
            state=words[s],
            cpus=4,
            cpus_used=0,
            gpus=0,
            gpus_used=0,
        )
        for i, s in enumerate(states)
    )


SMALL = Params(nodes=4, cpus_per_node=4, gpus_per_node=0)


def _make_running_job(job_id: int, node_list: str, **fields: Any) -> Job:
    given = {"start": NOW - 1800, "eligible": NOW - 3600, "nodes": 1} | fields
    return _job(job_id, JobState.RUNNING, node_list=node_list, **given)


def test_running_jobs_stand_on_their_nodes_since_their_start() -> None:
    queue = Queue.from_jobs(
        NOW, [_make_running_job(1, "n[1-2]", nodes=2), _make_running_job(2, "n0")]
    )
    simulator = build_queue_simulator(SMALL, queue, _nodes("aaai")).simulator
    first, second = simulator.find(1), simulator.find(2)
    assert first is not None
    assert second is not None
    assert (first.start, first.allocated) == (NOW - 1800, (1, 2))
    assert second.allocated == (0,)
    assert list_free_nodes(simulator) == (3,)


def test_a_running_job_ends_at_its_limit() -> None:
    simulator = build_queue_simulator(
        SMALL, Queue.from_jobs(NOW, [_make_running_job(1, "n0")]), _nodes("aiii")
    ).simulator
    simulator.advance(NOW + 1799)
    assert len(simulator.list_running()) == 1
    simulator.advance(NOW + 1800)
    assert len(simulator.list_running()) == 0


def test_a_running_job_on_nodes_of_no_known_name_takes_free_ones() -> None:
    queue = Queue.from_jobs(
        NOW, [_make_running_job(1, "x[7-8]", nodes=2), _make_running_job(2, "n0")]
    )
    stood = build_queue_simulator(SMALL, queue, _nodes("aiii"))
    assert stood.reasons == {}
    assert list_free_nodes(stood.simulator) == (3,)


def test_jobs_that_do_not_fit_are_named() -> None:
    queue = Queue.from_jobs(
        NOW, [_make_running_job(i, "", nodes=2) for i in (1, 2, 3)] + [_job(4, nodes=9)]
    )
    stood = build_queue_simulator(SMALL, queue)
    assert set(stood.reasons) == {3, 4}
    assert all(stood.reasons.values())
    assert [r.job_id for r in stood.simulator.list_running()] == [1, 2]


def test_pending_jobs_stand_in_slurms_order() -> None:
    jobs = [_job(i, priority=p) for i, p in ((1, 50), (2, 300), (3, 200), (4, 300))]
    simulator = build_queue_simulator(SMALL, Queue.from_jobs(NOW, jobs)).simulator
    assert list_pending_ids(simulator) == [2, 4, 3, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": 0},
        {"eligible": None, "dependency": "afterany:1(unfulfilled)"},
        {"eligible": NOW + 60},
        {"eligible": None, "dependency": "singleton(unfulfilled)"},
        {"eligible": None},
    ],
    ids=["held", "dependent", "begins later", "a list not understood", "for no known reason"],
)
def test_a_job_that_is_not_eligible_does_not_stand_in_line(fields: dict[str, Any]) -> None:
    queue = Queue.from_jobs(NOW, [_make_running_job(1, "n0"), _job(2, **fields)])
    simulator = build_queue_simulator(SMALL, queue, _nodes("aiii")).simulator
    simulator.advance(NOW + 30)
    assert [r.job_id for r in simulator.list_pending()] == [2]
    assert list_pending_ids(simulator) == []


def test_a_dependent_job_goes_on_when_its_target_ends() -> None:
    waits: dict[str, Any] = {"eligible": None, "dependency": "afterany:1(unfulfilled)"}
    queue = Queue.from_jobs(NOW, [_make_running_job(1, "n0"), _job(2, **waits)])
    simulator = build_queue_simulator(SMALL, queue, _nodes("aiii")).simulator
    assert simulator.run_until_started(2) == NOW + 1800


def test_nothing_starts_on_a_node_that_is_down() -> None:
    simulator = build_queue_simulator(
        SMALL, Queue.from_jobs(NOW, [_job(1, nodes=2)]), _nodes("diii")
    ).simulator
    simulator.advance(NOW)
    assert [r.allocated for r in simulator.list_running()] == [(1, 2)]


def test_no_time_limit_is_none() -> None:
    simulator = build_queue_simulator(
        SMALL, Queue.from_jobs(NOW, [_job(1, time_limit_s=None)])
    ).simulator
    assert simulator.list_pending()[0].job.time_limit_s == UNLIMITED


def test_names_that_the_cluster_file_does_not_have_are_its_first() -> None:
    params = replace(
        SMALL, partitions=(Partition(name="a"), Partition(name="b")), qos=(Qos(name="q"),)
    )
    queue = Queue.from_jobs(
        NOW, [_job(1, partition="gpu,b", qos="long"), _job(2, partition="gpu", qos="q")]
    )
    stood = build_queue_simulator(params, queue)
    jobs = {r.job_id: r.job for r in stood.simulator.list_pending()}
    assert (jobs[1].partition, jobs[1].qos) == ("b", "")
    assert (jobs[2].partition, jobs[2].qos) == ("", "q")


def test_a_limit_on_submissions_is_not_asked_of_jobs_that_slurm_has_taken() -> None:
    params = replace(SMALL, qos=(Qos(max_submit_pu=1),))
    assert build_queue_simulator(params, Queue.from_jobs(NOW, [_job(1), _job(2)])).reasons == {}


def test_on_shared_nodes_each_node_gives_its_part() -> None:
    params = replace(SMALL, select_type=SelectType.CONS_TRES)
    queue = Queue.from_jobs(NOW, [_make_running_job(1, "n[0-1]", nodes=2, cpus=6)])
    simulator = build_queue_simulator(params, queue, _nodes("aaii")).simulator
    assert [simulator.get_node_use(i)[0] for i in range(4)] == [3, 3, 0, 0]


@pytest.mark.parametrize("site", SITES)
def test_the_stand_in_plans_what_the_cluster_plans(site: str) -> None:
    """Priorities come in whole points, so that near-equal ones may stand the other way round."""
    params, same, count = SITES[site], 0, 0
    for hours in (10, 20, 30, 40):
        at = BEGIN + hours * HOUR + 7
        cluster = SimulatedCluster(params, add_requests(generate_jobs(hours), params), now=BEGIN)
        cluster.advance(at - BEGIN)
        planned = cluster.simulator.compute_planned_starts()
        stood = build_queue_simulator(params, cluster.fetch_queue(), cluster.fetch_nodes())
        found = stood.simulator.compute_planned_starts()
        assert stood.reasons == {}
        count += len(planned)
        near = params.bf_resolution_s
        same += sum(abs(found.get(i, 0) - at) <= near for i, at in planned.items())
    assert count > 40
    assert same / count >= 0.9


@pytest.mark.parametrize("site", SITES)
def test_an_observation_of_a_snapshot_is_that_of_its_simulator(site: str) -> None:
    """All but the plans, which the test above is about, byte for byte."""
    params, at = SITES[site], BEGIN + 30 * HOUR + 7
    jobs = add_requests(generate_jobs(3), params)
    simulator, memory = play_jobs(jobs, at, params)
    cluster = SimulatedCluster(params, jobs, now=BEGIN)
    cluster.advance(at - BEGIN)
    told = RunningStats.from_accounting(cluster.fetch_history(0, at + 1), at, memory.utc_offset_s)
    snapshot = Snapshot(queue=cluster.fetch_queue(), nodes=cluster.fetch_nodes())
    observer = feature_vector.SnapshotObserver(snapshot, params, told)
    live = observer.observe_link(make_handover_input(at))
    simulated = feature_vector.observe_simulator(simulator, make_handover_input(at), memory)
    plans = get_group_slice("plan")
    assert live[: plans.start].tobytes() == simulated[: plans.start].tobytes()
    assert np.isfinite(live).all()


def test_gpus_that_are_not_known_leave_no_room_on_their_nodes() -> None:
    shared = replace(SMALL, gpus_per_node=4, select_type=SelectType.CONS_TRES)
    jobs = [
        _make_running_job(1, "n0", cpus=1, gpus=None),
        *(_make_running_job(n + 1, f"n{n}", cpus=4) for n in (1, 2, 3)),
        _job(9, JobState.PENDING, cpus=1, gpus=1),
    ]
    for known, start in ((None, NOW + 1800), (1, NOW)):
        queue = Queue.from_jobs(NOW, [replace(jobs[0], gpus=known), *jobs[1:]])
        simulator = build_queue_simulator(shared, queue, _nodes("aaaa")).simulator
        simulator.advance(NOW + 2 * HOUR)
        found = simulator.find(9)
        assert found is not None
        assert found.start is not None
        assert abs(found.start - start) <= shared.bf_interval_s
