"""The two passes, the plan and the moves (docs/reference/simulator.md, 6 to 8), each by hand."""

import pytest

from mirage.errors import ClusterRefused
from mirage.simulator.types import (
    Dependency,
    DependencyKind,
    Outage,
    Partition,
    Reservation,
    SelectType,
    build_afterany,
)
from tests.support.simulator.jobs import build_planned_release
from tests.support.simulator.scenes import T0, Scene, job_at, site

HALVES = (Partition(nodes=(0, 1)), Partition(name="b", nodes=(2, 3)))
"""Planning is by name with these."""
NO_BACKFILL = {"bf_interval_s": 7200}
FAR = 6000
"""The first backfill pass with NO_BACKFILL: T0 + FAR is a multiple of 7200."""

# The main pass


def test_a_job_that_cannot_start_closes_its_partition_only() -> None:
    jobs = [
        job_at(1),
        job_at(2, 5, nodes=2),
        job_at(3, 6, limit=60),
        job_at(4, 7, partition="b"),
    ]
    params = site(partitions=HALVES, **NO_BACKFILL)
    assert Scene(params, *jobs).starts() == {1: 0, 2: 600, 3: 1200, 4: 7}


def test_a_closed_partition_s_nodes_are_closed_to_those_that_share_them() -> None:
    partitions = (Partition(nodes=(0, 1)), Partition(name="b", nodes=(1, 2)))
    params = site(partitions=partitions, nodes=3, **NO_BACKFILL)
    jobs = [
        job_at(1),
        job_at(2, 5, nodes=2),
        job_at(3, 6, nodes=2, partition="b"),
        job_at(4, 7, partition="b"),
    ]
    # 2 keeps node 1 for itself; so 3 cannot start, and closes b for 4 though node 2 is free.
    assert Scene(params, *jobs).starts() == {1: 0, 2: 600, 3: 1200, 4: 1800}


def test_a_pinned_job_that_cannot_start_keeps_its_nodes_and_closes_nothing() -> None:
    jobs = [
        job_at(1, node_list=(0,)),
        job_at(2, 5, nodes=2, node_list=(0, 1)),
        job_at(3, 6, nodes=2),
        job_at(4, 7),
    ]
    assert Scene(site(**NO_BACKFILL), *jobs).starts() == {1: 0, 2: 600, 3: 6, 4: 606}


def test_between_its_intervals_the_main_pass_makes_few_attempts() -> None:
    params = site(partitions=HALVES, default_queue_depth=1, sched_interval_s=60, **NO_BACKFILL)
    jobs = [job_at(1, nodes=2), job_at(2, 5, nodes=2), job_at(3, 10, partition="b")]
    # At 10 the one attempt is 2's; the pass that this bound makes due has no bound.
    assert Scene(params, *jobs).starts() == {1: 0, 2: 600, 3: 60}


def test_a_job_over_its_limits_is_no_attempt() -> None:
    params = site(default_queue_depth=1, max_jobs_pu=1, **NO_BACKFILL)
    jobs = [job_at(1, user="u"), job_at(2, 5, user="u"), job_at(3, 10, user="v")]
    assert Scene(params, *jobs).starts() == {1: 0, 2: 600, 3: 10}


def test_a_job_of_a_closed_partition_is_no_attempt() -> None:
    params = site(partitions=HALVES, default_queue_depth=2, **NO_BACKFILL)
    jobs = [
        job_at(1, nodes=2),
        job_at(2, 5),
        job_at(3, 5),
        job_at(4, 5),
        job_at(5, 10, partition="b"),
    ]
    assert Scene(params, *jobs).starts()[5] == 10


def test_who_becomes_eligible_in_a_pass_waits_for_the_next() -> None:
    jobs = [
        job_at(1, nodes=4),
        job_at(2, 5, nodes=3),
        job_at(3, 6, limit=60),
        job_at(4, 7, nice=-9, dependencies=(Dependency(DependencyKind.AFTER, 2),)),
    ]
    # At 600, 2 starts and frees 4, which would be ahead of 3: but this pass's order has no 4.
    assert Scene(site(**NO_BACKFILL), *jobs).starts() == {1: 0, 2: 600, 3: 600, 4: 660}


# Backfill by number


def test_what_lies_beyond_the_window_is_not_waited_for() -> None:
    jobs = [job_at(1, nodes=3, limit=3600), job_at(2, 10, nodes=4), job_at(3, 15, limit=5000)]
    assert Scene(site(), *jobs).starts()[3] == 4200
    assert Scene(site(bf_window_s=600), *jobs).starts()[3] == 30


