"""Live chains in the order in which somebody should look at them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Select, and_, case, func, literal, select, tuple_

from mirage.database.access.row_access import match_own_chains
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import chains, links
from mirage.domain.callers.caller import OwnRows
from mirage.domain.chain import ChainId, ChainState, LinkState
from mirage.domain.timelimit import UNLIMITED

NEVER = 2**62
"""The end of a link without a time limit, and of a chain without a running link."""

AT_RISK, PAUSED, ORDINARY = 0, 1, 2

_LIVE = tuple(state.value for state in ChainState if not state.is_over)


class RankedChain(NamedTuple):
    """A chain's place among the others: at risk, paused, then by the running link's end."""

    rank: int
    """AT_RISK, PAUSED or ORDINARY."""
    ends: int
    """When the newest running link ends at the latest; NEVER if that is not known."""
    chain_id: ChainId


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingFilter:
    """A choice of chains. Empty fields do not filter."""

    own: OwnRows | None = None
    """Only chains of this caller."""
    user: str = ""


def list_by_risk(
    tx: Transaction,
    cluster_id: int,
    criteria: RankingFilter,
    *,
    after: RankedChain | None = None,
    limit: int,
) -> list[RankedChain]:
    """List live chains, the most urgent first. `after` is the last chain of the page before."""
    query = _select_ranked(cluster_id, criteria).subquery()
    place = (query.c.rank, query.c.ends, query.c.chain_id)
    page = select(*place).order_by(*place).limit(limit)
    if after is not None:
        page = page.where(tuple_(*place) > tuple_(*after))
    return [RankedChain(r.rank, r.ends, ChainId(r.chain_id)) for r in tx.execute(page)]


def list_soonest_ending(
    tx: Transaction, cluster_id: int, criteria: RankingFilter, *, limit: int
) -> list[RankedChain]:
    """List active chains by the end of the running link, soonest first. Chains without an end are
    left out."""
    query = _select_ranked(cluster_id, criteria, live=(ChainState.ACTIVE.value,)).subquery()
    ending = select(query.c.rank, query.c.ends, query.c.chain_id).where(query.c.ends < NEVER)
    rows = tx.execute(ending.order_by(query.c.ends, query.c.chain_id).limit(limit))
    return [RankedChain(r.rank, r.ends, ChainId(r.chain_id)) for r in rows]


def count_by_rank(tx: Transaction, cluster_id: int, criteria: RankingFilter) -> dict[int, int]:
    """Count the live chains of each rank among those that `criteria` chooses."""
    rank = _build_rank()
    query = (
        select(rank, func.count())
        .where(*_build_conditions(cluster_id, criteria, _LIVE))
        .group_by(rank)
    )
    return {int(rank): int(n) for rank, n in tx.execute(query)}


def _select_ranked(
    cluster_id: int, criteria: RankingFilter, *, live: tuple[str, ...] = _LIVE
) -> Select[Any]:
    ends = _select_ends(cluster_id).subquery()
    return (
        select(
            _build_rank().label("rank"),
            func.coalesce(ends.c.ends, literal(NEVER, BigInteger)).label("ends"),
            chains.c.chain_id.label("chain_id"),
        )
        .select_from(chains.outerjoin(ends, ends.c.chain_id == chains.c.chain_id))
        .where(*_build_conditions(cluster_id, criteria, live))
    )


def _build_rank() -> ColumnElement[int]:
    return case(
        (chains.c.at_risk != "", literal(AT_RISK)),
        (chains.c.state == ChainState.PAUSED.value, literal(PAUSED)),
        else_=literal(ORDINARY),
    )


def _build_conditions(
    cluster_id: int, criteria: RankingFilter, live: tuple[str, ...]
) -> list[ColumnElement[bool]]:
    conditions = [chains.c.cluster_id == cluster_id, chains.c.state.in_(live)]
    if criteria.own is not None:
        conditions.append(match_own_chains(criteria.own))
    if criteria.user:
        conditions.append(chains.c.user == criteria.user)
    return conditions


def _select_ends(cluster_id: int) -> Select[Any]:
    """Select for each chain the end of its running link. The newest link is the last to end."""
    is_limited = and_(links.c.time_limit_s.is_not(None), links.c.time_limit_s != UNLIMITED)
    by_limit = links.c.start + links.c.time_limit_s
    is_later = links.c.expected_end > by_limit  # as `Link.get_planned_end`
    end = case(
        (and_(is_limited, is_later), links.c.expected_end), (is_limited, by_limit), else_=None
    )
    return (
        select(links.c.chain_id, func.max(end).label("ends"))
        .where(
            links.c.cluster_id == cluster_id,
            links.c.state == LinkState.RUNNING.value,
            links.c.start.is_not(None),
        )
        .group_by(links.c.chain_id)
    )
