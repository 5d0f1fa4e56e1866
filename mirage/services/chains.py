"""Chains: registered by their users, and ended by what their links did."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from mirage.domain.chain import MAX_LINKS, Chain, ChainId, ChainState, Link, LinkState
from mirage.domain.handover import OVERLAP_PRICE
from mirage.domain.job import JobState
from mirage.errors import InputError, NotAllowed, NotFound
from mirage.services.links import GRACE_S
from mirage.store import audit, chains
from mirage.store.audit import AuditEntry
from mirage.store.engine import Transaction

NEVER_SEEN_S = 86400
"""A registration whose job no queue has shown for so long was a mistake, or of another cluster."""

FORGOTTEN_S = 7 * 86400
"""A link that Slurm has not known for so long has ended."""


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
    chain = chains.chain(tx, chain.chain_id, lock=True)
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
        return chains.chain(tx, chain_id, lock=True)
    except NotFound:
        return None


def conclude(tx: Transaction, cluster_id: int, now: int) -> None:
    """Move chains on by what became of their links."""
    live = chains.live_chains(tx, cluster_id, lock=True)
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
        return _never_started(chain, links, now)
    newest = started[-1]
    if (cancelled := _cancelled(started)) is not None:
        return ChainState.CANCELLED, f"link {cancelled.index} was cancelled"
    last = chain.links_planned is not None and newest.index >= chain.links_planned
    if last and all(link.state is LinkState.ENDED for link in started):
        return ChainState.FINISHED, f"all {newest.index} links ran"
    standing = any(link.index > newest.index and link.state is LinkState.PENDING for link in links)
    if last or standing:
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


def _never_started(chain: Chain, links: list[Link], now: int) -> tuple[ChainState, str] | None:
    """Slurm must have said so of the job itself: one that it no longer shows may be there."""
    if not links and now - chain.created_at > NEVER_SEEN_S:
        return ChainState.FAILED, "Slurm has never shown a job of it"
    ended = bool(links) and all(link.state is LinkState.ENDED for link in links)
    if ended and links[-1].end_state is not JobState.UNKNOWN:
        return ChainState.CANCELLED, "cancelled before it started"
    return None


def _without_standby(chain: Chain, newest: Link, now: int) -> tuple[ChainState, str] | None:
    """The newest link runs or has ended, and nothing stands behind it."""
    if newest.state is LinkState.RUNNING:
        if chain.links_planned is not None and now - (newest.start or now) > GRACE_S:
            return chain.state, f"at risk: no standby stands behind link {newest.index}"
        return None
    if newest.end_state is JobState.UNKNOWN and now - newest.seen_at <= FORGOTTEN_S:
        return chain.state, f"at risk: Slurm does not know link {newest.index} any more"
    if now - (newest.end or newest.seen_at) <= GRACE_S:
        return None
    note = f"ended with link {newest.index}, {newest.end_state}"
    done = newest.end_state is JobState.COMPLETED
    return (ChainState.FINISHED if done else ChainState.FAILED), note


def _entry(
    chain: Chain, event: str, now: int, what: Mapping[str, object], actor: str = "mirage"
) -> AuditEntry:
    return AuditEntry(at=now, actor=actor, event=event, chain_id=chain.chain_id, detail=what)
