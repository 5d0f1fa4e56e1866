"""Instants, jobs and their order (docs/reference/simulator.md, sections 1 to 3), each by hand."""

from typing import Any

import pytest

from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    Dependency,
    DependencyKind,
    EventKind,
    NodeEvent,
    Outage,
    Partition,
    Qos,
    SelectType,
    SimJob,
    build_afterany,
)
from tests.support.simulator.jobs import build_planned_release
from tests.support.simulator.scenes import T0, Scene, job_at, site

KIND = DependencyKind


def full(until: int, job_id: int = 99) -> SimJob:
    """Holds the whole cluster from T0 for so long."""
    return job_at(job_id, nodes=4, limit=until, nice=-10_000)


# Instants


def test_the_main_pass_starts_a_job_the_second_it_comes() -> None:
    assert Scene(site(), job_at(1), job_at(2, 7)).starts() == {1: 0, 2: 7}


def test_backfill_waits_for_its_interval_and_does_not_delay_who_is_ahead() -> None:
    jobs = [job_at(1, nodes=3), job_at(2, 10, nodes=4), job_at(3, 15, limit=300), job_at(4, 16)]
    # 3 ends before 2's planned start at 600, so it may go ahead at 30; 4 would not, and waits.
    assert Scene(site(), *jobs).starts() == {1: 0, 2: 600, 3: 30, 4: 1200}


def test_backfill_is_due_at_multiples_of_its_interval() -> None:
    jobs = [job_at(1, nodes=3), job_at(2, 35, nodes=4), job_at(3, 36, limit=60)]
    assert Scene(site(), *jobs).starts() == {1: 0, 2: 600, 3: 60}


def test_a_job_of_no_length_ends_in_its_second_and_backfill_is_not_run_twice_then() -> None:
    jobs = [
        job_at(1, nodes=3),
        job_at(2, 10, nodes=4),
        job_at(3, 11, limit=60, run=0),
        job_at(4, 12, limit=60),
    ]
    scene = Scene(site(), *jobs)
    # The only free node is 3's at 30; the next backfill pass, at 60, gives it to 4.
    assert scene.starts() == {1: 0, 2: 600, 3: 30, 4: 60}
    assert scene.end(3) == 30


def test_without_a_change_no_pass_is_made() -> None:
    # One point a second up to 200: from 216 on 3 is ahead of 2, and a pass that tries one job
    # would start it. Nothing happens until 1 ends.
    one = site(
        priority_weight_age=200,
        priority_max_age_s=200,
        default_queue_depth=1,
        sched_interval_s=1200,
        bf_max_job_test=1,
    )
    jobs = [
        job_at(1, nodes=3, limit=1100),
        job_at(2, 10, nodes=4),
        job_at(3, 20, limit=60, nice=-5),
    ]
    assert Scene(one, *jobs).starts() == {1: 0, 2: 1160, 3: 1100}


def test_a_node_fails_before_its_job_ends_in_the_same_second() -> None:
    down = site(node_events=(NodeEvent(T0 + 600, 0, Outage.DOWN),))
    scene = Scene(down, job_at(1, requeue=False), job_at(2, nodes=3))
    scene.until(700)
    assert [scene.state(1), scene.state(2)] == ["NODE_FAIL", "TIMEOUT"]


def test_jobs_of_a_lost_node_end_in_the_order_of_their_ids() -> None:
    params = site(
        select_type=SelectType.CONS_TRES, node_events=(NodeEvent(T0 + 100, 0, Outage.DOWN),)
    )
    on_it: dict[str, Any] = {"cpus": 1, "node_list": (0,), "requeue": False}
    # The one with the higher id has run for longer.
    simulator = Simulator(
        params, [job_at(9, **on_it), job_at(3, 5, **on_it), job_at(5, 7, **on_it)]
    )
    told = simulator.advance(T0 + 200)
    assert [e.job_id for e in told if e.kind is EventKind.ENDED] == [3, 5, 9]


@pytest.mark.parametrize(("cancel_at", "start"), [(600, None), (601, 600)])
def test_a_waiting_job_is_cancelled_before_that_second_s_passes(
    cancel_at: int, start: int | None
) -> None:
    scene = Scene(site(), full(600), job_at(1, 5, cancel_at=cancel_at))
    assert scene.starts()[1] == start
    assert scene.state(1) == ("CANCELLED" if start is None else "TIMEOUT")


