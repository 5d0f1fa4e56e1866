"""One provision tick: look at each hand-over, decide, write it down, then tell Slurm.

The decision is durable before Slurm hears of it, and its effect after: a crash between leaves an
intention, which `reconcile` settles by what the queue shows. Nothing is ever sent twice blindly.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import structlog

from mirage.domain.chain import Link, LinkState, Position
from mirage.domain.decision import Action, Decision, HandoverView, Mode, Waits
from mirage.domain.job import JobId
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError, MirageError
from mirage.policy.registry import is_model
from mirage.policy.unserved import Unserved
from mirage.ports import Cluster, Policy, observes
from mirage.services.handovers import OpenHandover, open_handovers
from mirage.services.ingest import free_nodes
from mirage.services.limits import Limits, Spent, limited, too_wrong, worst_overlap_node_h
from mirage.services.observing import Observer, Sight
from mirage.services.spending import spent_by_account
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
    observer: Observer | None = None
    """What trained models are shown; None: nothing."""


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
        _source(rules),
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


def _source(rules: Rules) -> str:
    """What the default policy's forecasts are stored under: of a model, the version in use."""
    return _found(rules, rules.default).name if is_model(rules.default) else rules.default


def _plan(
    tx: Transaction, cluster_id: int, snapshot: Snapshot, rules: Rules
) -> Iterator[tuple[OpenHandover, Decision, int]]:
    """Decide and write down; yields what Slurm is to be told."""
    modes = clusters.modes(tx, cluster_id)
    desk = _Desk(tx, cluster_id, snapshot, rules)
    made: list[tuple[OpenHandover, NewDecision]] = []
    for handover in open_handovers(tx, cluster_id):
        mode = clusters.mode_among(modes, handover.standby.partition)
        decision = None if mode is Mode.OBSERVE else desk.decide(handover)
        if decision is not None:
            made.append((handover, desk.written(handover, decision, mode)))
    news = [new for _, new in made]
    ids = decisions.record_all(tx, cluster_id, news)
    forecasts.record_all(tx, cluster_id, [row for new in news for row in _forecasts(new)])
    for (handover, new), decision_id in zip(made, ids, strict=True):
        if new.effect is Effect.INTENDED:
            yield handover, new.decision, decision_id


def _forecasts(new: NewDecision) -> Iterator[ForecastRow]:
    """Of a wait none is kept: the course of a forecast is in the decisions."""
    decision = new.decision
    if decision.forecast is not None and decision.action is not Action.WAIT:
        yield ForecastRow(
            chain_id=new.chain_id,
            index=new.index,
            source=decision.policy,
            at=new.at,
            forecast=decision.forecast,
        )


