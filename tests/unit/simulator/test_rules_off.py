"""Either scheduler turned off, as -1 does in slurm.conf (docs/reference/simulator.md, section
1)."""

import pytest

from mirage.simulator.types import OFF, Partition
from tests.support.simulator.scenes import T0, Scene, job_at, site

HALVES = (Partition(nodes=(0, 1)), Partition(name="b", nodes=(2, 3)))
"""Planning is by name with these."""


def test_without_the_main_scheduler_backfill_alone_starts_jobs() -> None:
    jobs = [job_at(1, nodes=3), job_at(2, 5, nodes=4), job_at(3, 6, limit=60)]
    params = site(sched_interval_s=OFF, bf_interval_s=60)
    assert T0 % 60 == 0
    assert Scene(params, *jobs).starts() == {1: 0, 2: 600, 3: 60}


@pytest.mark.parametrize("partitions", [(Partition(),), HALVES])
def test_without_backfill_nobody_passes_by_and_nothing_is_planned(
    partitions: tuple[Partition, ...],
) -> None:
    jobs = [job_at(1, nodes=2), job_at(2, 5, nodes=4 // len(partitions)), job_at(3, 6, limit=60)]
    scene = Scene(site(bf_interval_s=OFF, partitions=partitions), *jobs).until(10)
    assert scene.sim.compute_planned_starts() == {}
    assert scene.starts() == {1: 0, 2: 600, 3: 1200}


def test_without_either_nothing_starts() -> None:
    scene = Scene(site(bf_interval_s=OFF, sched_interval_s=OFF), job_at(1))
    assert scene.starts() == {1: None}
