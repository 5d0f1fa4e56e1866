"""Stores what became of each complete hand-over, and what would have under each policy.

It reads both as rows and as sums.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, false, func, literal_column, or_, select

from mirage.domain.access.caller import NOBODY_UID, OwnRows
from mirage.domain.chain import ChainId
from mirage.domain.time_units import DAY_S
from mirage.store.database.engine import Transaction
from mirage.store.database.link_keys import LinkKey, match_links
from mirage.store.database.read_model_tables import outcomes, would_free
from mirage.store.database.upsert import put_rows

MIRAGE = "mirage"
"""Whatever decided: in mode act as it was, in mode shadow as it would have been."""
POLICIES = (MIRAGE, "reactive", "fixed-lead", "average", "slurm-estimate")


Parted = tuple[int, int]
"""Interruption and overlap, seconds."""


class OutcomeKind(StrEnum):
    """The party whose outcome it was."""

    ACT = "act"
    """Mirage's: it was free to move the standby."""
    SHADOW = "shadow"
    """Plain Slurm's, while Mirage said what it would have done."""
    NONE = "none"
    """Plain Slurm's, and Mirage was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    chain_id: ChainId
    index: int
    """The successor's."""
    at: int
    """When it was complete."""
    partition: str
    account: str
    user: str
    uid: int
    nodes: int
    kind: OutcomeKind
    actual: Parted
    under: Mapping[str, Parted]
    """By each of `POLICIES`; empty where nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSums:
    """Sums over some hand-overs. Those of policies are over the `compared` ones alone."""

    count: int
    interruption_s: int
    overlap_node_s: int
    compared: int
    under: Mapping[str, Parted]
    mirage_overlap_node_s: int
    """Of the compared ones, as they were or would have been."""


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """Sums for one group: `key` has the group's values in the columns that were asked for."""

    key: tuple[Any, ...]
    sums: OutcomeSums


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSpan:
    """Hand-overs that were complete in [since, until); `own`: theirs alone."""

    cluster_id: int
    since: int
    until: int
    own: OwnRows | None = None

    def build_conditions(self) -> list[ColumnElement[bool]]:
        table = outcomes.c
        found = [
            table.cluster_id == self.cluster_id,
            table.at >= self.since,
            table.at < self.until,
        ]
        return found if self.own is None else [*found, _match_own(self.own)]


def put_outcomes(tx: Transaction, cluster_id: int, rows: Sequence[OutcomeRow]) -> None:
    """Store them; accounting may correct one that is there."""
    values = [_build_values(cluster_id, row) for row in rows]
    put_rows(tx, outcomes, values, key=["chain_id", "index"])


def _build_values(cluster_id: int, row: OutcomeRow) -> dict[str, Any]:
    made: dict[str, Any] = {
        name: getattr(row, name)
        for name in ("chain_id", "index", "at", "partition", "account", "user", "uid", "nodes")
    }
    made |= {"cluster_id": cluster_id, "kind": row.kind.value}
    made |= {"interruption_s": row.actual[0], "overlap_s": row.actual[1]}
    for policy in POLICIES:
        told = row.under.get(policy, (None, None))
        made |= dict(zip(_name_columns(policy), told, strict=True))
    return made


