"""Stores the live queue: each look becomes a snapshot, and its jobs go into the history."""

from collections.abc import Iterator
from typing import Any

from mirage.database.jobs import job_history, queue_summary, queue_sums
from mirage.database.jobs.job_history import MergeCounts
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.job import Job
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Node, Queue
from mirage.provision.polling import queue_totals

WINDOW_S = 6 * 3600
"""Seconds of accounting that one query reads: some 10,000 jobs of a busy site, a few MB."""

OVERLAP_S = 3600
"""Seconds by which windows overlap, since after an outage slurmdbd learns late that a job ended."""

FIRST_WINDOW_S = 7 * 86400
"""Seconds of accounting that a new installation reads."""


def ingest_queue(
    tx: Transaction,
    cluster_id: int,
    queue: Queue,
    nodes: tuple[Node, ...] | None,
    *,
    earlier: Queue | None = None,
) -> None:
    """Store a snapshot, and the history of each job that has changed since `earlier`.

    Without accounting this is the only history: starts and ends are read from the queue, which
    shows ended jobs for MinJobAge.
    """
    queue_sums.add_snapshot(tx, cluster_id, queue.taken_at, summarize_snapshot(queue, nodes))
    node_sums = None if nodes is None else queue_totals.sum_nodes(nodes)
    sums = queue_totals.sum_queue(queue)
    plans = queue_totals.map_planned_starts(queue)
    queue_summary.save_summary(tx, cluster_id, queue.taken_at, sums, node_sums, plans=plans)
    job_history.upsert_jobs(tx, cluster_id, find_changed_jobs(queue, earlier))


def find_changed_jobs(queue: Queue, earlier: Queue | None) -> Iterator[Job]:
    """Yield the jobs whose history has changed since the queue `earlier`; all jobs if it is
    None."""
    earlier_lives = set() if earlier is None else set(_iter_job_lives(earlier))
    return (
        queue.get_job(i)
        for i, life in enumerate(_iter_job_lives(queue))
        if life not in earlier_lives
    )


def _iter_job_lives(queue: Queue) -> Iterator[tuple[object, ...]]:
    """Yield the fields of each job that belong to the history: no plan, priority or reason."""
    columns = (queue.job_id, queue.submit, queue.eligible, queue.time_limit_s, queue.nodes)
    return zip(*(column.tolist() for column in columns), queue.state, strict=True)


def summarize_snapshot(queue: Queue, nodes: tuple[Node, ...] | None) -> dict[str, Any]:
    """Return the sums of a snapshot that are kept for ever."""
    pending, running = queue.pending_mask, queue.running_mask
    sums: dict[str, Any] = {
        "pending_jobs": int(pending.sum()),
        "pending_nodes": int(queue.nodes[pending].sum()),
        "running_jobs": int(running.sum()),
        "running_nodes": int(queue.nodes[running].sum()),
    }
    if nodes is not None:
        sums |= summarize_nodes(nodes)
    return sums


def summarize_nodes(nodes: tuple[Node, ...]) -> dict[str, int]:
    usable = [n for n in nodes if n.is_usable]
    return {
        "nodes": len(nodes),
        "usable_nodes": len(usable),
        "idle_nodes": sum(n.cpus_used == 0 for n in usable),
        "gpus": sum(n.gpus for n in usable),
        "gpus_used": sum(n.gpus_used for n in usable),
    }


def split_history(since: int, until: int) -> Iterator[tuple[int, int]]:
    """Yield [since, until) in windows; each begins OVERLAP_S before the end of the last."""
    begin = since
    while begin < until:
        end = min(begin + WINDOW_S, until)
        yield begin - OVERLAP_S, end
        begin = end


def ingest_history(
    store: Store, cluster: Cluster, cluster_id: int, window: tuple[int, int]
) -> tuple[MergeCounts, list[Job]]:
    """Read one window of accounting into the history; return the counts and the records."""
    records = list(cluster.fetch_history(*window))
    with store.begin() as tx:
        return job_history.upsert_jobs(tx, cluster_id, records), records
