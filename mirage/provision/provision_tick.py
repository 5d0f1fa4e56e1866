"""Runs one provision tick: decide each hand-over, store the decision, then give Slurm the command.

A decision is stored before Slurm gets the command, and its effect afterwards. After a crash in
between, `reconcile_intentions` settles the open decision by what the queue shows. So no command is
repeated without a look at the queue.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import structlog

from mirage.chains.chain_ownership import CLOCKS_DIFFER_S
from mirage.chains.link_sync import list_unread_chains
from mirage.chains.open_handovers import OpenHandover, list_open_handovers
from mirage.database.chains import chains, decisions, handover_outcomes
from mirage.database.chains.decisions import DecisionRow, Effect, NewDecision
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.operations.modes_in_force import read_modes
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import ChainId, ChainState, Link, LinkState, Planner, Position
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.domain.handover import find_predecessor
from mirage.domain.job import compute_wait_s
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Snapshot
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError, JobChanged
from mirage.policies.registry import is_model
from mirage.provision.baseline_counterfactuals import SLURM, BaselineCounterfactuals
from mirage.provision.chain_price import price_handovers
from mirage.provision.control import demotions
from mirage.provision.decision_context import DecisionContext, Rules, resolve_policy
from mirage.provision.forgotten_dependencies import drop_met_terms, explain_refusal
from mirage.provision.release_planning import compute_plan_minutes
from mirage.slurm.text import dependency

_log = structlog.get_logger(__name__)

_MADE_ELIGIBLE = frozenset({Action.FREE, Action.SUBMIT})


def provision_handovers(
    store: Store, cluster: Cluster, cluster_id: int, snapshot: Snapshot, rules: Rules
) -> None:
    """Decide every open hand-over of the cluster, and do what is decided where the mode is act.

    Nothing is locked while policies are asked: that may take seconds.
    """
    with store.begin() as tx:
        demotions.update_demotions(
            tx, cluster_id, snapshot.queue.taken_at, rules.limits, _get_forecast_source(rules)
        )
    with store.read() as tx:
        unread = list_unread_chains(tx, cluster_id, snapshot.queue)
        open_ones = [
            handover
            for handover in list_open_handovers(
                tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED
            )
            if handover.chain.chain_id not in unread
        ]
        before = {one.chain.chain_id: one.chain for one in open_ones}
        context = DecisionContext(tx, cluster_id, snapshot, rules, open_ones)
        open_ones = price_handovers(tx, cluster_id, open_ones, context.read_job_waits)
        made = list(_decide_handovers(tx, cluster_id, context, open_ones))
    with store.begin() as tx:
        for chain in {one.chain.chain_id: one.chain for one in open_ones}.values():
            if chain != before[chain.chain_id]:
                chains.save_price(tx, cluster_id, chain)
        planned = list(record_decisions(tx, cluster_id, made, context.foregone))
    execute_moves(store, cluster, cluster_id, snapshot, planned)


Move = tuple[OpenHandover, Decision, int]
"""A move that Slurm is to be told, with its decision's id."""


def execute_moves(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    snapshot: Snapshot,
    planned: Sequence[Move],
) -> None:
    for move in planned:
        tell = partial(_send_move, cluster, snapshot)
        if not _execute_move(store, cluster, cluster_id, move, tell):
            # No answer: the rest would wait as long for none. `reconcile_intentions` finds them
            # not done.
            return


def _get_forecast_source(rules: Rules) -> str:
    """Return the name that the default policy's forecasts are stored under.

    For a model that is the version in use.
    """
    return resolve_policy(rules, rules.default).name if is_model(rules.default) else rules.default


def _decide_handovers(
    tx: Transaction,
    cluster_id: int,
    context: DecisionContext,
    open_ones: Sequence[OpenHandover],
) -> Iterator[tuple[OpenHandover, NewDecision]]:
    modes = read_modes(tx, cluster_id)
    for handover in open_ones:
        partition, nodes = handover.standby.partition, handover.standby.nodes
        mode = modes.get_chain_mode(handover.chain, partition, nodes)
        demotion = modes.find_chain_demotion(handover.chain, partition, nodes)
        undone = None if mode is Mode.ACT else context.decide_retreat(handover)
        if undone is not None:
            yield handover, context.build_record(handover, undone, Mode.ACT)
            continue
        if handover.chain.state is not ChainState.ACTIVE:
            continue
        left = context.decide_out_of_reach(handover) if mode is Mode.ACT else None
        acts = mode is Mode.ACT
        decision = (
            None if mode is Mode.OBSERVE else left or context.decide_handover(handover, acts=acts)
        )
        if decision is None:
            continue
        if demotion is not None:
            decision = replace(decision, reason=f"{decision.reason}; {demotion.explain()}")
        new = context.build_record(handover, decision, mode)
        if mode is Mode.SHADOW and decision.action in _MADE_ELIGIBLE:
            context.foregone.record_free_now(handover, handover_outcomes.MIRAGE, new.at)
        yield handover, new


