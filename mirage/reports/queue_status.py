"""Reads the present queue: waiting jobs by partition and reason, and idle nodes."""

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.database.jobs import queue_summary
from mirage.database.jobs.queue_summary import PartitionNodes, PartitionQueue, QueueSummary
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import JOBS, NODES, PARTITIONS, Principal
from mirage.provision.polling.queue_totals import OTHERS
from mirage.reports.wait_statistics import LEAST
from mirage.slurm.text.wait_explanations import WaitExplanation, explain_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReason:
    jobs: int
    why: WaitExplanation


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """The queue of one partition, or of all partitions together."""

    name: str
    """Empty: all partitions together."""
    pending_jobs: int
    pending_nodes: int
    running_jobs: int
    running_nodes: int
    reasons: tuple[WaitingReason, ...]
    """The commonest reason first. Where jobs are private, reasons of few jobs are one sum."""
    oldest_eligible: int | None
    """When the longest-waiting job became eligible; None: no job, or jobs are private."""
    nodes: PartitionNodes | None
    """None: not known, or hidden from this reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """The present queue, in sums."""

    at: int | None
    """When the queue was read from Slurm; None: not yet."""
    nodes_at: int | None
    whole: PartitionStatus | None
    partitions: tuple[PartitionStatus, ...]
    """Empty where partitions are private."""


NOTHING = QueueStatus(at=None, nodes_at=None, whole=None, partitions=())


def read_queue_status(tx: Transaction, cluster_id: int, reader: Principal) -> QueueStatus:
    """Return what this reader may see of the queue."""
    summary = queue_summary.find_summary(tx, cluster_id)
    if summary is None:
        return NOTHING
    whole, *partitions = _build_partitions(summary, reader)
    return QueueStatus(
        at=summary.at,
        nodes_at=summary.nodes_at,
        whole=whole,
        partitions=tuple(partitions) if reader.can_see(PARTITIONS) else (),
    )


def _build_partitions(summary: QueueSummary, reader: Principal) -> Iterator[PartitionStatus]:
    """Yield all partitions together, then each partition, also one with nodes and no jobs."""
    nodes = {row.partition: row for row in summary.nodes} if reader.can_see(NODES) else {}
    queue = {row.partition: row for row in summary.queue}
    sees_jobs = reader.can_see(JOBS)
    for name in sorted({"", *queue, *(row.partition for row in summary.nodes)}):
        row = queue.get(name) or _make_empty_row(name)
        yield PartitionStatus(
            name=name,
            pending_jobs=row.pending_jobs,
            pending_nodes=row.pending_nodes,
            running_jobs=row.running_jobs,
            running_nodes=row.running_nodes,
            reasons=tuple(_build_reasons(row, 1 if sees_jobs else LEAST)),
            oldest_eligible=row.oldest_eligible if sees_jobs else None,
            nodes=nodes.get(name),
        )


def _build_reasons(row: PartitionQueue, least: int) -> Iterator[WaitingReason]:
    """Yield the reasons of at least `least` jobs, and one sum for all other reasons."""
    other_jobs = row.reasons.get(OTHERS, 0)
    for word, jobs in row.reasons.items():
        if word == OTHERS:
            continue
        if jobs >= least:
            yield WaitingReason(jobs=jobs, why=explain_reason(word))
        else:
            other_jobs += jobs
    if other_jobs:
        yield WaitingReason(jobs=other_jobs, why=explain_reason(OTHERS))


def _make_empty_row(name: str) -> PartitionQueue:
    return PartitionQueue(
        partition=name,
        pending_jobs=0,
        pending_nodes=0,
        running_jobs=0,
        running_nodes=0,
        oldest_eligible=None,
        reasons={},
    )
