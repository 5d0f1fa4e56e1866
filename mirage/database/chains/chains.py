"""Stores chains and their links, and reads the hand-overs between links."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    FromClause,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    func,
    not_,
    or_,
    select,
    tuple_,
    update,
)

from mirage.database.access.row_access import match_own_chains
from mirage.database.chains.chain_rows import CHAIN_COLUMNS, build_chain, build_chain_values
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema import tables
from mirage.database.schema.engine import Transaction
from mirage.database.schema.time_filter import filter_within
from mirage.database.schema.upsert import put_row
from mirage.domain.callers.caller import OwnRows
from mirage.domain.chain import (
    Chain,
    ChainId,
    ChainState,
    Link,
    LinkState,
    Planner,
    Position,
    Style,
)
from mirage.domain.decision import Waits
from mirage.domain.job import JobId, JobState
from mirage.domain.snapshot import UNKNOWN, compute_waits_s
from mirage.errors import NotFound


def _match_predecessor(predecessor: FromClause, successor: FromClause) -> ColumnElement[bool]:
    """Match `predecessor` with the last link that ran before `successor`, which has started.

    It is `domain.handover.find_predecessor` in SQL: lists of hand-overs are read page by page, over
    all chains, so the database pairs their links.
    """
    earlier = tables.links.alias("earlier")
    has_run = (
        earlier.c.chain_id == successor.c.chain_id,
        earlier.c.index < successor.c.index,
        earlier.c.start.is_not(None),
    )
    last = select(func.max(earlier.c.index)).where(*has_run).correlate(successor).scalar_subquery()
    return and_(predecessor.c.chain_id == successor.c.chain_id, predecessor.c.index == last)


_PREDECESSOR, _SUCCESSOR = tables.links.alias("predecessor"), tables.links.alias("successor")
LINK_COLUMNS = [c for c in tables.links.columns if c.name not in {"id", "cluster_id", "pushed_at"}]
_LINK_NAMES = [c.name for c in LINK_COLUMNS]
_PLANNER_NAMES = ("freed_by", "planned_by")
_LINK_STATES = {state.value: state for state in LinkState}
_POSITIONS = {position.value: position for position in Position}
_PLANNERS = {None: None} | {planner.value: planner for planner in Planner}
_END_STATES = {None: None} | {state.value: state for state in JobState}
OVER = tuple(s.value for s in ChainState if s.is_over)

_SIZE_FACTOR = 2
"""Hand-overs with between half and twice as many nodes are of one size class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFilter:
    """A choice of chains; empty fields do not filter."""

    partition: str = ""
    """The partition of one of the chain's links."""
    account: str = ""
    at_risk: bool | None = None
    since: int | None = None
    """Chains that were registered or found at this instant or later."""
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverFilter:
    """A choice of hand-overs by their successor; empty fields do not filter."""

    chain_id: ChainId | None = None
    user: str = ""
    partition: str = ""
    account: str = ""
    since: int | None = None
    """Successors that started at this instant or later."""
    until: int | None = None
    own: OwnRows | None = None


class HandoverRow(NamedTuple):
    """A chain and two of its links. The predecessor has ended and the successor has started."""

    chain: Chain
    predecessor: Link
    successor: Link


def save_chain(tx: Transaction, cluster_id: int, chain: Chain) -> None:
    put_row(
        tx, tables.chains, build_chain_values(chain) | {"cluster_id": cluster_id}, key=["chain_id"]
    )
    changes.record_change(tx, cluster_id, Topic.CHAINS, [chain.chain_id])


def save_price(tx: Transaction, cluster_id: int, chain: Chain) -> None:
    """Store only the price of the chain's overlap and the values from which it was computed.

    A change of the chain's state in another transaction is not overwritten. If the chain's user
    has given a price or another style in the meantime, nothing is stored.
    """
    names = ("overlap_price", "start_up_s", "missed_s")
    table = tables.chains
    values = {name: getattr(chain, name) for name in names}
    is_still_computed = (table.c.asked_price.is_(None), table.c.style == Style.SWITCH.value)
    tx.execute(
        update(table)
        .where(table.c.cluster_id == cluster_id, table.c.chain_id == chain.chain_id)
        .where(*is_still_computed)
        .values(values)
    )
    changes.record_change(tx, cluster_id, Topic.CHAINS, [chain.chain_id])


def get_chain(tx: Transaction, cluster_id: int, chain_id: ChainId, *, lock: bool = False) -> Chain:
    """Return the chain. Raises NotFound. `lock`: nobody else changes it in this transaction."""
    table = tables.chains.c
    query = select(*CHAIN_COLUMNS).where(table.cluster_id == cluster_id, table.chain_id == chain_id)
    query = query.with_for_update() if lock else query
    row = tx.execute(query).first()
    if row is None:
        raise NotFound(f"there is no chain {chain_id}")
    return build_chain(row)


