"""Bad input is counted and named, never a crash or a silent drop."""

from typing import Any

import pytest

from mirage.errors import ClusterRefused
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    Dependency,
    DependencyKind,
    Event,
    EventKind,
    NodeGroup,
    Partition,
    Qos,
    Reservation,
    SelectType,
    SimJob,
)
from tests.support.simulator.scenes import T0, Scene, job_at, site

PARTITIONS = (Partition(), Partition(name="few", nodes=(0, 1), max_time_s=900))
GROUPS = (NodeGroup(count=3, cpus=4), NodeGroup(count=1, cpus=8, memory_mib=100, gpus=2))
BAD: list[dict[str, Any]] = [
    {"run": -1},
    {"limit": 0},
    {"limit": -5},
    {"nodes": 0},
    {"nodes": -1},
    {"nodes": 5},
    {"partition": "nowhere"},
    {"qos": "nobody"},
    {"partition": "few", "nodes": 3},
    {"partition": "few", "limit": 901},
    {"cpus": 9},
    {"cpus": 5, "nodes": 2},
    {"gpus": 3},
    {"gpus": 1, "nodes": 2},
    {"gpus": 1, "partition": "few"},
    {"node_list": (0, 1)},
    {"node_list": (4,)},
    {"node_list": (-1,)},
    {"nodes": 2, "node_list": (1, 1)},
    {"node_list": (2,), "partition": "few"},
]


def rough_site() -> Any:
    return site(select_type=SelectType.CONS_TRES, partitions=PARTITIONS, node_groups=GROUPS)


@pytest.mark.parametrize("fault", BAD, ids=str)
def test_a_job_that_can_never_run_is_refused_counted_and_named(fault: dict[str, Any]) -> None:
    params = rough_site()
    workload = Workload.from_jobs(params, [job_at(1), job_at(2, 5, **fault), job_at(3, 6)])
    sim = Simulator(params, workload)
    events = sim.advance(T0 + 1000)
    named = [i for ids in workload.refused.values() for i in ids]
    refused = [e.job_id for e in events if e.kind is EventKind.REFUSED]
    assert 2 in (*named, *refused)
    assert all(reason for reason in workload.refused)
    record = sim.find(2)
    assert record is None or record.start is None
    others = [sim.find(i) for i in (1, 3)]
    assert [r.start - T0 for r in others if r is not None and r.start is not None] == [0, 6]


@pytest.mark.parametrize("fault", BAD, ids=str)
def test_the_same_job_is_refused_when_injected(fault: dict[str, Any]) -> None:
    scene = Scene(rough_site(), job_at(1)).until(5)
    with pytest.raises(ClusterRefused):
        scene.sim.inject(job_at(2, 5, **fault))
    assert scene.start(2) is None


def test_the_second_of_two_jobs_with_one_id_is_refused() -> None:
    workload = Workload.from_jobs(
        site(), [job_at(1, limit=60), job_at(1, 50, nodes=2), job_at(2, 60)]
    )
    assert sum(ids.count(1) for ids in workload.refused.values()) == 1
    assert any("taken" in reason for reason in workload.refused)
    sim = Simulator(site(), workload)
    sim.advance(T0 + 1000)
    record = sim.find(1)
    assert record is not None
    assert (record.start, record.job.nodes) == (T0, 1)


def test_an_id_that_is_taken_is_refused_at_injection() -> None:
    scene = Scene(site(), job_at(1)).until(5)
    with pytest.raises(ClusterRefused):
        scene.sim.inject(job_at(1, 5))


def test_one_job_too_many_for_its_user_is_told() -> None:
    params = site(qos=(Qos(max_submit_pu=1),))
    sim = Simulator(params, [job_at(1, user="u"), job_at(2, 5, user="u")])
    events = sim.advance(T0 + 10)
    assert Event(T0 + 5, EventKind.REFUSED, 2) in events
    assert Event(T0 + 5, EventKind.SUBMITTED, 2) not in events


def test_rows_may_come_in_any_order() -> None:
    jobs = [job_at(3, 20, nodes=4), job_at(1, 0), job_at(2, 10, nodes=4)]
    workload = Workload.from_jobs(site(), jobs)
    assert workload.job_id.tolist() == [1, 2, 3]
    assert workload.submit.tolist() == [T0, T0 + 10, T0 + 20]
    assert workload.refused == {}


def test_reservations_may_overlap() -> None:
    kept = (
        Reservation(start=T0 + 120, end=T0 + 720, nodes=(0, 1)),
        Reservation(start=T0 + 420, end=T0 + 1020, nodes=(1, 2)),
        Reservation(start=T0 + 420, end=T0 + 1020, nodes=(1, 2)),
    )
    jobs = [job_at(1, nodes=4), job_at(2, 5, nodes=2)]
    assert Scene(site(reservations=kept), *jobs).starts() == {1: 1020, 2: 1620}


def test_nobody_at_all_is_no_fault() -> None:
    sim = Simulator(site(), [], now=T0)
    assert sim.advance(T0 + 1000) == []
    assert sim.list_pending() == []


def test_nothing_known_is_refused_in_words() -> None:
    sim = Simulator(site(), [job_at(1)])
    sim.advance(T0)
    with pytest.raises(ClusterRefused, match=r"\w+ \w+"):
        sim.remove(77)


def test_a_job_that_depends_on_itself_or_on_nobody_harms_nobody() -> None:
    circle = tuple(Dependency(kind, 1) for kind in DependencyKind)
    nobody: SimJob = job_at(2, 5, dependencies=(Dependency(DependencyKind.AFTEROK, 0),))
    assert Scene(site(), job_at(1, dependencies=circle), nobody).starts()[2] == 5
