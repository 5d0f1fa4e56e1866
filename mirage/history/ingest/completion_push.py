"""Decides when to poll the queue next: less often while slurmctld pushes the ends of jobs.

A push (slurm_plugin/hooks/mirage-push) only says that it is time to look; the job's state is read
from Slurm. If the queue shows the end of a link without a push, pushes do not get through. Then the
queue is polled as often as without them.
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
ON_ITS_WAY_S = 30
"""Seconds after a job's end after which its push counts as missed: slurmctld may be busy."""
LOOK_SOON_S = 10
"""The least seconds between two looks at the queue, however many links end."""


@dataclass(frozen=True, slots=True)
class PollingCadence:
    """Tells when to look at the queue next, in seconds of the cluster's clock."""

    every_s: int
    pushed_every_s: int

    def compute_next_look(self, looked_at: int, told: PushTimes, now: int) -> int:
        """Return the instant of the next look, in epoch seconds."""
        slow = (
            max(self.every_s, self.pushed_every_s) if is_push_working(told, now) else self.every_s
        )
        link_ended = told.of_link is not None and told.of_link > looked_at
        return looked_at + (min(LOOK_SOON_S, slow) if link_ended else slow)


def is_push_working(told: PushTimes, now: int) -> bool:
    """Return whether pushes got through lately and none was missed."""
    lately = told.last is not None and now - told.last <= TRUSTED_S
    failed = told.missed is not None and now - told.missed <= TRUSTED_S
    return lately and not failed


def list_running_links(tx: Transaction, cluster_id: int) -> list[Link]:
    """Return the links that ran at the last look; none if no push ever came, as none is missed."""
    if push_times.read_push_times(tx, cluster_id).last is None:
        return []
    return list_open_links(tx, cluster_id, LinkState.RUNNING)


def check_missed_pushes(tx: Transaction, cluster_id: int, ran: Collection[Link], now: int) -> None:
    """Record a missed push if a link that ran at the last look has ended without a push.

    Run this after `link_sync.sync_links`.
    """
    told = push_times.read_push_times(tx, cluster_id)
    if told.last is None or not ran:
        return
    links = chains.list_links_by_chain(tx, cluster_id, list({link.chain_id for link in ran}))
    after = {(li.job_id, li.submit): li for of_chain in links.values() for li in of_chain}
    for before in ran:
        link = after.get((before.job_id, before.submit))
        if link is not None and _is_untold(tx, cluster_id, link, now):
            push_times.record_missed_push(tx, cluster_id, now)
            return


def _is_untold(tx: Transaction, cluster_id: int, link: Link, now: int) -> bool:
    ended = link.state is LinkState.ENDED and link.end is not None
    if not ended or link.start is None or now - (link.end or now) < ON_ITS_WAY_S:
        return False
    return not push_times.has_push(tx, cluster_id, JobId(link.job_id), link.start)
