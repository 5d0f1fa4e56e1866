"""Stores the queue as last read, in sums by partition: one row a cluster, replaced each time."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select

from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import queue_now
from mirage.database.schema.upsert import put_row


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionQueue:
    """The jobs of one partition, or of all. A job submitted to several partitions waits in each."""

    partition: str
    """The partition; empty: all partitions."""
    pending_jobs: int
    pending_nodes: int
    running_jobs: int
    running_nodes: int
    oldest_eligible: int | None
    """When the longest-waiting job became eligible; None: no job is eligible."""
    reasons: Mapping[str, int]
    """The number of pending jobs by Slurm's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNodes:
    partition: str
    """The partition; empty: all partitions."""
    nodes: int
    usable_nodes: int
    idle_nodes: int
    gpus: int
    gpus_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    at: int
    queue: tuple[PartitionQueue, ...]
    """The sums of all partitions first, then by name."""
    nodes_at: int | None
    nodes: tuple[PartitionNodes, ...]
    """The nodes of all partitions first, then by name; empty: there was no answer on nodes yet."""


def save_summary(
    tx: Transaction,
    cluster_id: int,
    at: int,
    queue: Sequence[PartitionQueue],
    nodes: Sequence[PartitionNodes] | None,
    *,
    plans: Mapping[int, int] | None = None,
) -> None:
    """Store the sums. `nodes` None: nodes were not queried this time, so the stored ones stay.
    `plans`: the start that Slurm plans, by job id."""
    values: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "queue": [_to_plain_row(asdict(row)) for row in queue],
        "plans": {str(job_id): instant for job_id, instant in (plans or {}).items()},
    }
    if nodes is not None:
        values |= {"nodes_at": at, "nodes": [asdict(row) for row in nodes]}
    put_row(tx, queue_now, values, key=["cluster_id"])


def read_planned_starts(tx: Transaction, cluster_id: int) -> dict[int, int]:
    """Return when Slurm planned to start each job at the last look, by job id.

    Jobs without a plan are left out.
    """
    plans = tx.scalar(select(queue_now.c.plans).where(queue_now.c.cluster_id == cluster_id))
    return {int(job_id): instant for job_id, instant in (plans or {}).items()}


def find_summary(tx: Transaction, cluster_id: int) -> QueueSummary | None:
    row = tx.execute(select(queue_now).where(queue_now.c.cluster_id == cluster_id)).first()
    if row is None:
        return None
    return QueueSummary(
        at=row.at,
        queue=tuple(PartitionQueue(**sums) for sums in row.queue),
        nodes_at=row.nodes_at,
        nodes=tuple(PartitionNodes(**sums) for sums in row.nodes or ()),
    )


def list_partitions(tx: Transaction, cluster_id: int) -> list[str]:
    """Return the partitions that had nodes when nodes were last read."""
    summary = find_summary(tx, cluster_id)
    return [] if summary is None else [row.partition for row in summary.nodes if row.partition]


def _to_plain_row(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"reasons": dict(row["reasons"])}