def find_chains(
    tx: Transaction, cluster_id: int, chain_ids: Collection[ChainId]
) -> dict[ChainId, Chain]:
    """Return these chains by id, in one query. Unknown chains are left out."""
    parameters = {"cluster_id": cluster_id, "chain_ids": list(set(chain_ids))}
    rows = tx.execute(_SELECT_CHAINS, parameters)
    chains = [build_chain(row) for row in rows]
    return {chain.chain_id: chain for chain in chains}


def list_chains_elsewhere(
    tx: Transaction, cluster_id: int, chain_ids: Collection[ChainId]
) -> frozenset[ChainId]:
    """Return which of these ids belong to chains of other clusters of this database."""
    parameters = {"cluster_id": cluster_id, "chain_ids": list(set(chain_ids))}
    return frozenset(map(ChainId, tx.scalars(_SELECT_ELSEWHERE, parameters)))


def list_live_chains(tx: Transaction, cluster_id: int, *, lock: bool = False) -> list[Chain]:
    """List the chains that are not over, oldest first. `lock` as in `get_chain`."""
    query = _LOCK_LIVE_CHAINS if lock else _SELECT_LIVE_CHAINS
    return [build_chain(row) for row in tx.execute(query, {"cluster_id": cluster_id})]


def list_chains(  # noqa: PLR0913 - filters
    tx: Transaction,
    cluster_id: int,
    *,
    uid: int | None = None,
    user: str | None = None,
    state: ChainState | None = None,
    own: OwnRows | None = None,
    after: ChainId | None = None,
    limit: int = 100,
    where: ChainFilter | None = None,
) -> list[Chain]:
    """List chains, newest first. `after` is the last chain of the page before. `own`: only chains
    of this caller."""
    table = tables.chains
    equal: dict[str, object] = {"cluster_id": cluster_id, "uid": uid, "user": user}
    equal |= {"state": None if state is None else state.value}
    query = select(*CHAIN_COLUMNS).where(
        *(table.c[n] == v for n, v in equal.items() if v is not None),
        *_build_conditions(where or ChainFilter()),
    )
    if own is not None:
        query = query.where(match_own_chains(own))
    if after is not None:
        is_last = (table.c.cluster_id == cluster_id, table.c.chain_id == after)
        place = select(table.c.created_at).where(*is_last).scalar_subquery()
        query = query.where(tuple_(table.c.created_at, table.c.chain_id) < tuple_(place, after))
    query = query.order_by(table.c.created_at.desc(), table.c.chain_id.desc()).limit(limit)
    return [build_chain(row) for row in tx.execute(query)]


def _build_conditions(where: ChainFilter) -> Iterator[ColumnElement[bool]]:
    table, links = tables.chains, tables.links
    yield from filter_within(table.c.created_at, where)
    if where.at_risk is not None:
        yield (table.c.at_risk != "") if where.at_risk else (table.c.at_risk == "")
    equal = {"partition": where.partition, "account": where.account}
    link_conditions = [links.c[n] == v for n, v in equal.items() if v]
    if link_conditions:
        yield (
            select(links.c.id)
            .where(links.c.chain_id == table.c.chain_id, *link_conditions)
            .exists()
        )


def save_link(tx: Transaction, cluster_id: int, link: Link) -> None:
    """Store the link under its chain and index: a replaced standby takes the row over.

    A job that is a link of another chain or index already is refused (StoreError).
    """
    end_state = None if link.end_state is None else link.end_state.value
    values: dict[str, Any] = {c.name: getattr(link, c.name) for c in LINK_COLUMNS}
    values |= {"cluster_id": cluster_id, "end_state": end_state}
    values |= {"state": link.state.value, "position": link.position.value}
    values |= {n: None if values[n] is None else values[n].value for n in _PLANNER_NAMES}
    put_row(tx, tables.links, values, key=["chain_id", "index"])
    changes.record_change(tx, cluster_id, Topic.CHAINS, [link.chain_id])


def list_links(tx: Transaction, cluster_id: int, chain_id: ChainId) -> list[Link]:
    """Return the chain's links, ordered by index."""
    return list_links_by_chain(tx, cluster_id, [chain_id])[chain_id]


