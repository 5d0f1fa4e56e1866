"""Finds links in Slurm by their marks, and follows them through queue and accounting."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

import structlog

from mirage.chains import chain_ownership, returned_links
from mirage.chains.standby_position import GRACE_S, update_position, update_release
from mirage.database.chains import chains, open_links
from mirage.database.chains.open_links import list_open_links, list_open_links_unseen_since
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.forecasts import handover_forecasts
from mirage.database.schema.engine import Transaction
from mirage.domain import script_turns
from mirage.domain.chain import (
    Chain,
    ChainId,
    ChainState,
    Link,
    LinkState,
    Mark,
    find_mark,
    get_observed_values,
)
from mirage.domain.chain_cause import Actor
from mirage.domain.handover import find_predecessor
from mirage.domain.job import Job, JobId, JobState, compute_wait_s
from mirage.domain.snapshot import Queue
from mirage.logs import ThrottledLog
from mirage.slurm.text import pending_reasons
from mirage.slurm.text.holds import is_users_hold

_log = structlog.get_logger(__name__)
_seldom = ThrottledLog(20)

REPLACED = "replaced"
"""The audit's event for a link whose job another job has replaced."""

HOLD_GONE = "hold gone"
"""The audit's event for a job whose hold by Mirage somebody else lifted or replaced."""

FORGOTTEN, TAKEN_UP = "forgotten by Slurm", "taken up again"
"""The audit's events for a link that Slurm lost, and for an ended chain that has a live link."""

RELEASED = "released by plan"
"""The audit's event for a standby that Slurm released by the plan in its dependency."""

_ORDER = (LinkState.PENDING, LinkState.RUNNING, LinkState.ENDED)
_CONCLUDED = frozenset({ChainState.FINISHED, ChainState.FAILED})


def sync_links(
    tx: Transaction,
    cluster_id: int,
    jobs: Iterable[Job],
    now: int,
    *,
    accounting: bool = False,
    queue: Queue | None = None,
) -> None:
    """Update chains and links by what Slurm says of their jobs, and adopt the unknown ones.

    `jobs` come from the queue, or from accounting (`accounting`). Accounting knows no dependencies,
    so a standby's position is not learned from it. It may have lost the marks as well, so open
    links are then also found by their job ids. `queue` is the whole queue: a registration may name
    a job in it that has no mark.
    """
    jobs = list(jobs)
    followed = list_open_links(tx, cluster_id) if accounting else []
    known_marks = {link.job_id: Mark(link.chain_id, link.index) for link in followed}
    marked_jobs = sorted(parse_marks(jobs, known_marks), key=_order_by_link)
    chain_ids = {mark.chain_id for mark, _ in marked_jobs}
    known_chains = chains.find_chains(tx, cluster_id, chain_ids)
    elsewhere = chains.list_chains_elsewhere(tx, cluster_id, chain_ids - known_chains.keys())
    marked_jobs = [pair for pair in marked_jobs if pair[0].chain_id not in elsewhere]
    stored = chains.list_links_by_chain(tx, cluster_id, list(chain_ids))
    unchanged: list[Link] = []
    foreign_jobs: list[tuple[ChainId, Job]] = []
    for chain_id, pairs in groupby(marked_jobs, key=lambda pair: pair[0].chain_id):
        group, links = list(pairs), {link.index: link for link in stored[chain_id]}
        chain = known_chains.get(chain_id)
        if chain is None or (not links and chain_ownership.is_contradicted(chain, jobs, queue)):
            chain = chain_ownership.adopt_chain(tx, cluster_id, chain, group, now)
        for mark, job in group:
            if chain is None:
                continue
            if chain.uid != job.uid:
                foreign_jobs.append((chain_id, job))
                continue
            before = links.get(mark.index)
            in_vain = before is not None and script_turns.has_waited_in_vain(
                chain, before, links.values()
            )
            link = _follow_job(before, mark, job, now, in_vain=in_vain)
            if link is None:
                _recall_return(tx, cluster_id, links, mark.index, job)
                continue
            if _is_elsewhere(tx, cluster_id, before, link):
                continue
            link = _mark_replaced(before, link, in_vain=in_vain)
            predecessor = _find_predecessor(link, links)
            link = _update_queue_state(before, predecessor, link, job, in_queue=not accounting)
            chain = _take_up_chain(tx, cluster_id, chain, (before, link), links.values())
            links[mark.index] = link
            if before is not None and get_observed_values(before) == get_observed_values(link):
                unchanged.append(link)
            else:
                _store_link(tx, cluster_id, before, link, in_vain=in_vain)
    open_links.mark_links_seen(tx, cluster_id, unchanged, now)
    chain_ownership.report_foreign_marks(tx, cluster_id, foreign_jobs, now)


