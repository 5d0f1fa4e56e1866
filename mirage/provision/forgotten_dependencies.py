"""Handles a user's own dependencies of a standby on jobs that slurmctld has forgotten.

Slurm drops a term of a dependency once it is met, but only when it next looks at the job. Until
then a move would repeat the term. Since 23.02 slurmctld refuses `afterok` and `afternotok` on a job
that it does not know; older releases take such a term for met. So Mirage asks accounting how those
jobs ended, and leaves the met terms out of the move.
"""

from collections.abc import Mapping, Sequence

import structlog

from mirage.domain.job import Job, JobId
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Queue
from mirage.errors import ClusterError, InputError
from mirage.logs import ThrottledLog
from mirage.slurm.text.dependency import Term, join_terms, list_required_terms

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(20)


def list_forgotten_jobs(dependency: str, queue: Queue) -> list[JobId]:
    """Return the jobs of the dependency that the queue does not show."""
    named = (term.job_id for term in list_required_terms(dependency))
    return [
        job_id
        for job_id in named
        if job_id is not None and queue.find_job(job_id) is None and job_id not in queue.unread
    ]


def drop_met_terms(cluster: Cluster, dependency: str, queue: Queue) -> str:
    """Return the dependency without the met terms on jobs that slurmctld has forgotten.

    A term stays if accounting cannot tell whether it was met: Slurm then decides. Raises InputError
    for a term that was not met, because some releases of Slurm would take it for met.
    """
    unknown = list_forgotten_jobs(dependency, queue)
    if not unknown:
        return dependency
    try:
        records = cluster.fetch_job_records(unknown)
    except ClusterError as error:
        _seldom.log_event(
            _log.warning,
            "accounting did not tell how a dependency's jobs ended",
            jobs=unknown,
            error=str(error),
        )
        return dependency
    last = {job.job_id: job for job in sorted(records, key=lambda job: job.submit)}
    return join_terms(_filter_unmet(list_required_terms(dependency), unknown, last, queue.taken_at))


def explain_refusal(refusal: str, dependency: str, queue: Queue) -> str:
    """Return Slurm's refusal of a dependency, with the jobs that may be its reason."""
    if "dependency" not in refusal.lower() or "?" in dependency:
        return refusal
    unknown = ", ".join(map(str, list_forgotten_jobs(dependency, queue)))
    return f"{refusal}; Slurm does not show {unknown} of its own dependency" if unknown else refusal


def _filter_unmet(
    several: Sequence[Term], unknown: Sequence[JobId], last: Mapping[JobId, Job], now: int
) -> list[Term]:
    left = []
    for term in several:
        job_id = term.job_id
        job = last.get(job_id) if job_id is not None and job_id in unknown else None
        met = None if job is None else term.is_met(job, now)
        if job is not None and met is False:
            raise InputError(
                f"its own dependency {term.text} was not met (job {job.job_id} is {job.state}), "
                "and Slurm has forgotten that job: the standby is left as it is"
            )
        if not met:
            left.append(term)
    return left
