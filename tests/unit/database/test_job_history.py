"""The job history: merging, waits, pages."""

import threading
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.database.jobs import job_history
from mirage.database.jobs.job_history import JobFilter, MergeCounts
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.timelimit import UNLIMITED
from tests.support.jobs import change_job, make_job

_names = count()

words = st.text(alphabet="ab%_'\"é\\ ", max_size=3)
instants = st.integers(min_value=1, max_value=5)
maybe = st.one_of(st.none(), instants)
records = st.builds(
    make_job,
    job_id=st.integers(min_value=1, max_value=3).map(JobId),
    submit=st.integers(min_value=1, max_value=2),
    state=st.sampled_from(JobState),
    user=words,
    uid=maybe,
    partition=words,
    reason=words,
    priority=maybe,
    eligible=maybe,
    start=maybe,
    end=maybe,
    time_limit_s=st.one_of(maybe, st.just(UNLIMITED)),
    nodes=st.integers(min_value=0, max_value=3),
    gpus=st.integers(min_value=0, max_value=3),
    array=st.booleans(),
    submit_line=words,
)

DONE = Job(
    job_id=JobId(7),
    submit=100,
    state=JobState.COMPLETED,
    user="alice",
    uid=1000,
    partition="gpu",
    eligible=110,
    start=200,
    end=300,
    time_limit_s=3600,
    nodes=2,
    gpus=8,
    exit_code="0:0",
)


def stored(store: Store, cluster_id: int) -> list[Job]:
    with store.read() as tx:
        return job_history.list_jobs(tx, cluster_id)


def put(store: Store, cluster_id: int, *records: Job) -> MergeCounts:
    with store.begin() as tx:
        return job_history.upsert_jobs(tx, cluster_id, records)


def test_record_comes_back_as_it_went_in(store: Store, cluster_id: int) -> None:
    full = change_job(
        DONE,
        account="physics",
        qos="normal",
        name="train",
        reason="Priority",
        priority=4294967295,
        cpus=64,
        dependency="afterany:6",
        node_list="n[1-2]",
        comment="mirage:abcdefgh:2",
        array=True,
        submit_line="sbatch --mirage-chain=8 job.sh",
    )
    assert put(store, cluster_id, full) == MergeCounts(read=1, added=1)
    assert stored(store, cluster_id) == [full]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(earlier=st.lists(records, max_size=4), ingested=st.lists(records, max_size=8))
def test_ingesting_twice_changes_nothing(
    store: Store, earlier: list[Job], ingested: list[Job]
) -> None:
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, f"c{next(_names)}")
        job_history.upsert_jobs(tx, cluster_id, earlier)
        first = job_history.upsert_jobs(tx, cluster_id, ingested)
        after_first = job_history.list_jobs(tx, cluster_id)
        second = job_history.upsert_jobs(tx, cluster_id, ingested)
        assert job_history.list_jobs(tx, cluster_id) == after_first
    assert first.read == first.added + first.updated + first.unchanged == len(ingested)
    assert second == MergeCounts(read=len(ingested), unchanged=len(ingested))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(known=records, news=records)
def test_known_is_never_forgotten(store: Store, known: Job, news: Job) -> None:
    news = change_job(news, job_id=known.job_id, submit=known.submit)
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, f"c{next(_names)}")
        job_history.upsert_jobs(tx, cluster_id, [known])
        (before,) = job_history.list_jobs(tx, cluster_id)
        job_history.upsert_jobs(tx, cluster_id, [news])
        (after,) = job_history.list_jobs(tx, cluster_id)
    for name in ("user", "uid", "eligible", "start", "end", "time_limit_s", "gpus", "submit_line"):
        assert getattr(after, name) or not getattr(before, name), name
    assert after.state.has_ended or not before.state.has_ended


