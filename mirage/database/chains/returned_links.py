"""Reads the links whose jobs gave their nodes back beside a predecessor that still ran."""

from sqlalchemy import bindparam, func, select

from mirage.database.chains.chains import LINK_COLUMNS, build_link
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import chains, links
from mirage.domain.chain import Link


def list_returned_links(tx: Transaction, cluster_id: int, since: int) -> list[tuple[int, Link]]:
    """List the links whose last return was at `since` or later, each after its owner's uid.

    Their chains may be over.
    """
    rows = tx.execute(_SELECT_RETURNED, {"cluster_id": cluster_id, "since": since})
    return [(row[0], build_link(row[1:])) for row in rows]


def sum_returned(tx: Transaction, cluster_id: int) -> int:
    """Return the node-seconds for which jobs held the nodes that they gave back."""
    query = select(func.sum(links.c.returned_s * links.c.nodes)).where(
        links.c.cluster_id == cluster_id, links.c.returned_at.is_not(None)
    )
    return int(tx.scalar(query) or 0)


def count_returns(tx: Transaction, cluster_id: int) -> int:
    """Count how often links gave their nodes back."""
    query = select(func.sum(links.c.returns)).where(
        links.c.cluster_id == cluster_id, links.c.returned_at.is_not(None)
    )
    return int(tx.scalar(query) or 0)


# Built once, as a tick asks for it.
_SELECT_RETURNED = (
    select(chains.c.uid, *LINK_COLUMNS)
    .join(chains, chains.c.chain_id == links.c.chain_id)
    .where(links.c.cluster_id == bindparam("cluster_id"), links.c.returned_at >= bindparam("since"))
)
