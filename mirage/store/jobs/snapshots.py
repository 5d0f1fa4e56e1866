"""Stores snapshots: features for ever, raw columns in full for a day and thinned out for a
month."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sqlalchemy import func, null, or_, select, update

from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import UNKNOWN, Node, Queue
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import NotFound
from mirage.store.database.engine import Transaction
from mirage.store.database.tables import snapshots
from mirage.store.database.upsert import put_row_if_absent
from mirage.store.events import changes
from mirage.store.events.changes import Topic

THINNED_FOR_S = 30 * DAY_S
"""Seconds after which all raw columns are dropped."""

_ZLIB_LEVEL = 3
"""Queue text shrinks about tenfold at any level; the low ones take a third of the time."""

_EMPTY = Queue.from_jobs(0, [])
_COLUMNS = tuple(f.name for f in fields(Queue) if f.name not in {"taken_at", "unread"})


_NODE_FIELDS = tuple(f.name for f in fields(Node))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    taken_at: int
    features: Mapping[str, Any]


def add_snapshot(
    tx: Transaction,
    cluster_id: int,
    queue: Queue,
    nodes: tuple[Node, ...] | None,
    features: Mapping[str, Any],
) -> None:
    """Store a snapshot. A stored one stays as it is. `nodes` None: nodes were not queried."""
    values = {
        "cluster_id": cluster_id,
        "taken_at": queue.taken_at,
        "features": dict(features),
        "queue": _pack_json({n: getattr(queue, n).tolist() for n in _COLUMNS}),
        "nodes": None if nodes is None else _pack_json([_build_node_values(n) for n in nodes]),
    }
    if put_row_if_absent(tx, snapshots, values, key=["cluster_id", "taken_at"]):
        changes.record_change(tx, cluster_id, Topic.QUEUE)


def _build_node_values(node: Node) -> dict[str, Any]:
    return {name: getattr(node, name) for name in _NODE_FIELDS}


def find_latest_snapshot(tx: Transaction, cluster_id: int) -> SnapshotRow | None:
    query = select(snapshots.c.taken_at, snapshots.c.features).where(
        snapshots.c.cluster_id == cluster_id
    )
    row = tx.execute(query.order_by(snapshots.c.taken_at.desc()).limit(1)).first()
    return None if row is None else SnapshotRow(taken_at=row.taken_at, features=row.features)


def find_first_taken_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return the instant of the oldest snapshot."""
    query = select(func.min(snapshots.c.taken_at)).where(snapshots.c.cluster_id == cluster_id)
    found = tx.scalar(query)
    return None if found is None else int(found)


def find_gap(tx: Transaction, cluster_id: int, at: int) -> tuple[int, int] | None:
    """Return the instants of the last snapshot before `at`, and of the first one from then on.

    None: there is no snapshot on one side.
    """
    mine, taken_at = snapshots.c.cluster_id == cluster_id, snapshots.c.taken_at
    before = tx.scalar(select(func.max(taken_at)).where(mine, taken_at < at))
    after = tx.scalar(select(func.min(taken_at)).where(mine, taken_at >= at))
    return None if before is None or after is None else (int(before), int(after))


def list_snapshots(tx: Transaction, cluster_id: int, since: int) -> list[SnapshotRow]:
    """List the features from `since` on, oldest first."""
    query = select(snapshots.c.taken_at, snapshots.c.features).where(
        snapshots.c.cluster_id == cluster_id, snapshots.c.taken_at >= since
    )
    rows = tx.execute(query.order_by(snapshots.c.taken_at))
    return [SnapshotRow(taken_at=row.taken_at, features=row.features) for row in rows]


def read_queue(tx: Transaction, cluster_id: int, taken_at: int) -> Queue:
    """Return the queue at `taken_at`. Raises NotFound if it was never stored or was thinned out."""
    packed = _read_packed(tx, cluster_id, taken_at, "queue")
    if packed is None:
        raise NotFound(f"no snapshot of the queue at {taken_at} is stored")
    unpacked = _unpack_json(packed)
    if unpacked.keys() < set(_COLUMNS):
        return _restore_old_queue(taken_at, unpacked)
    columns = {name: _build_column(name, values) for name, values in unpacked.items()}
    return Queue(taken_at=taken_at, **columns)


def _restore_old_queue(taken_at: int, columns: Mapping[str, list[Any]]) -> Queue:
    """Restore a queue that an older release stored.

    That release kept fewer columns, and kept plans as starts: `Job` tells them apart.
    """
    rows = zip(*columns.values(), strict=True)
    return Queue.from_jobs(
        taken_at, [_build_job(dict(zip(columns, row, strict=True))) for row in rows]
    )


def _build_job(row: Mapping[str, Any]) -> Job:
    fields: dict[str, Any] = {n: None if v == UNKNOWN else v for n, v in row.items()}
    return Job(**fields | {"state": JobState(row["state"])})


def read_nodes(tx: Transaction, cluster_id: int, taken_at: int) -> tuple[Node, ...] | None:
    """Return the nodes at `taken_at`; None: the snapshot has none, or was thinned out."""
    packed = _read_packed(tx, cluster_id, taken_at, "nodes")
    if packed is None:
        return None
    return tuple(
        Node(**{**node, "partitions": tuple(node["partitions"])}) for node in _unpack_json(packed)
    )


def list_partitions(tx: Transaction, cluster_id: int) -> list[str]:
    """Return the partitions that had nodes when nodes were last read."""
    query = select(snapshots.c.nodes).where(
        snapshots.c.cluster_id == cluster_id, snapshots.c.nodes.is_not(None)
    )
    packed = tx.scalar(query.order_by(snapshots.c.taken_at.desc()).limit(1))
    if packed is None:
        return []
    return sorted({name for node in _unpack_json(packed) for name in node["partitions"]})


def thin_snapshots(tx: Transaction, cluster_id: int, now: int) -> int:
    """Drop raw columns older than a day but the first of every hour; all after 30 days.

    Features stay. Returns how many snapshots lost their raw columns.
    """
    old = (
        snapshots.c.cluster_id == cluster_id,
        snapshots.c.queue.is_not(None),
        snapshots.c.taken_at < now - DAY_S,
    )
    stays = select(func.min(snapshots.c.taken_at)).where(*old)
    stays = stays.group_by(snapshots.c.taken_at // HOUR_S)
    drop = or_(
        snapshots.c.taken_at < now - THINNED_FOR_S,
        snapshots.c.taken_at.not_in(stays.scalar_subquery()),
    )
    done = tx.execute(update(snapshots).where(*old, drop).values(queue=null(), nodes=null()))
    return done.rowcount


def _read_packed(tx: Transaction, cluster_id: int, taken_at: int, column: str) -> bytes | None:
    query = select(snapshots.c[column]).where(
        snapshots.c.cluster_id == cluster_id, snapshots.c.taken_at == taken_at
    )
    return tx.scalar(query)


def _pack_json(value: object) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _ZLIB_LEVEL)


def _unpack_json(packed: bytes) -> Any:
    return json.loads(zlib.decompress(packed))


def _build_column(name: str, values: list[Any]) -> Any:
    column = np.empty(len(values), dtype=getattr(_EMPTY, name).dtype)
    column[:] = [JobState(v) for v in values] if name == "state" else values
    return column
