"""How many chains a user has begun lately."""

from typing import NamedTuple

from sqlalchemy import func, select

from mirage.store.database.engine import Transaction
from mirage.store.database.tables import chains


class RecentRegistrations(NamedTuple):
    chains: int
    first: int | None
    """When the oldest of them began."""


def count_registrations_since(
    tx: Transaction, cluster_id: int, uid: int, instant: int
) -> RecentRegistrations:
    """Chains of that user, registered or found after then."""
    query = select(func.count(), func.min(chains.c.created_at)).where(
        chains.c.cluster_id == cluster_id, chains.c.uid == uid, chains.c.created_at > instant
    )
    return RecentRegistrations(*tx.execute(query).one())
