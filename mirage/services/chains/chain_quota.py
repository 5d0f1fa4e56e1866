"""Limits how many chains of one user Mirage follows; those beyond are left to plain Slurm.

Nothing is lost with the chains beyond the limit: their links stand in Slurm, each behind the one
before. Mirage takes such a chain up once another chain of the same user has ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from mirage.domain.chain import ChainId, is_made_for
from mirage.domain.job import Job
from mirage.domain.time_units import DAY_S
from mirage.errors import TooMany
from mirage.services.chains.link_sync import parse_marks
from mirage.store.chains import chain_counts, chains
from mirage.store.database.engine import Transaction

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainQuota:
    """The limits on one user's chains."""

    live: int
    a_day: int
    """Begun in 24 hours."""


def check_chain_quota(
    tx: Transaction, cluster_id: int, chain_id: ChainId, uid: int, bounds: ChainQuota, *, now: int
) -> None:
    """Raises TooMany for a chain that would be one too many; one that is known already is not."""
    if chains.find_chains(tx, [chain_id]):
        return
    if chain_counts.count_live_chains(tx, cluster_id, uid) >= bounds.live:
        raise TooMany(
            f"no more than {bounds.live} live chains of one user are followed here "
            "(max_chains_per_user), and you have as many: this one will be once another one is over"
        )
    begun = chain_counts.count_registrations_since(tx, cluster_id, uid, now - DAY_S)
    if begun.chains >= bounds.a_day:
        raise TooMany(
            f"{bounds.a_day} chains of yours began in 24 hours (quota.registrations_per_day): "
            "this one is followed without its settings, once Mirage sees it in the queue",
            (begun.first or now) + DAY_S - now,
        )


def filter_followed_jobs(
    tx: Transaction, cluster_id: int, jobs: Sequence[Job], bounds: ChainQuota, *, now: int
) -> list[Job]:
    """Return the jobs without those of unknown chains whose user has as many chains as allowed."""
    named = {job.job_id: mark.chain_id for mark, job in parse_marks(jobs)}
    ids = set(named.values())
    new = ids - chains.find_chains(tx, ids).keys()
    left: dict[int, int] = {}
    beyond: set[ChainId] = set()
    for job in sorted(jobs, key=lambda job: (job.submit, job.job_id)):
        chain_id = named.get(job.job_id)
        if chain_id not in new or job.uid is None or not is_made_for(chain_id, job.uid):
            continue
        new.discard(chain_id)
        if job.uid not in left:
            begun = chain_counts.count_registrations_since(tx, cluster_id, job.uid, now - DAY_S)
            live = chain_counts.count_live_chains(tx, cluster_id, job.uid)
            left[job.uid] = min(bounds.live - live, bounds.a_day - begun.chains)
        if left[job.uid] <= 0:
            beyond.add(chain_id)
        left[job.uid] -= 1
    if beyond:
        _log.info("chains are left to plain Slurm: their users have too many", chains=len(beyond))
    return [job for job in jobs if named.get(job.job_id) not in beyond]
