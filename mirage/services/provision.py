"""One provision tick: look at each hand-over, decide, write it down, then tell Slurm.

The decision is durable before Slurm hears of it, and its effect after: a crash between leaves an
intention, which `reconcile` settles by what the queue shows. Nothing is ever sent twice blindly.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import structlog

from mirage.domain.chain import Chain, ChainState, Link, LinkState, Position
from mirage.domain.decision import Action, Decision, HandoverView, Mode, Waits
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError
from mirage.ports import Cluster, Policy
from mirage.services import pinning
from mirage.services.guards import guard, is_asked
from mirage.services.ingest import free_nodes
from mirage.services.limits import (
    DAY_S,
    Limits,
    Spent,
    limited,
    overlap_node_h,
    too_wrong,
    worst_overlap_node_h,
)
from mirage.slurm import dependency
from mirage.store import audit, chains, clusters, decisions, forecasts, jobs
from mirage.store.audit import AuditEntry
from mirage.store.decisions import DecisionRow, Effect, NewDecision
from mirage.store.engine import Store, Transaction
from mirage.store.forecasts import ForecastRow

_log = structlog.get_logger(__name__)

RECENT_JOBS = 1000
RECENT_HANDOVERS = 100

_DEMOTED = "demoted to shadow"

ASK_AGAIN_S = 900
"""A move that Slurm refused is not asked for again sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Who decides, and within what."""

    policy: Callable[[str], Policy]
    """By name; raises NotFound."""
    default: str
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class OpenHandover:
    """A running link with its successor pending behind it."""

    chain: Chain
    predecessor: Link
    standby: Link
    beside: Link | None = None
    """An earlier link that still runs: the hand-over before this one is not over."""


def provision(
    store: Store, cluster: Cluster, cluster_id: int, snapshot: Snapshot, rules: Rules
) -> None:
    """Decide every open hand-over of the cluster, and do what is decided where the mode is act."""
    with store.begin() as tx:
        demote(tx, cluster_id, snapshot.queue.taken_at, rules)
        planned = list(_plan(tx, cluster_id, snapshot, rules))
    for move in planned:
        if _carry_out(store, cluster, cluster_id, move, snapshot) is Effect.INTENDED:
            # No answer: the rest would wait as long for none. `reconcile` finds them not done.
            return


def demote(tx: Transaction, cluster_id: int, now: int, rules: Rules) -> None:
    """Fall back from act to shadow when the default policy's last forecasts were too wrong.

    Those made before the last time count no more, or nobody could ever set act again.
    """
    limits = rules.limits
    acting = [p for p, mode in clusters.modes(tx, cluster_id).items() if mode is Mode.ACT]
    if not acting:
        return
    before = audit.page(tx, cluster_id, event=_DEMOTED, limit=1)
    errors = forecasts.errors(
        tx,
        cluster_id,
        limits.demote_after,
        rules.default,
        since=before[0].at if before else 0,
    )
    wrong = too_wrong(errors, limits)
    if wrong is None:
        return
    for partition in acting:
        clusters.set_mode(tx, cluster_id, Mode.SHADOW, partition)
    detail = {"mean_abs_error_s": round(wrong), "bound_s": limits.demote_error_s}
    audit.write(tx, cluster_id, AuditEntry(at=now, actor="mirage", event=_DEMOTED, detail=detail))
    _log.warning(_DEMOTED, **detail)


def _plan(
    tx: Transaction, cluster_id: int, snapshot: Snapshot, rules: Rules
) -> Iterator[tuple[OpenHandover, Decision, int]]:
    """Decide and write down; yields what Slurm is to be told."""
    now = snapshot.queue.taken_at
    modes = clusters.modes(tx, cluster_id)
    desk = _Desk(tx, cluster_id, snapshot, rules)
    for handover in open_handovers(tx, cluster_id):
        mode = clusters.mode_among(modes, handover.standby.partition)
        decision = None if mode is Mode.OBSERVE else desk.decide(handover)
        if decision is None:
            continue
        new = NewDecision(
            at=now,
            chain_id=handover.chain.chain_id,
            index=handover.standby.index,
            mode=mode,
            decision=decision,
            time_left_s=(handover.predecessor.planned_end() or now) - now,
            inputs={"predecessor": handover.predecessor.job_id, "standby": handover.standby.job_id},
        )
        decision_id = decisions.record(tx, cluster_id, new)
        if decision.forecast is not None and decision.action is not Action.WAIT:
            _record_forecast(tx, cluster_id, new)
        if new.effect is Effect.INTENDED:
            yield handover, decision, decision_id


def _record_forecast(tx: Transaction, cluster_id: int, new: NewDecision) -> None:
    assert new.decision.forecast is not None  # noqa: S101 - the caller looked
    row = ForecastRow(
        chain_id=new.chain_id,
        index=new.index,
        source=new.decision.policy,
        at=new.at,
        forecast=new.decision.forecast,
    )
    forecasts.record(tx, cluster_id, row)


def open_handovers(tx: Transaction, cluster_id: int) -> Iterator[OpenHandover]:
    """Links of active chains that have a successor pending."""
    active = [c for c in chains.live_chains(tx, cluster_id) if c.state is ChainState.ACTIVE]
    by_chain = chains.links_of(tx, [c.chain_id for c in active])
    for chain in active:
        links = {link.index: link for link in by_chain[chain.chain_id]}
        for standby in links.values():
            predecessor = links.get(standby.index - 1)
            if standby.state is not LinkState.PENDING or predecessor is None:
                continue
            running = [li for li in links.values() if li.state is LinkState.RUNNING]
            beside = next((li for li in running if li.index < predecessor.index), None)
            yield OpenHandover(chain, predecessor, standby, beside)


class _Desk:
    """What is looked up once a tick for all hand-overs."""

    def __init__(self, tx: Transaction, cluster_id: int, snapshot: Snapshot, rules: Rules) -> None:
        self._tx, self._cluster_id, self._snapshot, self._rules = tx, cluster_id, snapshot, rules
        self._jobs: dict[str, Waits] = {}
        self._handovers: dict[tuple[str, int], Waits] = {}
        self._spent: dict[str, float] | None = None
        lately = snapshot.queue.taken_at - ASK_AGAIN_S
        self._refused = decisions.refused_since(tx, cluster_id, lately)

    def decide(self, handover: OpenHandover) -> Decision | None:
        """None where there is nothing to decide."""
        predecessor, standby = handover.predecessor, handover.standby
        if not self._may_be_moved(handover):
            return None
        shown = self._snapshot.queue.find(standby.job_id)
        guarded = guard(standby, predecessor, handover.beside, shown)
        if guarded is not None or not is_asked(standby, predecessor):
            return guarded
        view = self._view(handover)
        spent = self._spending(standby.account)
        decision = limited(self._ask(handover.chain, view), view, self._rules.limits, spent)
        if decision.action is Action.FREE:
            self._spend(standby.account, worst_overlap_node_h(view))
        return decision

    def _ask(self, chain: Chain, view: HandoverView) -> Decision:
        """A policy that fails, or is gone since the chain named it, costs its own chains no more
        than a wait, and the others nothing."""
        name = chain.policy or self._rules.default
        try:
            return self._rules.policy(name).decide(view)
        except Exception as error:
            _log.exception("a policy failed", policy=name, chain_id=chain.chain_id)
            return Decision(action=Action.WAIT, reason=f"no answer: {error}", policy=name)

    def _may_be_moved(self, handover: OpenHandover) -> bool:
        """Whether this queue has both jobs: a dependency on one that Slurm has forgotten frees, and
        of a standby that is not shown the user's own dependencies are not known."""
        predecessor, standby = handover.predecessor, handover.standby
        if (standby.chain_id, standby.index) in self._refused:
            return False
        queue, ended = self._snapshot.queue, predecessor.state is LinkState.ENDED
        known = ended or queue.find(predecessor.job_id) is not None
        return known and queue.find(standby.job_id) is not None

    def _view(self, handover: OpenHandover) -> HandoverView:
        queue, standby = self._snapshot.queue, handover.standby
        planned_end = handover.predecessor.planned_end()
        return HandoverView(
            now=queue.taken_at,
            predecessor_end=queue.taken_at if planned_end is None else planned_end,
            partition=standby.partition,
            nodes=standby.nodes,
            time_limit_s=standby.time_limit_s or 0,
            overlap_price=handover.chain.overlap_price,
            jobs=self._job_waits(standby.partition),
            handovers=self._handover_waits(standby.partition, standby.nodes),
            queue=queue,
            free_nodes=free_nodes(self._snapshot.nodes, standby.partition),
            **self._pinning(handover).seen(),
        )

    def _pinning(self, handover: OpenHandover) -> pinning.Pinning:
        queue, standby = self._snapshot.queue, handover.standby
        return pinning.Pinning(
            standby=standby,
            shown=queue.find(standby.job_id),
            predecessor=queue.find(handover.predecessor.job_id),
            snapshot=self._snapshot,
            limits=self._rules.limits,
            touches=decisions.moves(self._tx, standby.chain_id, standby.index),
        )

    def _job_waits(self, partition: str) -> Waits:
        if partition not in self._jobs:
            now = self._snapshot.queue.taken_at
            self._jobs[partition] = jobs.waits(
                self._tx, self._cluster_id, partition, before=now, last=RECENT_JOBS
            )
        return self._jobs[partition]

    def _handover_waits(self, partition: str, nodes: int) -> Waits:
        key = (partition, nodes)
        if key not in self._handovers:
            self._handovers[key] = chains.handover_waits(
                self._tx, self._cluster_id, partition, nodes=nodes, last=RECENT_HANDOVERS
            )
        return self._handovers[key]

    def _spending(self, account: str) -> Spent:
        if self._spent is None:
            self._spent = _spent_by_account(
                self._tx, self._cluster_id, self._snapshot.queue.taken_at
            )
        return Spent(account=self._spent.get(account, 0.0), cluster=sum(self._spent.values()))

    def _spend(self, account: str, node_h: float) -> None:
        """What this tick frees counts against what it frees next."""
        assert self._spent is not None  # noqa: S101 - looked up before it is spent from
        self._spent[account] = self._spent.get(account, 0.0) + node_h


