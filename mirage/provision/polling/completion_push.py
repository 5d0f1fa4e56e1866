"""Decides when to poll the queue next: less often while slurmctld pushes the ends of jobs.

A push (slurm_plugin/hooks/mirage-push) only makes Mirage look earlier; the job's state is read from
Slurm. If the queue shows the end of a link without a push, pushes do not get through. Then the
queue is polled as often as without pushes.
"""

from collections.abc import Collection
from dataclasses import dataclass

from mirage.database.chains import chains, push_times
from mirage.database.chains.open_links import list_open_links
from mirage.database.chains.push_times import PushTimes
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Link, LinkState
from mirage.domain.job import JobId

TRUSTED_S = 3600
"""Pushes work if the last one came within this many seconds, and none was missed in them."""
MISSED_AFTER_S = 30
"""Seconds after a job's end after which its push counts as missed: slurmctld may be busy."""
LOOK_SOON_S = 10
"""The least seconds between two looks at the queue, however many links end."""


@dataclass(frozen=True, slots=True)
class PollingCadence:
    """Tells when to look at the queue next, in seconds of the cluster's clock."""

    every_s: int
    pushed_every_s: int

    def compute_next_look(self, looked_at: int, times: PushTimes, now: int) -> int:
        """Return the instant of the next look, in epoch seconds."""
        pause_s = (
            max(self.every_s, self.pushed_every_s) if is_push_working(times, now) else self.every_s
        )
        has_link_ended = times.last_of_link is not None and times.last_of_link > looked_at
        return looked_at + (min(LOOK_SOON_S, pause_s) if has_link_ended else pause_s)


def is_push_working(times: PushTimes, now: int) -> bool:
    """Return whether pushes got through lately and none was missed."""
    has_recent_push = times.last is not None and now - times.last <= TRUSTED_S
    has_recent_miss = times.last_missed is not None and now - times.last_missed <= TRUSTED_S
    return has_recent_push and not has_recent_miss


def list_running_links(tx: Transaction, cluster_id: int) -> list[Link]:
    """Return the links that ran at the last look. Empty if no push ever came: then none can be
    missed."""
    if push_times.read_push_times(tx, cluster_id).last is None:
        return []
    return list_open_links(tx, cluster_id, LinkState.RUNNING)


def check_missed_pushes(
    tx: Transaction, cluster_id: int, running_links: Collection[Link], now: int
) -> None:
    """Record a missed push if a link that ran at the last look has ended without a push.

    Run this after `link_sync.sync_links`.
    """
    times = push_times.read_push_times(tx, cluster_id)
    if times.last is None or not running_links:
        return
    links = chains.list_links_by_chain(
        tx, cluster_id, list({link.chain_id for link in running_links})
    )
    links_by_job = {
        (li.job_id, li.submit): li for chain_links in links.values() for li in chain_links
    }
    for running in running_links:
        link = links_by_job.get((running.job_id, running.submit))
        if link is not None and _has_missed_push(tx, cluster_id, link, now):
            push_times.record_missed_push(tx, cluster_id, now)
            return


def _has_missed_push(tx: Transaction, cluster_id: int, link: Link, now: int) -> bool:
    has_ended = link.state is LinkState.ENDED and link.end is not None
    if not has_ended or link.start is None or now - (link.end or now) < MISSED_AFTER_S:
        return False
    return not push_times.has_push(tx, cluster_id, JobId(link.job_id), link.start)
