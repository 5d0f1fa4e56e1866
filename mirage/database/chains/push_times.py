"""Stores the pushes of slurmctld, each of which reports the end of a job.

docs/reference/chains.md, completions, describes them.
"""

from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from mirage.database.schema.engine import Transaction
from mirage.database.schema.tables import clusters, links
from mirage.domain.chain import LinkState
from mirage.domain.job import JobId

_SELECT_TIMES = select(
    clusters.c.pushed_at, clusters.c.pushed_link_at, clusters.c.push_missed_at
).where(clusters.c.id == bindparam("cluster_id"))


class PushTimes(NamedTuple):
    """Instants of pushes; None: never."""

    last: int | None
    """The last push of any job."""
    last_of_link: int | None
    """The last push that reported the end of a link."""
    last_missed: int | None
    """When the queue last showed a link's end before a push reported it."""


def record_push(tx: Transaction, cluster_id: int, job_id: JobId, now: int) -> bool:
    """Record that a job has ended. Returns whether it is a link whose end is not known yet."""
    marks_link = update(links).where(
        links.c.cluster_id == cluster_id,
        links.c.job_id == job_id,
        links.c.state != LinkState.ENDED.value,
    )
    is_link = tx.execute(marks_link.values(pushed_at=now)).rowcount > 0
    values = {"pushed_at": now} | ({"pushed_link_at": now} if is_link else {})
    tx.execute(update(clusters).where(clusters.c.id == cluster_id).values(**values))
    return is_link


def is_open_link(tx: Transaction, cluster_id: int, job_id: JobId) -> bool:
    """Return whether the job is a link whose end is not known yet."""
    query = select(links.c.id).where(
        links.c.cluster_id == cluster_id,
        links.c.job_id == job_id,
        links.c.state != LinkState.ENDED.value,
    )
    return tx.execute(query).first() is not None


def read_push_times(tx: Transaction, cluster_id: int) -> PushTimes:
    return PushTimes(*tx.execute(_SELECT_TIMES, {"cluster_id": cluster_id}).one())


def has_push(tx: Transaction, cluster_id: int, job_id: JobId, since: int) -> bool:
    """Return whether a push reported this job's end at `since` or later."""
    query = select(links.c.pushed_at).where(
        links.c.cluster_id == cluster_id, links.c.job_id == job_id, links.c.pushed_at >= since
    )
    return tx.execute(query).first() is not None


def record_missed_push(tx: Transaction, cluster_id: int, now: int) -> None:
    """Record that no push reported a link's end."""
    statement = update(clusters).where(clusters.c.id == cluster_id)
    tx.execute(statement.values(push_missed_at=now))