def _spent_by_account(tx: Transaction, cluster_id: int, now: int) -> dict[str, float]:
    spent: dict[str, float] = {}
    for row in chains.handovers(tx, cluster_id, since=now - DAY_S):
        account = row.successor.account
        hours = overlap_node_h(row.predecessor, row.successor, now)
        spent[account] = spent.get(account, 0.0) + hours
    for predecessor, successor in _under_way(tx, cluster_id):
        hours = overlap_node_h(predecessor, successor, now)
        spent[successor.account] = spent.get(successor.account, 0.0) + hours
    return spent


def _under_way(tx: Transaction, cluster_id: int) -> Iterator[tuple[Link, Link]]:
    """Running links whose successor runs beside them, or may since Mirage freed it."""
    live = chains.links_of(tx, [c.chain_id for c in chains.live_chains(tx, cluster_id)])
    for links in live.values():
        for predecessor, successor in pairwise(links):
            freed = successor.state is LinkState.RUNNING or successor.freed_at is not None
            if predecessor.state is LinkState.RUNNING and freed:
                yield predecessor, successor


def _carry_out(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    planned: tuple[OpenHandover, Decision, int],
    snapshot: Snapshot,
) -> Effect:
    """Tell Slurm, and write down what became of it."""
    handover, decision, decision_id = planned
    standby = handover.standby
    effect, error = _tell(cluster, handover, decision, snapshot)
    now = cluster.now()
    with store.begin() as tx:
        decisions.settle(tx, decision_id, effect, error)
        if effect is Effect.DONE:
            chains.save_link(tx, cluster_id, _moved(standby, decision.action, now))
        entry = AuditEntry(
            at=now,
            actor="mirage",
            event=f"{decision.action}: {effect}",
            chain_id=handover.chain.chain_id,
            job_id=standby.job_id,
            detail={"link": standby.index, "reason": decision.reason, "error": error},
        )
        audit.write(tx, cluster_id, entry)
    _log.info("moved", chain_id=handover.chain.chain_id, effect=effect.value, error=error)
    return effect


