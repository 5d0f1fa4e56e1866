"""Reads what the links of the site's chains asked for, by owner, and when they handed over."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedHandover:
    """A hand-over that took place: both links started."""

    at: int
    """The predecessor's start, epoch seconds."""
    uid: int
    """The owner."""
    partition: str
    nodes: int
    time_limit_s: int


def read_owned_handovers(
    tx: Transaction, cluster_id: int, *, since: int, until: int
) -> list[OwnedHandover]:
    """Read the hand-overs whose predecessor started in [since, until), by that instant."""
    later = links.alias("later")
    query = (
        select(
            links.c.start.label("at"),
            chains.c.uid,
            links.c.partition,
            links.c.nodes,
            links.c.time_limit_s,
        )
        .join(chains, chains.c.chain_id == links.c.chain_id)
        .join(
            later,
            (later.c.chain_id == links.c.chain_id) & (later.c.index == links.c.index + 1),
        )
        .where(
            links.c.cluster_id == cluster_id,
            links.c.start >= since,
            links.c.start < until,
            links.c.time_limit_s.is_not(None),
            later.c.start.is_not(None),
        )
        .order_by(links.c.start, links.c.id)
    )
    return [OwnedHandover(**row) for row in tx.execute(query).mappings()]
