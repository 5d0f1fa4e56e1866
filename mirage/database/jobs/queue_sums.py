"""Stores snapshots, the sums of each look at the queue. They are never deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import snapshots
from mirage.database.schema.upsert import put_row_if_absent


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    taken_at: int
    features: Mapping[str, Any]


def add_snapshot(
    tx: Transaction, cluster_id: int, taken_at: int, features: Mapping[str, Any]
) -> None:
    """Store a snapshot. A stored one stays as it is."""
    values = {"cluster_id": cluster_id, "taken_at": taken_at, "features": dict(features)}
    if put_row_if_absent(tx, snapshots, values, key=["cluster_id", "taken_at"]):
        changes.record_change(tx, cluster_id, Topic.QUEUE)


def find_latest_snapshot(tx: Transaction, cluster_id: int) -> SnapshotRow | None:
    query = select(snapshots.c.taken_at, snapshots.c.features).where(
        snapshots.c.cluster_id == cluster_id
    )
    row = tx.execute(query.order_by(snapshots.c.taken_at.desc()).limit(1)).first()
    return None if row is None else SnapshotRow(taken_at=row.taken_at, features=row.features)


def find_first_taken_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return the instant of the oldest snapshot."""
    query = select(func.min(snapshots.c.taken_at)).where(snapshots.c.cluster_id == cluster_id)
    taken_at = tx.scalar(query)
    return None if taken_at is None else int(taken_at)


def find_gap(tx: Transaction, cluster_id: int, at: int) -> tuple[int, int] | None:
    """Return the instants of the last snapshot before `at`, and of the first one from then on.

    None: there is no snapshot on one side.
    """
    of_cluster, taken_at = snapshots.c.cluster_id == cluster_id, snapshots.c.taken_at
    before = tx.scalar(select(func.max(taken_at)).where(of_cluster, taken_at < at))
    after = tx.scalar(select(func.min(taken_at)).where(of_cluster, taken_at >= at))
    return None if before is None or after is None else (int(before), int(after))


def list_snapshots(tx: Transaction, cluster_id: int, since: int) -> list[SnapshotRow]:
    """List the features from `since` on, oldest first."""
    query = select(snapshots.c.taken_at, snapshots.c.features).where(
        snapshots.c.cluster_id == cluster_id, snapshots.c.taken_at >= since
    )
    rows = tx.execute(query.order_by(snapshots.c.taken_at))
    return [SnapshotRow(taken_at=row.taken_at, features=row.features) for row in rows]
