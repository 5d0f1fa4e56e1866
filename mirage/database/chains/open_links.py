"""Reads links that have not ended. A tick reads these alone, however many links have ended."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Select, Update, and_, bindparam, or_, select, update

from mirage.database.chains.chains import LINK_COLUMNS, OVER, build_link
from mirage.database.chains.decisions import Effect
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey, match_links, pack_links
from mirage.database.schema.tables import chains, decisions, links
from mirage.domain.chain import ChainId, Link, LinkState, Planner, Position
from mirage.domain.decision import Action
from mirage.domain.job import JobId

_OPEN = tuple(state for state in LinkState if state is not LinkState.ENDED)


def list_open_links(tx: Transaction, cluster_id: int, *states: LinkState) -> list[Link]:
    """Return the open links of live chains, ordered by chain and index.

    `states`: only the links that are in one of them.
    """
    parameters = {"cluster_id": cluster_id, "states": [state.value for state in states or _OPEN]}
    return [build_link(row) for row in tx.execute(_SELECT_OPEN, parameters).all()]


def list_open_links_unseen_since(tx: Transaction, cluster_id: int, at: int) -> list[Link]:
    """Return the open links of live chains that no answer of Slurm has shown since `at`."""
    parameters = {"cluster_id": cluster_id, "states": [state.value for state in _OPEN], "at": at}
    return [build_link(row) for row in tx.execute(_SELECT_UNSEEN, parameters).all()]


def mark_links_seen(
    tx: Transaction, cluster_id: int, unchanged_links: Collection[Link], now: int
) -> None:
    """Record that the queue's answer showed these links unchanged."""
    if unchanged_links:
        pairs = pack_links((link.chain_id, link.index) for link in unchanged_links)
        parameters = {"of_cluster": cluster_id, "pairs": pairs, "now": now}
        tx.execute(_mark_seen(tx.dialect.name), parameters)


@cache
def _mark_seen(dialect: str) -> Update:
    is_chosen = match_links(dialect, links.c.chain_id, links.c.index)
    # Not "cluster_id": SQLAlchemy reserves the names of an updated table's columns.
    is_in_cluster = links.c.cluster_id == bindparam("of_cluster")
    return update(links).where(is_in_cluster, is_chosen).values(seen_at=bindparam("now"))


def list_open_job_ids(tx: Transaction, cluster_id: int) -> frozenset[JobId]:
    """Return the jobs of the open links of live chains."""
    parameters = {"cluster_id": cluster_id, "states": [state.value for state in _OPEN]}
    return frozenset(map(JobId, tx.scalars(_SELECT_OPEN_JOBS, parameters)))


def count_planned_standbys(tx: Transaction, cluster_id: int) -> dict[Planner, int]:
    """Count the standbys of live chains with a planned release, by who planned it."""
    planned = [
        link.planned_by
        for link in list_open_links(tx, cluster_id, LinkState.PENDING)
        if link.position is Position.HELD and link.plan_min is not None
    ]
    return {planner: planned.count(planner) for planner in Planner}


def list_owners(tx: Transaction, cluster_id: int) -> dict[ChainId, int]:
    """Return the owner's uid of each live chain."""
    rows = tx.execute(_SELECT_OWNERS, {"cluster_id": cluster_id})
    return {ChainId(chain_id): uid for chain_id, uid in rows}


def list_released_standbys(
    tx: Transaction, cluster_id: int, keys: Sequence[LinkKey]
) -> set[tuple[str, int, int | None]]:
    """Return the jobs (chain, index, job) of these links that the service itself released or whose
    release it planned. The job is None for a link that the service submitted."""
    parameters = {"cluster_id": cluster_id, "pairs": pack_links(keys)}
    rows = tx.execute(_select_released(tx.dialect.name), parameters).all()
    return {(chain_id, index, inputs.get("standby")) for chain_id, index, inputs in rows}


@cache
def _select_released(dialect: str) -> Select[Any]:
    table = decisions
    is_release = table.c.action.in_([a.value for a in (Action.FREE, Action.SUBMIT, Action.PLAN)])
    is_chosen = match_links(dialect, table.c.chain_id, table.c.index)
    query = select(table.c.chain_id, table.c.index, table.c.inputs)
    is_in_cluster = table.c.cluster_id == bindparam("cluster_id")
    return query.where(is_in_cluster, is_chosen, is_release, table.c.effect == Effect.DONE.value)


def list_overlapping_chains(tx: Transaction, cluster_id: int) -> list[ChainId]:
    """Return live chains in which a link runs while a later link runs or was made eligible."""
    return [
        ChainId(chain_id)
        for chain_id in tx.scalars(_SELECT_OVERLAPPING, {"cluster_id": cluster_id})
    ]


def _select_overlapping() -> Select[str]:
    earlier, later = links.alias("before"), links.alias("after")
    is_later = and_(later.c.chain_id == earlier.c.chain_id, later.c.index > earlier.c.index)
    return (
        select(earlier.c.chain_id)
        .join(chains, chains.c.chain_id == earlier.c.chain_id)
        .join(later, is_later)
        .where(
            earlier.c.cluster_id == bindparam("cluster_id"),
            earlier.c.state == LinkState.RUNNING.value,
            chains.c.state.not_in(OVER),
            or_(later.c.state == LinkState.RUNNING.value, later.c.freed_at.is_not(None)),
        )
        .distinct()
    )


# Built once: a tick asks several times, and building a statement costs more than running it.
_CONDITIONS = (
    links.c.cluster_id == bindparam("cluster_id"),
    links.c.state.in_(bindparam("states", expanding=True)),
    chains.c.state.not_in(OVER),
)
_OF_CHAIN = chains.c.chain_id == links.c.chain_id
_SELECT_OPEN = (
    select(*LINK_COLUMNS)
    .join(chains, _OF_CHAIN)
    .where(*_CONDITIONS)
    .order_by(links.c.chain_id, links.c.index)
)
_SELECT_UNSEEN = _SELECT_OPEN.where(links.c.seen_at < bindparam("at"))
_SELECT_OPEN_JOBS = select(links.c.job_id).join(chains, _OF_CHAIN).where(*_CONDITIONS)
_SELECT_OVERLAPPING = _select_overlapping()
_SELECT_OWNERS = select(chains.c.chain_id, chains.c.uid).where(
    chains.c.cluster_id == bindparam("cluster_id"), chains.c.state.not_in(OVER)
)