def list_links_by_chain(
    tx: Transaction, cluster_id: int, chain_ids: Sequence[ChainId]
) -> dict[ChainId, list[Link]]:
    """Return the links of each of these chains, ordered by index, in one query."""
    links: dict[ChainId, list[Link]] = {chain_id: [] for chain_id in chain_ids}
    parameters = {"cluster_id": cluster_id, "chain_ids": list(links)}
    for row in tx.execute(_SELECT_LINKS, parameters).all():
        link = build_link(row)
        links[link.chain_id].append(link)
    return links


def find_link_of_job(tx: Transaction, cluster_id: int, job_id: JobId, submit: int) -> Link | None:
    table = tables.links
    query = select(*LINK_COLUMNS).where(
        table.c.cluster_id == cluster_id, table.c.job_id == job_id, table.c.submit == submit
    )
    row = tx.execute(query).first()
    return None if row is None else build_link(row)


def read_handover_waits(
    tx: Transaction, cluster_id: int, partition: str = "", *, nodes: int, last: int
) -> Waits:
    """Return how long the last successors of about that size waited once eligible, oldest first.

    A successor is eligible when Mirage frees it or its predecessor ends, whichever is first. One
    that was freed and has started counts even while its predecessor still runs. The partition ""
    stands for all partitions, "a,b" for two.
    """
    parameters: dict[str, Any] = {"cluster_id": cluster_id, "nodes": nodes, "last": last}
    query = _SELECT_HANDOVER_WAITS
    if partition:
        query = _SELECT_PARTITION_HANDOVER_WAITS
        parameters["partitions"] = partition.split(",")
    values = [tuple(row) for row in tx.execute(query, parameters)]
    rows = np.array(values, dtype=np.int64).reshape(-1, len(_WAIT_COLUMNS))
    start, freed_at, end, slurm_eligible, sizes, limits = rows[::-1].T
    eligible = np.where(freed_at == UNKNOWN, end, freed_at)
    eligible = np.where(end == UNKNOWN, eligible, np.minimum(eligible, end))
    # Slurm's own instant is later if a hold was released in between: the hold is no wait.
    wait_s = compute_waits_s(start, eligible, slurm_eligible)
    return Waits(start=start, wait_s=wait_s, nodes=sizes, time_limit_s=limits)


def list_handovers(tx: Transaction, cluster_id: int, since: int = 0) -> list[HandoverRow]:
    """List the hand-overs that were complete at `since` or later, oldest first."""
    rows = tx.execute(_SELECT_HANDOVERS_SINCE, {"cluster_id": cluster_id, "since": since})
    return [_build_handover(row) for row in rows]


def list_handover_page(
    tx: Transaction,
    cluster_id: int,
    where: HandoverFilter,
    *,
    after: tuple[int, int] | None = None,
    limit: int = 100,
) -> list[HandoverRow]:
    """List complete hand-overs, the last start of a successor first. `after` is the start and job
    id of the last successor of the page before."""
    link = _SUCCESSOR
    equal = {"chain_id": where.chain_id, "partition": where.partition, "account": where.account}
    conditions = [link.c[n] == v for n, v in equal.items() if v]
    if where.user:
        conditions.append(tables.chains.c.user == where.user)
    if where.own is not None:
        conditions.append(match_own_chains(where.own))
    if after is not None:
        conditions.append(tuple_(link.c.start, link.c.job_id) < tuple_(*after))
    query = _SELECT_HANDOVERS.where(*conditions, *filter_within(link.c.start, where))
    query = query.order_by(link.c.start.desc(), link.c.job_id.desc()).limit(limit)
    return [_build_handover(row) for row in tx.execute(query, {"cluster_id": cluster_id})]


def _select_handovers() -> Select[Any]:
    predecessor, successor = _PREDECESSOR, _SUCCESSOR
    columns = [
        *(c.label(f"chain_{c.name}") for c in CHAIN_COLUMNS),
        *(predecessor.c[c.name].label(f"before_{c.name}") for c in LINK_COLUMNS),
        *(successor.c[c.name].label(f"after_{c.name}") for c in LINK_COLUMNS),
    ]
    return (
        select(*columns)
        # Every row has a predecessor and a chain. The outer joins, and `coalesce` around the end,
        # have both databases begin with the newest successors. With inner joins they begin with all
        # predecessors or chains, and sort everything.
        .select_from(
            successor.outerjoin(predecessor, _match_predecessor(predecessor, successor)).outerjoin(
                tables.chains, _match_chain(successor)
            )
        )
        .where(
            successor.c.cluster_id == bindparam("cluster_id"),
            func.coalesce(predecessor.c.end, UNKNOWN) != UNKNOWN,
            successor.c.start.is_not(None),
        )
    )


def _match_chain(successor: Any) -> Any:
    return tables.chains.c.chain_id == successor.c.chain_id


