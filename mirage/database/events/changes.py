"""Numbers what has changed, in the transaction that changed it and in the order of commits.

A live page or stream reads on from the last number that it has seen. The numbers of a cluster come
from one row, which a transaction updates as its last statement before the commit. So a reader who
sees number n can see every number before it. A sequence of PostgreSQL would not do: it gives its
numbers before their commits. Nobody waits for that row longer than a commit takes. It is the last
lock that a transaction takes, so it cannot cause a deadlock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sqlalchemy import bindparam, delete, select
from sqlalchemy import insert as plain_insert
from sqlalchemy.sql.dml import ReturningInsert

from mirage.database.schema.engine import Transaction, run_before_commit
from mirage.database.schema.tables import change_counts as counts
from mirage.database.schema.tables import changes as table
from mirage.database.schema.upsert import build_dialect_insert
from mirage.domain.chain import ChainId

MANY = 50
"""If more chains than this change at once, their ids are not kept, and readers reload all
chains."""

KEPT = 10_000
"""The number of changes kept for a cluster. A reader that is further behind begins again."""

_TRIM_EVERY = 100
_PENDING = "mirage_changes"


class Topic(StrEnum):
    CHAINS = "chains"
    """A chain or its links changed."""
    DECISIONS = "decisions"
    QUEUE = "queue"
    """The queue was read, history was stored, or a report was made."""
    MODE = "mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    seq: int
    topic: Topic
    chain_ids: Sequence[ChainId] | None = ()
    """The changed chains; None: more than MANY chains."""


def record_change(
    tx: Transaction, cluster_id: int, topic: Topic, chain_ids: Iterable[ChainId] = ()
) -> None:
    """Record that this transaction changes `topic` for these chains. It is published once, at
    commit."""
    pending = tx.get_execution_options().get(_PENDING)
    if pending is None:
        pending = {}
        tx.execution_options(**{_PENDING: pending})
        run_before_commit(tx, _write_changes)
    pending.setdefault((cluster_id, topic), {}).update(dict.fromkeys(chain_ids))


def _write_changes(tx: Transaction) -> None:
    pending: dict[tuple[int, Topic], dict[ChainId, None]] = tx.get_execution_options()[_PENDING]
    for cluster_id in {cluster_id for cluster_id, _ in pending}:
        topics = [(topic, ids) for (owner, topic), ids in pending.items() if owner == cluster_id]
        newest = _take_numbers(tx, cluster_id, len(topics))
        rows = [
            {
                "cluster_id": cluster_id,
                "seq": seq,
                "topic": topic.value,
                "chain_ids": list(ids) if len(ids) <= MANY else None,
            }
            for seq, (topic, ids) in enumerate(topics, start=newest - len(topics) + 1)
        ]
        tx.execute(plain_insert(table), rows)
        if newest // _TRIM_EVERY != (newest - len(topics)) // _TRIM_EVERY:
            old = (table.c.cluster_id == cluster_id, table.c.seq <= newest - KEPT)
            tx.execute(delete(table).where(*old))


def _take_numbers(tx: Transaction, cluster_id: int, count: int) -> int:
    """Take `count` numbers and return the newest one."""
    parameters = {"cluster_id": cluster_id, "newest": count, "more": count}
    return int(tx.execute(_build_taking(tx.dialect.name), parameters).scalar_one())


@cache
def _build_taking(dialect: str) -> ReturningInsert[int]:
    return (
        build_dialect_insert(dialect, counts)
        .on_conflict_do_update(
            index_elements=["cluster_id"], set_={"newest": counts.c.newest + bindparam("more")}
        )
        .returning(counts.c.newest)
    )


def read_newest_seq(tx: Transaction, cluster_id: int) -> int:
    """Return the number of the last change; 0 before the first."""
    newest = tx.scalar(select(counts.c.newest).where(counts.c.cluster_id == cluster_id))
    return 0 if newest is None else int(newest)


def list_changes_since(
    tx: Transaction, cluster_id: int, after: int, limit: int
) -> list[Change] | None:
    """List the changes after that number, oldest first; None: some are no longer kept, or the
    number is newer than this database."""
    last = read_newest_seq(tx, cluster_id)
    if after == last:
        return []
    query = select(table.c.seq, table.c.topic, table.c.chain_ids).where(
        table.c.cluster_id == cluster_id, table.c.seq > after
    )
    rows = tx.execute(query.order_by(table.c.seq).limit(limit)).all()
    if after > last or not rows or rows[0].seq != after + 1:
        return None
    return [Change(seq=row.seq, topic=Topic(row.topic), chain_ids=row.chain_ids) for row in rows]
