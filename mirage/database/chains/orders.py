"""Stores which moves owners and admins recently ordered, how Slurm answered, and which jobs Mirage
holds and may therefore release."""

from enum import StrEnum

from sqlalchemy import delete, insert, select, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import links, orders
from mirage.domain.job import Job, JobId

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


def record_hold(tx: Transaction, cluster_id: int, job: Job, at: int | None) -> None:
    """Store since when Mirage holds the link's job; None: it does not. Nothing is stored for a job
    that is no link."""
    is_its_link = (links.c.job_id == job.job_id, links.c.submit == job.submit)
    tx.execute(
        update(links).where(links.c.cluster_id == cluster_id, *is_its_link).values(held_at=at)
    )


def is_held_by_mirage(tx: Transaction, cluster_id: int, job: Job) -> bool:
    """Return whether Mirage holds the job, by the last answer of the queue."""
    is_its_link = (links.c.job_id == job.job_id, links.c.submit == job.submit)
    query = select(links.c.held_at).where(links.c.cluster_id == cluster_id, *is_its_link)
    return tx.execute(query).scalar() is not None
