"""Stores what Slurm was told lately at the word of owners and admins, and how it answered."""

from enum import StrEnum

from sqlalchemy import delete, insert, select

from mirage.domain.job import JobId
from mirage.store.database.engine import Transaction
from mirage.store.database.tables import orders

KEPT_S = 3600


class OrderOutcome(StrEnum):
    TOLD = "told"
    """It is about to be told, or has been."""
    REFUSED = "refused"
    OVERTAKEN = "overtaken"
    """Somebody else had held, released or started the job by then."""


def record_order(
    tx: Transaction, cluster_id: int, job_id: JobId, order: str, outcome: OrderOutcome, at: int
) -> None:
    """Also forgets what was told more than an hour before."""
    tx.execute(delete(orders).where(orders.c.cluster_id == cluster_id, orders.c.at < at - KEPT_S))
    values = {"cluster_id": cluster_id, "job_id": job_id, "order": order}
    tx.execute(insert(orders).values(**values, outcome=outcome.value, at=at))


def list_outcomes(
    tx: Transaction, cluster_id: int, job_id: JobId, order: str, *, since: int
) -> list[OrderOutcome]:
    """Return the outcomes of that order to that job, after that instant."""
    query = select(orders.c.outcome).where(
        orders.c.cluster_id == cluster_id,
        orders.c.job_id == job_id,
        orders.c.order == order,
        orders.c.at > since,
    )
    return [OrderOutcome(outcome) for outcome in tx.scalars(query)]
