"""Chains: registered by their users, found in Slurm by their marks, ended by what the links did."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from mirage.domain.chain import (
    MAX_LINKS,
    Chain,
    ChainId,
    ChainState,
    Link,
    LinkState,
    Mark,
    Position,
    find_mark,
)
from mirage.domain.handover import OVERLAP_PRICE
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.errors import InputError, MalformedText, NotAllowed, NotFound
from mirage.slurm import dependency
from mirage.store import audit, chains, forecasts
from mirage.store.audit import AuditEntry
from mirage.store.engine import Transaction

GRACE_S = 180
"""A successor that does not show up within three queue ticks will not come by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a user's wrapped sbatch says of the chain that it has just started."""

    chain_id: ChainId
    links: int
    policy: str | None = None
    overlap_price: float | None = None


def register(
    tx: Transaction, cluster_id: int, new: Registration, *, uid: int, user: str, now: int
) -> Chain:
    """Record a chain; the same registration again changes nothing.

    Nothing is believed of its jobs: the links are those that Slurm shows for this uid.
    """
    if not 1 <= new.links <= MAX_LINKS:
        raise InputError(f"a chain has 1 to {MAX_LINKS} links, not {new.links}")
    known = _known(tx, new.chain_id)
    if known is not None and known.uid != uid:
        raise NotAllowed(f"chain {new.chain_id} belongs to another user")
    chain = replace(
        known or Chain(chain_id=new.chain_id, uid=uid, user=user, created_at=now),
        links_planned=new.links,
        policy=new.policy,
        overlap_price=OVERLAP_PRICE if new.overlap_price is None else new.overlap_price,
    )
    if chain != known:
        chains.save_chain(tx, cluster_id, chain)
        event = "registered" if known is None else "registered again"
        audit.write(tx, cluster_id, _entry(chain, event, now, {"links": new.links}, user))
    return chain


def ask(
    tx: Transaction, cluster_id: int, chain: Chain, target: ChainState, *, now: int, actor: str
) -> Chain:
    """Pause, resume or cancel at a user's word; `obey` has Slurm follow at the next tick."""
    moved = chain.moved(target, f"{_ASKED[target]} by {actor}")
    chains.save_chain(tx, cluster_id, moved)
    audit.write(tx, cluster_id, _entry(moved, asked(target), now, {}, actor))
    return moved


def asked(target: ChainState) -> str:
    """The audit's word for a user's request, as against what Mirage concluded by itself."""
    return f"asked: {_ASKED[target]}"


_ASKED = {
    ChainState.PAUSED: "paused",
    ChainState.ACTIVE: "resumed",
    ChainState.CANCELLED: "cancelled",
}


def _known(tx: Transaction, chain_id: ChainId) -> Chain | None:
    try:
        return chains.chain(tx, chain_id)
    except NotFound:
        return None


def sync(tx: Transaction, cluster_id: int, jobs: Iterable[Job], now: int) -> None:
    """Bring chains and links to what Slurm says of their jobs, adopting those not known yet."""
    found = sorted(marked(jobs), key=lambda pair: (pair[0].chain_id, pair[0].index))
    owned = chains.chains_of(tx, {mark.chain_id for mark, _ in found})
    stored = chains.links_of(tx, list({mark.chain_id for mark, _ in found}))
    known = {chain_id: {li.index: li for li in links} for chain_id, links in stored.items()}
    unchanged: list[Link] = []
    for mark, job in found:
        links = known[mark.chain_id]
        chain = owned.get(mark.chain_id)
        if chain is None or (not links and chain.uid != job.uid):
            # Unknown, or registered by one whose job it is not: Slurm's word goes.
            chain = _adopt(tx, cluster_id, mark, job, now)
        if chain is None or chain.uid != job.uid:
            continue
        owned[mark.chain_id] = chain
        before = links.get(mark.index)
        link = _followed(before, links.get(mark.index - 1), mark, job, now)
        if link is not None:
            links[mark.index] = link
            if before is not None and replace(before, seen_at=now) == link:
                unchanged.append(link)
            else:
                _store(tx, cluster_id, chain, before, link)
    chains.seen(tx, unchanged, now)


def links_in(queue: Queue) -> list[Job]:
    """The jobs of the queue that carry a mark."""
    return [queue.row(i) for i, comment in enumerate(queue.comment) if "mirage:" in comment]


