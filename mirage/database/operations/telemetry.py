"""Stores the worker's last round and the cost of Slurm calls, and reads the database's size."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, select, text

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import leases, slurm_calls, ticks
from mirage.database.schema.upsert import build_insert, put_row
from mirage.domain.time_units import HOUR_S

_COUNT_COLUMNS = ("calls", "failures", "seconds", "unread")
KEPT_S = 30 * 86400
"""Seconds for which the hourly counts of calls are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTick:
    """The last round of the worker."""

    at: int
    took_s: float
    good_at: int | None
    """When a round last ended without an error."""
    holder: str
    """HOST:PID."""
    error: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounts:
    calls: int
    failures: int
    seconds: float
    unread: int = 0
    """Rows of the answers that could not be read and were left out."""


def record_tick(tx: Transaction, cluster_id: int, tick: WorkerTick) -> None:
    """Store the last round in place of the one before. Without `good_at`, the stored one stays."""
    values: dict[str, object] = {
        "cluster_id": cluster_id,
        "at": tick.at,
        "took_s": tick.took_s,
        "holder": tick.holder,
        "error": tick.error,
        "version": tick.version,
    }
    if tick.good_at is not None:
        values["good_at"] = tick.good_at
    put_row(tx, ticks, values, key=["cluster_id"])


def find_last_tick(tx: Transaction, cluster_id: int) -> WorkerTick | None:
    row = tx.execute(select(ticks).where(ticks.c.cluster_id == cluster_id)).first()
    if row is None:
        return None
    return WorkerTick(
        at=row.at,
        took_s=row.took_s,
        good_at=row.good_at,
        holder=row.holder,
        error=row.error,
        version=row.version,
    )


def find_lease(tx: Transaction, cluster_id: int) -> tuple[str, int] | None:
    """Return the lease's holder and its end; None: there is no lease."""
    row = tx.execute(select(leases).where(leases.c.cluster_id == cluster_id)).first()
    return None if row is None else (row.holder, row.until)


def add_calls(tx: Transaction, cluster_id: int, at: int, counts: Mapping[str, CallCounts]) -> None:
    """Add these calls to the hour of `at`. Hours older than KEPT_S are deleted."""
    hour = at - at % HOUR_S
    rows = [
        {
            "cluster_id": cluster_id,
            "hour": hour,
            "command": command,
            "calls": count.calls,
            "failures": count.failures,
            "seconds": count.seconds,
            "unread": count.unread,
        }
        for command, count in counts.items()
    ]
    if not rows:
        return
    statement = build_insert(tx, slurm_calls)
    sums = {n: slurm_calls.c[n] + statement.excluded[n] for n in _COUNT_COLUMNS}
    key = ["cluster_id", "hour", "command"]
    tx.execute(statement.on_conflict_do_update(index_elements=key, set_=sums), rows)
    old = slurm_calls.c.hour < at - KEPT_S
    tx.execute(delete(slurm_calls).where(slurm_calls.c.cluster_id == cluster_id, old))


def sum_calls_by_command(tx: Transaction, cluster_id: int, since: int) -> dict[str, CallCounts]:
    """Sum calls by command from `since` on, the beginning of an hour."""
    sums = [func.sum(slurm_calls.c[name]) for name in _COUNT_COLUMNS]
    query = select(slurm_calls.c.command, *sums).where(*_match_calls_since(cluster_id, since))
    rows = tx.execute(query.group_by(slurm_calls.c.command))
    return {
        command: CallCounts(
            calls=int(calls), failures=int(failures), seconds=float(seconds), unread=int(unread)
        )
        for command, calls, failures, seconds, unread in rows
    }


def sum_calls_by_hour(tx: Transaction, cluster_id: int, since: int) -> list[tuple[int, int]]:
    """List each hour with calls and their number, oldest first."""
    query = select(slurm_calls.c.hour, func.sum(slurm_calls.c.calls))
    query = query.where(*_match_calls_since(cluster_id, since)).group_by(slurm_calls.c.hour)
    rows = tx.execute(query.order_by(slurm_calls.c.hour))
    return [(int(hour), int(calls)) for hour, calls in rows]


def _match_calls_since(
    cluster_id: int, since: int
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return slurm_calls.c.cluster_id == cluster_id, slurm_calls.c.hour >= since


def measure_size_bytes(tx: Transaction) -> int:
    """Return the size of the whole database, in bytes; of SQLite without its journal."""
    if tx.dialect.name == "sqlite":
        query = text("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    else:
        query = text("SELECT pg_database_size(current_database())")
    return int(tx.execute(query).scalar_one())


def read_database_version(tx: Transaction) -> str:
    """Return the version of the database server, or of SQLite's library."""
    if tx.dialect.name == "sqlite":
        return f"SQLite {tx.execute(text('SELECT sqlite_version()')).scalar_one()}"
    return f"PostgreSQL {tx.execute(text('SHOW server_version')).scalar_one()}"
