"""Reads the past of an observation from the job history: bounded, and once a tick."""

from typing import Any

import numpy as np
from sqlalchemy import func, or_, select

from mirage.database.jobs.job_times import build_waited_s
from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import jobs
from mirage.domain.arrays import Ints
from mirage.domain.job import JobState
from mirage.domain.recent_history import RecentHistory, to_text_column
from mirage.domain.time_units import DAY_S

STARTS = 256
"""The most submissions and starts of a day that are read, the latest ones."""
ENDS = 50_000
"""The most ends within `ENDS_S` that are read, the latest ones. Users without an end among them are
unknown."""
ENDS_S = 30 * DAY_S

_limit_s = func.coalesce(jobs.c.time_limit_s, 0)


def read_recent_jobs(tx: Transaction, cluster_id: int, now: int) -> RecentHistory:
    """Read what had happened by `now`: submissions and starts of a day, ends of a month."""
    ends = list(tx.execute(_select_ended(cluster_id, now)))[::-1]
    return RecentHistory(
        submitted=_to_array(list(tx.execute(_select_submitted(cluster_id, now))), 3),
        started=_to_array(list(tx.execute(_select_started(cluster_id, now)))[::-1], 4),
        ended=_to_array([(run_s, limit_s) for _, run_s, limit_s in ends], 2),
        ended_user=to_text_column([user for user, _, _ in ends]),
    )


def _select_submitted(cluster_id: int, now: int) -> Any:
    """Select jobs submitted in the last day; the condition on `end` is there for the index."""
    since = now - DAY_S
    return (
        select(jobs.c.submit, jobs.c.nodes, _limit_s)
        .where(
            jobs.c.cluster_id == cluster_id,
            or_(jobs.c.end.is_(None), jobs.c.end > since),
            jobs.c.submit > since,
            jobs.c.submit <= now,
        )
        .order_by(jobs.c.submit, jobs.c.job_id)
    )


def _select_started(cluster_id: int, now: int) -> Any:
    return (
        select(jobs.c.start, build_waited_s(), jobs.c.nodes, _limit_s)
        .where(
            jobs.c.cluster_id == cluster_id,
            jobs.c.start > now - DAY_S,
            jobs.c.start <= now,
        )
        .order_by(jobs.c.start.desc(), jobs.c.job_id.desc())
        .limit(STARTS)
    )


def _select_ended(cluster_id: int, now: int) -> Any:
    """Select the ended runs, newest first."""
    return (
        select(jobs.c.user, jobs.c.end - jobs.c.start, _limit_s)
        .where(
            jobs.c.cluster_id == cluster_id,
            jobs.c.end > now - ENDS_S,
            jobs.c.end <= now,
            jobs.c.start.is_not(None),
            jobs.c.state != JobState.REQUEUED.value,
        )
        .order_by(jobs.c.end.desc(), jobs.c.job_id.desc())
        .limit(ENDS)
    )


def _to_array(rows: list[Any], width: int) -> Ints:
    return np.array([tuple(row) for row in rows], dtype=np.int64).reshape(-1, width)
