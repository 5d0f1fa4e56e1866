"""The queue as columns."""

from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import ArrayTasks, Job, JobId, JobState
from mirage.domain.snapshot import UNKNOWN, Node, Queue, Snapshot, compute_waits_s
from mirage.domain.timelimit import UNLIMITED
from tests.support.jobs import make_job

_COUNTS = st.integers(min_value=0, max_value=2**40)
_MAYBE = st.none() | _COUNTS
_BY_KIND: dict[Any, st.SearchStrategy[Any]] = {
    JobId: _COUNTS.map(JobId),
    int: _COUNTS,
    int | None: _MAYBE | st.just(UNLIMITED),
    str: st.text(),
    bool: st.booleans(),
    JobState: st.sampled_from(JobState),
    ArrayTasks | None: st.none(),  # of logs alone
}
JOBS = st.builds(Job, **{name: _BY_KIND[kind] for name, kind in get_type_hints(Job).items()})
"""With any value in every field that a Job has, or will have."""


@given(st.lists(JOBS, max_size=8))
def test_jobs_come_back_from_the_columns_as_they_went_in(jobs: list[Job]) -> None:
    queue = Queue.from_jobs(1000, jobs)
    assert list(queue) == jobs
    assert len(queue) == len(jobs)
    assert queue.taken_at == 1000


@given(st.lists(JOBS, max_size=8, unique_by=lambda job: job.job_id))
def test_each_job_is_found_by_its_id(jobs: list[Job]) -> None:
    queue = Queue.from_jobs(0, jobs)
    assert all(queue.find_job(job.job_id) == job for job in jobs)
    assert queue.find_job(JobId(2**50)) is None


def test_an_empty_queue_has_its_columns_all_the_same() -> None:
    queue = Queue.from_jobs(5, [])
    assert list(queue) == []
    assert queue.pending_mask.dtype == np.bool_
    assert queue.running_mask.dtype == np.bool_
    assert queue.submit.dtype == np.int64


def test_what_is_not_known_stands_as_minus_one_in_the_column() -> None:
    queue = Queue.from_jobs(0, [make_job(1, JobState.PENDING)])
    assert queue.eligible[0] == UNKNOWN
    row = queue.find_job(JobId(1))
    assert row is not None
    assert row.eligible is None


def test_pending_and_running_tell_the_jobs_apart() -> None:
    states = [JobState.PENDING, JobState.RUNNING, JobState.COMPLETING, JobState.COMPLETED]
    queue = Queue.from_jobs(0, [make_job(i, state) for i, state in enumerate(states)])
    assert queue.pending_mask.tolist() == [True, False, False, False]
    assert queue.running_mask.tolist() == [False, True, False, False]


def make_node(name: str, *partitions: str, state: str = "idle", cpus_used: int = 0) -> Node:
    return Node(
        name=name,
        partitions=partitions,
        state=state,
        cpus=8,
        cpus_used=cpus_used,
        gpus=0,
        gpus_used=0,
    )


@pytest.mark.parametrize("state", ["idle", "mixed", "allocated", "completing", "planned"])
def test_a_node_that_takes_jobs_is_usable(state: str) -> None:
    assert make_node("n1", state=state).is_usable


@pytest.mark.parametrize("state", ["down", "drained", "draining", "reserved", "maint"])
def test_a_node_that_takes_no_jobs_is_not_usable(state: str) -> None:
    assert not make_node("n1", state=state).is_usable


def test_columns_of_waits_say_what_jobs_say() -> None:
    instants = [UNKNOWN, 400, 1000, 1500]
    told = [(start, eligible) for start in instants for eligible in instants]
    jobs = [
        Job(
            job_id=JobId(1),
            submit=1000,
            state=JobState.RUNNING,
            start=None if start == UNKNOWN else start,
            eligible=None if eligible == UNKNOWN else eligible,
        )
        for start, eligible in told
    ]
    queue = Queue.from_jobs(2000, jobs)
    found = compute_waits_s(queue.start, queue.submit, queue.eligible)
    assert found.tolist() == [job.wait_s or 0 for job in jobs]


@pytest.mark.parametrize(
    ("partition", "free"),
    [("gpu", 2), ("cpu", 2), ("gpu,cpu", 3), ("big", 1), ("", 3), ("none", 0)],
)
def test_free_nodes_are_usable_empty_and_of_a_named_partition(partition: str, free: int) -> None:
    nodes = (
        make_node("n1", "gpu"),
        make_node("n2", "gpu", "cpu"),
        make_node("n3", "cpu", "big"),
        make_node("n4", "gpu", state="mixed", cpus_used=1),
        make_node("n5", "gpu", state="drained"),
    )
    snapshot = Snapshot(queue=Queue.from_jobs(0, []), nodes=nodes)
    assert snapshot.count_free_nodes(partition) == free
