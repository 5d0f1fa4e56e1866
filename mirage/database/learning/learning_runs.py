"""Stores the runs of learning: when, why, and what came of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, insert, select, update

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.learning_tables import learning_runs as table
from mirage.errors import NotFound


class RunState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    NOTHING_TO_DO = "nothing-to-do"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRun:
    id: int
    begun_at: int
    ended_at: int | None
    """None while the run goes on."""
    state: RunState
    reason: str
    """Why there was something to learn; empty: there was nothing."""
    document: Mapping[str, Any]
    """What came of it. `error`: why it failed; `figures`: {policy: {interruption_h, overlap_h,
    cost_h, ci}} on the newest weeks."""


def begin_run(tx: Transaction, cluster_id: int, *, at: int, reason: str) -> int:
    """Store a run that begins, and return its id.

    Runs that are stored as running are stored as interrupted: whoever begins a run holds the lock
    of learning, so no other run goes on.
    """
    tx.execute(
        update(table)
        .where(table.c.cluster_id == cluster_id, table.c.state == RunState.RUNNING.value)
        .values(state=RunState.INTERRUPTED.value, ended_at=at)
    )
    values = {
        "cluster_id": cluster_id,
        "begun_at": at,
        "state": RunState.RUNNING.value,
        "reason": reason,
        "document": {},
    }
    changes.record_change(tx, cluster_id, Topic.QUEUE)
    return int(tx.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())


def finish_run(
    tx: Transaction, run_id: int, *, at: int, state: RunState, document: Mapping[str, Any]
) -> None:
    """Store what came of a run. Raises NotFound if there is no such run."""
    statement = update(table).where(table.c.id == run_id)
    statement = statement.values(ended_at=at, state=RunState(state).value, document=dict(document))
    row = tx.execute(statement.returning(table.c.cluster_id)).first()
    if row is None:
        raise NotFound(f"there is no run {run_id} of learning")
    changes.record_change(tx, row.cluster_id, Topic.QUEUE)


def read_runs(
    tx: Transaction, cluster_id: int, *, most: int, before: int | None = None
) -> list[LearningRun]:
    """Return up to `most` runs, newest first; `before`: only those with a smaller id."""
    query = select(table).where(table.c.cluster_id == cluster_id)
    if before is not None:
        query = query.where(table.c.id < before)
    return [_build_run(row) for row in tx.execute(query.order_by(table.c.id.desc()).limit(most))]


def _build_run(row: Row[Any]) -> LearningRun:
    return LearningRun(
        id=row.id,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
        state=RunState(row.state),
        reason=row.reason,
        document=row.document,
    )
