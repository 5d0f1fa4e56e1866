"""Hand-made views of one hand-over."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.domain.decision import PolicyView, Waits
from mirage.domain.job import Job
from mirage.domain.snapshot import Queue
from tests.support.jobs import make_job

NOW = 1_000_000


def waits(
    wait_s: Sequence[int], *, nodes: Sequence[int] | int = 1, limit_s: Sequence[int] | int = 3600
) -> Waits:
    """Return the waits of started jobs in seconds, oldest first."""
    n = len(wait_s)
    return Waits(
        start=np.arange(n, dtype=np.int64),
        wait_s=np.array(wait_s, dtype=np.int64),
        nodes=np.array([nodes] * n if isinstance(nodes, int) else nodes, dtype=np.int64),
        time_limit_s=np.array([limit_s] * n if isinstance(limit_s, int) else limit_s, np.int64),
    )


def make_pending_job(job_id: int, **fields: Any) -> Job:
    """Return an eligible job that waits for one node of `batch`."""
    values: dict[str, Any] = {"partition": "batch", "eligible": NOW - 60, "priority": 10} | fields
    return make_job(job_id, submit=NOW - 60, **values)


def view(left_s: int, **fields: Any) -> PolicyView:
    """Return the view of a standby of one node and an hour; its predecessor ends in `left_s`."""
    defaults: dict[str, Any] = {
        "partition": "batch",
        "nodes": 1,
        "time_limit_s": 3600,
        "jobs": waits([]),
        "handovers": waits([]),
        "queue": Queue.from_jobs(NOW, ()),
        "free_nodes": 0,
    }
    return PolicyView(now=NOW, predecessor_end=NOW + left_s, **defaults | fields)
