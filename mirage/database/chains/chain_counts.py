"""Counts chains: of one user, in each state, at risk."""

from typing import NamedTuple

from sqlalchemy import case, func, select

from mirage.database.chains.chains import OVER
from mirage.database.schema import tables
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import ChainState
from mirage.domain.chain_cause import Risk


class RecentRegistrations(NamedTuple):
    chains: int
    first: int | None
    """When the oldest of these chains was registered or found."""


def count_chains_by_state(tx: Transaction, cluster_id: int) -> dict[ChainState, int]:
    """Count the chains in every state, also in those that no chain is in."""
    table = tables.chains
    query = select(table.c.state, func.count()).where(table.c.cluster_id == cluster_id)
    counts = {ChainState(state): n for state, n in tx.execute(query.group_by(table.c.state))}
    return {state: counts.get(state, 0) for state in ChainState}


def count_live_chains(tx: Transaction, cluster_id: int, uid: int) -> int:
    """Count that user's chains that are not over."""
    table = tables.chains
    query = select(func.count()).where(
        table.c.cluster_id == cluster_id, table.c.uid == uid, table.c.state.not_in(OVER)
    )
    return int(tx.execute(query).scalar_one())


def count_unseen_chains(tx: Transaction, cluster_id: int, uid: int) -> int:
    """Count that user's live chains of which no link is known."""
    table, links = tables.chains, tables.links
    query = select(func.count()).where(
        table.c.cluster_id == cluster_id,
        table.c.uid == uid,
        table.c.state.not_in(OVER),
        ~select(links.c.id).where(links.c.chain_id == table.c.chain_id).exists(),
    )
    return int(tx.execute(query).scalar_one())


def has_seen_chain(tx: Transaction, cluster_id: int, uid: int) -> bool:
    """Tell whether Slurm has shown a job of a live chain of that user."""
    table, links = tables.chains, tables.links
    query = select(table.c.chain_id).where(
        table.c.cluster_id == cluster_id,
        table.c.uid == uid,
        table.c.state.not_in(OVER),
        select(links.c.id).where(links.c.chain_id == table.c.chain_id).exists(),
    )
    return tx.execute(query.limit(1)).first() is not None


def count_registrations_since(
    tx: Transaction, cluster_id: int, uid: int, instant: int
) -> RecentRegistrations:
    """Count the chains of that user that were registered or found after `instant`."""
    table = tables.chains
    query = select(func.count(), func.min(table.c.created_at)).where(
        table.c.cluster_id == cluster_id, table.c.uid == uid, table.c.created_at > instant
    )
    return RecentRegistrations(*tx.execute(query).one())


def count_chains_at_risk(tx: Transaction, cluster_id: int) -> dict[str, int]:
    """Count the live chains at risk, by the word of their risk (`ChainRisk.word`)."""
    table = tables.chains
    is_hindered = table.c.at_risk == Risk.HINDERED.value
    word = case((is_hindered, table.c.risk_detail), else_=table.c.at_risk)
    query = select(word, func.count()).where(
        table.c.cluster_id == cluster_id, table.c.at_risk != "", table.c.state.not_in(OVER)
    )
    return {str(word): int(n) for word, n in tx.execute(query.group_by(word))}