def record_decisions(
    tx: Transaction,
    cluster_id: int,
    made: Sequence[tuple[OpenHandover, NewDecision]],
    foregone: BaselineCounterfactuals,
) -> Iterator[Move]:
    """Store what was decided; yield each move that Slurm is to be told."""
    news = [new for _, new in made]
    ids = decisions.record_decisions(tx, cluster_id, news)
    told = [row for pair in made for row in _build_forecast_rows(*pair, foregone)]
    handover_forecasts.record_forecasts(tx, cluster_id, told)
    handover_outcomes.put_would_free(tx, foregone.found)
    for (handover, new), decision_id in zip(made, ids, strict=True):
        if new.effect is Effect.INTENDED:
            yield handover, new.decision, decision_id


def _build_forecast_rows(
    handover: OpenHandover, new: NewDecision, foregone: BaselineCounterfactuals
) -> Iterator[ForecastRow]:
    """The one that decided, and beside it Slurm's own. Of a wait or a plan none is kept: the course
    of a forecast is in the decisions."""
    decision = new.decision
    if decision.forecast is None or decision.action in {Action.WAIT, Action.PLAN}:
        return
    made = {decision.policy: decision.forecast}
    slurm_s = foregone.get_slurm_wait_s(handover)
    if slurm_s is not None:
        made.setdefault(SLURM, Forecast(p50_s=slurm_s))
    for source, forecast in made.items():
        yield ForecastRow(
            chain_id=new.chain_id, index=new.index, source=source, at=new.at, forecast=forecast
        )


def _execute_move(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    planned: Move,
    tell: Callable[[OpenHandover, Decision], tuple[Effect, str]],
) -> bool:
    """Make the move in Slurm and store its effect; return False if Slurm did not answer."""
    handover, decision, decision_id = planned
    standby = handover.standby
    effect, error = tell(handover, decision)
    now = cluster.read_clock()
    with store.begin() as tx:
        decisions.settle_decision(tx, cluster_id, decision_id, effect, error)
        if effect is Effect.DONE:
            minutes = compute_plan_minutes(decision, handover.predecessor)
            chains.save_link(
                tx,
                cluster_id,
                apply_move(standby, decision.action, now, decision.release_at, minutes),
            )
        entry = AuditEntry(
            at=now,
            actor="mirage",
            event=format_audit_event(decision.action, effect),
            chain_id=handover.chain.chain_id,
            job_id=None if handover.submits else standby.job_id,
            detail={"link": standby.index, "reason": decision.reason, "error": error},
        )
        audit.write_entry(tx, cluster_id, entry)
    _log.info("moved", chain_id=handover.chain.chain_id, effect=effect.value, error=error)
    return effect is not Effect.INTENDED or not error


def format_audit_event(action: Action, effect: Effect) -> str:
    """Return the audit's event for a move and its effect."""
    return f"{action}: {effect}"


def apply_move(
    standby: Link, action: Action, now: int, release_at: int | None, minutes: int | None
) -> Link:
    """Return the standby as it stands after the move; a plan has `release_at` and `minutes`."""
    if action is Action.PLAN:
        if standby.freed_at is not None:  # Slurm has carried it out since
            return replace(standby, freed_by=Planner.SERVICE)
        held = replace(standby, position=Position.HELD, planned_by=Planner.SERVICE)
        return replace(held, planned_release=release_at, plan_min=minutes)
    if action is Action.FREE or action is Action.SUBMIT:
        freed = replace(standby, position=Position.FREE, freed_at=now)
        return replace(freed, freed_by=Planner.SERVICE)
    place = Position.HELD if action is Action.HOLD else Position.PINNED
    back = replace(standby, position=place, freed_at=None, freed_by=None)
    return replace(back, plan_min=None, planned_release=None, planned_by=None)


def apply_recorded_move(row: DecisionRow, standby: Link) -> Link:
    """Return the standby as it stands after a stored move."""
    return apply_move(standby, row.action, row.at, row.release_at, row.inputs.get("plan_min"))


def _send_move(
    cluster: Cluster,
    snapshot: Snapshot,
    handover: OpenHandover,
    decision: Decision,
) -> tuple[Effect, str]:
    """Make the move in Slurm; return what became of it, and Slurm's words.

    INTENDED without any words: the running link submits its successor when it asks next
    (`services.chains.submit_instruction`), and `reconcile_intentions` settles that.
    """
    if decision.action is Action.SUBMIT:
        return Effect.INTENDED, ""
    try:
        _move_standby(cluster, handover, decision, snapshot)
    except JobChanged as error:
        return Effect.GIVEN_UP, str(error)
    except ClusterRefused as error:
        job = snapshot.queue.find_job(handover.standby.job_id)
        text = "" if job is None else job.dependency
        return Effect.REFUSED, explain_refusal(str(error), text, snapshot.queue)
    except InputError as error:
        return Effect.REFUSED, str(error)
    except ClusterUnavailable as error:
        # Slurm may have got it: the next look tells, and `reconcile_intentions` settles it.
        return Effect.INTENDED, str(error)
    return Effect.DONE, ""


