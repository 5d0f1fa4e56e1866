"""Limits how many chains of one user Mirage follows; further chains run as plain Slurm jobs.

A chain beyond the limit loses nothing: its links are in Slurm's queue, and each depends on the one
before. Mirage begins to follow the chain once another chain of the same user has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from mirage.chains.link_sync import parse_marks
from mirage.database.chains import chain_counts, chains
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import ChainId, is_made_for
from mirage.domain.job import Job
from mirage.domain.time_units import DAY_S
from mirage.errors import TooMany
from mirage.logs import ThrottledLog

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(20)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainQuota:
    """The limits on one user's chains."""

    live: int
    """Chains that have not ended."""
    a_day: int
    """Chains that began in the last 24 hours."""


def check_chain_quota(
    tx: Transaction, cluster_id: int, chain_id: ChainId, uid: int, quota: ChainQuota, *, now: int
) -> None:
    """Raise TooMany if the user has no room for this chain; a chain that is stored has its room."""
    if chains.find_chains(tx, cluster_id, [chain_id]):
        return
    if chain_counts.count_live_chains(tx, cluster_id, uid) >= quota.live:
        raise TooMany(
            f"you have {quota.live} chains that have not ended, the limit on this cluster "
            "(max_chains_per_user): Mirage manages this chain once another one of yours has ended"
        )
    recent = chain_counts.count_registrations_since(tx, cluster_id, uid, now - DAY_S)
    if recent.chains >= quota.a_day:
        raise TooMany(
            f"{quota.a_day} chains of yours began in the last 24 hours, the limit on this cluster "
            "(quota.registrations_per_day): register this chain again later, or Mirage manages it "
            "without its settings",
            (recent.first or now) + DAY_S - now,
        )


def filter_followed_jobs(
    tx: Transaction, cluster_id: int, jobs: Sequence[Job], quota: ChainQuota, *, now: int
) -> list[Job]:
    """Return the jobs, without those of new chains whose user already has the most allowed."""
    chain_of_job = {job.job_id: mark.chain_id for mark, job in parse_marks(jobs)}
    chain_ids = set(chain_of_job.values())
    new = chain_ids - chains.find_chains(tx, cluster_id, chain_ids).keys()
    room: dict[int, int] = {}
    beyond_quota: set[ChainId] = set()
    # Of the new chains, those whose jobs were submitted first take the room that is left.
    for job in sorted(jobs, key=lambda job: (job.submit, job.job_id)):
        chain_id = chain_of_job.get(job.job_id)
        if chain_id not in new or job.uid is None or not is_made_for(chain_id, job.uid):
            continue
        new.discard(chain_id)
        if job.uid not in room:
            recent = chain_counts.count_registrations_since(tx, cluster_id, job.uid, now - DAY_S)
            live = chain_counts.count_live_chains(tx, cluster_id, job.uid)
            room[job.uid] = min(quota.live - live, quota.a_day - recent.chains)
        if room[job.uid] <= 0:
            beyond_quota.add(chain_id)
        room[job.uid] -= 1
    if beyond_quota:
        _seldom.log_event(
            _log.info,
            "chains run as plain Slurm jobs: their users have reached max_chains_per_user or "
            "quota.registrations_per_day",
            chains=len(beyond_quota),
        )
    return [job for job in jobs if chain_of_job.get(job.job_id) not in beyond_quota]