def test_a_job_cancelled_at_or_before_submission_never_starts() -> None:
    scene = Scene(site(), job_at(1), job_at(2, 10, cancel_at=10), job_at(3, 20, cancel_at=5))
    assert scene.starts() == {1: 0, 2: None, 3: None}
    assert [scene.end(2), scene.end(3)] == [10, 20]


# Jobs


@pytest.mark.parametrize(
    ("run", "fails", "state"),
    [
        (599, False, "COMPLETED"),
        (599, True, "FAILED"),
        (600, True, "TIMEOUT"),
        (9999, False, "TIMEOUT"),
    ],
)
def test_how_a_job_ends(run: int, fails: bool, state: str) -> None:
    scene = Scene(site(), job_at(1, run=run, fails=fails)).until(700)
    assert (scene.end(1), scene.state(1)) == (min(run, 600), state)


@pytest.mark.parametrize(
    ("kind", "target", "start"),
    [
        (KIND.AFTER, {"run": 100}, 50),
        (KIND.AFTERANY, {"run": 100}, 150),
        (KIND.AFTEROK, {"run": 100}, 150),
        (KIND.AFTERNOTOK, {"run": 100}, None),
        (KIND.AFTERANY, {"run": 100, "fails": True}, 150),
        (KIND.AFTEROK, {"run": 100, "fails": True}, None),
        (KIND.AFTERNOTOK, {"run": 100, "fails": True}, 150),
        (KIND.AFTEROK, {"run": 600}, None),
        (KIND.AFTERNOTOK, {"run": 600}, 650),
        (KIND.AFTER, {"cancel_at": 40}, 40),
        (KIND.AFTERANY, {"cancel_at": 40}, 40),
        (KIND.AFTEROK, {"cancel_at": 40}, None),
        (KIND.AFTERNOTOK, {"cancel_at": 40}, 40),
    ],
)
def test_when_a_dependency_is_met(
    kind: DependencyKind, target: dict[str, int], start: int | None
) -> None:
    begin = {} if "cancel_at" in target else {"begin": 50}
    waits = {"held": True} if "cancel_at" in target else {}
    dependent = job_at(2, dependencies=(Dependency(kind, 1),))
    scene = Scene(site(), job_at(1, **target, **begin, **waits), dependent)
    assert scene.starts()[2] == start


@pytest.mark.parametrize("kind", list(KIND))
def test_a_dependency_on_a_job_not_in_the_queue_is_met(kind: DependencyKind) -> None:
    later = job_at(7, 500)
    assert Scene(site(), job_at(1, dependencies=(Dependency(kind, 7),)), later).starts()[1] == 0


def test_all_dependencies_must_be_met() -> None:
    both = (*build_afterany(1), *build_afterany(2))
    jobs = [job_at(1, run=100), job_at(2, run=200), job_at(3, dependencies=both)]
    assert Scene(site(), *jobs).starts()[3] == 200


def test_of_dependencies_with_question_marks_one_is_enough() -> None:
    first_two = (*build_afterany(1), *build_afterany(2))
    jobs = [
        job_at(1, run=100),
        job_at(2, run=200),
        job_at(3, dependencies=first_two, any_dependency=True),
    ]
    assert Scene(site(), *jobs).starts()[3] == 100
    gone = (*build_afterany(1), *build_afterany(77))
    jobs = [job_at(1), job_at(2, dependencies=gone, any_dependency=True)]
    assert Scene(site(), *jobs).starts()[2] == 0