def list_marked_jobs(queue: Queue) -> list[Job]:
    """Return the jobs of the queue that carry a mark."""
    return [queue.get_job(i) for i, comment in enumerate(queue.comment) if "mirage:" in comment]


def parse_marks(
    jobs: Iterable[Job], known_marks: Mapping[JobId, Mark] | None = None
) -> Iterator[tuple[Mark, Job]]:
    """Yield the jobs that are links, each with its mark.

    If accounting keeps no comments, the mark is read from the submit line, or taken from
    `known_marks`. A run that ended because its job was requeued is left out: the job has a newer
    record.
    """
    for job in jobs:
        mark = find_mark(job.comment) or find_mark(_strip_quotes(job.submit_line))
        mark = mark or (known_marks or {}).get(job.job_id)
        if mark is not None and not job.array and job.state is not JobState.REQUEUED:
            yield mark, job


def list_missing_jobs(tx: Transaction, cluster_id: int, now: int) -> list[JobId]:
    """Return the jobs of open links that the queue has not shown for GRACE_S."""
    return [li.job_id for li in list_open_links_unseen_since(tx, cluster_id, now - GRACE_S)]


def keep_unread_links(tx: Transaction, cluster_id: int, queue: Queue) -> None:
    """Mark links as seen whose job is in the queue in a row that cannot be read."""
    if queue.unread:
        unread = [link for link in list_open_links(tx, cluster_id) if link.job_id in queue.unread]
        open_links.mark_links_seen(tx, cluster_id, unread, queue.taken_at)


def list_unread_chains(tx: Transaction, cluster_id: int, queue: Queue) -> frozenset[ChainId]:
    """Return the chains with a link whose row cannot be read: nothing is done about them now."""
    if not queue.unread:
        return frozenset()
    links = list_open_links(tx, cluster_id)
    return frozenset(link.chain_id for link in links if link.job_id in queue.unread)


def close_forgotten(tx: Transaction, cluster_id: int, job_ids: set[JobId], now: int) -> None:
    """End links whose job neither the queue nor the accounting knows any more."""
    for link in list_open_links(tx, cluster_id):
        if link.job_id not in job_ids:
            continue
        end = min(now, link.get_planned_end() or now) if link.start is not None else None
        ended = replace(
            link, state=LinkState.ENDED, end=end, end_state=JobState.UNKNOWN, seen_at=now
        )
        ended = replace(ended, held_at=None)
        chains.save_link(tx, cluster_id, ended)
        _write_audit(tx, cluster_id, ended, FORGOTTEN, now, {})


def _find_predecessor(link: Link, links: Mapping[int, Link]) -> Link | None:
    return find_predecessor(link, sorted(links.values(), key=lambda li: li.index))


def _recall_return(
    tx: Transaction, cluster_id: int, links: dict[int, Link], index: int, job: Job
) -> None:
    """Store a return of which only the accounting record of the link's earlier `job` tells."""
    link = links[index]
    recalled = returned_links.recall_return(link, _find_predecessor(link, links), job)
    if recalled is not None:
        links[index] = recalled
        chains.save_link(tx, cluster_id, recalled)
        detail = {"before": job.job_id}
        _write_audit(tx, cluster_id, recalled, returned_links.GAVE_BACK, recalled.seen_at, detail)


def _order_by_link(pair: tuple[Mark, Job]) -> tuple[ChainId, int, int, int]:
    """Sort predecessors before successors, and earlier runs of a link before later ones."""
    mark, job = pair
    return mark.chain_id, mark.index, job.submit, job.job_id


def _strip_quotes(submit_line: str) -> str:
    """Return the line with spaces around the comment, however sacct quotes the option."""
    return submit_line.replace("--comment=", " ").replace('"', " ").replace("'", " ")


def _take_up_chain(
    tx: Transaction,
    cluster_id: int,
    chain: Chain,
    change: tuple[Link | None, Link],
    links: Iterable[Link],
) -> Chain:
    """Make the chain active again if its owner has put another link in place; return the chain.

    Only a state that Mirage concluded by itself is undone: an end, a pause, or a cancellation that
    Mirage saw in Slurm. A new link does not undo a pause or a cancellation while a link runs,
    because the running link submitted the new one. A link that was submitted before another one
    was cancelled undoes nothing either: its submission is no answer to the cancellation.
    """
    before, link = change
    is_same_job = before is not None and before.job_id == link.job_id
    is_paused = chain.state is ChainState.PAUSED and chain.actor is Actor.MIRAGE
    one_runs = any(other.state is LinkState.RUNNING for other in links)
    is_cancelled = chain.state is ChainState.CANCELLED and chain.actor is not Actor.USER
    is_newest = all(link.submit > (other.end or 0) for other in links)
    is_undone = (is_paused or (is_cancelled and is_newest)) and not one_runs
    can_go_on = chain.state in _CONCLUDED or is_undone
    if not can_go_on or is_same_job or link.state is LinkState.ENDED:
        return chain
    active = replace(chain, state=ChainState.ACTIVE, cause=None)
    chains.save_chain(tx, cluster_id, active)
    _write_audit(tx, cluster_id, link, TAKEN_UP, link.seen_at, {"was": chain.state.value})
    return active


