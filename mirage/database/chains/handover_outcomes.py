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

HandoverSplit = tuple[int, int]
"""Interruption and overlap of a hand-over, in seconds."""


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
    actual: HandoverSplit
    while_away: bool = False
    """True if Slurm released the successor by a plan while Mirage was away."""
    returns: int = 0
    """How many jobs of the successor gave their nodes back."""
    returned_s: int = 0
    """Seconds for which these jobs held the nodes: a part of the overlap."""
    returns_saved_s: int = 0
    """Seconds for which the link would have held its nodes idle, had it kept them."""
    by_policy: Mapping[str, HandoverSplit]
    """The outcome under each policy, Mirage included; empty: not known."""


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


_get_sums = attrgetter(*(field.name for field in fields(PolicySums)))


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
    by_policy: Mapping[str, PolicySums] = field(default_factory=dict, kw_only=True)
    """Sums by policy, Mirage included. A policy of which nothing is known is absent."""

    def __add__(self, other: "OutcomeSums") -> "OutcomeSums":
        names = {*self.by_policy, *other.by_policy}
        return OutcomeSums(
            self.count + other.count,
            self.interruption_s + other.interruption_s,
            self.overlap_node_s + other.overlap_node_s,
            self.while_away + other.while_away,
            self.returns + other.returns,
            self.returned_node_s + other.returned_node_s,
            self.returns_saved_node_s + other.returns_saved_node_s,
            by_policy={
                name: self.get_policy_sums(name) + other.get_policy_sums(name) for name in names
            },
        )

    def get_policy_sums(self, policy: str) -> PolicySums:
        """Return the sums of one policy; zeros where nothing is known of it."""
        return self.by_policy.get(policy, PolicySums())


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
        conditions = [
            table.cluster_id == self.cluster_id,
            table.at >= self.since,
            table.at < self.until,
        ]
        return conditions if self.own is None else [*conditions, _match_own(self.own)]


def put_outcomes(tx: Transaction, cluster_id: int, rows: Sequence[OutcomeRow]) -> None:
    """Store the outcomes. A stored outcome is replaced, as accounting may correct it."""
    values = [_build_values(cluster_id, row) for row in rows]
    put_rows(tx, outcomes, values, key=["chain_id", "index"])
    if rows:
        pairs = pack_links((row.chain_id, row.index) for row in rows)
        tx.execute(_drop_policy_outcomes(tx.dialect.name), {"pairs": pairs})
    policy_values = [_build_policy_values(row, policy) for row in rows for policy in row.by_policy]
    put_rows(tx, policy_outcomes, policy_values, key=["chain_id", "index", "policy"])


@cache
def _drop_policy_outcomes(dialect: str) -> Delete:
    table = policy_outcomes.c
    return delete(policy_outcomes).where(match_links(dialect, table.chain_id, table.index))


def _build_values(cluster_id: int, row: OutcomeRow) -> dict[str, Any]:
    values: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            *("chain_id", "index", "at", "partition", "account", "user", "uid", "nodes"),
            *("while_away", "returns", "returned_s", "returns_saved_s"),
        )
    }
    values |= {"cluster_id": cluster_id, "kind": row.kind.value}
    return values | {"interruption_s": row.actual[0], "overlap_s": row.actual[1]}


def _build_policy_values(row: OutcomeRow, policy: str) -> dict[str, Any]:
    interruption_s, overlap_s = row.by_policy[policy]
    values: dict[str, Any] = {"chain_id": row.chain_id, "index": row.index, "policy": policy}
    return values | {"interruption_s": interruption_s, "overlap_s": overlap_s}


def sum_returns_saved(tx: Transaction, cluster_id: int) -> int:
    """Return the node-seconds that returns saved, of all stored hand-overs."""
    query = select(func.sum(outcomes.c.returns_saved_s * outcomes.c.nodes))
    return int(tx.scalar(query.where(outcomes.c.cluster_id == cluster_id)) or 0)


def read_newest_at(tx: Transaction, cluster_id: int) -> int | None:
    """Return when the last hand-over was complete; None: none is stored."""
    query = select(func.max(outcomes.c.at)).where(outcomes.c.cluster_id == cluster_id)
    newest_at: int | None = tx.scalar(query)
    return newest_at


def count_while_away(tx: Transaction, span: OutcomeSpan) -> int:
    """Count the hand-overs that Slurm released by a plan while Mirage was away."""
    query = select(func.count()).select_from(outcomes)
    return int(tx.scalar(query.where(*span.build_conditions(), outcomes.c.while_away)) or 0)


