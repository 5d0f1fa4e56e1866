"""Runs one provision tick: decide each hand-over, store the decision, then give Slurm the command.

A decision is stored before Slurm gets the command, and its effect afterwards. After a crash in
between, `reconcile_intentions` settles the open decision by what the queue shows. So no command is
repeated without a look at the queue. Do not give Slurm a command inside a transaction: Slurm may
take minutes to answer, and SQLite has one writer.
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
from mirage.provision.forgotten_dependencies import drop_met_terms, explain_refusal
from mirage.provision.handover_decider import DecisionSettings, HandoverDecider, resolve_policy
from mirage.provision.release_planning import compute_plan_minutes
from mirage.slurm.text import dependency

_log = structlog.get_logger(__name__)

_MADE_ELIGIBLE = frozenset({Action.FREE, Action.SUBMIT})


def provision_handovers(
    store: Store, cluster: Cluster, cluster_id: int, snapshot: Snapshot, settings: DecisionSettings
) -> None:
    """Decide every open hand-over of the cluster, and make the moves where the mode is act.

    Policies are asked in a transaction that only reads, because the twin and models take seconds.
    """
    with store.begin() as tx:
        demotions.update_demotions(
            tx, cluster_id, snapshot.queue.taken_at, settings.limits, _get_forecast_source(settings)
        )
    with store.read() as tx:
        unread = list_unread_chains(tx, cluster_id, snapshot.queue)
        open_handovers = [
            handover
            for handover in list_open_handovers(
                tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED
            )
            if handover.chain.chain_id not in unread
        ]
        chains_before = {handover.chain.chain_id: handover.chain for handover in open_handovers}
        decider = HandoverDecider(tx, cluster_id, snapshot, settings, open_handovers)
        open_handovers = price_handovers(tx, cluster_id, open_handovers, decider.read_job_waits)
        decided = list(_decide_handovers(tx, cluster_id, decider, open_handovers))
    with store.begin() as tx:
        for chain in {h.chain.chain_id: h.chain for h in open_handovers}.values():
            if chain != chains_before[chain.chain_id]:
                chains.save_price(tx, cluster_id, chain)
        moves = list(record_decisions(tx, cluster_id, decided, decider.baselines))
    execute_moves(store, cluster, cluster_id, snapshot, moves)


Move = tuple[OpenHandover, Decision, int]
"""A move to make in Slurm, with the id of its stored decision."""


def execute_moves(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    snapshot: Snapshot,
    moves: Sequence[Move],
) -> None:
    """Make the moves in Slurm, one after the other, and store the effect of each.

    Stops at the first move that Slurm does not answer.
    """
    send_move = partial(_send_move, cluster, snapshot)
    for move in moves:
        if not _execute_move(store, cluster, cluster_id, move, send_move):
            # Each further command would wait for the same timeout. `reconcile_intentions` settles
            # the moves that were not sent as failed.
            return


def _get_forecast_source(settings: DecisionSettings) -> str:
    """Return the name under which the default policy's forecasts are stored.

    For a model, this is the version in use.
    """
    name = settings.default_policy
    return resolve_policy(settings, name).name if is_model(name) else name


def _decide_handovers(
    tx: Transaction,
    cluster_id: int,
    decider: HandoverDecider,
    open_handovers: Sequence[OpenHandover],
) -> Iterator[tuple[OpenHandover, NewDecision]]:
    modes = read_modes(tx, cluster_id)
    for handover in open_handovers:
        partition, nodes = handover.standby.partition, handover.standby.nodes
        mode = modes.get_chain_mode(handover.chain, partition, nodes)
        demotion = modes.find_chain_demotion(handover.chain, partition, nodes)
        acts = mode is Mode.ACT
        retreat = None if acts else decider.decide_retreat(handover)
        if retreat is not None:
            yield handover, decider.build_record(handover, retreat, Mode.ACT)
            continue
        if mode is Mode.OBSERVE or handover.chain.state is not ChainState.ACTIVE:
            continue
        decision = decider.decide_out_of_reach(handover) if acts else None
        decision = decision or decider.decide_handover(handover, can_plan=acts)
        if decision is None:
            continue
        if demotion is not None:
            decision = replace(decision, reason=f"{decision.reason}; {demotion.explain()}")
        record = decider.build_record(handover, decision, mode)
        if mode is Mode.SHADOW and decision.action in _MADE_ELIGIBLE:
            decider.baselines.record_free_now(handover, handover_outcomes.MIRAGE, record.at)
        yield handover, record


def record_decisions(
    tx: Transaction,
    cluster_id: int,
    decided: Sequence[tuple[OpenHandover, NewDecision]],
    baselines: BaselineCounterfactuals,
) -> Iterator[Move]:
    """Store the decisions, their forecasts and the baselines' instants; yield each move to make."""
    records = [record for _, record in decided]
    ids = decisions.record_decisions(tx, cluster_id, records)
    forecasts = [row for pair in decided for row in _build_forecast_rows(*pair, baselines)]
    handover_forecasts.record_forecasts(tx, cluster_id, forecasts)
    handover_outcomes.put_would_free(tx, baselines.would_free)
    for (handover, record), decision_id in zip(decided, ids, strict=True):
        if record.effect is Effect.INTENDED:
            yield handover, record.decision, decision_id


