"""Reads what the links of the site's chains asked for, by owner."""

from dataclasses import dataclass

from sqlalchemy import func, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import chains, links


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedShape:
    """A request that links of one owner's chains had."""

    user: str
    partition: str
    nodes: int
    time_limit_s: int
    links: int
    """How many links that started had it."""


def read_owned_shapes(tx: Transaction, cluster_id: int, *, since: int) -> list[OwnedShape]:
    """Read the shapes of the links that started at `since` or later and had a time limit."""
    query = (
        select(
            *(chains.c.user, links.c.partition, links.c.nodes, links.c.time_limit_s),
            func.count().label("links"),
        )
        .join(chains, chains.c.chain_id == links.c.chain_id)
        .where(
            links.c.cluster_id == cluster_id,
            links.c.start >= since,
            links.c.time_limit_s.is_not(None),
        )
        .group_by(chains.c.user, links.c.partition, links.c.nodes, links.c.time_limit_s)
    )
    return [OwnedShape(**row) for row in tx.execute(query).mappings()]