@pytest.mark.parametrize(("grid", "start"), [(60, 30), (1, 1201)])
def test_ends_are_rounded_up_to_the_resolution(grid: int, start: int) -> None:
    # 1 ends at 601, on the grid at 660; 3 would end at 650, on the grid at 660: it delays nobody.
    jobs = [job_at(1, nodes=3, limit=601), job_at(2, 10, nodes=4), job_at(3, 15, limit=620)]
    assert Scene(site(bf_resolution_s=grid), *jobs).starts()[3] == start


def test_only_so_many_jobs_are_tested() -> None:
    jobs = [job_at(1, nodes=3), job_at(2, 10, nodes=4), job_at(3, 15, limit=60)]
    assert Scene(site(bf_max_job_test=2), *jobs).starts()[3] == 30
    assert Scene(site(bf_max_job_test=1), *jobs).starts()[3] == 1200


def test_only_so_many_jobs_of_a_user_are_tested() -> None:
    jobs = [
        job_at(1, nodes=3, limit=6000),
        job_at(2, 10, nodes=4, user="u"),
        job_at(3, 11, limit=60, user="u", account="another"),
        job_at(4, 12, limit=60, user="v"),
    ]
    starts = Scene(site(bf_max_job_user=1), *jobs).starts()
    assert [starts[3], starts[4]] == [6600, 30]


def test_jobs_over_their_limits_are_no_tests_and_have_no_plan() -> None:
    params = site(max_jobs_pu=1, bf_max_job_test=2)
    jobs = [
        job_at(1, nodes=3, user="u"),
        job_at(2, 10, user="u"),
        job_at(3, 11, nodes=4, user="v"),
        job_at(4, 12, limit=60, user="w"),
    ]
    scene = Scene(params, *jobs).until(29)
    assert scene.plans() == {3: 600, 4: 29}
    assert scene.starts()[4] == 30


def test_the_plan_by_number() -> None:
    jobs = [
        job_at(1, nodes=2, limit=590),
        job_at(2, nodes=1, limit=1000),
        job_at(3, 5, nodes=3),
        job_at(4, 6, nodes=4),
        job_at(5, 7, nodes=1, limit=560),
        job_at(6, 8, nodes=1, limit=620),
    ]
    scene = Scene(site(), *jobs).until(29)
    # 3 at 600, where 590 lies on the grid, till 1200; 4 at 1200 till 1800; 5 ends at 589, in time;
    # 6 would need the node till 660, which 3 and 2 hold: after 4.
    assert scene.plans() == {3: 600, 4: 1200, 5: 29, 6: 1800}


def test_a_pinned_job_is_planned_at_the_end_of_the_jobs_on_its_nodes() -> None:
    jobs = [
        job_at(1, node_list=(0,), limit=590),
        job_at(2, node_list=(1,), limit=1000),
        job_at(3, 5, nodes=2, node_list=(0, 1)),
        job_at(4, 6, node_list=(0,), limit=60),
    ]
    assert Scene(site(), *jobs).until(29).plans() == {3: 1020, 4: 600}


def test_a_pinned_job_whose_node_this_pass_gives_away_or_which_is_down_has_no_plan() -> None:
    jobs = [
        job_at(1, nodes=3, node_list=(0, 1, 2)),
        job_at(2, 5, nodes=4),
        job_at(3, 6, limit=60),
        job_at(4, 7, node_list=(3,), limit=30),
        job_at(5, 8, node_list=(2,), limit=60),
    ]
    scene = Scene(site(), *jobs).until(29)
    assert scene.plans() == {2: 600, 3: 29, 5: 1200}
    scene.sim.set_node(2, Outage.DRAIN)
    assert 5 not in scene.plans()


# Backfill by name


def test_a_plan_by_name_keeps_its_own_nodes_only() -> None:
    partitions = (Partition(), Partition(name="b", nodes=(2, 3)))
    jobs = [
        job_at(1, nodes=2, node_list=(0, 1)),
        job_at(2, 5, nodes=3, node_list=(0, 1, 2)),
        job_at(3, 6, partition="b", limit=900),
    ]
    # 2 is planned on node 2 at 600: 3 fits beside it on node 3 for as long as it likes.
    scene = Scene(site(partitions=partitions), *jobs)
    assert scene.starts() == {1: 0, 2: 600, 3: 6}
    assert scene.nodes(3) == (3,)