def _follow_job(
    stored: Link | None, mark: Mark, job: Job, now: int, *, in_vain: bool
) -> Link | None:
    """Return the link as Slurm now shows it; None if the record is of an older job of the link.

    `in_vain` says that the stored job ended before its turn came.
    """
    if stored is not None and _is_stale(stored, job, in_vain=in_vain):
        return None
    link = stored if stored is not None and stored.job_id == job.job_id else _make_link(mark, job)
    if link.end_state is JobState.UNKNOWN:
        link = replace(link, state=LinkState.PENDING, end=None, end_state=None)
    if link.submit != job.submit:
        link = _restart_link(link, job)
    state = _to_link_state(job.state)
    if state is None:
        return replace(link, seen_at=now)
    has_ended = state is LinkState.ENDED
    return replace(
        link.move_to(state),
        partition=job.partition or link.partition,
        account=job.account or link.account,
        nodes=job.nodes,
        time_limit_s=link.time_limit_s if job.time_limit_s is None else job.time_limit_s,
        eligible=job.eligible or link.eligible,
        start=None if state is LinkState.PENDING else job.start or link.start,
        end=job.end or link.end if has_ended else None,
        expected_end=_get_expected_end(link, job),
        end_state=job.state if has_ended else None,
        held_at=None if has_ended else link.held_at,
        seen_at=now,
    )


def _make_link(mark: Mark, job: Job) -> Link:
    return Link(chain_id=mark.chain_id, index=mark.index, job_id=job.job_id, submit=job.submit)


def _is_lost(before: Link, *, in_vain: bool) -> bool:
    """Return whether `before` ended before its script began, and not by its own guard."""
    return before.start is None or (in_vain and before.end_state is JobState.CANCELLED)


def _mark_replaced(before: Link | None, link: Link, *, in_vain: bool) -> Link:
    """Return the link with `replaced_at`: when a job last replaced a lost one (`_is_lost`)."""
    if before is None or before.job_id == link.job_id:
        return link
    at = link.seen_at if _is_lost(before, in_vain=in_vain) else before.replaced_at
    return replace(link, replaced_at=at)


def _restart_link(link: Link, job: Job) -> Link:
    """Return the link of a job that was requeued, perhaps after its end, as it waits anew."""
    fresh = replace(link, submit=job.submit, state=LinkState.PENDING, end=None, end_state=None)
    fresh = replace(fresh, eligible=None, start=None, expected_end=None, reason="", hindered="")
    fresh = replace(fresh, freed_at=None, freed_by=None)
    return replace(fresh, plan_min=None, planned_release=None, planned_by=None)


def _is_stale(stored: Link, job: Job, *, in_vain: bool) -> bool:
    """Return whether the record is older than the link, or of a job that may not replace it."""
    if stored.job_id != job.job_id:
        is_older = (stored.submit, stored.job_id) > (job.submit, job.job_id)
        has_run = stored.start is not None and not in_vain
        return is_older or (has_run and not returned_links.is_turned_away(stored, job))
    if stored.submit != job.submit:
        return stored.submit > job.submit
    if stored.end_state is JobState.UNKNOWN:
        return False  # Mirage closed the link while Slurm did not show it, and now Slurm does
    state = _to_link_state(job.state)
    # A run never goes back to an earlier state, so such a record is an old one.
    return state is not None and _ORDER.index(state) < _ORDER.index(stored.state)


def _to_link_state(state: JobState) -> LinkState | None:
    """Return the link's state; None for a state that Mirage does not know: it concludes nothing."""
    if state.is_waiting:
        return LinkState.PENDING
    if state.is_running:
        return LinkState.RUNNING
    return LinkState.ENDED if state.has_ended else None


def _get_expected_end(link: Link, job: Job) -> int | None:
    """Return when a running job is expected to end; None for any other job.

    squeue shows another instant for a job that is suspended or completing, and accounting has no
    expected end. Then the value that the link already has is kept.
    """
    if job.state is JobState.RUNNING and job.expected_end is not None:
        return job.expected_end
    return link.expected_end if job.state.is_running else None


