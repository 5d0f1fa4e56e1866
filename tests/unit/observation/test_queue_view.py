"""What one link sees of a live queue."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.domain.timelimit import UNLIMITED
from mirage.observation.handover_input import HandoverInput
from mirage.observation.queue_view import LinkQueueView, ObservedQueue
from mirage.observation.running_stats import UserNumbers
from mirage.simulator.types import Params, Partition, Qos
from tests.support.jobs import make_job

NOW = 1_675_000_000
HOUR = 3600
LINK = HandoverInput(
    nodes=2,
    time_limit_s=48 * HOUR,
    user="ann",
    partition="gpu",
    predecessor_submit=NOW - 9 * HOUR,
    predecessor_start=NOW - 8 * HOUR,
    predecessor_end=NOW + 40 * HOUR,
)
PARAMS = Params(
    name="site",
    nodes=6,
    partitions=(Partition(name="gpu", nodes=(0, 1, 2)), Partition(name="debug", nodes=(2, 3))),
    priority_weight_age=7000,
    priority_max_age_s=7 * 24 * HOUR,
    priority_weight_job_size=0,
    bf_window_s=96 * HOUR,
)


def node(name: str, partitions: str, **fields: Any) -> Node:
    given: dict[str, Any] = {"state": "idle", "cpus": 64, "cpus_used": 0, "gpus": 4, "gpus_used": 0}
    return Node(name=name, partitions=tuple(partitions.split(",")), **given | fields)


NODES = (
    node("n1", "gpu"),
    node("n2", "gpu", state="mixed", cpus_used=16, gpus_used=3),
    node("n3", "gpu,debug", state="down"),
    node("n4", "debug"),
    node("n5", "cpu", gpus=0),
    node("n6", "cpu", gpus=0, state="allocated", cpus_used=64),
)


job = partial(
    make_job,
    submit=NOW - 600,
    eligible=NOW - 500,
    user="bob",
    partition="gpu",
    priority=100,
    time_limit_s=HOUR,
)


def view(*jobs: Job, link: HandoverInput = LINK, params: Params = PARAMS) -> LinkQueueView:
    shown = ObservedQueue(Queue.from_jobs(NOW, jobs), NODES, params, UserNumbers())
    return LinkQueueView.from_observed_queue(shown, link)


@pytest.mark.parametrize(
    "fields",
    [
        {"eligible": None},
        {"eligible": NOW + 60},
        {"priority": 0},
        {"partition": "cpu"},
        {"state": JobState.COMPLETED},
        {"state": JobState.RUNNING, "start": NOW - 60},
    ],
    ids=["dependent", "begins later", "held", "other nodes", "ended", "running"],
)
def test_a_job_that_does_not_stand_in_line_is_left_out(fields: dict[str, Any]) -> None:
    seen = view(job(1), job(2, **{"state": JobState.PENDING} | fields))
    assert seen.pending_id.tolist() == [1]


def test_a_job_of_a_partition_that_shares_nodes_stands_in_line() -> None:
    seen = view(job(1, partition="debug"), job(2, partition="cpu,gpu"), job(3, partition="cpu"))
    assert seen.pending_id.tolist() == [1, 2]


def test_the_successor_is_not_its_own_rival() -> None:
    seen = view(job(1), job(7, user="ann"), link=replace(LINK, job_id=7))
    assert seen.pending_id.tolist() == [1]


def test_the_columns_say_what_squeue_says() -> None:
    working = job(2, JobState.RUNNING, user="ann", start=NOW - 300, end=NOW + 9, nodes=2)
    seen = view(job(1, nodes=3, time_limit_s=None), working)
    assert seen.pending.nodes.tolist() == [3]
    assert seen.pending.time_limit_s.tolist() == [UNLIMITED]
    assert seen.pending.age_s.tolist() == [500]
    assert seen.pending.priority.tolist() == [100]
    assert seen.running_id.tolist() == [2]
    assert seen.running.nodes.tolist() == [2]
    assert seen.running.elapsed_s.tolist() == [300]
    assert seen.running.wait_s.tolist() == [200]
    assert seen.running.user.tolist() != seen.pending.user.tolist()


def test_a_limit_per_user_counts_the_jobs_on_other_nodes_too() -> None:
    seen = view(job(1, JobState.RUNNING, start=NOW - 60, partition="cpu", user="ann"))
    assert seen.running_id.tolist() == []
    assert len(seen.running_users) == 1


def test_a_job_that_only_completes_is_no_longer_running() -> None:
    assert len(view(job(1, JobState.COMPLETING, start=NOW - 60)).running_id) == 0


def test_the_nodes_are_those_of_the_links_partition() -> None:
    capacity = view().capacity
    assert (capacity.nodes, capacity.up, capacity.free) == (3, 2, 1)
    assert capacity.cpus_free_share == (64 + 48) / 128
    assert capacity.gpus_free_share == (4 + 1) / 8


def test_a_partition_without_gpus_has_no_share_of_them() -> None:
    assert view(link=replace(LINK, partition="cpu")).capacity.gpus_free_share == 0.0


def test_the_limit_per_user_is_that_of_the_links_qos() -> None:
    params = replace(
        PARAMS, qos=(Qos(name="normal", max_jobs_pu=8), Qos(name="long", max_jobs_pu=2))
    )
    assert view(params=params).max_jobs_pu == 8
    assert view(params=params, link=replace(LINK, qos="long")).max_jobs_pu == 2
    assert view(params=replace(PARAMS, max_jobs_pu=5)).max_jobs_pu == 5


def test_a_newcomer_has_no_age() -> None:
    assert view().priority == 0


def test_a_standby_has_the_age_that_accrue_always_gives_it() -> None:
    standby = replace(LINK, submit=NOW - 42 * HOUR)
    assert view(link=standby).priority == 0
    aged = view(link=standby, params=replace(PARAMS, accrue_always=True))
    assert aged.priority == 1749  # a quarter of 7000, the rate rounded down


def test_size_partition_and_qos_count_towards_the_priority() -> None:
    params = replace(
        PARAMS,
        partitions=(
            Partition(name="gpu", priority_job_factor=1),
            Partition(name="x", priority_job_factor=4),
        ),
        priority_weight_job_size=600,
        priority_weight_partition=1000,
        priority_weight_qos=100,
        qos=(Qos(name="normal", priority=5), Qos(name="high", priority=10)),
    )
    assert view(params=params).priority == 200 + 250 + 50
    assert view(params=replace(params, priority_favor_small=True)).priority == 400 + 250 + 50


@pytest.mark.parametrize(
    ("of_ann", "expected"), [((), 300), ((700,), 700)], ids=["as is usual", "as its other jobs"]
)
def test_fair_share_is_read_from_the_jobs_that_wait(of_ann: tuple[int, ...], expected: int) -> None:
    params = replace(PARAMS, priority_weight_fairshare=5000, priority_weight_age=0)
    others = [job(i, priority=p) for i, p in enumerate((100, 300, 4000), start=1)]
    own = [job(9, user="ann", priority=p) for p in of_ann]
    assert view(*others, *own, params=params).priority == expected