def _move_standby(
    cluster: Cluster, handover: OpenHandover, decision: Decision, snapshot: Snapshot
) -> None:
    standby, predecessor = handover.standby.job_id, handover.predecessor.job_id
    job = snapshot.queue.find_job(standby)
    text = "" if job is None else job.dependency
    before = snapshot.queue.find_job(predecessor)
    owner, unpin = handover.chain.uid, handover.standby.position is Position.PINNED
    kept = drop_met_terms(cluster, text, snapshot.queue)
    if decision.action is Action.HOLD:
        behind = dependency.add_own_term(kept, predecessor)
        cluster.set_dependency(
            standby, owner=owner, dependency=behind, unpin=unpin, expected_dependency=text
        )
        return
    minutes = compute_plan_minutes(decision, handover.predecessor)
    if minutes is not None:
        if before is None or before.start != handover.predecessor.start:
            raise InputError(
                "the predecessor was started anew after the plan was made: Mirage decides again at "
                "the next tick"
            )
        release = dependency.replace_with_plan(kept, predecessor, minutes)
        cluster.set_dependency(standby, owner=owner, dependency=release, expected_dependency=text)
        return
    rest = dependency.remove_own_term(kept, predecessor)
    if decision.action is Action.PIN:
        nodes = before.node_list if before else ""
        cluster.pin_standby(
            standby, owner=owner, dependency=rest, node_list=nodes, expected_dependency=text
        )
    else:
        cluster.free_standby(
            standby, owner=owner, dependency=rest, unpin=unpin, expected_dependency=text
        )


def _has_taken_effect(row: DecisionRow, standby: Link, predecessor: Link | None) -> bool:
    """Return whether Slurm shows that the move was made."""
    if row.action is Action.SUBMIT:
        # The running link may have put it behind itself, as its last act or for want of an answer.
        return standby.position is Position.FREE and standby.submit >= row.at - CLOCKS_DIFFER_S
    if row.inputs.get("standby") != standby.job_id:
        return False
    if row.action in {Action.HOLD, Action.PLAN}:
        held = standby.state is LinkState.PENDING and standby.position is Position.HELD
        released = row.action is Action.PLAN and standby.freed_at is not None
        return released or (held and standby.plan_min == row.inputs.get("plan_min"))
    if standby.state is LinkState.PENDING and standby.position is not Position.FREE:
        return False
    # It is eligible: by the move, or because its predecessor ended.
    ended = None if predecessor is None else predecessor.end
    since = standby.start if standby.eligible is None else standby.eligible
    if ended is None:
        return standby.state is LinkState.PENDING or standby.start is not None
    return since is not None and since < ended


def _is_too_late(predecessor: Link | None) -> bool:
    return predecessor is None or predecessor.state is LinkState.ENDED


def reconcile_intentions(
    tx: Transaction, cluster_id: int, now: int, unread: frozenset[ChainId] = frozenset()
) -> None:
    """Settle intentions that a crash or a silent Slurm left open, by where the standby stands now.

    Run after `sync_links`, so the links show what Slurm's queue showed; but not those of `unread`.
    """
    for row in decisions.list_intended(tx, cluster_id):
        if row.chain_id in unread:
            continue
        known = chains.list_links(tx, cluster_id, row.chain_id)
        links = {link.index: link for link in known}
        standby = links.get(row.index)
        if standby is None or standby.seen_at < row.at:
            if row.action is Action.SUBMIT and _is_too_late(links.get(row.index - 1)):
                decisions.settle_decision(
                    tx, cluster_id, row.id, Effect.FAILED, "nobody submitted it"
                )
            continue
        taken = _has_taken_effect(row, standby, find_predecessor(standby, known))
        effect = Effect.DONE if taken else Effect.FAILED
        decisions.settle_decision(
            tx, cluster_id, row.id, effect, "" if taken else "Slurm did not take the move"
        )
        if taken:
            chains.save_link(tx, cluster_id, apply_recorded_move(row, standby))
            judged = row.action in _MADE_ELIGIBLE and not standby.hindered
            if judged and standby.start is not None:
                wait_s = compute_wait_s(standby.start, standby.submit, row.at)
                handover_forecasts.settle_forecast(tx, cluster_id, row.chain_id, row.index, wait_s)
        entry = AuditEntry(
            at=now,
            actor="mirage",
            event=f"reconciled {row.action}: {effect}",
            chain_id=row.chain_id,
            job_id=standby.job_id,
            detail={"decision": row.id, "link": row.index},
        )
        audit.write_entry(tx, cluster_id, entry)