def test_ends_within_half_a_minute_count_as_the_last() -> None:
    jobs = [
        job_at(1, node_list=(0,), limit=601),
        job_at(2, node_list=(1,), limit=631),
        job_at(3, 5, nodes=2, node_list=(0, 1)),
        job_at(4, 6, node_list=(0,), limit=60),
    ]
    plans = Scene(site(partitions=HALVES), *jobs).until(29).plans()
    # 3's plan keeps its nodes from 600 to 1200: both its ends are rounded down.
    assert plans == {3: 631, 4: 1200}


def test_by_name_what_a_pass_gives_is_given() -> None:
    partitions = (Partition(), Partition(name="b", nodes=(3,)))
    jobs = [
        job_at(1, nodes=3, node_list=(0, 1, 2)),
        job_at(2, 5, nodes=4),
        job_at(3, 6, limit=60),
        job_at(4, 7, limit=60),
    ]
    starts = Scene(site(partitions=partitions), *jobs).starts()
    assert starts == {1: 0, 2: 600, 3: 30, 4: 90}


@pytest.mark.parametrize(("limit", "start"), [(570, 29), (571, 1200)])
def test_a_plan_s_start_is_rounded_down_where_it_keeps_its_nodes(limit: int, start: int) -> None:
    partitions = (Partition(), Partition(name="b", nodes=(2,)))
    jobs = [
        job_at(1, nodes=2, limit=631),
        job_at(2, 5, nodes=3, node_list=(0, 1, 2)),
        job_at(3, 6, partition="b", limit=limit),
    ]
    plans = Scene(site(partitions=partitions), *jobs).until(29).plans()
    # 2 is planned at 631 and keeps node 2 from 600 on, to 1200.
    assert plans == {2: 631, 3: start}


@pytest.mark.parametrize(("window", "plans"), [(970, {}), (971, {2: 1000})])
def test_by_name_nothing_is_planned_beyond_the_window(window: int, plans: dict[int, int]) -> None:
    params = site(partitions=HALVES, bf_window_s=window)
    jobs = [job_at(1, nodes=2, limit=1000), job_at(2, 5)]
    assert Scene(params, *jobs).until(29).plans() == plans


def test_a_plan_whose_nodes_a_reservation_takes_is_made_again_from_its_start() -> None:
    kept = (Reservation(start=T0 + 720, end=T0 + 5040, nodes=(0,)),)
    params = site(partitions=HALVES, reservations=kept)
    jobs = [job_at(1, nodes=2), job_at(2, 5, limit=300), job_at(3, 6, limit=100, node_list=(0,))]
    # For 2, node 0 would be chosen at 600, which is reserved from 720 on: seen from 600, it has 1.
    assert Scene(params, *jobs).until(29).plans() == {2: 600, 3: 600}


@pytest.mark.parametrize(
    ("first", "starts"),
    [
        # Counted from 630: 601 is looked at, 661 is beyond 30 s, 700 beyond 60 s, 745 within 120 s.
        (601, (601, 661, 745)),
        # Counted from 600: 661 is beyond 60 s, 700 within 120 s, 745 beyond.
        (599, (599, 700, 700)),
    ],
)
def test_the_further_away_ends_are_the_fewer_are_looked_at(
    first: int, starts: tuple[int, ...]
) -> None:
    partitions = (Partition(), Partition(name="b", nodes=(3,)))
    limits = (first, 661, 700, 745)
    busy = [job_at(n + 1, limit=limit, node_list=(n,)) for n, limit in enumerate(limits)]
    for count, start in enumerate(starts, 1):
        scene = Scene(site(partitions=partitions), *busy, job_at(9, 5, nodes=count)).until(29)
        assert scene.plans() == {9: start}


def test_a_reservation_beyond_the_window_is_kept_free_too() -> None:
    kept = (Reservation(start=T0 + 1000, end=T0 + 2000, nodes=(1,)),)
    params = site(partitions=HALVES, reservations=kept, bf_window_s=300)
    jobs = [job_at(1, limit=100), job_at(2, 5, limit=5000)]
    scene = Scene(params, *jobs)
    assert scene.starts() == {1: 0, 2: 100}
    assert scene.nodes(2) == (0,)


def test_a_plan_later_than_the_next_map_looks_at_that_map_s_nodes() -> None:
    kept = (Reservation(start=T0 + 180, end=T0 + 480, nodes=(0,)),)
    params = site(partitions=HALVES, reservations=kept)
    jobs = [
        job_at(1, node_list=(1,)),
        job_at(9, node_list=(0,), limit=60),
        job_at(2, 5, limit=300),
        job_at(3, 6, limit=300, node_list=(1,)),
    ]
    # Seen from now, 2 may only have node 1; from 480 on node 0 too, which is free: 2 goes there.
    assert Scene(params, *jobs).until(29).plans() == {2: 480, 3: 600}


