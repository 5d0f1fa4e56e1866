"""Snapshots: round trip, once only, and thinned out."""

from dataclasses import fields

import numpy as np
import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Node, Queue
from mirage.errors import NotFound
from mirage.store.database.engine import Store
from mirage.store.jobs import snapshots
from mirage.store.operations import clusters

HOUR, DAY = 3600, 86400
T0 = 1_000_000 * HOUR

PENDING = Job(
    job_id=JobId(1),
    submit=5,
    state=JobState.PENDING,
    user="zoë",
    uid=7,
    partition="gpu",
    reason="Priority",
    priority=4294967295,
    nodes=4,
)
RUNNING = Job(job_id=JobId(2), submit=6, state=JobState.RUNNING, start=9, comment="a,'b'")
NODE = Node(
    name="n1", partitions=("gpu", "all"), state="idle", cpus=64, cpus_used=0, gpus=8, gpus_used=0
)


def queue_at(taken_at: int) -> Queue:
    return Queue.from_jobs(taken_at, [PENDING, RUNNING])


def add_every(store: Store, cluster_id: int, *, since: int, until: int, step_s: int) -> None:
    with store.begin() as tx:
        for taken_at in range(since, until, step_s):
            snapshots.add_snapshot(tx, cluster_id, queue_at(taken_at), (NODE,), {"at": taken_at})


def kept(store: Store, cluster_id: int) -> list[int]:
    """The instants whose raw columns are there."""
    there = []
    with store.read() as tx:
        for row in snapshots.list_snapshots(tx, cluster_id, 0):
            try:
                snapshots.read_queue(tx, cluster_id, row.taken_at)
            except NotFound:
                continue
            there.append(row.taken_at)
    return there


def test_queue_and_nodes_come_back_as_they_went_in(store: Store, cluster_id: int) -> None:
    queue = queue_at(T0)
    with store.begin() as tx:
        snapshots.add_snapshot(
            tx, cluster_id, queue, (NODE,), {"pending": 1, "load": np.float64(0.5)}
        )
    with store.read() as tx:
        back = snapshots.read_queue(tx, cluster_id, T0)
        assert snapshots.read_nodes(tx, cluster_id, T0) == (NODE,)
        assert snapshots.find_latest_snapshot(tx, cluster_id) == snapshots.SnapshotRow(
            taken_at=T0, features={"pending": 1, "load": 0.5}
        )
    assert list(back) == [PENDING, RUNNING]
    for column in fields(Queue):
        before, after = getattr(queue, column.name), getattr(back, column.name)
        assert np.array_equal(before, after), column.name
        assert np.asarray(before).dtype == np.asarray(after).dtype, column.name


def test_empty_queue(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        snapshots.add_snapshot(tx, cluster_id, Queue.from_jobs(T0, []), None, {})
        assert len(snapshots.read_queue(tx, cluster_id, T0)) == 0
        assert snapshots.read_nodes(tx, cluster_id, T0) is None


def test_the_same_instant_again_changes_nothing(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        snapshots.add_snapshot(tx, cluster_id, queue_at(T0), (NODE,), {"pending": 1})
        snapshots.add_snapshot(tx, cluster_id, Queue.from_jobs(T0, []), None, {"pending": 2})
        assert [r.features for r in snapshots.list_snapshots(tx, cluster_id, 0)] == [{"pending": 1}]
        assert len(snapshots.read_queue(tx, cluster_id, T0)) == 2


def test_no_snapshot_yet(store: Store, cluster_id: int) -> None:
    with store.read() as tx:
        assert snapshots.find_latest_snapshot(tx, cluster_id) is None
        with pytest.raises(NotFound):
            snapshots.read_queue(tx, cluster_id, T0)


def test_series_begins_at_since(store: Store, cluster_id: int) -> None:
    add_every(store, cluster_id, since=T0, until=T0 + 5, step_s=1)
    with store.read() as tx:
        found = snapshots.list_snapshots(tx, cluster_id, T0 + 3)
    assert [r.taken_at for r in found] == [T0 + 3, T0 + 4]


def test_a_day_is_kept_in_full_then_one_an_hour(store: Store, cluster_id: int) -> None:
    add_every(store, cluster_id, since=T0, until=T0 + 3 * HOUR, step_s=600)
    now = T0 + 2 * HOUR + DAY
    with store.begin() as tx:
        assert snapshots.thin_snapshots(tx, cluster_id, now) == 10
    third_hour = list(range(T0 + 2 * HOUR, T0 + 3 * HOUR, 600))
    assert kept(store, cluster_id) == [T0, T0 + HOUR, *third_hour]


def test_thinning_every_tick_ends_where_thinning_once_does(store: Store, cluster_id: int) -> None:
    add_every(store, cluster_id, since=T0 + 700, until=T0 + 3 * HOUR, step_s=700)
    with store.begin() as tx:
        for now in range(T0 + DAY, T0 + DAY + 4 * HOUR, 300):
            snapshots.thin_snapshots(tx, cluster_id, now)
    ticked = kept(store, cluster_id)
    assert [t // HOUR for t in ticked] == [T0 // HOUR + i for i in range(3)]
    with store.begin() as tx:
        assert snapshots.thin_snapshots(tx, cluster_id, T0 + DAY + 4 * HOUR) == 0


def test_after_thirty_days_only_features_are_left(store: Store, cluster_id: int) -> None:
    add_every(store, cluster_id, since=T0, until=T0 + 2 * HOUR, step_s=HOUR)
    with store.begin() as tx:
        assert snapshots.thin_snapshots(tx, cluster_id, T0 + 30 * DAY + 1) == 1
        assert snapshots.read_nodes(tx, cluster_id, T0) is None
        assert len(snapshots.list_snapshots(tx, cluster_id, 0)) == 2
    assert kept(store, cluster_id) == [T0 + HOUR]


def test_thinning_one_cluster_leaves_the_others(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        other = clusters.ensure_cluster(tx, "other")
    for cluster in (cluster_id, other):
        add_every(store, cluster, since=T0 + 600, until=T0 + HOUR, step_s=600)
    add_every(store, cluster_id, since=T0, until=T0 + 1, step_s=600)
    with store.begin() as tx:
        snapshots.thin_snapshots(tx, other, T0 + 2 * DAY)
    assert kept(store, other) == [T0 + 600]
    assert len(kept(store, cluster_id)) == 6
