"""Snapshots: the sums of each look, once only."""

import numpy as np

from mirage.database.jobs import queue_sums
from mirage.database.jobs.queue_sums import SnapshotRow
from mirage.database.schema.engine import Store

T0 = 1_000_000 * 3600


def test_features_come_back_as_they_went_in(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        queue_sums.add_snapshot(tx, cluster_id, T0, {"pending": 1, "load": np.float64(0.5)})
    with store.read() as tx:
        found = queue_sums.find_latest_snapshot(tx, cluster_id)
    assert found == SnapshotRow(taken_at=T0, features={"pending": 1, "load": 0.5})


def test_the_same_instant_again_changes_nothing(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        queue_sums.add_snapshot(tx, cluster_id, T0, {"pending": 1})
        queue_sums.add_snapshot(tx, cluster_id, T0, {"pending": 2})
        assert [r.features for r in queue_sums.list_snapshots(tx, cluster_id, 0)] == [
            {"pending": 1}
        ]


def test_no_snapshot_yet(store: Store, cluster_id: int) -> None:
    with store.read() as tx:
        assert queue_sums.find_latest_snapshot(tx, cluster_id) is None


def test_series_begins_at_since(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for taken_at in range(T0, T0 + 5):
            queue_sums.add_snapshot(tx, cluster_id, taken_at, {"at": taken_at})
    with store.read() as tx:
        found = queue_sums.list_snapshots(tx, cluster_id, T0 + 3)
    assert [r.taken_at for r in found] == [T0 + 3, T0 + 4]