def test_a_plan_by_name_goes_round_a_reservation() -> None:
    kept = (Reservation(start=T0 + 1020, end=T0 + 1980, nodes=(0, 1)),)
    jobs = [
        job_at(1, nodes=4, limit=500, run=400),
        job_at(2, 5, nodes=3, limit=500),
        job_at(3, 6, nodes=3, limit=600),
        job_at(4, 7, nodes=2, limit=900),
    ]
    scene = Scene(site(reservations=kept), *jobs).until(29)
    # 2 keeps nodes 0 to 2 till 960, rounded down; 4 then has 2 and 3 beside the reservation.
    assert scene.plans() == {2: 500, 3: 1980, 4: 960}


def test_shared_nodes_are_planned_by_what_is_left_of_them() -> None:
    params = site(nodes=1, select_type=SelectType.CONS_TRES)
    jobs = [
        job_at(1, cpus=3, limit=600),
        job_at(2, 5, cpus=4, limit=600),
        job_at(3, 6, cpus=1, limit=560),
        job_at(4, 7, cpus=1, limit=9000),
    ]
    scene = Scene(params, *jobs).until(29)
    # 3 goes beside 1 and is away at 589; 4 would be in 2's way, and a plan keeps whole nodes.
    assert scene.plans() == {2: 600, 3: 29, 4: 1200}


# Moves


def test_scancel_frees_the_nodes_at_once() -> None:
    scene = Scene(site(), job_at(1, nodes=4), job_at(2, 5)).until(50)
    scene.sim.remove(1)
    assert scene.starts() == {1: 0, 2: 50}
    assert [scene.state(1), scene.end(1)] == ["CANCELLED", 50]


def test_scancel_of_a_waiting_job_lets_those_behind_it_start() -> None:
    scene = Scene(site(), job_at(1, nodes=3), job_at(2, 5, nodes=4), job_at(3, 6)).until(50)
    scene.sim.remove(2)
    assert scene.starts() == {1: 0, 2: None, 3: 50}


def test_new_dependencies_take_and_give_eligibility() -> None:
    scene = Scene(site(), job_at(1, nodes=4), job_at(2, 5), job_at(3, 6, limit=300)).until(50)
    scene.sim.set_dependencies(2, build_afterany(3))
    assert scene.until(700).starts() == {1: 0, 2: 900, 3: 600}


def test_a_planned_release_is_moved_both_ways_and_taken_back() -> None:
    jobs = [job_at(1), job_at(2, dependencies=build_planned_release(1, 300), any_dependency=True)]
    scene = Scene(site(), *jobs).until(50)
    scene.sim.set_dependencies(2, build_planned_release(1, 500), any_of=True)
    assert scene.until(400).start(2) is None
    scene.sim.set_dependencies(2, build_planned_release(1, 450), any_of=True)
    assert scene.until(420).start(2) is None
    scene.sim.set_dependencies(2, build_afterany(1))
    assert scene.until(500).start(2) is None
    scene.sim.set_dependencies(2, build_planned_release(1, 300), any_of=True)
    assert scene.starts()[2] == 500


def test_a_running_job_can_be_requeued() -> None:
    scene = Scene(site(), job_at(1, run=300)).until(50)
    scene.sim.requeue(1)
    assert scene.starts() == {1: 170}
    assert scene.end(1) == 470


def test_a_job_can_be_pinned_and_unpinned() -> None:
    scene = Scene(site(), job_at(1), job_at(2, held=True)).until(50)
    scene.sim.set_node_list(2, (0,))
    scene.sim.release(2)
    assert scene.until(100).start(2) is None
    scene.sim.set_node_list(2, ())
    assert scene.starts()[2] == 100


def test_an_injected_job_comes_now_or_later() -> None:
    scene = Scene(site(), job_at(1)).until(50)
    scene.sim.inject(job_at(2, 50))
    scene.sim.inject(job_at(3, 80), T0 + 80)
    scene.until(200)
    assert [scene.start(2), scene.start(3)] == [50, 80]


@pytest.mark.parametrize(
    ("move", "args"),
    [
        ("remove", (7,)),
        ("requeue", (2,)),
        ("hold", (1,)),
        ("set_dependencies", (1, ())),
        ("set_node_list", (2, (0, 1))),
        ("set_node_list", (2, (9,))),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(move: str, args: tuple[object, ...]) -> None:
    scene = Scene(site(), job_at(1, nodes=4), job_at(2, 5)).until(50)
    with pytest.raises(ClusterRefused):
        getattr(scene.sim, move)(*args)
    assert scene.starts() == {1: 0, 2: 600}
