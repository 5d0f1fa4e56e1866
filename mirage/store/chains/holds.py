"""Stores which jobs Mirage holds and may therefore release."""

from sqlalchemy import select, update

from mirage.domain.job import Job
from mirage.store.database.engine import Transaction
from mirage.store.database.tables import links


def record_hold(tx: Transaction, cluster_id: int, job: Job, at: int | None) -> None:
    """Store since when Mirage holds the link's job; None: it does not. Nothing is stored for a job
    that is no link."""
    table = links
    this = (table.c.job_id == job.job_id, table.c.submit == job.submit)
    tx.execute(update(table).where(table.c.cluster_id == cluster_id, *this).values(held_at=at))


def is_held_by_mirage(tx: Transaction, cluster_id: int, job: Job) -> bool:
    """Return whether Mirage holds the job, by the last answer of the queue."""
    this = (links.c.job_id == job.job_id, links.c.submit == job.submit)
    query = select(links.c.held_at).where(links.c.cluster_id == cluster_id, *this)
    return tx.execute(query).scalar() is not None