def marked(jobs: Iterable[Job]) -> Iterator[tuple[Mark, Job]]:
    """Jobs that are links. Without comments in accounting the submit line still has the mark."""
    for job in jobs:
        mark = find_mark(job.comment) or find_mark(_unquoted(job.submit_line))
        if mark is not None and not job.array:
            yield mark, job


def _unquoted(submit_line: str) -> str:
    """Words of the line; sacct prints `--comment=mirage:x:1` or the two words apart."""
    return submit_line.replace("--comment=", " ").replace('"', " ").replace("'", " ")


def _adopt(tx: Transaction, cluster_id: int, mark: Mark, job: Job, now: int) -> Chain | None:
    """The chain of a marked job that nobody registered; None without a uid."""
    if job.uid is None:
        return None
    chain = Chain(chain_id=mark.chain_id, uid=job.uid, user=job.user, created_at=job.submit)
    chains.save_chain(tx, cluster_id, chain)
    found = {"link": mark.index, "job": job.job_id}
    audit.write(tx, cluster_id, _entry(chain, "adopted", now, found))
    return chain


def _followed(
    known: Link | None, predecessor: Link | None, mark: Mark, job: Job, now: int
) -> Link | None:
    """The link as Slurm now shows it; None where the record is of an older job of that place."""
    if known is not None and _is_stale(known, job):
        return None
    if known is not None and known.job_id != job.job_id:
        known = None
    link = known or Link(
        chain_id=mark.chain_id, index=mark.index, job_id=job.job_id, submit=job.submit
    )
    state = _link_state(job.state) or link.state
    started = state is not LinkState.PENDING and job.start is not None and _did_start(job)
    return replace(
        link if state is link.state else link.moved(state),
        submit=job.submit,
        partition=job.partition or link.partition,
        account=job.account or link.account,
        nodes=job.nodes,
        time_limit_s=link.time_limit_s if job.time_limit_s is None else job.time_limit_s,
        eligible=job.eligible or link.eligible,
        position=_position(link, predecessor, job),
        start=job.start if started else None,
        end=job.end if state is LinkState.ENDED else None,
        end_state=job.state if state is LinkState.ENDED else None,
        seen_at=now,
    )


def _is_stale(known: Link, job: Job) -> bool:
    """The record is older than what is known, or of another job in the place of one that ran."""
    if known.job_id != job.job_id:
        return known.submit >= job.submit or known.start is not None
    if known.submit != job.submit:
        return known.submit > job.submit
    state = _link_state(job.state)
    # A requeued job gets a new submit time: the same run never goes back.
    return state is not None and _ORDER.index(state) < _ORDER.index(known.state)


_ORDER = (LinkState.PENDING, LinkState.RUNNING, LinkState.ENDED)


def _link_state(state: JobState) -> LinkState | None:
    """None for a word Mirage does not know: nothing is concluded from it."""
    if state.waiting:
        return LinkState.PENDING
    if state.running:
        return LinkState.RUNNING
    return LinkState.ENDED if state.ended else None


def _did_start(job: Job) -> bool:
    """Slurm gives a job that was cancelled while it waited start = end."""
    return not (job.state is JobState.CANCELLED and job.start == job.end)


def _position(link: Link, predecessor: Link | None, job: Job) -> Position:
    if not job.state.waiting:
        return link.position
    if predecessor is not None and _waits_on(job.dependency, predecessor.job_id):
        return Position.HELD
    return Position.HELD if predecessor is None and job.dependency else Position.FREE


def _waits_on(text: str, predecessor: JobId) -> bool:
    """A list that does not read is not Mirage's to take apart: the standby counts as held."""
    try:
        return dependency.waits_on(text, predecessor)
    except MalformedText:
        return True


def _store(tx: Transaction, cluster_id: int, chain: Chain, before: Link | None, link: Link) -> None:
    chains.save_link(tx, cluster_id, link)
    started = link.start is not None and (before is None or before.start is None)
    if started and link.freed_at is not None and link.start is not None:
        forecasts.settle(tx, link.chain_id, link.index, max(0, link.start - link.freed_at))
    if before is not None and before.job_id != link.job_id:
        what = {"before": before.job_id, "link": link.index}
        audit.write(tx, cluster_id, _entry(chain, "replaced", link.seen_at, what))


