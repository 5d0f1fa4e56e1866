"""Stores clusters: names, modes, and the lease of the worker that acts on a cluster."""

from collections.abc import Mapping
from functools import cache

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.sql.dml import ReturningInsert

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import clusters, leases, partition_modes
from mirage.database.schema.upsert import build_dialect_insert, put_row, put_row_if_absent
from mirage.domain.decision import Mode

_SELECT_MODES = select(partition_modes.c.partition, partition_modes.c.mode).where(
    partition_modes.c.cluster_id == bindparam("cluster_id")
)


def ensure_cluster(tx: Transaction, name: str) -> int:
    """Return the id of the cluster with that name; a new cluster is stored."""
    query = select(clusters.c.id).where(clusters.c.name == name)
    cluster_id = tx.scalar(query)
    if cluster_id is None:
        put_row_if_absent(tx, clusters, {"name": name}, key=["name"])
        cluster_id = tx.execute(query).scalar_one()
    return int(cluster_id)


def rename_cluster(tx: Transaction, old: str, new: str) -> None:
    """Rename a cluster; nothing happens if there is none, or if the new name is taken."""
    if new not in list_cluster_names(tx).values():
        tx.execute(update(clusters).where(clusters.c.name == old).values(name=new))


def list_cluster_names(tx: Transaction) -> dict[int, str]:
    rows = tx.execute(select(clusters.c.id, clusters.c.name).order_by(clusters.c.id))
    return {row.id: row.name for row in rows}


def read_history_until(tx: Transaction, cluster_id: int) -> int | None:
    """Return the instant up to which accounting has been read; None: never."""
    until = tx.scalar(select(clusters.c.history_until).where(clusters.c.id == cluster_id))
    return None if until is None else int(until)


def set_history_until(tx: Transaction, cluster_id: int, until: int) -> None:
    tx.execute(update(clusters).where(clusters.c.id == cluster_id).values(history_until=until))


def read_demoted_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return when wrong forecasts last took the cluster from act to shadow; None: never."""
    demoted_at = tx.scalar(select(clusters.c.demoted_at).where(clusters.c.id == cluster_id))
    return None if demoted_at is None else int(demoted_at)


def set_demoted_at(tx: Transaction, cluster_id: int, at: int) -> None:
    tx.execute(update(clusters).where(clusters.c.id == cluster_id).values(demoted_at=at))


def list_modes(tx: Transaction, cluster_id: int) -> dict[str, Mode]:
    """Return the cluster's mode under "", and the mode of each partition that has its own."""
    rows = tx.execute(_SELECT_MODES, {"cluster_id": cluster_id})
    own_modes = {row.partition: Mode(row.mode) for row in rows}
    return {"": Mode.SHADOW} | own_modes


def resolve_mode(modes: Mapping[str, Mode], partition: str) -> Mode:
    """Return the partition's own mode, otherwise the cluster's. Of several partitions ("a,b"), the
    most careful mode is returned."""
    modes_there = {modes.get(name, modes[""]) for name in partition.split(",")}
    return min(modes_there, key=list(Mode).index)


def set_mode(tx: Transaction, cluster_id: int, mode: Mode, partition: str = "") -> None:
    values = {"cluster_id": cluster_id, "partition": partition, "mode": mode.value}
    put_row(tx, partition_modes, values, key=["cluster_id", "partition"])
    changes.record_change(tx, cluster_id, Topic.MODE)


def unset_mode(tx: Transaction, cluster_id: int, partition: str) -> bool:
    """Unset the partition's own mode; return whether it had one."""
    is_own = partition_modes.c.cluster_id == cluster_id, partition_modes.c.partition == partition
    deletion = delete(partition_modes).where(*is_own).returning(partition_modes.c.partition)
    had_mode = tx.execute(deletion).first() is not None
    if had_mode:
        changes.record_change(tx, cluster_id, Topic.MODE)
    return had_mode


def take_lease(tx: Transaction, cluster_id: int, holder: str, *, now: int, ttl_s: int) -> bool:
    """Take the lease until now + ttl_s if it is free, expired or the holder's own.

    Returns whether the holder has it. This is one statement, so only one of two workers gets the
    lease.
    """
    parameters = {"cluster_id": cluster_id, "holder": holder, "until": now + ttl_s, "now": now}
    return tx.execute(_build_lease(tx.dialect.name), parameters).first() is not None


@cache
def _build_lease(dialect: str) -> ReturningInsert[str]:
    statement = build_dialect_insert(dialect, leases)
    excluded = statement.excluded
    is_free = or_(leases.c.until <= bindparam("now"), leases.c.holder == excluded.holder)
    return statement.on_conflict_do_update(
        index_elements=["cluster_id"],
        set_={"holder": excluded.holder, "until": excluded.until},
        where=is_free,
    ).returning(leases.c.holder)


def read_lease_end(tx: Transaction, cluster_id: int) -> int | None:
    """Return when the acting worker's lease runs out, or ran out.

    None: there is no lease, or it ended in order.
    """
    until: int | None = tx.scalar(select(leases.c.until).where(leases.c.cluster_id == cluster_id))
    return until


def release_lease(tx: Transaction, cluster_id: int, holder: str) -> None:
    tx.execute(delete(leases).where(leases.c.cluster_id == cluster_id, leases.c.holder == holder))


def read_node_asked_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return when a link on another host last asked the service; None: no link has."""
    asked_at = tx.scalar(select(clusters.c.node_asked_at).where(clusters.c.id == cluster_id))
    return None if asked_at is None else int(asked_at)


def set_node_asked_at(tx: Transaction, cluster_id: int, at: int) -> None:
    tx.execute(update(clusters).where(clusters.c.id == cluster_id).values(node_asked_at=at))
