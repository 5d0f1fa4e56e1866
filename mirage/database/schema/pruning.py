"""Removes old rows; `service.retention` decides which rows, and how old they may be."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, func, or_, select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.learning_tables import learning_runs
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

_LINK_TABLES = (links, decisions, forecasts, would_free, outcomes)
"""The tables that refer to a chain's links. A chain with a row in one of them is not empty."""
_DONE, _RUNNING = "done", "running"
"""States of a run of learning (`database.learning.learning_runs.RunState`)."""
_OVER = tuple(state.value for state in ChainState if state.is_over)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """A choice of the audit's events."""

    words: Collection[str]
    beginnings: Collection[str]
    owner_beginning: str
    """One of the beginnings. An event that begins so is chosen only if the chain's owner acted."""


def prune_audit(
    tx: Transaction, cluster_id: int, before: int, limit: int, *, events: EventFilter | None = None
) -> int:
    """Delete up to `limit` rows from before that instant; return how many were deleted.

    `events`: only rows of these events; None: of all events. Rows about a chain that is not over
    stay, so that its whole past can be looked up.
    """
    is_its_chain = chains.c.chain_id == audit.c.chain_id
    must_stay: ColumnElement[bool] = chains.c.state.not_in(_OVER)
    conditions: list[ColumnElement[bool]] = [audit.c.cluster_id == cluster_id, audit.c.at < before]
    if events is not None:
        begins_with = [
            audit.c.event.startswith(word, autoescape=True) for word in events.beginnings
        ]
        conditions += [
            audit.c.chain_id.is_not(None),
            or_(audit.c.event.in_(events.words), *begins_with),
        ]
        is_order = audit.c.event.startswith(events.owner_beginning, autoescape=True)
        must_stay = or_(must_stay, and_(is_order, chains.c.user != audit.c.actor))
    conditions.append(~select(chains.c.chain_id).where(is_its_chain, must_stay).exists())
    old = select(audit.c.id).where(*conditions).order_by(audit.c.id).limit(limit)
    return tx.execute(delete(audit).where(audit.c.id.in_(old))).rowcount


def prune_empty_chains(tx: Transaction, cluster_id: int, before: int, limit: int) -> int:
    """Delete up to `limit` chains from before then that are over and of which Slurm has never shown
    a job.

    Returns the number of deleted chains.
    """
    references = [
        select(t.c.chain_id).where(t.c.chain_id == chains.c.chain_id) for t in _LINK_TABLES
    ]
    query = (
        select(chains.c.chain_id)
        .where(
            chains.c.cluster_id == cluster_id,
            chains.c.created_at < before,
            chains.c.state.in_(_OVER),
            *(~reference.exists() for reference in references),
        )
        .order_by(chains.c.created_at, chains.c.chain_id)
        .limit(limit)
    )
    chain_ids = list(tx.scalars(query.with_for_update(skip_locked=True)))
    for table in (recipes, situations, chains):
        tx.execute(delete(table).where(table.c.chain_id.in_(chain_ids)))
    return len(chain_ids)


def prune_learning_runs(tx: Transaction, cluster_id: int, before: int, limit: int) -> int:
    """Delete up to `limit` runs of learning that began before that instant; return how many were
    deleted.

    The newest run that trained stays: the next training is due by it.
    """
    is_of_cluster = learning_runs.c.cluster_id == cluster_id
    is_done = learning_runs.c.state == _DONE
    newest_done = select(func.max(learning_runs.c.id)).where(is_of_cluster, is_done)
    old = (
        select(learning_runs.c.id)
        .where(
            is_of_cluster,
            learning_runs.c.begun_at < before,
            learning_runs.c.state != _RUNNING,
            learning_runs.c.id != func.coalesce(newest_done.scalar_subquery(), 0),
        )
        .order_by(learning_runs.c.id)
        .limit(limit)
    )
    return tx.execute(delete(learning_runs).where(learning_runs.c.id.in_(old))).rowcount
