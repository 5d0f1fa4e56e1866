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
    in_queue = None if queue is None else queue.find_job(job_id)
    named = in_queue or next((job for job in jobs if job.job_id == job_id), None)
    if named is None or named.uid is None:
        return False
    mark = find_mark(named.comment)
    unmarked = in_queue is not None and (mark is None or mark.chain_id != chain.chain_id)
    return named.uid != chain.uid or unmarked


def adopt_chain(
    tx: Transaction,
    cluster_id: int,
    chain: Chain | None,
    found: Sequence[tuple[Mark, Job]],
    now: int,
) -> Chain | None:
    """Give a chain without a valid registration to the user of its first job; return the chain.

    Anybody who sees a mark can write it on a job of their own. So only jobs of the user for whom
    the chain's id was made count. The first of them by submit time is the first job: a requeue
    makes a submit time later, never earlier. The chain gets the settings in that job's comment
    (`slurm.text.chain_settings`). A chain whose job asks for no service is not adopted.
    """
    chain_id = found[0][0].chain_id
    named = [
        (job.submit, job.job_id, mark.index, job)
        for mark, job in found
        if job.uid is not None and is_made_for(chain_id, job.uid)
    ]
    if not named:
        return chain
    *_, index, first = min(named, key=lambda one: one[:3])
    if first.uid is None or (chain is not None and chain.uid == first.uid):
        return chain
    wished = parse_chain_settings(first)
    if wished.alone:
        return chain
    taken = _apply_wishes(
        Chain(chain_id=chain_id, uid=first.uid, user=first.user, created_at=first.submit), wished
    )
    chains.save_chain(tx, cluster_id, taken)
    what: dict[str, object] = {"link": index, "job": first.job_id}
    if wished.policy != taken.policy:
        what["unknown_policy"] = wished.policy
    entry = AuditEntry(at=now, actor="mirage", event="adopted", chain_id=chain_id, detail=what)
    audit.write_entry(tx, cluster_id, entry)
    return taken


def _apply_wishes(chain: Chain, wished: ChainSettings) -> Chain:
    """Return the chain with the settings that its job tells; all others get the strictest value.

    The user may have asked that links never overlap. A link that starts early all the same is then
    sent back, and loses the age that it has earned.
    """
    return replace(
        chain,
        style=wished.style or Style.SEQUENTIAL,
        max_overlap_s=wished.max_overlap_s or 0,
        mode=wished.mode or chain.mode,
        presubmit=wished.presubmit or chain.presubmit,
        # A name that no policy has would fail at each look.
        policy=wished.policy if wished.policy and is_known(wished.policy) else None,
        overlap_price=get_first_price(wished.style, wished.overlap_price),
        asked_price=wished.overlap_price,
        total_s=wished.total_s,
        min_runtime_s=wished.min_runtime_s,
        max_returns=wished.max_returns,
    )


def report_foreign_marks(
    tx: Transaction, cluster_id: int, found: Sequence[tuple[ChainId, Job]], now: int
) -> None:
    """Write into the audit, once for each chain and user, that the mark on a job was ignored."""
    first: dict[tuple[ChainId, int], Job] = {}
    for chain_id, job in found:
        if job.uid is not None:
            first.setdefault((chain_id, job.uid), job)
    if not first:
        return
    past = audit.list_chain_entries(tx, cluster_id, {chain_id for chain_id, _ in first}, FOREIGN)
    told = {(entry.chain_id, entry.detail.get("uid")) for entry in past}
    for (chain_id, uid), job in first.items():
        if (chain_id, uid) in told:
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
