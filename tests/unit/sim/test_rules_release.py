"""What differs from release to release (docs/reference/simulator.md 7, "By release"), each by
hand."""

import pytest

from mirage.sim.slurm_release import (
    SlurmRelease,
    describe_planner,
    find_release,
    is_unchecked,
    is_version,
)
from mirage.sim.types import Partition, Reservation, SelectType
from tests.support.sim.scenes import Scene, Side, job_at, site

OLD, NEWER, NEWEST = "22.05.8", "24.11.5", "26.05.5"
ALONE = (Partition(nodes=(0,)), Partition(name="b", nodes=(1, 2, 3)))
"""Planning is by name with these."""
NO_BACKFILL = {"bf_interval_s": 7200}


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
    assert is_unchecked(version) == (bool(version) and not version.startswith(release))
    assert describe_planner(version).startswith(f"planned as Slurm {release}")
    assert (version in describe_planner(version)) or not is_unchecked(version)


def test_what_is_no_release_is_none() -> None:
    assert not any(map(is_version, ("", "24", "24.1", "24.111", "slurm 24.11", "24.11 5")))
    assert not any(map(is_version, ("24.11abc", "24.11.x", "24.11-")))
    assert all(map(is_unchecked, ("abc", "24", "22.5")))
    assert all(is_version(str(release)) for release in SlurmRelease)


@pytest.mark.parametrize(("version", "start"), [(OLD, 660), (NEWER, 720), (NEWEST, 720)])
def test_the_end_of_a_plan_is_on_the_grid(side: Side, version: str, start: int) -> None:
    params = site(partitions=ALONE, slurm_version=version, **NO_BACKFILL)
    jobs = [job_at(1), job_at(2, 5, limit=90), job_at(3, 6, limit=60)]
    assert Scene(side, params, *jobs).until(10).plans() == {2: 600, 3: start}


@pytest.mark.parametrize(("version", "start"), [(OLD, 130), (NEWER, 130), (NEWEST, 110)])
def test_ends_within_a_window_are_looked_at_together(side: Side, version: str, start: int) -> None:
    params = site(partitions=ALONE, slurm_version=version, nodes=4, **NO_BACKFILL)
    busy = [job_at(i, limit=90 + 10 * i, partition="b") for i in (1, 2)]
    jobs = [*busy, job_at(3, limit=130, partition="b"), job_at(4, 5, nodes=2, partition="b")]
    # 1 to 3 have nodes 1 to 3 to 100, 110 and 130, and 4 would be given nodes 1 and 2.
    assert Scene(side, params, *jobs).until(10).plans() == {4: start}


@pytest.mark.parametrize(
    ("version", "plans"),
    [(OLD, {2: 600, 3: 700, 4: 800}), (NEWER, {2: 600}), (NEWEST, {2: 600})],
)
def test_tasks_are_planned_up_to_their_array_s_limit(
    side: Side, version: str, plans: dict[int, int]
) -> None:
    params = site(partitions=ALONE, slurm_version=version, bf_resolution_s=20, **NO_BACKFILL)
    tasks = [job_at(i, 5, limit=100, array_id=7, array_limit=1) for i in (2, 3, 4)]
    assert Scene(side, params, job_at(1), *tasks).until(10).plans() == plans


@pytest.mark.parametrize(("version", "node"), [(OLD, 3), (NEWER, 3), (NEWEST, 0)])
def test_a_job_of_one_node_gets_the_lowest(side: Side, version: str, node: int) -> None:
    params = site(partitions=(Partition(), Partition(name="b", nodes=(2,))), slurm_version=version)
    scene = Scene(side, params, job_at(1, partition="b"), job_at(2, 5)).until(10)
    # Nodes 0 and 1 are a run, and node 3 is a shorter one.
    assert scene.nodes(2) == (node,)


@pytest.mark.parametrize(("version", "node"), [(OLD, 3), (NEWER, 0), (NEWEST, 0)])
def test_free_cpus_count_in_22_05_alone(side: Side, version: str, node: int) -> None:
    params = site(select_type=SelectType.CONS_TRES, slurm_version=version)
    busy = [job_at(1, cpus=4, node_list=(1,)), job_at(2, cpus=4, node_list=(2,))]
    busy.append(job_at(3, cpus=1, node_list=(3,)))
    scene = Scene(side, params, *busy, job_at(4, 5, cpus=1)).until(10)
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
def test_a_plan_may_meet_a_reservation_that_begins_later(
    side: Side, version: str, start: int
) -> None:
    began = 1_200_000
    kept = Reservation(start=began + 1000, end=began + 4620, nodes=(0,))
    params = site(partitions=ALONE, reservations=(kept,), slurm_version=version, **NO_BACKFILL)
    jobs = [job_at(1), job_at(2, 5, limit=900)]
    assert Scene(side, params, *jobs).until(10).plans() == {2: start}