def _build_handover(row: Row[Any]) -> HandoverRow:
    first, second = len(CHAIN_COLUMNS), len(CHAIN_COLUMNS) + len(LINK_COLUMNS)
    return HandoverRow(
        build_chain(row[:first]), build_link(row[first:second]), build_link(row[second:])
    )


def build_link(row: Sequence[Any]) -> Link:
    """Build the link of a row, whose values are in the order of LINK_COLUMNS."""
    return _build_link(tuple(row))


# A tick reads most links several times, and a link that has ended at every tick.
# Read by place, not by name: at 2,000 chains a mapping of each row took most of the time.
@lru_cache(maxsize=4096)
def _build_link(row: tuple[Any, ...]) -> Link:
    values = dict(zip(_LINK_NAMES, row, strict=True))
    values["state"] = _LINK_STATES[values["state"]]
    values["position"] = _POSITIONS[values["position"]]
    values["end_state"] = _END_STATES[values["end_state"]]
    for name in _PLANNER_NAMES:
        values[name] = _PLANNERS[values[name]]
    return Link(**values)


# Statements of each tick are built once: building one costs more than running it.
_IS_IN_CLUSTER = tables.chains.c.cluster_id == bindparam("cluster_id")
_CHAIN_IDS: BindParameter[Any] = bindparam("chain_ids", expanding=True)
_SELECT_CHAINS = select(*CHAIN_COLUMNS).where(
    _IS_IN_CLUSTER, tables.chains.c.chain_id.in_(_CHAIN_IDS)
)
_SELECT_ELSEWHERE = select(tables.chains.c.chain_id).where(
    not_(_IS_IN_CLUSTER), tables.chains.c.chain_id.in_(_CHAIN_IDS)
)
_SELECT_LIVE_CHAINS = (
    select(*CHAIN_COLUMNS)
    .where(_IS_IN_CLUSTER, tables.chains.c.state.not_in(OVER))
    .order_by(tables.chains.c.created_at, tables.chains.c.chain_id)
)
_LOCK_LIVE_CHAINS = _SELECT_LIVE_CHAINS.with_for_update()
_SELECT_LINKS = (
    select(*LINK_COLUMNS)
    .where(
        tables.links.c.cluster_id == bindparam("cluster_id"),
        tables.links.c.chain_id.in_(_CHAIN_IDS),
    )
    .order_by(tables.links.c.chain_id, tables.links.c.index)
)
_SELECT_HANDOVERS = _select_handovers()
_SELECT_HANDOVERS_SINCE = _SELECT_HANDOVERS.where(
    or_(_PREDECESSOR.c.end >= bindparam("since"), _SUCCESSOR.c.start >= bindparam("since"))
).order_by(_SUCCESSOR.c.start, _SUCCESSOR.c.job_id)
_WAIT_COLUMNS = (
    *(_SUCCESSOR.c.start, _SUCCESSOR.c.freed_at, _PREDECESSOR.c.end, _SUCCESSOR.c.eligible),
    *(_SUCCESSOR.c.nodes, _SUCCESSOR.c.time_limit_s),
)
_SELECT_HANDOVER_WAITS = (
    select(*(func.coalesce(column, UNKNOWN) for column in _WAIT_COLUMNS))
    .select_from(_SUCCESSOR.join(_PREDECESSOR, _match_predecessor(_PREDECESSOR, _SUCCESSOR)))
    .where(
        _SUCCESSOR.c.cluster_id == bindparam("cluster_id"),
        _SUCCESSOR.c.start.is_not(None),
        # A pinned standby waited for nodes of its own, with age: its wait tells nothing about that
        # of a free one.
        _SUCCESSOR.c.position != Position.PINNED.value,
        # Nor does the wait of a standby that was held, or that a limit or a maintenance stopped.
        _SUCCESSOR.c.hindered == "",
        or_(_SUCCESSOR.c.freed_at.is_not(None), _PREDECESSOR.c.end.is_not(None)),
        _SUCCESSOR.c.nodes * _SIZE_FACTOR >= bindparam("nodes", type_=Integer),
        _SUCCESSOR.c.nodes <= bindparam("nodes", type_=Integer) * _SIZE_FACTOR,
    )
    .order_by(_SUCCESSOR.c.start.desc(), _SUCCESSOR.c.job_id.desc())
    .limit(bindparam("last", type_=Integer))
)
_SELECT_PARTITION_HANDOVER_WAITS = _SELECT_HANDOVER_WAITS.where(
    _SUCCESSOR.c.partition.in_(bindparam("partitions", expanding=True))
)