class _Desk:
    """What is looked up once a tick for all hand-overs."""

    def __init__(self, tx: Transaction, cluster_id: int, snapshot: Snapshot, rules: Rules) -> None:
        self._tx, self._cluster_id, self._snapshot, self._rules = tx, cluster_id, snapshot, rules
        self._sight = Sight(rules.observer, tx, cluster_id, snapshot)
        self._policies: dict[str, Policy] = {}
        self._seen: dict[JobId, dict[str, str]] = {}
        """By standby: the beginning of the sha256 of what its model was shown."""
        self._free_nodes: dict[str, int] = {}
        self._jobs: dict[str, Waits] = {}
        self._handovers: dict[tuple[str, int], Waits] = {}
        self._spent: dict[str, float] | None = None
        lately = snapshot.queue.taken_at - ASK_AGAIN_S
        self._refused = decisions.refused_since(tx, cluster_id, lately)

    def decide(self, handover: OpenHandover) -> Decision | None:
        """None where there is nothing to decide."""
        predecessor, standby = handover.predecessor, handover.standby
        refused = (standby.chain_id, standby.index) in self._refused
        if refused or not self._shown(standby) or not self._shown(predecessor):
            return None
        if standby.position is Position.FREE:
            requeued = predecessor.state is LinkState.PENDING and standby.freed_at is not None
            return _HOLD_AGAIN if requeued else None
        if predecessor.state is not LinkState.RUNNING or predecessor.planned_end() is None:
            return None
        if handover.beside is not None:
            return _one_at_a_time(handover.beside)
        shown = self._snapshot.queue.find(standby.job_id)
        if shown is not None and dependency.has_singleton(shown.dependency):
            return _NEVER_EARLY
        view = self._view(handover)
        spent = self._spending(standby.account)
        decision = limited(self._ask(handover, view), view, self._rules.limits, spent)
        if decision.action is Action.FREE:
            self._spend(standby.account, worst_overlap_node_h(view))
        return decision

    def written(self, handover: OpenHandover, decision: Decision, mode: Mode) -> NewDecision:
        """What is stored of it."""
        now, standby = self._snapshot.queue.taken_at, handover.standby
        inputs = {"predecessor": handover.predecessor.job_id, "standby": standby.job_id}
        return NewDecision(
            at=now,
            chain_id=handover.chain.chain_id,
            index=standby.index,
            mode=mode,
            decision=decision,
            time_left_s=(handover.predecessor.planned_end() or now) - now,
            inputs=inputs | self._seen.get(standby.job_id, {}),
        )

    def _ask(self, handover: OpenHandover, view: HandoverView) -> Decision:
        """A policy that fails, or is gone since the chain named it, costs its own chains no more
        than a wait, and the others nothing. A rule stands in for a model."""
        name = handover.chain.policy or self._rules.default
        try:
            policy = self._policy(name)
            if observes(policy):
                view = self._observed(handover, view)
            return policy.decide(view)
        except Exception as error:
            _log.exception("a policy failed", policy=name, chain_id=handover.chain.chain_id)
            if is_model(name):
                return Unserved(name, f"the model failed: {error}").decide(view)
            return Decision(action=Action.WAIT, reason=f"no answer: {error}", policy=name)

    def _policy(self, name: str) -> Policy:
        if name not in self._policies:
            self._policies[name] = _found(self._rules, name)
        return self._policies[name]

    def _observed(self, handover: OpenHandover, view: HandoverView) -> HandoverView:
        observation, why = self._sight.of(handover.predecessor, handover.standby)
        if observation is not None:
            digest = hashlib.sha256(observation.tobytes()).hexdigest()
            self._seen[handover.standby.job_id] = {"observation": digest[:16]}
        return replace(view, observation=observation, unobserved=why)

    def _shown(self, link: Link) -> bool:
        """Whether this queue has the job: a dependency on one that Slurm has forgotten frees, and
        of a standby that is not shown the user's own dependencies are not known."""
        return self._snapshot.queue.find(link.job_id) is not None

    def _view(self, handover: OpenHandover) -> HandoverView:
        queue, standby = self._snapshot.queue, handover.standby
        planned_end = handover.predecessor.planned_end()
        return HandoverView(
            now=queue.taken_at,
            predecessor_end=queue.taken_at if planned_end is None else planned_end,
            cluster="" if self._rules.observer is None else self._rules.observer.params.name,
            partition=standby.partition,
            nodes=standby.nodes,
            time_limit_s=standby.time_limit_s or 0,
            overlap_price=handover.chain.overlap_price,
            jobs=self._job_waits(standby.partition),
            handovers=self._handover_waits(standby.partition, standby.nodes),
            queue=queue,
            free_nodes=self._free(standby.partition),
        )

    def _free(self, partition: str) -> int:
        if partition not in self._free_nodes:
            self._free_nodes[partition] = free_nodes(self._snapshot.nodes, partition)
        return self._free_nodes[partition]

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
            self._spent = spent_by_account(
                self._tx, self._cluster_id, self._snapshot.queue.taken_at
            )
        return Spent(account=self._spent.get(account, 0.0), cluster=sum(self._spent.values()))

    def _spend(self, account: str, node_h: float) -> None:
        """What this tick frees counts against what it frees next."""
        assert self._spent is not None  # noqa: S101 - looked up before it is spent from
        self._spent[account] = self._spent.get(account, 0.0) + node_h


def _found(rules: Rules, name: str) -> Policy:
    """Raises what `Rules.policy` does; a model that cannot be used is stood in for."""
    try:
        return rules.policy(name)
    except MirageError as error:
        if not is_model(name):
            raise
        _log.warning("a model cannot be used", policy=name, error=str(error))
        return Unserved(name, str(error))


def _one_at_a_time(beside: Link) -> Decision:
    """Where waits are forecast to outlast a link, every link would be freed as soon as it stands,
    and on a queue that has just cleared the whole chain would run at once."""
    reason = f"link {beside.index} still runs: one hand-over at a time"
    return Decision(action=Action.WAIT, reason=reason, policy="guard")


_HOLD_AGAIN = Decision(action=Action.HOLD, reason="its predecessor was requeued", policy="guard")
_NEVER_EARLY = Decision(
    action=Action.WAIT,
    reason="its own dependency `singleton` lets it start only after its predecessor",
    policy="guard",
)


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
    return replace(standby, position=Position.FREE, freed_at=now)


def _tell(
    cluster: Cluster, handover: OpenHandover, decision: Decision, snapshot: Snapshot
) -> tuple[Effect, str]:
    standby, predecessor = handover.standby.job_id, handover.predecessor.job_id
    job = snapshot.queue.find(standby)
    text = "" if job is None else job.dependency
    unpin = handover.standby.position is Position.PINNED
    try:
        if decision.action is Action.HOLD:
            cluster.hold(standby, dependency=dependency.behind(text, predecessor), unpin=unpin)
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