def sum_by_day(tx: Transaction, span: OutcomeSpan) -> list[OutcomeGroup]:
    """Sum by (day, kind, partition), oldest first. A day is its first second in UTC."""
    # The length of a day is a literal, as the same bound parameter twice is two expressions to
    # PostgreSQL.
    day = (outcomes.c.at - outcomes.c.at % literal_column(str(DAY_S))).label("day")
    columns = (day, outcomes.c.kind, outcomes.c.partition)
    conditions = span.build_conditions()
    rows = tx.execute(_select_sums(columns, conditions).order_by(day)).all()
    return _build_groups(tx, rows, columns, conditions)


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
    conditions = [*span.build_conditions(), outcomes.c.kind == OutcomeKind.ACT.value]
    spent_node_s = func.sum(outcomes.c.overlap_s * outcomes.c.nodes)
    query = _select_sums(columns, conditions).order_by(
        spent_node_s.desc(), func.count().desc(), *columns
    )
    rows = tx.execute(query.limit(limit)).all()
    biggest = tuple_(*columns).in_([tuple(row[: len(columns)]) for row in rows])
    return _build_groups(tx, rows, columns, [*conditions, biggest])


def _select_sums(
    columns: tuple[Any, ...], conditions: Sequence[ColumnElement[bool]]
) -> Select[Any]:
    sums = (  # in the order of OutcomeSums
        func.count(),
        func.sum(outcomes.c.interruption_s),
        func.sum(outcomes.c.overlap_s * outcomes.c.nodes),
        func.count().filter(outcomes.c.while_away),
        func.sum(outcomes.c.returns),
        func.sum(outcomes.c.returned_s * outcomes.c.nodes),
        func.sum(outcomes.c.returns_saved_s * outcomes.c.nodes),
    )
    return select(*columns, *sums).where(*conditions).group_by(*columns)


def _select_policy_sums(
    columns: tuple[Any, ...], conditions: Sequence[ColumnElement[bool]]
) -> Select[Any]:
    of_policy, of_mirage = policy_outcomes.alias("theirs"), policy_outcomes.alias("mirages")
    sums = (  # in the order of PolicySums
        func.count(),
        func.sum(of_policy.c.interruption_s),
        func.sum(of_policy.c.overlap_s),
        func.sum(of_policy.c.overlap_s * outcomes.c.nodes),
        func.sum(of_mirage.c.interruption_s),
        func.sum(of_mirage.c.overlap_s),
    )
    return (
        select(*columns, of_policy.c.policy, *sums)
        .join(of_policy, _match_outcome(of_policy))
        .join(of_mirage, and_(_match_outcome(of_mirage), of_mirage.c.policy == MIRAGE))
        .where(*conditions)
        .group_by(*columns, of_policy.c.policy)
    )


def _match_outcome(rows: Any) -> ColumnElement[bool]:
    return and_(rows.c.chain_id == outcomes.c.chain_id, rows.c.index == outcomes.c.index)


def _build_groups(
    tx: Transaction,
    rows: Sequence[Any],
    columns: tuple[Any, ...],
    conditions: Sequence[ColumnElement[bool]],
) -> list[OutcomeGroup]:
    keys = len(columns)
    by_policy: dict[tuple[Any, ...], dict[str, PolicySums]] = {}
    for row in tx.execute(_select_policy_sums(columns, conditions)):
        policy_sums = PolicySums(*map(int, row[keys + 1 :]))
        by_policy.setdefault(tuple(row[:keys]), {})[row[keys]] = policy_sums
    groups = []
    for row in rows:
        key, sums = tuple(row[:keys]), [int(value) for value in row[keys:]]
        groups.append(OutcomeGroup(key, OutcomeSums(*sums, by_policy=by_policy.get(key, {}))))
    return groups


def _match_own(own: OwnRows) -> ColumnElement[bool]:
    is_users = false() if own.uid == NOBODY_UID else outcomes.c.uid == own.uid
    return or_(is_users, outcomes.c.account.in_(own.accounts)) if own.accounts else is_users


def put_would_free(tx: Transaction, rows: Sequence[tuple[ChainId, int, str, int]]) -> None:
    """Store rows of (chain, index, policy, at): the policy would release the standby at `at`."""
    names = ("chain_id", "index", "policy", "at")
    values = [dict(zip(names, row, strict=True)) for row in rows]
    put_rows(tx, would_free, values, key=["chain_id", "index", "policy"])


def list_would_free(tx: Transaction, links: Sequence[LinkKey]) -> dict[LinkKey, dict[str, int]]:
    """Return when each policy would release the standbys of these links.

    A policy that would not release a standby has no entry for it.
    """
    instants: dict[LinkKey, dict[str, int]] = {}
    query = _select_would_free(tx.dialect.name)
    for row in tx.execute(query, {"pairs": pack_links(links)}).mappings():
        key = (ChainId(row["chain_id"]), int(row["index"]))
        instants.setdefault(key, {})[row["policy"]] = row["at"]
    return instants


@cache
def _select_would_free(dialect: str) -> Select[Any]:
    return select(would_free).where(match_links(dialect, would_free.c.chain_id, would_free.c.index))
