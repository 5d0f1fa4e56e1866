"""Which pairs a partition's jobs suggest."""

from typing import Any

from mirage.lab.episodes.generation.representative_pairs import (
    find_heaviest_user,
    find_representative_pair,
    list_busy_partitions,
)
from mirage.simulator.types import Partition, SimJob
from tests.support.episodes import small
from tests.support.simulator.jobs import make_sim_job

HOUR_S = 3600


def make_job_in_hours(hours: float, limit_h: float, nodes: int = 1, **fields: Any) -> SimJob:
    run_s, limit_s = round(hours * HOUR_S), round(limit_h * HOUR_S)
    return make_sim_job(nodes=nodes, run_s=run_s, limit_s=limit_s, **fields)


def test_the_limit_and_the_sizes_with_most_node_hours_among_long_jobs() -> None:
    jobs = [make_job_in_hours(2, 2) for _ in range(500)]  # short: most of the node-hours
    jobs += [
        make_job_in_hours(40, 48, nodes=2),
        make_job_in_hours(20, 48, nodes=1),
        make_job_in_hours(1, 48, nodes=4),
        make_job_in_hours(30, 36),
    ]
    found = find_representative_pair(jobs, small.params(), "")
    assert found is not None
    assert (found.time_limit_s, found.nodes) == (48 * HOUR_S, (2, 1))
    assert found.share == (80 + 20) / (1000 + 80 + 20 + 4 + 30)


def test_a_limit_that_hardly_anybody_asks_for_does_not_make_the_others_short() -> None:
    jobs = [make_job_in_hours(20, 24) for _ in range(50)] + [make_job_in_hours(1, 720)]
    found = find_representative_pair(jobs, small.params(), "")
    assert found is not None
    assert found.time_limit_s == 24 * HOUR_S


def test_jobs_that_never_ran_count_for_nothing() -> None:
    jobs = [make_job_in_hours(40, 48, nodes=4, cancel_at=1), make_job_in_hours(10, 24)]
    found = find_representative_pair(jobs, small.params(), "")
    assert found is not None
    assert (found.time_limit_s, found.nodes) == (24 * HOUR_S, (1,))
    assert find_representative_pair(jobs[:1], small.params(), "") is None


def test_each_partition_has_its_own() -> None:
    params = small.params(
        partitions=(Partition(name="a"), Partition(name="b", nodes=(0, 1)), Partition(name="c"))
    )
    jobs = [
        make_job_in_hours(9, 10, partition="b", nodes=2),
        make_job_in_hours(20, 24, partition="a"),
        make_job_in_hours(1, 2),
    ]
    jobs += [
        make_job_in_hours(0.1, 1, partition="c"),
        make_job_in_hours(9, 10, partition="b", nodes=3),
    ]
    assert list_busy_partitions(jobs, params) == ["b", "a"]
    found = find_representative_pair(jobs, params, "b")
    assert found is not None
    assert found.nodes == (2,), "three nodes do not fit it"


def test_the_heaviest_user_has_a_name() -> None:
    jobs = [
        make_job_in_hours(9, 10),
        make_job_in_hours(2, 10, user="u", account="x"),
        make_job_in_hours(3, 10, user="v", account="y"),
    ]
    assert find_heaviest_user(jobs, small.params(), "") == ("v", "y")
    assert find_heaviest_user(jobs[:1], small.params(), "") is None