def _build_forecast_rows(
    handover: OpenHandover, record: NewDecision, baselines: BaselineCounterfactuals
) -> Iterator[ForecastRow]:
    """Yield one row for the deciding policy's forecast, and one for Slurm's estimate.

    WAIT and PLAN get none: their forecasts are in the decisions.
    """
    decision = record.decision
    if decision.forecast is None or decision.action in {Action.WAIT, Action.PLAN}:
        return
    forecasts = {decision.policy: decision.forecast}
    slurm_s = baselines.get_slurm_wait_s(handover)
    if slurm_s is not None:
        forecasts.setdefault(SLURM, Forecast(p50_s=slurm_s))
    for source, forecast in forecasts.items():
        yield ForecastRow(
            chain_id=record.chain_id,
            index=record.index,
            source=source,
            at=record.at,
            forecast=forecast,
        )


def _execute_move(
    store: Store,
    cluster: Cluster,
    cluster_id: int,
    move: Move,
    send_move: Callable[[OpenHandover, Decision], tuple[Effect, str]],
) -> bool:
    """Make the move in Slurm and store its effect; return False if Slurm did not answer."""
    handover, decision, decision_id = move
    standby = handover.standby
    effect, error = send_move(handover, decision)
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
    """Return the standby as it stands after the move.

    `now`: when the move was made. Only a plan has `release_at` (epoch seconds) and `minutes` (after
    the predecessor's start).
    """
    if action is Action.PLAN:
        if standby.freed_at is not None:  # Slurm has carried out the plan since
            return replace(standby, freed_by=Planner.SERVICE)
        held_standby = replace(standby, position=Position.HELD, planned_by=Planner.SERVICE)
        return replace(held_standby, planned_release=release_at, plan_min=minutes)
    if action is Action.FREE or action is Action.SUBMIT:
        freed = replace(standby, position=Position.FREE, freed_at=now)
        return replace(freed, freed_by=Planner.SERVICE)
    position = Position.HELD if action is Action.HOLD else Position.PINNED
    moved = replace(standby, position=position, freed_at=None, freed_by=None)
    return replace(moved, plan_min=None, planned_release=None, planned_by=None)


def apply_recorded_move(row: DecisionRow, standby: Link) -> Link:
    """Return the standby as it stands after a stored move."""
    return apply_move(standby, row.action, row.at, row.release_at, row.inputs.get("plan_min"))


