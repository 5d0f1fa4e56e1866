"""Stores the outcome of each complete hand-over, and the outcome it would have had under each
policy.

It reads both as rows and as sums.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from operator import add, attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    and_,
    delete,
    false,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey, match_links, pack_links
from mirage.database.schema.read_model_tables import outcomes, policy_outcomes, would_free
from mirage.database.schema.upsert import put_rows
from mirage.domain.callers.caller import NOBODY_UID, OwnRows
from mirage.domain.chain import ChainId
from mirage.domain.time_units import DAY_S

MIRAGE = "mirage"
"""The outcome under Mirage: measured in mode act, estimated in mode shadow."""
REACTIVE = "reactive"
"""Plain afterany."""

Parted = tuple[int, int]
"""Interruption and overlap, in seconds."""


class OutcomeKind(StrEnum):
    """The actor behind an outcome."""

    ACT = "act"
    """Mirage, which was free to move the standby."""
    SHADOW = "shadow"
    """Plain Slurm, while Mirage recorded what it would have done."""
    NONE = "none"
    """Plain Slurm, and Mirage made no decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    chain_id: ChainId
    index: int
    """The index of the successor."""
    at: int
    """The instant at which the hand-over was complete, epoch seconds."""
    partition: str
    account: str
    user: str
    uid: int
    nodes: int
    kind: OutcomeKind
    actual: Parted
    while_away: bool = False
    """True if Slurm released the successor by a plan while Mirage was away."""
    returns: int = 0
    """How many jobs of the successor gave their nodes back."""
    returned_s: int = 0
    """Seconds for which these jobs held the nodes: a part of the overlap."""
    returns_saved_s: int = 0
    """Seconds for which the link would have held its nodes idle, had it kept them."""
    under: Mapping[str, Parted]
    """The outcome by policy, with Mirage; empty: not known."""


@dataclass(frozen=True, slots=True)
class PolicySums:
    """Sums over the hand-overs for which the outcomes of one policy and of Mirage are known."""

    count: int = 0
    interruption_s: int = 0
    overlap_s: int = 0
    overlap_node_s: int = 0
    mirage_interruption_s: int = 0
    mirage_overlap_s: int = 0

    def __add__(self, other: "PolicySums") -> "PolicySums":
        return PolicySums(*map(add, _get_sums(self), _get_sums(other)))


_get_sums = attrgetter(*(each.name for each in fields(PolicySums)))


@dataclass(frozen=True, slots=True)
class OutcomeSums:
    """Sums over some hand-overs: the measured outcome, and the outcome under each policy."""

    count: int = 0
    interruption_s: int = 0
    overlap_node_s: int = 0
    while_away: int = 0
    """The number of hand-overs that Slurm released by a plan while Mirage was away."""
    returns: int = 0
    returned_node_s: int = 0
    returns_saved_node_s: int = 0
    under: Mapping[str, PolicySums] = field(default_factory=dict, kw_only=True)
    """Sums by policy, with Mirage. A policy of which nothing is known is absent."""

    def __add__(self, other: "OutcomeSums") -> "OutcomeSums":
        names = {*self.under, *other.under}
        return OutcomeSums(
            self.count + other.count,
            self.interruption_s + other.interruption_s,
            self.overlap_node_s + other.overlap_node_s,
            self.while_away + other.while_away,
            self.returns + other.returns,
            self.returned_node_s + other.returned_node_s,
            self.returns_saved_node_s + other.returns_saved_node_s,
            under={name: self.get_under(name) + other.get_under(name) for name in names},
        )

    def get_under(self, policy: str) -> PolicySums:
        """Return the sums of one policy; zeros where nothing is known of it."""
        return self.under.get(policy, PolicySums())


@dataclass(frozen=True, slots=True)
class OutcomeGroup:
    """Sums for one group. `key` has the group's values in the columns by which rows were
    grouped."""

    key: tuple[Any, ...]
    sums: OutcomeSums


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSpan:
    """Hand-overs that were complete in [since, until); `own`: only those of this caller."""

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
    """Store the outcomes. A stored outcome is replaced, as accounting may correct it."""
    values = [_build_values(cluster_id, row) for row in rows]
    put_rows(tx, outcomes, values, key=["chain_id", "index"])
    if rows:
        stored = pack_links((row.chain_id, row.index) for row in rows)
        tx.execute(_drop_policy_outcomes(tx.dialect.name), {"pairs": stored})
    under = [_build_policy_values(row, policy) for row in rows for policy in row.under]
    put_rows(tx, policy_outcomes, under, key=["chain_id", "index", "policy"])


@cache
def _drop_policy_outcomes(dialect: str) -> Delete:
    table = policy_outcomes.c
    return delete(policy_outcomes).where(match_links(dialect, table.chain_id, table.index))


def _build_values(cluster_id: int, row: OutcomeRow) -> dict[str, Any]:
    made: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            *("chain_id", "index", "at", "partition", "account", "user", "uid", "nodes"),
            *("while_away", "returns", "returned_s", "returns_saved_s"),
        )
    }
    made |= {"cluster_id": cluster_id, "kind": row.kind.value}
    return made | {"interruption_s": row.actual[0], "overlap_s": row.actual[1]}


def _build_policy_values(row: OutcomeRow, policy: str) -> dict[str, Any]:
    interruption_s, overlap_s = row.under[policy]
    made: dict[str, Any] = {"chain_id": row.chain_id, "index": row.index, "policy": policy}
    return made | {"interruption_s": interruption_s, "overlap_s": overlap_s}