def read_newest_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return when the last hand-over was complete; None: none is stored."""
    query = select(func.max(outcomes.c.at)).where(outcomes.c.cluster_id == cluster_id)
    found: int | None = tx.scalar(query)
    return found


def sum_by_day(tx: Transaction, span: OutcomeSpan) -> list[OutcomeGroup]:
    """Sums by (day, kind, partition), oldest first; a day is its first second, UTC."""
    # A literal: the same bound parameter twice is two expressions to PostgreSQL.
    day = (outcomes.c.at - outcomes.c.at % literal_column(str(DAY_S))).label("day")
    columns = (day, outcomes.c.kind, outcomes.c.partition)
    query = _select_sums(columns, span).group_by(*columns).order_by(day)
    return list(_iter_groups(tx, query, len(columns)))


def sum_by_payer(tx: Transaction, span: OutcomeSpan, limit: int) -> list[OutcomeGroup]:
    """Sum hand-overs of mode act by (account, user), those who spent most first."""
    return _sum_biggest(tx, (outcomes.c.account, outcomes.c.user), span, limit)


def sum_by_chain(tx: Transaction, span: OutcomeSpan, limit: int) -> list[OutcomeGroup]:
    """Sum hand-overs of mode act by (chain, user, partition), those who spent most first."""
    return _sum_biggest(
        tx, (outcomes.c.chain_id, outcomes.c.user, outcomes.c.partition), span, limit
    )


def _sum_biggest(
    tx: Transaction, columns: tuple[Any, ...], span: OutcomeSpan, limit: int
) -> list[OutcomeGroup]:
    query = (
        _select_sums(columns, span)
        .where(outcomes.c.kind == OutcomeKind.ACT.value)
        .group_by(*columns)
    )
    spent = func.sum(outcomes.c.overlap_s * outcomes.c.nodes)
    query = query.order_by(spent.desc(), func.count().desc(), *columns).limit(limit)
    return list(_iter_groups(tx, query, len(columns)))


def _select_sums(columns: tuple[Any, ...], span: OutcomeSpan) -> Any:
    sums = [
        func.count(),
        func.sum(outcomes.c.interruption_s),
        func.sum(outcomes.c.overlap_s * outcomes.c.nodes),
        func.count(outcomes.c.mirage_interruption_s),
        func.sum(outcomes.c.mirage_overlap_s * outcomes.c.nodes),
        *(func.sum(outcomes.c[name]) for policy in POLICIES for name in _name_columns(policy)),
    ]
    query = select(*columns, *(total.label(f"sum_{i}") for i, total in enumerate(sums)))
    return query.where(*span.build_conditions())


def _match_own(own: OwnRows) -> ColumnElement[bool]:
    mine = false() if own.uid == NOBODY_UID else outcomes.c.uid == own.uid
    return or_(mine, outcomes.c.account.in_(own.accounts)) if own.accounts else mine


def _iter_groups(tx: Transaction, query: Any, keys: int) -> Iterator[OutcomeGroup]:
    for row in tx.execute(query):
        values = tuple(row)
        count, interruption_s, overlap_node_s, compared, mirage_node_s, *parts = (
            int(value or 0) for value in values[keys:]
        )
        pairs = zip(parts[::2], parts[1::2], strict=True)
        sums = OutcomeSums(
            count=count,
            interruption_s=interruption_s,
            overlap_node_s=overlap_node_s,
            compared=compared,
            under=dict(zip(POLICIES, pairs, strict=True)),
            mirage_overlap_node_s=mirage_node_s,
        )
        yield OutcomeGroup(values[:keys], sums)


def _name_columns(policy: str) -> tuple[str, str]:
    name = policy.replace("-", "_")
    return f"{name}_interruption_s", f"{name}_overlap_s"


def put_would_free(tx: Transaction, rows: Sequence[tuple[ChainId, int, str, int]]) -> None:
    """(chain, index, policy, at): that policy would free the standby then."""
    names = ("chain_id", "index", "policy", "at")
    values = [dict(zip(names, row, strict=True)) for row in rows]
    put_rows(tx, would_free, values, key=["chain_id", "index", "policy"])


def list_would_free(tx: Transaction, links: Sequence[LinkKey]) -> dict[LinkKey, dict[str, int]]:
    """Return when each policy would free the standbys of these links.

    A policy that would not free a standby has no entry for it.
    """
    found: dict[LinkKey, dict[str, int]] = {}
    query = select(would_free).where(
        match_links(tx, would_free.c.chain_id, would_free.c.index, links)
    )
    for row in tx.execute(query).mappings():
        key = (ChainId(row["chain_id"]), int(row["index"]))
        found.setdefault(key, {})[row["policy"]] = row["at"]
    return found
