"""What differs from release to release (docs/reference/simulator.md 7, "By release"), each by
hand."""

from typing import Any

import pytest

from mirage.simulator.slurm_release import describe_planner, find_release, is_unchecked
from mirage.simulator.types import Params, Partition, Reservation, SelectType, SimJob
from tests.support.simulator.scenes import T0, Scene, job_at, site

OLD, NEWER, NEWEST = "22.05.8", "24.11.5", "26.05.5"
ALONE = (Partition(nodes=(0,)), Partition(name="b", nodes=(1, 2, 3)))
"""Planning is by name with these."""
SHARING = (Partition(), Partition(name="b", nodes=(2, 3)))
"""And with these."""
NO_BACKFILL = {"bf_interval_s": 7200}


def run_on(job_id: int, node: int, limit: int, partition: str = "") -> SimJob:
    """A job that runs on that node from T0 on."""
    return job_at(job_id, limit=limit, node_list=(node,), partition=partition)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("", "22.05"),
        ("21.08.8-2", "22.05"),
        ("22.05.8", "22.05"),
        ("23.11.10", "22.05"),
        ("24.05.4", "22.05"),
        ("24.11.0-0rc1", "24.11"),
        ("25.11.7", "24.11"),
        ("26.05", "26.05"),
        ("27.11.1", "26.05"),
    ],
)
def test_the_nearest_older_release_plans(version: str, release: str) -> None:
    assert str(find_release(version)) == release
    assert is_unchecked(version) == (not version.startswith(release))
    assert describe_planner(version).startswith(f"planned as Slurm {release}")
    assert (version in describe_planner(version)) or not is_unchecked(version)


@pytest.mark.parametrize("told", ["abc", "24", "22.5", "24.111"])
def test_no_release_plans_for_what_is_no_version(told: str) -> None:
    for ask in (find_release, is_unchecked, describe_planner):
        with pytest.raises(ValueError, match="not a version of Slurm"):
            ask(told)


@pytest.mark.parametrize(("version", "start"), [(OLD, 660), (NEWER, 720), (NEWEST, 720)])
def test_the_end_of_a_plan_is_on_the_grid(version: str, start: int) -> None:
    params = site(partitions=ALONE, slurm_version=version, **NO_BACKFILL)
    jobs = [job_at(1), job_at(2, 5, limit=90), job_at(3, 6, limit=60)]
    assert Scene(params, *jobs).until(10).plans() == {2: 600, 3: start}


@pytest.mark.parametrize(("version", "start"), [(OLD, 130), (NEWER, 130), (NEWEST, 110)])
def test_ends_within_a_window_are_looked_at_together(version: str, start: int) -> None:
    params = site(partitions=ALONE, slurm_version=version, nodes=4, **NO_BACKFILL)
    busy = [job_at(i, limit=90 + 10 * i, partition="b") for i in (1, 2)]
    jobs = [*busy, job_at(3, limit=130, partition="b"), job_at(4, 5, nodes=2, partition="b")]
    # 1 to 3 have nodes 1 to 3 to 100, 110 and 130, and 4 would be given nodes 1 and 2.
    assert Scene(params, *jobs).until(10).plans() == {4: start}


@pytest.mark.parametrize(
    ("version", "plans"),
    [(OLD, {2: 600, 3: 700, 4: 800}), (NEWER, {2: 600}), (NEWEST, {2: 600})],
)
def test_tasks_are_planned_up_to_their_array_s_limit(version: str, plans: dict[int, int]) -> None:
    params = site(partitions=ALONE, slurm_version=version, bf_resolution_s=20, **NO_BACKFILL)
    tasks = [job_at(i, 5, limit=100, array_id=7, array_limit=1) for i in (2, 3, 4)]
    assert Scene(params, job_at(1), *tasks).until(10).plans() == plans