def test_one_that_was_seen_to_run_has_run(store: Store, cluster_id: int) -> None:
    """Cancelled in its first second, by an answer that names no nodes."""
    seen = change_job(DONE, state=JobState.CONFIGURING, start=1, end=None, node_list="")
    put(store, cluster_id, seen)
    put(store, cluster_id, change_job(seen, state=JobState.CANCELLED, start=1, end=1))
    (found,) = stored(store, cluster_id)
    assert (found.start, found.end, found.cancelled_at) == (1, 1, None)
    put(store, cluster_id, change_job(seen, state=JobState.CANCELLED, start=None, end=1))
    assert stored(store, cluster_id) == [found]


def test_later_record_fills_what_was_unknown(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, change_job(DONE, uid=None, exit_code=""))
    assert put(store, cluster_id, DONE) == MergeCounts(read=1, updated=1)
    assert stored(store, cluster_id) == [DONE]


def test_later_record_does_not_blank_what_was_known(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, DONE)
    poorer = change_job(DONE, uid=None, exit_code="", time_limit_s=None, nodes=0, gpus=0)
    assert put(store, cluster_id, poorer) == MergeCounts(read=1, unchanged=1)
    assert stored(store, cluster_id) == [DONE]


def test_gpus_that_are_not_known_stay_so_until_a_record_has_their_number(
    store: Store, cluster_id: int
) -> None:
    unknown = change_job(DONE, gpus=None)
    put(store, cluster_id, unknown)
    assert put(store, cluster_id, change_job(DONE, gpus=0)) == MergeCounts(read=1, unchanged=1)
    assert stored(store, cluster_id) == [unknown], "not known is not 0"
    put(store, cluster_id, change_job(DONE, state=JobState.RUNNING, end=None, gpus=3))
    assert stored(store, cluster_id) == [change_job(DONE, gpus=3)]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.PENDING, JobState.UNKNOWN])
def test_ended_record_is_not_turned_back(store: Store, cluster_id: int, state: JobState) -> None:
    put(store, cluster_id, DONE)
    older = change_job(DONE, state=state, end=None, user="bob")
    assert put(store, cluster_id, older) == MergeCounts(read=1, unchanged=1)
    assert stored(store, cluster_id) == [DONE]


def test_older_record_fills_what_the_ended_one_did_not_know(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, DONE)
    put(store, cluster_id, change_job(DONE, state=JobState.PENDING, reason="Priority", end=None))
    assert stored(store, cluster_id) == [change_job(DONE, reason="Priority")]


def test_job_goes_from_waiting_over_running_to_ended(store: Store, cluster_id: int) -> None:
    pending = change_job(DONE, state=JobState.PENDING, priority=1, start=None, end=None)
    assert put(store, cluster_id, pending).added == 1
    assert put(store, cluster_id, change_job(pending, priority=2)).updated == 1
    running = change_job(pending, state=JobState.RUNNING, priority=2, start=200)
    assert put(store, cluster_id, running).updated == 1
    assert put(store, cluster_id, DONE).updated == 1
    assert stored(store, cluster_id) == [change_job(DONE, priority=2)]


def test_plans_are_not_history(store: Store, cluster_id: int) -> None:
    pending = change_job(DONE, job_id=JobId(1), state=JobState.PENDING)
    running = change_job(DONE, job_id=JobId(2), state=JobState.RUNNING)
    put(store, cluster_id, pending, running)
    assert stored(store, cluster_id) == [
        change_job(running, expected_end=None),
        change_job(pending, planned_start=None),
    ]


def test_a_requeued_run_is_history_beside_the_run_that_follows(
    store: Store, cluster_id: int
) -> None:
    requeued = change_job(DONE, state=JobState.REQUEUED)
    waiting = change_job(DONE, submit=301, state=JobState.PENDING, start=None, end=None)
    put(store, cluster_id, requeued, waiting)
    assert stored(store, cluster_id) == [waiting, requeued]


def test_reused_job_id_is_another_job(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, DONE, change_job(DONE, submit=900, start=950, end=960))
    assert len(stored(store, cluster_id)) == 2


