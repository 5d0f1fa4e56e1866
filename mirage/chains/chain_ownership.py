"""Decides who owns a chain: the user who registered it, else the user of its first job.

Anybody can copy a mark, so a mark alone does not prove who owns the chain.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirage.chains.overlap_price import get_first_price
from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainId, Mark, Style, find_mark, is_made_for
from mirage.domain.job import Job
from mirage.domain.snapshot import Queue
from mirage.policies.registry import is_known
from mirage.slurm.text.chain_settings import ChainSettings, parse_chain_settings

REGISTERED = "registered"
"""The audit's event for a registered chain; the entry's job is the one that the user named."""

FOREIGN = "foreign mark"
"""The audit's event for a chain's mark on the job of another user."""

CLOCKS_DIFFER_S = 5
"""The largest usual difference between the clocks of the service's host and slurmctld's."""


def is_contradicted(chain: Chain, jobs: Iterable[Job], queue: Queue | None) -> bool:
    """Return whether Slurm contradicts the registration of a chain that has no link yet.

    The credential of the caller proves who registered the chain, so marks on other jobs do not
    contradict the registration. But anybody who saw the mark in the queue can register the chain
    too. So the job that the registration names must belong to the caller. If the queue shows that
    job, the job must also carry the mark. In accounting the mark is not required: accounting may
    have lost it.
    """
    job_id = chain.registered_job
    if job_id is None:
        return False
    queued_job = None if queue is None else queue.find_job(job_id)
    named_job = queued_job or next((job for job in jobs if job.job_id == job_id), None)
    if named_job is None or named_job.uid is None:
        return False
    mark = find_mark(named_job.comment)
    lacks_mark = queued_job is not None and (mark is None or mark.chain_id != chain.chain_id)
    return named_job.uid != chain.uid or lacks_mark


def adopt_chain(
    tx: Transaction,
    cluster_id: int,
    chain: Chain | None,
    marked_jobs: Sequence[tuple[Mark, Job]],
    now: int,
) -> Chain | None:
    """Give a chain without a valid registration to the user of its first job; return the chain.

    Anybody who sees a mark can write it on a job of their own. So only jobs of the user for whom
    the chain's id was made count. The first of them by submit time is the first job: a requeue
    makes a submit time later, never earlier. The chain gets the settings in that job's comment
    (`slurm.text.chain_settings`). A chain whose job asks for no service is not adopted.
    """
    chain_id = marked_jobs[0][0].chain_id
    candidates = [
        (job.submit, job.job_id, mark.index, job)
        for mark, job in marked_jobs
        if job.uid is not None and is_made_for(chain_id, job.uid)
    ]
    if not candidates:
        return chain
    *_, index, first = min(candidates, key=lambda candidate: candidate[:3])
    if first.uid is None or (chain is not None and chain.uid == first.uid):
        return chain
    settings = parse_chain_settings(first)
    if settings.alone:
        return chain
    adopted = _apply_settings(
        Chain(chain_id=chain_id, uid=first.uid, user=first.user, created_at=first.submit), settings
    )
    chains.save_chain(tx, cluster_id, adopted)
    detail: dict[str, object] = {"link": index, "job": first.job_id}
    if settings.policy != adopted.policy:
        detail["unknown_policy"] = settings.policy
    entry = AuditEntry(at=now, actor="mirage", event="adopted", chain_id=chain_id, detail=detail)
    audit.write_entry(tx, cluster_id, entry)
    return adopted


def _apply_settings(chain: Chain, settings: ChainSettings) -> Chain:
    """Return the chain with the settings in its job's comment.

    A setting that the comment lacks gets its strictest value. The user may have asked that links
    never overlap: a link that starts early all the same is then sent back, and loses the age that
    it has earned.
    """
    return replace(
        chain,
        style=settings.style or Style.SEQUENTIAL,
        max_overlap_s=settings.max_overlap_s or 0,
        mode=settings.mode or chain.mode,
        presubmit=settings.presubmit or chain.presubmit,
        # A name that no policy has would fail in each tick.
        policy=settings.policy if settings.policy and is_known(settings.policy) else None,
        overlap_price=get_first_price(settings.style, settings.overlap_price),
        asked_price=settings.overlap_price,
        total_s=settings.total_s,
        min_runtime_s=settings.min_runtime_s,
        max_returns=settings.max_returns,
    )


def report_foreign_marks(
    tx: Transaction, cluster_id: int, foreign_jobs: Sequence[tuple[ChainId, Job]], now: int
) -> None:
    """Write into the audit, once for each chain and user, that the mark on a job was ignored."""
    first: dict[tuple[ChainId, int], Job] = {}
    for chain_id, job in foreign_jobs:
        if job.uid is not None:
            first.setdefault((chain_id, job.uid), job)
    if not first:
        return
    past = audit.list_chain_entries(tx, cluster_id, {chain_id for chain_id, _ in first}, FOREIGN)
    reported = {(entry.chain_id, entry.detail.get("uid")) for entry in past}
    for (chain_id, uid), job in first.items():
        if (chain_id, uid) in reported:
            continue
        entry = AuditEntry(
            at=now,
            actor="mirage",
            event=FOREIGN,
            chain_id=chain_id,
            job_id=job.job_id,
            detail={"uid": uid, "user": job.user},
        )
        audit.write_entry(tx, cluster_id, entry)