def _moved(standby: Link, action: Action, now: int) -> Link:
    if action is Action.HOLD:
        return replace(standby, position=Position.HELD, freed_at=None)
    if action is Action.PIN:
        return replace(standby, position=Position.PINNED, freed_at=None)
    return replace(standby, position=Position.FREE, freed_at=now)


def _tell(
    cluster: Cluster, handover: OpenHandover, decision: Decision, snapshot: Snapshot
) -> tuple[Effect, str]:
    standby, predecessor = handover.standby.job_id, handover.predecessor.job_id
    job = snapshot.queue.find(standby)
    text = "" if job is None else job.dependency
    before = snapshot.queue.find(predecessor)
    unpin = handover.standby.position is Position.PINNED
    try:
        if decision.action is Action.HOLD:
            cluster.hold(standby, dependency=dependency.behind(text, predecessor), unpin=unpin)
        elif decision.action is Action.PIN:
            rest, nodes = dependency.without(text, predecessor), before.node_list if before else ""
            cluster.pin(standby, dependency=rest, node_list=nodes)
        else:
            cluster.free(standby, dependency=dependency.without(text, predecessor), unpin=unpin)
    except (ClusterRefused, InputError) as error:
        return Effect.REFUSED, str(error)
    except ClusterUnavailable as error:
        # It may have been heard: the next queue tells, and `reconcile` settles it.
        return Effect.INTENDED, str(error)
    return Effect.DONE, ""