def test_clusters_do_not_mix(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
    put(store, cluster_id, DONE)
    assert put(store, other, DONE).added == 1
    with store.read() as tx:
        assert job_history.count_jobs(tx, cluster_id) == job_history.count_jobs(tx, other) == 1


def test_more_records_than_one_chunk(store: Store, cluster_id: int) -> None:
    many = [change_job(DONE, job_id=JobId(i)) for i in range(6_001)]
    assert put(store, cluster_id, *many) == MergeCounts(read=6_001, added=6_001)
    changed = [change_job(j, end=400) for j in many[::2]]
    assert put(store, cluster_id, *changed) == MergeCounts(read=3_001, updated=3_001)


def test_two_ingests_at_once_add_each_job_once(store: Store, cluster_id: int) -> None:
    many = [change_job(DONE, job_id=JobId(i)) for i in range(500)]
    counts: list[MergeCounts] = []

    def ingest(records: list[Job]) -> None:
        counts.append(put(store, cluster_id, *records))

    threads = [threading.Thread(target=ingest, args=(r,)) for r in (many, many[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(c.added for c in counts) == 500
    assert sum(c.unchanged for c in counts) == 500


def test_waits_are_of_the_last_started_oldest_first(store: Store, cluster_id: int) -> None:
    put(
        store,
        cluster_id,
        change_job(DONE, job_id=JobId(1), eligible=None),
        change_job(DONE, job_id=JobId(2), start=250, time_limit_s=None),
        change_job(DONE, job_id=JobId(3), start=260, eligible=50, partition="cpu"),
        change_job(DONE, job_id=JobId(4), start=270, eligible=280),
        change_job(DONE, job_id=JobId(5), start=271),
    )
    with store.read() as tx:
        of_gpu = job_history.read_waits(tx, cluster_id, "gpu", before=270, last=3)
        of_all = job_history.read_waits(tx, cluster_id, before=270, last=3)
        of_both = job_history.read_waits(tx, cluster_id, "cpu,gpu", before=270, last=3)
    assert of_both.start.tolist() == of_all.start.tolist()
    assert of_gpu.start.tolist() == [200, 250, 270]
    assert of_gpu.wait_s.tolist() == [100, 140, 0]
    assert of_gpu.nodes.tolist() == [2, 2, 2]
    assert of_gpu.time_limit_s.tolist() == [3600, -1, 3600]
    assert of_all.start.tolist() == [250, 260, 270]
    assert of_all.wait_s.tolist() == [140, 160, 0]


def test_waits_leave_out_what_never_started(store: Store, cluster_id: int) -> None:
    put(
        store,
        cluster_id,
        change_job(DONE, job_id=JobId(1), state=JobState.PENDING),
        change_job(DONE, job_id=JobId(2), state=JobState.CANCELLED, start=250, end=250),
        change_job(DONE, job_id=JobId(3), state=JobState.CANCELLED, start=None, end=250),
    )
    with store.read() as tx:
        assert len(job_history.read_waits(tx, cluster_id, before=1000, last=100)) == 0


def test_pages_follow_each_other(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, *(change_job(DONE, job_id=JobId(i)) for i in range(1, 6)))
    put(store, cluster_id, change_job(DONE, job_id=JobId(3), submit=50))
    seen: list[tuple[int, int]] = []
    with store.read() as tx:
        while found := job_history.list_jobs(
            tx, cluster_id, after=seen[-1] if seen else None, limit=2
        ):
            seen += [(job.job_id, job.submit) for job in found]
    assert seen == [(5, 100), (4, 100), (3, 100), (3, 50), (2, 100), (1, 100)]


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(partition="gpu"),
        JobFilter(user="alice"),
        JobFilter(uid=1000),
        JobFilter(state=JobState.COMPLETED),
    ],
)
def test_page_filters(store: Store, cluster_id: int, where: JobFilter) -> None:
    other = Job(job_id=JobId(8), submit=1, state=JobState.PENDING, user="bob", uid=0)
    put(store, cluster_id, DONE, other)
    with store.read() as tx:
        assert job_history.list_jobs(tx, cluster_id, where) == [DONE]
        assert job_history.list_jobs(tx, cluster_id, JobFilter(uid=0)) == [other]
