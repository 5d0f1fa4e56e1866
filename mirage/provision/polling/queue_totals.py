"""Sums up the queue and the nodes by partition, for pages."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from mirage.database.jobs.queue_summary import PartitionNodes, PartitionQueue
from mirage.domain.snapshot import UNKNOWN, Node, Queue
from mirage.slurm.text.wait_explanations import classify_reason

MOST_REASONS = 24
"""The most reasons that are counted for one partition: Slurm has some hundred, plugins add more."""
OTHERS = "Other"


def sum_queue(queue: Queue) -> list[PartitionQueue]:
    """Return the sums of the whole queue, then those of each partition by name."""
    is_counted = queue.pending_mask | queue.running_mask
    names = {
        name
        for partition_list in {*queue.partition[is_counted]}
        for name in partition_list.split(",")
    }
    words = np.array(
        [
            classify_reason(r) if p else ""
            for r, p in zip(queue.reason, queue.pending_mask, strict=True)
        ],
        dtype=object,
    )
    rows = [_sum_partition(queue, is_counted, words, "")]
    for name in sorted(filter(None, names)):
        in_partition = np.array(
            [name in partition_list.split(",") for partition_list in queue.partition], dtype=bool
        )
        rows.append(_sum_partition(queue, is_counted & in_partition, words, name))
    return rows


def map_planned_starts(queue: Queue) -> dict[int, int]:
    """Return the start that Slurm plans, by job id; jobs without a plan are left out."""
    has_plan = queue.planned_start != UNKNOWN
    ids, starts = queue.job_id[has_plan], queue.planned_start[has_plan]
    return dict(zip(ids.tolist(), starts.tolist(), strict=True))


def _sum_partition(
    queue: Queue, in_partition: NDArray[np.bool_], words: NDArray[np.object_], partition: str
) -> PartitionQueue:
    pending, running = queue.pending_mask & in_partition, queue.running_mask & in_partition
    is_eligible = pending & (queue.eligible != UNKNOWN) & (queue.eligible <= queue.taken_at)
    eligible_since = queue.eligible[is_eligible & (queue.priority != 0)]
    return PartitionQueue(
        partition=partition,
        pending_jobs=int(pending.sum()),
        pending_nodes=int(queue.nodes[pending].sum()),
        running_jobs=int(running.sum()),
        running_nodes=int(queue.nodes[running].sum()),
        oldest_eligible=int(eligible_since.min()) if len(eligible_since) else None,
        reasons=_count_commonest(words[pending].tolist()),
    )


def _count_commonest(words: Iterable[str]) -> dict[str, int]:
    ordered = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    counts, remaining = dict(ordered[:MOST_REASONS]), ordered[MOST_REASONS:]
    if remaining:
        counts[OTHERS] = counts.get(OTHERS, 0) + sum(jobs for _, jobs in remaining)
    return counts


def sum_nodes(nodes: tuple[Node, ...]) -> list[PartitionNodes]:
    """Return the sums of all nodes, then of each partition; a node may count in several."""
    names = {name for node in nodes for name in node.partitions}
    return [_sum_partition_nodes(nodes, ""), *_sum_nodes_by_name(nodes, sorted(names))]


def _sum_nodes_by_name(nodes: tuple[Node, ...], names: Iterable[str]) -> Iterator[PartitionNodes]:
    for name in names:
        yield _sum_partition_nodes(tuple(n for n in nodes if name in n.partitions), name)


def _sum_partition_nodes(nodes: tuple[Node, ...], partition: str) -> PartitionNodes:
    usable = [n for n in nodes if n.is_usable]
    return PartitionNodes(
        partition=partition,
        nodes=len(nodes),
        usable_nodes=len(usable),
        idle_nodes=sum(n.cpus_used == 0 for n in usable),
        gpus=sum(n.gpus for n in usable),
        gpus_used=sum(n.gpus_used for n in usable),
    )