def _took(row: DecisionRow, standby: Link, predecessor: Link | None) -> bool:
    """Whether the move is what Slurm shows."""
    if row.inputs.get("standby") != standby.job_id:
        return False
    if row.action is Action.HOLD:
        return standby.state is LinkState.PENDING and standby.position is Position.HELD
    if standby.state is LinkState.PENDING and standby.position is not Position.FREE:
        return False
    # It is eligible: by the move, or because its predecessor ended.
    ended = None if predecessor is None else predecessor.end
    since = standby.start if standby.eligible is None else standby.eligible
    if ended is None:
        return standby.state is LinkState.PENDING or standby.start is not None
    return since is not None and since < ended


def reconcile(tx: Transaction, cluster_id: int, now: int) -> None:
    """Settle intentions that a crash or a silent Slurm left open, by where the standby stands now.

    Run after `chains.sync`, so the links show what Slurm's queue showed.
    """
    for row in decisions.intended(tx, cluster_id):
        links = {link.index: link for link in chains.links(tx, row.chain_id)}
        standby = links.get(row.index)
        if standby is None or standby.seen_at < row.at:
            continue
        moved = _took(row, standby, links.get(row.index - 1))
        effect = Effect.DONE if moved else Effect.FAILED
        decisions.settle(tx, row.id, effect, "" if moved else "Slurm did not take the move")
        if moved:
            chains.save_link(tx, cluster_id, _moved(standby, row.action, row.at))
            if row.action is Action.FREE and standby.start is not None:
                forecasts.settle(tx, row.chain_id, row.index, max(0, standby.start - row.at))
        entry = AuditEntry(
            at=now,
            actor="mirage",
            event=f"reconciled {row.action}: {effect}",
            chain_id=row.chain_id,
            job_id=standby.job_id,
            detail={"decision": row.id, "link": row.index},
        )
        audit.write(tx, cluster_id, entry)