@pytest.mark.parametrize(("version", "node"), [(OLD, 3), (NEWER, 3), (NEWEST, 0)])
def test_a_job_of_one_node_gets_the_lowest(version: str, node: int) -> None:
    params = site(partitions=(Partition(), Partition(name="b", nodes=(2,))), slurm_version=version)
    scene = Scene(params, job_at(1, partition="b"), job_at(2, 5)).until(10)
    # Nodes 0 and 1 are a run, and node 3 is a shorter one.
    assert scene.nodes(2) == (node,)


@pytest.mark.parametrize(("version", "node"), [(OLD, 3), (NEWER, 0), (NEWEST, 0)])
def test_free_cpus_count_in_22_05_alone(version: str, node: int) -> None:
    params = site(select_type=SelectType.CONS_TRES, slurm_version=version)
    busy = [job_at(1, cpus=4, node_list=(1,)), job_at(2, cpus=4, node_list=(2,))]
    busy.append(job_at(3, cpus=1, node_list=(3,)))
    scene = Scene(params, *busy, job_at(4, 5, cpus=1)).until(10)
    # Nodes 0 and 3 are a run each, and node 3 has fewer CPUs left.
    assert scene.nodes(4) == (node,)


@pytest.mark.parametrize(
    ("version", "start"),
    [
        # 22.05's maps lose the reserved nodes, so that the plan is moved past them.
        (OLD, 4620),
        # Looked at from now on, the reservation is beyond the job's end; it would run into it.
        (NEWER, 600),
        (NEWEST, 600),
    ],
)
def test_a_plan_may_meet_a_reservation_that_begins_later(version: str, start: int) -> None:
    kept = Reservation(start=T0 + 1000, end=T0 + 4620, nodes=(0,))
    params = site(partitions=ALONE, reservations=(kept,), slurm_version=version, **NO_BACKFILL)
    jobs = [job_at(1), job_at(2, 5, limit=900)]
    assert Scene(params, *jobs).until(10).plans() == {2: start}


def by_release(version: str, partitions: tuple[Partition, ...], **settings: Any) -> Params:
    """A site whose backfill never runs by itself."""
    return site(partitions=partitions, slurm_version=version, **NO_BACKFILL, **settings)


@pytest.mark.parametrize(
    ("version", "plans"),
    # 22.05's maps end at 640. The others' end at 600, and no plan leaves a trace behind that.
    [(OLD, {2: 630}), (NEWER, {2: 630, 3: 630}), (NEWEST, {2: 630, 3: 630})],
)
def test_the_maps_end_on_the_grid(version: str, plans: dict[int, int]) -> None:
    params = by_release(version, ALONE, bf_window_s=630)
    jobs = [run_on(1, 0, 630), job_at(2, 5, limit=90), job_at(3, 6)]
    assert Scene(params, *jobs).until(10).plans() == plans


@pytest.mark.parametrize("version", [OLD, NEWER, NEWEST])
@pytest.mark.parametrize(
    ("kept", "job", "start"),
    [
        (Reservation(start=T0 + 500, end=T0 + 1500), job_at(1, 5, limit=630), 1500),
        (Reservation(start=T0 + 100, end=T0 + 300, nodes=(0,)), run_on(1, 0, 120), 300),
    ],
    ids=["of every node", "of a pinned job's node"],
)
def test_some_reservations_send_a_job_to_their_very_end(
    version: str, kept: Reservation, job: SimJob, start: int
) -> None:
    params = by_release(version, SHARING, reservations=(kept,))
    assert Scene(params, job).until(10).plans() == {1: start}


@pytest.mark.parametrize(("version", "plans"), [(OLD, {}), (NEWER, {1: 1501}), (NEWEST, {1: 1501})])
def test_others_send_it_a_second_beyond_the_grid(version: str, plans: dict[int, int]) -> None:
    """1490 is rounded up to 1500. In 22.05 a plan for 1490 has the node from 1440 on, on the grid:
    the reservation has it there, and the job has no plan."""
    kept = Reservation(start=T0 + 500, end=T0 + 1490, nodes=(0,))
    params = by_release(version, ALONE, reservations=(kept,))
    assert Scene(params, job_at(1, 5)).until(10).plans() == plans