def missing(tx: Transaction, cluster_id: int, now: int) -> list[JobId]:
    """Jobs of links that the queue has not shown for two ticks: accounting may know their end."""
    live = chains.links_of(tx, [c.chain_id for c in chains.live_chains(tx, cluster_id)])
    return [
        link.job_id
        for links in live.values()
        for link in links
        if link.state is not LinkState.ENDED and link.seen_at < now - GRACE_S
    ]


def close_forgotten(tx: Transaction, cluster_id: int, job_ids: set[JobId], now: int) -> None:
    """End links whose job neither the queue nor the accounting knows any more."""
    for chain in chains.live_chains(tx, cluster_id):
        for link in chains.links(tx, chain.chain_id):
            if link.job_id in job_ids and link.state is not LinkState.ENDED:
                end = min(now, link.planned_end() or now) if link.start is not None else None
                ended = replace(
                    link, state=LinkState.ENDED, end=end, end_state=JobState.UNKNOWN, seen_at=now
                )
                chains.save_link(tx, cluster_id, ended)
                what = {"job": link.job_id, "link": link.index}
                audit.write(tx, cluster_id, _entry(chain, "forgotten by Slurm", now, what))


def conclude(tx: Transaction, cluster_id: int, now: int) -> None:
    """Move chains on by what became of their links."""
    live = chains.live_chains(tx, cluster_id)
    by_chain = chains.links_of(tx, [c.chain_id for c in live])
    for chain in live:
        links = by_chain[chain.chain_id]
        verdict = _verdict(chain, links, now)
        if verdict is None:
            continue
        state, note = verdict
        moved = replace(chain, note=note) if state is chain.state else chain.moved(state, note)
        if moved == chain:
            continue
        chains.save_chain(tx, cluster_id, moved)
        if moved.state is not chain.state:
            entry = _entry(moved, f"chain {state}", now, {"note": note})
            audit.write(tx, cluster_id, entry)


def _verdict(chain: Chain, links: list[Link], now: int) -> tuple[ChainState, str] | None:
    """The state that the links call for and why; None where nothing is to be said."""
    started = [link for link in links if link.start is not None]
    if not started:
        return _never_started(links)
    newest = started[-1]
    if (cancelled := _cancelled(started)) is not None:
        return ChainState.CANCELLED, f"link {cancelled.index} was cancelled"
    if newest.index == chain.links_planned:
        done = newest.state is LinkState.ENDED
        return (ChainState.FINISHED, f"all {newest.index} links ran") if done else None
    standing = any(link.index > newest.index and link.state is LinkState.PENDING for link in links)
    if standing:
        return chain.state, "" if chain.state is ChainState.ACTIVE else chain.note
    return _without_standby(chain, newest, now)


def _cancelled(started: list[Link]) -> Link | None:
    """The cancelled link that ended its chain, if there is one.

    A successor that already ran beside it carries the chain on; one that starts later is ended by
    its guard before a line of the user's script.
    """
    for link, successor in zip_longest(started, started[1:]):
        if link.end_state is JobState.CANCELLED and not _ran_beside(link, successor):
            return link
    return None


def _ran_beside(link: Link, successor: Link | None) -> bool:
    if successor is None or successor.start is None or link.end is None:
        return False
    return successor.start < link.end


def _never_started(links: list[Link]) -> tuple[ChainState, str] | None:
    if links and all(link.state is LinkState.ENDED for link in links):
        return ChainState.CANCELLED, "cancelled before it started"
    return None


def _without_standby(chain: Chain, newest: Link, now: int) -> tuple[ChainState, str] | None:
    """The newest link runs or has ended, and nothing stands behind it."""
    if newest.state is LinkState.RUNNING:
        if chain.links_planned is not None and now - (newest.start or now) > GRACE_S:
            return chain.state, f"at risk: no standby stands behind link {newest.index}"
        return None
    if now - (newest.end or newest.seen_at) <= GRACE_S:
        return None
    note = f"ended with link {newest.index}, {newest.end_state}"
    done = newest.end_state is JobState.COMPLETED
    return (ChainState.FINISHED if done else ChainState.FAILED), note


def _entry(
    chain: Chain, event: str, now: int, what: Mapping[str, object], actor: str = "mirage"
) -> AuditEntry:
    return AuditEntry(at=now, actor=actor, event=event, chain_id=chain.chain_id, detail=what)
