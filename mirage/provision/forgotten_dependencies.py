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
    job_ids = (term.job_id for term in list_required_terms(dependency))
    return [
        job_id
        for job_id in job_ids
        if job_id is not None and queue.find_job(job_id) is None and job_id not in queue.unread
    ]


def drop_met_terms(cluster: Cluster, dependency: str, queue: Queue) -> str:
    """Return the dependency without the met terms on jobs that slurmctld has forgotten.

    A term stays if accounting cannot tell whether it was met: Slurm then decides. Raises InputError
    for a term that was not met, because some releases of Slurm would take it for met.
    """
    forgotten = list_forgotten_jobs(dependency, queue)
    if not forgotten:
        return dependency
    try:
        records = cluster.fetch_job_records(forgotten)
    except ClusterError as error:
        _seldom.log_event(
            _log.warning,
            "accounting did not tell how a dependency's jobs ended",
            jobs=forgotten,
            error=str(error),
        )
        return dependency
    # A requeued job has several records: the last one counts.
    by_id = {job.job_id: job for job in sorted(records, key=lambda job: job.submit)}
    terms = list_required_terms(dependency)
    return join_terms(_filter_unmet(terms, forgotten, by_id, queue.taken_at))


def explain_refusal(refusal: str, dependency: str, queue: Queue) -> str:
    """Return Slurm's refusal of a dependency, with the jobs that may be its reason."""
    if "dependency" not in refusal.lower() or "?" in dependency:
        return refusal
    forgotten = ", ".join(map(str, list_forgotten_jobs(dependency, queue)))
    if not forgotten:
        return refusal
    return f"{refusal}; Slurm does not show {forgotten} of its own dependency"


def _filter_unmet(
    terms: Sequence[Term], forgotten: Sequence[JobId], by_id: Mapping[JobId, Job], now: int
) -> list[Term]:
    """Return the terms that are not met, or of which that is not known."""
    unmet = []
    for term in terms:
        job_id = term.job_id
        job = by_id.get(job_id) if job_id is not None and job_id in forgotten else None
        is_met = None if job is None else term.is_met(job, now)
        if job is not None and is_met is False:
            raise InputError(
                f"its own dependency {term.text} was not met (job {job.job_id} is {job.state}), "
                "and Slurm has forgotten that job: the standby is left as it is"
            )
        if not is_met:
            unmet.append(term)
    return unmet
