"""Removes old rows; `services.operations.retention` says which, and how old."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import outcomes, would_free
from mirage.database.schema.tables import (
    audit,
    chains,
    decisions,
    forecasts,
    links,
    recipes,
    situations,
)
from mirage.domain.chain import ChainState

_OF_LINKS = (links, decisions, forecasts, would_free, outcomes)
"""The other tables that refer to a chain."""
_OVER = tuple(state.value for state in ChainState if state.is_over)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A choice of the audit's events."""

    words: Collection[str]
    beginnings: Collection[str]
    of_owners: str
    """Beginnings of events that are meant only if the chain's owner acted."""


def prune_audit(
    tx: Transaction, cluster_id: int, before: int, most: int, *, events: EventFilter | None = None
) -> int:
    """Take away up to `most` rows from before then, of these events (None: of all).

    What tells of a chain that is not over stays: its whole past can be looked up. Returns how many.
    """
    its_chain = chains.c.chain_id == audit.c.chain_id
    stays: ColumnElement[bool] = chains.c.state.not_in(_OVER)
    wanted: list[ColumnElement[bool]] = [audit.c.cluster_id == cluster_id, audit.c.at < before]
    if events is not None:
        begins = [audit.c.event.startswith(word, autoescape=True) for word in events.beginnings]
        wanted += [audit.c.chain_id.is_not(None), or_(audit.c.event.in_(events.words), *begins)]
        by_owner = audit.c.event.startswith(events.of_owners, autoescape=True)
        stays = or_(stays, and_(by_owner, chains.c.user != audit.c.actor))
    wanted.append(~select(chains.c.chain_id).where(its_chain, stays).exists())
    old = select(audit.c.id).where(*wanted).order_by(audit.c.id).limit(most)
    return tx.execute(delete(audit).where(audit.c.id.in_(old))).rowcount


def prune_empty_chains(tx: Transaction, cluster_id: int, before: int, most: int) -> int:
    """Delete up to `most` chains from before then that are over and of which Slurm has never shown
    a job.

    Returns the number of deleted chains.
    """
    named = [select(t.c.chain_id).where(t.c.chain_id == chains.c.chain_id) for t in _OF_LINKS]
    query = (
        select(chains.c.chain_id)
        .where(
            chains.c.cluster_id == cluster_id,
            chains.c.created_at < before,
            chains.c.state.in_(_OVER),
            *(~of_it.exists() for of_it in named),
        )
        .order_by(chains.c.created_at, chains.c.chain_id)
        .limit(most)
    )
    gone = list(tx.scalars(query.with_for_update(skip_locked=True)))
    for table in (recipes, situations, chains):
        tx.execute(delete(table).where(table.c.chain_id.in_(gone)))
    return len(gone)