def _update_queue_state(
    before: Link | None, predecessor: Link | None, link: Link, job: Job, *, in_queue: bool
) -> Link:
    """Return the link with its position, its hold, why it waits, its release and its returns."""
    if in_queue:
        link = update_position(before, predecessor, link, job)
        if link.state is not LinkState.ENDED:
            link = link.replace(held_at=_get_held_at(link, job))
        link = _update_waiting(before, link, job)
    link = update_release(before, predecessor, link, in_queue=in_queue)
    return returned_links.follow_new_job(before, predecessor, link, job, in_queue=in_queue)


def _get_held_at(link: Link, job: Job) -> int | None:
    """Return when Mirage held the job; None once a look shows no user's hold on it.

    If a hold appears after a look that showed none, somebody else placed it. A running job may be
    held too: the hold then counts once the job is requeued.
    """
    is_held_since = link.seen_at < (link.held_at or 0)
    return link.held_at if is_held_since or is_users_hold(job.reason) else None


def _update_waiting(before: Link | None, link: Link, job: Job) -> Link:
    """Return the link with Slurm's reason for its wait, its hindrance and its planned start.

    A reason counts as a hindrance only if two looks in a row show it: while backfill is at work,
    Slurm gives ReqNodeNotAvail for half of the jobs of a cluster.
    """
    if link.state is not LinkState.PENDING:
        return link.replace(reason="", planned_start=None)
    link = link.replace(planned_start=job.planned_start)
    hindrance = pending_reasons.find_hindrance(job.reason)
    if hindrance is None:
        return link.replace(reason=pending_reasons.trim_reason(job.reason))
    word = hindrance.word
    again = before is not None and before.job_id == link.job_id and before.reason == word
    return link.replace(reason=word, hindered=word if again else link.hindered)


def _is_elsewhere(tx: Transaction, cluster_id: int, before: Link | None, link: Link) -> bool:
    """Return whether the job already is another link: the first mark of a job counts."""
    if before is not None and (before.job_id, before.submit) == (link.job_id, link.submit):
        return False
    other = chains.find_link_of_job(tx, cluster_id, link.job_id, link.submit)
    if other is None or (other.chain_id, other.index) == (link.chain_id, link.index):
        return False
    _seldom.log_event(_log.warning, "a job's first mark counts", job_id=link.job_id)
    return True


def _store_link(
    tx: Transaction, cluster_id: int, before: Link | None, link: Link, *, in_vain: bool
) -> None:
    """Save a changed link, settle its forecast if it has started, and write the audit."""
    chains.save_link(tx, cluster_id, link)
    is_new_start = link.start is not None and (before is None or before.start is None)
    if is_new_start and link.freed_at is not None and link.start is not None and not link.hindered:
        # Slurm sets EligibleTime anew when a hold was lifted between two looks.
        wait_s = compute_wait_s(link.start, link.freed_at, link.eligible)
        since = link.returned_at or 0
        handover_forecasts.settle_forecast(
            tx, cluster_id, link.chain_id, link.index, wait_s, since=since
        )
    if link.freed_by is not None and (before is None or before.freed_at != link.freed_at):
        detail = {"at": link.freed_at, "by": link.freed_by}
        _write_audit(tx, cluster_id, link, RELEASED, link.seen_at, detail)
    if before is not None and before.job_id != link.job_id:
        event = REPLACED if _is_lost(before, in_vain=in_vain) else "begins anew"
        event = returned_links.GAVE_BACK if returned_links.has_given_back(before, link) else event
        _write_audit(tx, cluster_id, link, event, link.seen_at, {"before": before.job_id})
    elif before is not None and before.submit != link.submit:
        _write_audit(tx, cluster_id, link, "requeued", link.seen_at, {})
    if before is not None and _has_lost_hold(before, link):
        _write_audit(tx, cluster_id, link, HOLD_GONE, link.seen_at, {"reason": link.reason})


def _has_lost_hold(before: Link, link: Link) -> bool:
    goes_on = before.job_id == link.job_id and link.state is not LinkState.ENDED
    return goes_on and before.held_at is not None and link.held_at is None


def _write_audit(
    tx: Transaction, cluster_id: int, link: Link, event: str, now: int, detail: Mapping[str, object]
) -> None:
    entry = AuditEntry(
        at=now,
        actor="mirage",
        event=event,
        chain_id=link.chain_id,
        job_id=link.job_id,
        detail={"link": link.index, **detail},
    )
    audit.write_entry(tx, cluster_id, entry)
