"""Stores hours whose sums of waits are out of date. Whatever changes their jobs marks them."""

from collections.abc import Iterable

from sqlalchemy import delete, func, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import wait_marks
from mirage.database.schema.upsert import build_insert
from mirage.domain.time_units import DAY_S, HOUR_S


def mark_hours(tx: Transaction, cluster_id: int, starts: Iterable[int]) -> None:
    """Mark the hours of these instants, so that they are summed again."""
    hours = sorted({start - start % HOUR_S for start in starts})
    if hours:
        statement = build_insert(tx, wait_marks).on_conflict_do_nothing(
            index_elements=["cluster_id", "at"]
        )
        tx.execute(statement, [{"cluster_id": cluster_id, "at": hour} for hour in hours])


def find_newest_day(tx: Transaction, cluster_id: int) -> tuple[int, list[int]] | None:
    """Return the last day that has marks, and its marked hours; None: all sums are up to date."""
    of_cluster = wait_marks.c.cluster_id == cluster_id
    newest = tx.scalar(select(func.max(wait_marks.c.at)).where(of_cluster))
    if newest is None:
        return None
    day = int(newest) - int(newest) % DAY_S
    rows = tx.scalars(select(wait_marks.c.at).where(of_cluster, wait_marks.c.at >= day))
    return day, [int(at) for at in rows]


def clear_hours(tx: Transaction, cluster_id: int, since: int, until: int) -> None:
    """Record that the hours of [since, until) have been summed."""
    tx.execute(
        delete(wait_marks).where(
            wait_marks.c.cluster_id == cluster_id,
            wait_marks.c.at >= since,
            wait_marks.c.at < until,
        )
    )


def count_marked_hours(tx: Transaction, cluster_id: int, since: int, until: int) -> int:
    """Count the marked hours of [since, until)."""
    query = select(func.count()).where(
        wait_marks.c.cluster_id == cluster_id, wait_marks.c.at >= since, wait_marks.c.at < until
    )
    return tx.execute(query).scalar_one()
