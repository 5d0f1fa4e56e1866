"""What one job without a plan says of those behind it (docs/reference/simulator.md 7)."""

from mirage.simulator.types import Partition
from tests.support.simulator.scenes import Scene, job_at, site


def test_jobs_without_a_plan_leave_a_smaller_one_of_their_limit_its_plan() -> None:
    halves = (Partition(nodes=(0, 1)), Partition(name="b", nodes=(2, 3)))
    jobs = [
        job_at(1, limit=2000),
        job_at(2, limit=300),
        job_at(3, 1, nodes=2),
        job_at(4, 2, nodes=2),
        job_at(5, 3),
        job_at(6, 4),
    ]
    params = site(partitions=halves, bf_window_s=600)
    # Within the window only the node of job 2 comes free.
    assert Scene(params, *jobs).until(5).plans() == {5: 300}