@pytest.mark.parametrize(
    ("target", "delay_s", "start"),
    [
        ({"run": 500}, 300, 350),
        ({"run": 200}, 300, 250),
        ({"run": 500, "limit": 300}, 300, 350),
        ({"run": 500}, 0, 50),
        ({"held": True, "cancel_at": 120}, 300, 120),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_a_planned_release_comes_so_long_after_the_start_or_with_the_end(
    target: dict[str, Any], delay_s: int, start: int, *, alone: bool
) -> None:
    """`after` with a delay alone, and beside `afterany` as a link with a plan has it."""
    waits = build_planned_release(1, delay_s)[alone:]
    dependent = job_at(2, dependencies=waits, any_dependency=not alone)
    scene = Scene(site(), job_at(1, begin=50, **target), dependent)
    assert scene.starts()[2] == start


def test_a_target_that_is_requeued_before_its_planned_release_counts_anew() -> None:
    down = site(node_events=(NodeEvent(T0 + 100, 0, Outage.DOWN),))
    dependent = job_at(2, dependencies=build_planned_release(1, 200), any_dependency=True)
    scene = Scene(down, job_at(1), dependent)
    assert scene.starts() == {1: 220, 2: 420}


def test_after_a_planned_release_a_requeue_changes_nothing() -> None:
    full = job_at(3, at=60, nodes=3)
    dependent = job_at(2, dependencies=build_planned_release(1, 50), any_dependency=True)
    scene = Scene(site(), job_at(1, run=500), full, dependent).until(70)
    assert scene.start(2) == 50
    scene.sim.requeue(1)
    assert scene.until(80).state(2) == "RUNNING"


def test_begin_is_waited_for() -> None:
    assert Scene(site(), job_at(1, begin=77), job_at(2, 9, begin=3)).starts() == {1: 77, 2: 9}


def test_a_requeued_job_waits_two_minutes_runs_whole_again_and_is_not_cancelled() -> None:
    down = site(node_events=(NodeEvent(T0 + 100, 0, Outage.DOWN),))
    scene = Scene(
        down, job_at(1, run=300, cancel_at=150), job_at(2, dependencies=build_afterany(1))
    )
    assert scene.until(219).state(1) == "PENDING"
    assert scene.starts() == {1: 220, 2: 520}
    assert scene.nodes(1) == (1,)


def test_a_held_job_waits_for_its_release() -> None:
    scene = Scene(site(), job_at(1, held=True)).until(500)
    assert scene.start(1) is None
    scene.sim.release(1)
    assert scene.starts() == {1: 500}


# Order


@pytest.mark.parametrize(
    ("settings", "one", "two", "order"),
    [
        ({}, {}, {"at": 11}, [1, 2]),
        ({"priority_weight_job_size": 100}, {}, {"nodes": 2, "at": 10}, [2, 1]),
        (
            {"priority_weight_job_size": 100, "priority_favor_small": True},
            {"nodes": 2},
            {"at": 10},
            [2, 1],
        ),
        ({}, {"nice": 100}, {"at": 10}, [2, 1]),
        ({"priority_weight_partition": 100}, {}, {"partition": "b", "at": 10}, [2, 1]),
        ({"priority_weight_qos": 100}, {}, {"qos": "y", "at": 10}, [2, 1]),
        ({}, {"nice": -5000}, {"partition": "tier", "at": 10}, [2, 1]),
        ({"priority_max_age_s": 50}, {}, {"at": 20}, [1, 2]),
        ({"priority_max_age_s": 50}, {"nice": 1}, {"at": 20}, [2, 1]),
        ({}, {"nice": 1}, {"at": 20}, [2, 1]),
        ({}, {"begin": 20}, {"at": 10}, [2, 1]),
        ({"accrue_always": True}, {"begin": 20}, {"at": 10}, [1, 2]),
        ({"priority_weight_age": 0}, {"at": 5}, {}, [1, 2]),
    ],
)
def test_who_is_ahead_in_the_queue(
    settings: dict[str, object],
    one: dict[str, int],
    two: dict[str, int],
    order: list[int],
) -> None:
    partitions = (Partition(), Partition(name="b", priority_job_factor=2))
    tier = Partition(name="tier", priority_tier=2)
    qos = (Qos(name="x"), Qos(name="y", priority=1))
    params = site(partitions=(*partitions, tier), qos=qos, **settings)
    assert Scene(params, full(600), job_at(1, **one), job_at(2, **two)).until(100).order() == order


def test_a_hold_takes_a_job_s_age() -> None:
    scene = Scene(site(), full(600), job_at(1, 5), job_at(2, 10)).until(50)
    scene.sim.hold(1)
    assert scene.order() == [2]
    scene.until(60).sim.release(1)
    assert scene.until(100).order() == [2, 1]


def test_a_real_job_has_the_priority_it_came_with() -> None:
    given = site(priority_weight_age=0, priority_weight_fairshare=1000)
    jobs = [full(600), job_at(1, priority=900), job_at(2), job_at(3, priority=1500)]
    # 2 has 1000: its fair share before the first tick.
    assert Scene(given, *jobs).until(100).order() == [3, 2, 1]