def sum_returns_saved(tx: Transaction, cluster_id: int) -> int:
    """Return the node-seconds that returns saved, of all stored hand-overs."""
    query = select(func.sum(outcomes.c.returns_saved_s * outcomes.c.nodes))
    return int(tx.scalar(query.where(outcomes.c.cluster_id == cluster_id)) or 0)


def read_newest_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return when the last hand-over was complete; None: none is stored."""
    query = select(func.max(outcomes.c.at)).where(outcomes.c.cluster_id == cluster_id)
    found: int | None = tx.scalar(query)
    return found


def count_while_away(tx: Transaction, span: OutcomeSpan) -> int:
    """Count the hand-overs that Slurm released by a plan while Mirage was away."""
    query = select(func.count()).select_from(outcomes)
    return int(tx.scalar(query.where(*span.build_conditions(), outcomes.c.while_away)) or 0)


def sum_by_day(tx: Transaction, span: OutcomeSpan) -> list[OutcomeGroup]:
    """Sum by (day, kind, partition), oldest first. A day is its first second in UTC."""
    # A literal: the same bound parameter twice is two expressions to PostgreSQL.
    day = (outcomes.c.at - outcomes.c.at % literal_column(str(DAY_S))).label("day")
    columns = (day, outcomes.c.kind, outcomes.c.partition)
    wanted = span.build_conditions()
    found = tx.execute(_select_sums(columns, wanted).order_by(day)).all()
    return _build_groups(tx, found, columns, wanted)


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
    wanted = [*span.build_conditions(), outcomes.c.kind == OutcomeKind.ACT.value]
    spent = func.sum(outcomes.c.overlap_s * outcomes.c.nodes)
    query = _select_sums(columns, wanted).order_by(spent.desc(), func.count().desc(), *columns)
    found = tx.execute(query.limit(limit)).all()
    biggest = tuple_(*columns).in_([tuple(row[: len(columns)]) for row in found])
    return _build_groups(tx, found, columns, [*wanted, biggest])


def _select_sums(columns: tuple[Any, ...], wanted: Sequence[ColumnElement[bool]]) -> Select[Any]:
    sums = (  # in the order of OutcomeSums
        func.count(),
        func.sum(outcomes.c.interruption_s),
        func.sum(outcomes.c.overlap_s * outcomes.c.nodes),
        func.count().filter(outcomes.c.while_away),
        func.sum(outcomes.c.returns),
        func.sum(outcomes.c.returned_s * outcomes.c.nodes),
        func.sum(outcomes.c.returns_saved_s * outcomes.c.nodes),
    )
    return select(*columns, *sums).where(*wanted).group_by(*columns)


def _select_policy_sums(
    columns: tuple[Any, ...], wanted: Sequence[ColumnElement[bool]]
) -> Select[Any]:
    theirs, mirages = policy_outcomes.alias("theirs"), policy_outcomes.alias("mirages")
    sums = (  # in the order of PolicySums
        func.count(),
        func.sum(theirs.c.interruption_s),
        func.sum(theirs.c.overlap_s),
        func.sum(theirs.c.overlap_s * outcomes.c.nodes),
        func.sum(mirages.c.interruption_s),
        func.sum(mirages.c.overlap_s),
    )
    return (
        select(*columns, theirs.c.policy, *sums)
        .join(theirs, _match_outcome(theirs))
        .join(mirages, and_(_match_outcome(mirages), mirages.c.policy == MIRAGE))
        .where(*wanted)
        .group_by(*columns, theirs.c.policy)
    )


def _match_outcome(rows: Any) -> ColumnElement[bool]:
    return and_(rows.c.chain_id == outcomes.c.chain_id, rows.c.index == outcomes.c.index)


def _build_groups(
    tx: Transaction,
    found: Sequence[Any],
    columns: tuple[Any, ...],
    wanted: Sequence[ColumnElement[bool]],
) -> list[OutcomeGroup]:
    keys = len(columns)
    under: dict[tuple[Any, ...], dict[str, PolicySums]] = {}
    for row in tx.execute(_select_policy_sums(columns, wanted)):
        of_policy = PolicySums(*map(int, row[keys + 1 :]))
        under.setdefault(tuple(row[:keys]), {})[row[keys]] = of_policy
    groups = []
    for row in found:
        key, sums = tuple(row[:keys]), [int(value) for value in row[keys:]]
        groups.append(OutcomeGroup(key, OutcomeSums(*sums, under=under.get(key, {}))))
    return groups


def _match_own(own: OwnRows) -> ColumnElement[bool]:
    mine = false() if own.uid == NOBODY_UID else outcomes.c.uid == own.uid
    return or_(mine, outcomes.c.account.in_(own.accounts)) if own.accounts else mine


def put_would_free(tx: Transaction, rows: Sequence[tuple[ChainId, int, str, int]]) -> None:
    """Store rows of (chain, index, policy, at): the policy would release the standby at `at`."""
    names = ("chain_id", "index", "policy", "at")
    values = [dict(zip(names, row, strict=True)) for row in rows]
    put_rows(tx, would_free, values, key=["chain_id", "index", "policy"])


def list_would_free(tx: Transaction, links: Sequence[LinkKey]) -> dict[LinkKey, dict[str, int]]:
    """Return when each policy would release the standbys of these links.

    A policy that would not release a standby has no entry for it.
    """
    found: dict[LinkKey, dict[str, int]] = {}
    query = _select_would_free(tx.dialect.name)
    for row in tx.execute(query, {"pairs": pack_links(links)}).mappings():
        key = (ChainId(row["chain_id"]), int(row["index"]))
        found.setdefault(key, {})[row["policy"]] = row["at"]
    return found


@cache
def _select_would_free(dialect: str) -> Select[Any]:
    return select(would_free).where(match_links(dialect, would_free.c.chain_id, would_free.c.index))