@pytest.mark.parametrize("version", [NEWER, NEWEST])
def test_only_nodes_of_the_job_s_partition_are_gained(version: str) -> None:
    """Node 0, planned for 4 up to 300, is none of 5's. Did the search of 5 end there, it would look
    at 120, the last of its ends before 300, and find nodes 1 and 3."""
    busy = [run_on(1, 0, 150), run_on(2, 3, 120, "b"), run_on(3, 2, 630, "b")]
    jobs = [*busy, job_at(4, 5, limit=120), job_at(5, 6, limit=120, nodes=2, partition="b")]
    assert Scene(by_release(version, ALONE), *jobs).until(10).plans() == {4: 150, 5: 630}


@pytest.mark.parametrize(("version", "start"), [(OLD, 720), (NEWER, 780), (NEWEST, 780)])
def test_a_search_goes_on_behind_the_maps_that_gain_nothing(version: str, start: int) -> None:
    """4 has nodes 1 to 3 from 120 to 780 (22.05: to 720), and 5 has node 0 from 300 to 420. The
    first map behind 6's end gains nothing for 6, nor does the next: `later` is the end of that."""
    busy = [run_on(1, 2, 150, "b"), run_on(2, 1, 120, "b"), run_on(3, 0, 300)]
    queued = [job_at(4, 5, nodes=3, partition="b"), job_at(5, 6, limit=90)]
    jobs = [*busy, *queued, job_at(6, 7, limit=90, nodes=2, partition="b")]
    plans = Scene(by_release(version, ALONE), *jobs).until(10).plans()
    assert plans == {4: 150, 5: 300, 6: start}


@pytest.mark.parametrize(("version", "start"), [(OLD, 300), (NEWER, 330), (NEWEST, 300)])
def test_who_ends_just_when_a_search_begins(version: str, start: int) -> None:
    """4 has nodes 1 and 3 up to 300. From there on 5 wants three nodes, and 1 ends at 300: 24.11
    does not take 1 for gone then, and looks at its end together with that of 3, at 330."""
    busy = [run_on(1, 2, 300, "b"), run_on(2, 3, 150, "b"), run_on(3, 0, 330)]
    jobs = [*busy, job_at(4, 5, limit=120, nodes=2), job_at(5, 6, limit=200, nodes=3)]
    assert Scene(by_release(version, SHARING), *jobs).until(10).plans() == {4: 150, 5: start}


@pytest.mark.parametrize(("version", "start"), [(OLD, 180), (NEWER, 240), (NEWEST, 240)])
def test_no_end_after_the_next_gain_is_looked_at(version: str, start: int) -> None:
    """Node 3 is 3's from 120 to 240 (22.05: to 180). There 4 gets it and does not wait for 330."""
    busy = [run_on(1, 2, 330, "b"), run_on(2, 3, 120, "b")]
    jobs = [*busy, *(job_at(i, i + 2, limit=90, partition="b") for i in (3, 4))]
    assert Scene(by_release(version, SHARING), *jobs).until(10).plans() == {3: 120, 4: start}


@pytest.mark.parametrize(("version", "start"), [(OLD, 70), (NEWER, 120), (NEWEST, 120)])
def test_the_maps_lose_the_nodes_of_a_job_that_starts_in_the_pass(version: str, start: int) -> None:
    """3 runs on node 2 from 10 to 70, and the maps have the node back at 120."""
    queued = [job_at(2, 5, limit=200, nodes=2, partition="b")]
    queued += [job_at(i, i + 3, limit=60, partition="b") for i in (3, 4)]
    scene = Scene(by_release(version, SHARING), run_on(1, 3, 330, "b"), *queued)
    assert scene.until(10).plans() == {2: 330, 3: 10, 4: start}