def _send_move(
    cluster: Cluster,
    snapshot: Snapshot,
    handover: OpenHandover,
    decision: Decision,
) -> tuple[Effect, str]:
    """Make the move in Slurm; return its effect and Slurm's error message, empty if there is none.

    INTENDED without a message: the running link submits its successor when it asks next
    (`chains.submit_instruction`), and `reconcile_intentions` settles the decision.
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
        # Slurm may have made the move all the same. The next look at the queue shows whether it
        # did, and `reconcile_intentions` settles the decision.
        return Effect.INTENDED, str(error)
    return Effect.DONE, ""


def _move_standby(
    cluster: Cluster, handover: OpenHandover, decision: Decision, snapshot: Snapshot
) -> None:
    """Give Slurm the one command of the move.

    The user's own terms of the dependency are kept. `seen` is the dependency that the decision was
    made on: the cluster refuses the move if somebody has changed the dependency since.
    """
    standby, predecessor = handover.standby.job_id, handover.predecessor.job_id
    job = snapshot.queue.find_job(standby)
    text = "" if job is None else job.dependency
    predecessor_job = snapshot.queue.find_job(predecessor)
    owner, unpin = handover.chain.uid, handover.standby.position is Position.PINNED
    unmet = drop_met_terms(cluster, text, snapshot.queue)
    if decision.action is Action.HOLD:
        with_own_term = dependency.add_own_term(unmet, predecessor)
        cluster.set_dependency(
            standby, owner=owner, dependency=with_own_term, unpin=unpin, expected_dependency=text
        )
        return
    minutes = compute_plan_minutes(decision, handover.predecessor)
    if minutes is not None:
        # Slurm counts the minutes from the predecessor's start, so a new start moves the release.
        if predecessor_job is None or predecessor_job.start != handover.predecessor.start:
            raise InputError(
                "the predecessor was started anew after the plan was made: Mirage decides again at "
                "the next tick"
            )
        with_plan = dependency.replace_with_plan(unmet, predecessor, minutes)
        cluster.set_dependency(standby, owner=owner, dependency=with_plan, expected_dependency=text)
        return
    user_terms = dependency.remove_own_term(unmet, predecessor)
    if decision.action is Action.PIN:
        nodes = predecessor_job.node_list if predecessor_job else ""
        cluster.pin_standby(
            standby, owner=owner, dependency=user_terms, node_list=nodes, expected_dependency=text
        )
    else:
        cluster.free_standby(
            standby, owner=owner, dependency=user_terms, unpin=unpin, expected_dependency=text
        )


def _has_taken_effect(row: DecisionRow, standby: Link, predecessor: Link | None) -> bool:
    """Return whether Slurm shows that the move was made."""
    if row.action is Action.SUBMIT:
        # A held successor is not this submission: the running link submits one with a dependency on
        # itself as its last act, or if it gets no answer.
        return standby.position is Position.FREE and standby.submit >= row.at - CLOCKS_DIFFER_S
    if row.inputs.get("standby") != standby.job_id:
        return False
    if row.action in {Action.HOLD, Action.PLAN}:
        is_held = standby.state is LinkState.PENDING and standby.position is Position.HELD
        is_released = row.action is Action.PLAN and standby.freed_at is not None
        return is_released or (is_held and standby.plan_min == row.inputs.get("plan_min"))
    if standby.state is LinkState.PENDING and standby.position is not Position.FREE:
        return False
    # The standby is eligible: by the move, or because its predecessor ended.
    end = None if predecessor is None else predecessor.end
    eligible_at = standby.start if standby.eligible is None else standby.eligible
    if end is None:
        return standby.state is LinkState.PENDING or standby.start is not None
    return eligible_at is not None and eligible_at < end


def _is_too_late(predecessor: Link | None) -> bool:
    return predecessor is None or predecessor.state is LinkState.ENDED


def reconcile_intentions(
    tx: Transaction, cluster_id: int, now: int, unread: frozenset[ChainId] = frozenset()
) -> None:
    """Settle intentions that a crash or a silent Slurm left open, by the standby's state now.

    Call this after `sync_links`, when the links show what Slurm's queue showed. The intentions of
    the chains `unread`, whose rows could not be read, stay open.
    """
    for row in decisions.list_intended(tx, cluster_id):
        if row.chain_id in unread:
            continue
        links = chains.list_links(tx, cluster_id, row.chain_id)
        by_index = {link.index: link for link in links}
        standby = by_index.get(row.index)
        if standby is None or standby.seen_at < row.at:
            if row.action is Action.SUBMIT and _is_too_late(by_index.get(row.index - 1)):
                decisions.settle_decision(
                    tx, cluster_id, row.id, Effect.FAILED, "nobody submitted it"
                )
            continue
        is_done = _has_taken_effect(row, standby, find_predecessor(standby, links))
        effect = Effect.DONE if is_done else Effect.FAILED
        decisions.settle_decision(
            tx, cluster_id, row.id, effect, "" if is_done else "Slurm did not take the move"
        )
        if is_done:
            chains.save_link(tx, cluster_id, apply_recorded_move(row, standby))
            counts = row.action in _MADE_ELIGIBLE and not standby.hindered
            if counts and standby.start is not None:
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
