"""A chain's life: its user registers it, people pause or resume it, its links end it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirage.chains.chain_ownership import REGISTERED
from mirage.chains.chain_state import judge_chain
from mirage.chains.explanations import describe_chain
from mirage.chains.link_risks import foresee_risks
from mirage.chains.open_handovers import list_chain_handovers
from mirage.chains.overlap_price import get_first_price
from mirage.database.chains import chain_counts, chains
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import (
    MAX_LINKS,
    Chain,
    ChainId,
    ChainMode,
    ChainState,
    Presubmit,
    Style,
    is_made_for,
)
from mirage.domain.chain_cause import Actor, build_user_cause
from mirage.domain.job import JobId
from mirage.errors import InputError, NotAllowed, NotFound, TooMany

MAX_UNSEEN_CHAINS = 100
"""The most registered chains of one user of which Slurm has shown no job.

That is more than anybody submits between two looks at the queue. A chain whose jobs Slurm never
shows ends after a day (`chain_state`).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What the wrapped sbatch tells the service about the chain that it has just submitted."""

    chain_id: ChainId
    links: int
    job_id: JobId | None = None
    """The first link's job: once Slurm shows it, it has to agree with the registration
    (`chain_ownership`)."""
    policy: str | None = None
    overlap_price: float | None = None
    total_s: int | None = None
    max_overlap_s: int | None = None
    presubmit: Presubmit | None = None
    style: Style | None = None
    mode: ChainMode | None = None
    min_runtime_s: int | None = None
    max_returns: int | None = None


def register_chain(
    tx: Transaction, cluster_id: int, new: Registration, *, uid: int, user: str, now: int
) -> Chain:
    """Record a chain and return it; the same registration again changes nothing.

    What the registration says about jobs is not believed: the chain's links are the jobs that Slurm
    shows for this uid. Raises InputError, NotAllowed if the chain belongs to another user, and
    TooMany above MAX_UNSEEN_CHAINS.
    """
    _check_registration(new)
    stored = _find_chain(tx, cluster_id, new.chain_id)
    if not is_made_for(new.chain_id, uid) or (stored is not None and stored.uid != uid):
        raise NotAllowed(f"chain {new.chain_id} belongs to another user")
    if stored is None and chains.list_chains_elsewhere(tx, cluster_id, [new.chain_id]):
        raise NotAllowed(f"chain {new.chain_id} belongs to another cluster")
    if (
        stored is None
        and chain_counts.count_unseen_chains(tx, cluster_id, uid) >= MAX_UNSEEN_CHAINS
    ):
        raise TooMany(
            f"{MAX_UNSEEN_CHAINS} of your registered chains have no job in Slurm yet, the most "
            "allowed: submit their jobs, wait a minute, and register more chains then"
        )
    fresh = Chain(
        chain_id=new.chain_id, uid=uid, user=user, created_at=now, registered_job=new.job_id
    )
    chain = replace(
        stored or fresh,
        links_planned=new.links,
        policy=new.policy,
        overlap_price=_get_price(stored, new),
        asked_price=new.overlap_price,
        total_s=new.total_s,
        max_overlap_s=new.max_overlap_s,
        presubmit=new.presubmit or Presubmit.NEXT,
        style=new.style,
        mode=new.mode or ChainMode.STANDBY,
        min_runtime_s=new.min_runtime_s,
        max_returns=new.max_returns,
    )
    if chain != stored:
        chains.save_chain(tx, cluster_id, chain)
        event = REGISTERED if stored is None else "registered again"
        entry = _build_entry(chain, event, now, {"links": new.links}, user)
        audit.write_entry(tx, cluster_id, replace(entry, job_id=new.job_id))
    return chain


def _get_price(stored: Chain | None, new: Registration) -> float:
    """Return the stored price if the registration changes neither style nor price; else the first.

    The price of a chain whose links switch may have been worked out anew since (`chain_price`).
    """
    style, price = new.style, new.overlap_price
    if stored is not None and (style, price) == (stored.style, stored.asked_price):
        return stored.overlap_price
    return get_first_price(style, price)


def _check_registration(new: Registration) -> None:
    if not 1 <= new.links <= MAX_LINKS:
        raise InputError(f"a chain has 1 to {MAX_LINKS} links, not {new.links}")
    if new.mode is ChainMode.SUBMIT and new.presubmit is Presubmit.ALL:
        raise InputError(
            "presubmit=all submits all links at once, and mode submit submits each link when it "
            "may start: use presubmit=next, or mode standby"
        )


def request_state(
    tx: Transaction, cluster_id: int, chain: Chain, target: ChainState, *, now: int, actor: str
) -> Chain:
    """Pause, resume or cancel a chain as `actor` asks; return the chain.

    `enforce_requests` gives Slurm the commands in the next tick. If the chain already is in the
    state `target`, nothing changes and nothing is written into the audit. Raises NotFound and
    IllegalTransition.
    """
    chain = chains.get_chain(tx, cluster_id, chain.chain_id, lock=True)
    cause = build_user_cause(actor)
    # A user may ask for a pause that Mirage has concluded by itself: then it is the user's pause.
    takes_over = chain.actor is Actor.MIRAGE and target is chain.state is ChainState.PAUSED
    if target is chain.state and not takes_over:
        return chain
    changed = replace(chain, cause=cause) if takes_over else chain.move_to(target, cause)
    if target is ChainState.ACTIVE:
        changed = replace(changed, resumed_at=now)
    chains.save_chain(tx, cluster_id, changed)
    audit.write_entry(
        tx, cluster_id, _build_entry(changed, f"asked: {_REQUEST_WORDS[target]}", now, {}, actor)
    )
    return changed


_REQUEST_WORDS = {
    ChainState.PAUSED: "paused",
    ChainState.ACTIVE: "resumed",
    ChainState.CANCELLED: "cancelled",
}


def _find_chain(tx: Transaction, cluster_id: int, chain_id: ChainId) -> Chain | None:
    try:
        return chains.get_chain(tx, cluster_id, chain_id, lock=True)
    except NotFound:
        return None


def advance_chains(tx: Transaction, cluster_id: int, now: int) -> None:
    """Bring each chain that has not ended to the state that its links call for."""
    live = chains.list_live_chains(tx, cluster_id, lock=True)
    by_chain = chains.list_links_by_chain(tx, cluster_id, [c.chain_id for c in live])
    history_until = clusters.read_history_until(tx, cluster_id)
    foreseen_risks = foresee_risks(
        tx, cluster_id, (h for c in live for h in list_chain_handovers(c, by_chain[c.chain_id]))
    )
    for chain in live:
        links, risk = by_chain[chain.chain_id], foreseen_risks.get(chain.chain_id)
        verdict = judge_chain(chain, links, now, history_until, risk)
        if verdict is None:
            continue
        is_same_state = verdict.state is chain.state
        changed = chain if is_same_state else chain.move_to(verdict.state)
        changed = replace(changed, cause=verdict.cause, at_risk=verdict.at_risk)
        if changed == chain:
            continue
        chains.save_chain(tx, cluster_id, changed)
        if not is_same_state:
            detail = {"note": describe_chain(changed)}
            entry = _build_entry(changed, f"chain {verdict.state}", now, detail)
            audit.write_entry(tx, cluster_id, entry)
        elif changed.at_risk and (not chain.at_risk or changed.at_risk.word != chain.at_risk.word):
            detail = {"of": changed.at_risk.word, "note": describe_chain(changed)}
            audit.write_entry(tx, cluster_id, _build_entry(changed, "at risk", now, detail))


def _build_entry(
    chain: Chain, event: str, now: int, detail: Mapping[str, object], actor: str = "mirage"
) -> AuditEntry:
    return AuditEntry(at=now, actor=actor, event=event, chain_id=chain.chain_id, detail=detail)
