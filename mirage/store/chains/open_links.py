"""Reads links that have not ended. A tick asks about these alone, however many have ended."""

from sqlalchemy import and_, or_, select

from mirage.domain.chain import ChainId, Link, LinkState, Planner, Position
from mirage.store.chains.chains import LINK_COLUMNS, OVER, build_link
from mirage.store.database.engine import Transaction
from mirage.store.database.tables import chains, links

_OPEN = tuple(state for state in LinkState if state is not LinkState.ENDED)


def list_open_links(tx: Transaction, cluster_id: int, *states: LinkState) -> list[Link]:
    """Return the open links of live chains, ordered by chain and index.

    `states`: only the links that are in one of them.
    """
    query = (
        select(*LINK_COLUMNS)
        .join(chains, chains.c.chain_id == links.c.chain_id)
        .where(
            links.c.cluster_id == cluster_id,
            links.c.state.in_(state.value for state in states or _OPEN),
            chains.c.state.not_in(OVER),
        )
    )
    rows = tx.execute(query.order_by(links.c.chain_id, links.c.index)).all()
    return [build_link(row) for row in rows]


def count_planned_standbys(tx: Transaction, cluster_id: int) -> dict[Planner, int]:
    """Count the standbys of live chains with a planned release, by who planned it."""
    planned = [
        link.planned_by
        for link in list_open_links(tx, cluster_id, LinkState.PENDING)
        if link.position is Position.HELD and link.plan_min is not None
    ]
    return {planner: planned.count(planner) for planner in Planner}


def list_overlapping_chains(tx: Transaction, cluster_id: int) -> list[ChainId]:
    """Return live chains in which a link runs while a later link runs or was made eligible."""
    before, after = links.alias("before"), links.alias("after")
    later = and_(after.c.chain_id == before.c.chain_id, after.c.index > before.c.index)
    query = (
        select(before.c.chain_id)
        .join(chains, chains.c.chain_id == before.c.chain_id)
        .join(after, later)
        .where(
            before.c.cluster_id == cluster_id,
            before.c.state == LinkState.RUNNING.value,
            chains.c.state.not_in(OVER),
            or_(after.c.state == LinkState.RUNNING.value, after.c.freed_at.is_not(None)),
        )
    )
    return [ChainId(found) for found in tx.scalars(query.distinct())]
