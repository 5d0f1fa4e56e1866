"""Stores which moves owners and admins recently ordered, and how Slurm answered."""

from enum import StrEnum

from sqlalchemy import delete, insert, select

from mirage.domain.job import JobId
from mirage.store.database.engine import Transaction
from mirage.store.database.tables import orders

KEPT_S = 3600


class OrderOutcome(StrEnum):
    TOLD = "told"
    """Mirage is about to send the order to Slurm, or has sent it."""
    REFUSED = "refused"
    OVERTAKEN = "overtaken"
    """The job had been held, released or started by somebody else before."""


def record_order(
    tx: Transaction, cluster_id: int, job_id: JobId, order: str, outcome: OrderOutcome, at: int
) -> None:
    """Record an order. Orders that are more than an hour old are deleted."""
    tx.execute(delete(orders).where(orders.c.cluster_id == cluster_id, orders.c.at < at - KEPT_S))
    values = {"cluster_id": cluster_id, "job_id": job_id, "order": order}
    tx.execute(insert(orders).values(**values, outcome=outcome.value, at=at))


def list_outcomes(
    tx: Transaction, cluster_id: int, job_id: JobId, order: str, *, since: int
) -> list[OrderOutcome]:
    """Return the outcomes of this order for this job after that instant."""
    query = select(orders.c.outcome).where(
        orders.c.cluster_id == cluster_id,
        orders.c.job_id == job_id,
        orders.c.order == order,
        orders.c.at > since,
    )
    return [OrderOutcome(outcome) for outcome in tx.scalars(query)]
