"""Decisions, written before they take effect and settled after.

Runs of the same answer do not fill the table. A wait, or any move in shadow mode, touches nothing.
If it repeats the link's last decision, it is counted on that row (`repeats`, `last_at`) and gets no
row of its own. A repeat has the same action, mode and policy, and the same reason but for its
numbers. A run ends after an hour, so at most 24 rows a day show how a link's forecast went.
A run of waits shows its newest numbers, since nothing was done on them. A run of shadow moves keeps
its first numbers, since the first is the move that would have been made. Moves in act mode are
never counted together: each was, or may have been, sent to Slurm.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Select, bindparam, func, insert, select, update

from mirage.database.access.row_access import match_own_chains
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Transaction
from mirage.database.schema.link_keys import LinkKey, match_links, pack_links
from mirage.database.schema.tables import chains, decisions
from mirage.database.schema.time_filter import filter_within
from mirage.domain.callers.caller import OwnRows
from mirage.domain.chain import ChainId
from mirage.domain.decision import Action, Decision, Forecast, Mode
from mirage.errors import NotFound

RUN_S = 3600
"""Seconds after which a repeated decision gets a new row."""

_NUMBER = re.compile(r"[-+]?\d[\d.,:]*")


class Effect(StrEnum):
    NONE = "none"
    """The decision asked for no move."""
    INTENDED = "intended"
    """Mirage is about to send the move to Slurm, or has sent it. The result is not known yet."""
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    """Slurm gave no answer, and the queue did not show the move later. The move is decided anew."""
    GIVEN_UP = "given_up"
    """The standby had changed since the look, so the move was not sent to Slurm. It is decided
    anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDecision:
    """A policy's decision with its inputs. `index` is that of the successor."""

    at: int
    chain_id: ChainId
    index: int
    mode: Mode
    decision: Decision
    time_left_s: int | None = None
    """Seconds from `at` to the predecessor's planned end."""
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effect(self) -> Effect:
        acts = self.mode is Mode.ACT and self.decision.action is not Action.WAIT
        return Effect.INTENDED if acts else Effect.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A stored decision: made at `at`, and repeated `repeats` times until `last_at`."""

    id: int
    at: int
    last_at: int
    repeats: int
    chain_id: ChainId
    index: int
    mode: Mode
    policy: str
    action: Action
    reason: str
    time_left_s: int | None
    forecast: Forecast | None
    effect: Effect
    error: str
    inputs: Mapping[str, Any]
    submitted_at: int | None = None
    """When a service of an earlier release submitted the link; None: the running link does."""
    release_at: int | None = None
    """`Decision.release_at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionFilter:
    """A choice of decisions; None does not filter."""

    action: Action | None = None
    effect: Effect | None = None
    mode: Mode | None = None
    policy: str | None = None
    since: int | None = None
    """Decisions that were made at this instant or later."""
    until: int | None = None


def record_decisions(
    tx: Transaction, cluster_id: int, new_decisions: Sequence[NewDecision]
) -> list[int]:
    """Store many decisions, each of another link, in a few statements; return their ids in order.

    A decision that is to be sent to Slurm is stored as `intended`.
    """
    idle = [(new.chain_id, new.index) for new in new_decisions if new.effect is Effect.NONE]
    last_by_link = find_last_decisions(tx, cluster_id, idle)
    ids: dict[int, int] = {}
    waits, moves, added = [], [], []
    for place, new in enumerate(new_decisions):
        last = last_by_link.get((new.chain_id, new.index)) if new.effect is Effect.NONE else None
        if last is None or not _is_repeat(last, new):
            added.append(place)
            continue
        ids[place] = last.id
        repeat = {"row": last.id, "last_at": new.at, "repeats": last.repeats + 1}
        if new.decision.action is Action.WAIT:
            waits.append(repeat | _build_values(new))
        else:
            moves.append(repeat)
    for rows in (waits, moves):
        if rows:
            tx.execute(update(decisions).where(decisions.c.id == bindparam("row")), rows)
    if added:
        insertion = insert(decisions).returning(decisions.c.id, sort_by_parameter_order=True)
        rows = [_build_new_row(cluster_id, new_decisions[place]) for place in added]
        ids |= zip(added, tx.scalars(insertion, rows), strict=True)
    if new_decisions:
        changes.record_change(
            tx, cluster_id, Topic.DECISIONS, [new.chain_id for new in new_decisions]
        )
    return [ids[place] for place in range(len(new_decisions))]


def _build_new_row(cluster_id: int, new: NewDecision) -> dict[str, Any]:
    return _build_values(new) | {
        "cluster_id": cluster_id,
        "chain_id": new.chain_id,
        "index": new.index,
        "at": new.at,
        "last_at": new.at,
        "repeats": 0,
        "mode": new.mode.value,
        "policy": new.decision.policy,
        "action": new.decision.action.value,
        "effect": new.effect.value,
        "error": "",
    }


def settle_decision(
    tx: Transaction, cluster_id: int, decision_id: int, effect: Effect, error: str = ""
) -> None:
    """Record the result of an intended move. Raises NotFound for an unknown decision."""
    row = tx.execute(
        update(decisions)
        .where(decisions.c.cluster_id == cluster_id, decisions.c.id == decision_id)
        .values(effect=effect.value, error=error)
        .returning(decisions.c.chain_id)
    ).first()
    if row is None:
        raise NotFound(f"there is no decision {decision_id}")
    changes.record_change(tx, cluster_id, Topic.DECISIONS, [ChainId(row.chain_id)])


def list_intended(tx: Transaction, cluster_id: int) -> list[DecisionRow]:
    """List the decisions that were never settled, since the service ended first. Oldest first."""
    rows = tx.execute(_SELECT_INTENDED, {"cluster_id": cluster_id}).mappings()
    return [_build_decision(row) for row in rows]


def find_last_decision(
    tx: Transaction, cluster_id: int, chain_id: ChainId, index: int
) -> DecisionRow | None:
    return find_last_decisions(tx, cluster_id, [(chain_id, index)]).get((chain_id, index))


def find_last_decisions(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey]
) -> dict[LinkKey, DecisionRow]:
    """Return the newest decision of each of these links that has one."""
    return _find_newest(tx, cluster_id, links)


def find_settled_moves(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey]
) -> dict[LinkKey, DecisionRow]:
    """Return the newest move of each of these links that was sent to Slurm, and whose result is
    known."""
    return _find_newest(tx, cluster_id, links, Effect.DONE, Effect.REFUSED, Effect.FAILED)


def _find_newest(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey], *effects: Effect
) -> dict[LinkKey, DecisionRow]:
    query = _select_last_decisions(tx.dialect.name, *effects)
    rows = tx.execute(query, _build_parameters(cluster_id, links)).mappings() if links else ()
    return {(row.chain_id, row.index): row for row in map(_build_decision, rows)}


@cache
def _select_last_decisions(dialect: str, *effects: Effect) -> Select[Any]:
    has_effect = (decisions.c.effect.in_(effects),) if effects else ()
    newest = select(func.max(decisions.c.id)).where(_match_decisions(dialect), *has_effect)
    newest = newest.group_by(decisions.c.chain_id, decisions.c.index)
    return select(decisions).where(decisions.c.id.in_(newest))


def _match_decisions(dialect: str) -> ColumnElement[bool]:
    return _IS_IN_CLUSTER & match_links(dialect, decisions.c.chain_id, decisions.c.index)


def _build_parameters(cluster_id: int, links: Sequence[LinkKey]) -> dict[str, Any]:
    """Build the parameters of a statement with `_match_decisions`."""
    return {"cluster_id": cluster_id, "pairs": pack_links(links)}


def find_last_moves(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey], since: int
) -> dict[LinkKey, DecisionRow]:
    """Return the newest decisions of these links that are moves Slurm took at `since` or later."""
    parameters = _build_parameters(cluster_id, links) | {"since": since}
    rows = tx.execute(_select_last_moves(tx.dialect.name), parameters).mappings()
    return {(row.chain_id, row.index): row for row in map(_build_decision, rows)}


@cache
def _select_last_moves(dialect: str) -> Select[Any]:
    is_done = decisions.c.effect == Effect.DONE.value
    return _select_last_decisions(dialect).where(is_done, decisions.c.at >= bindparam("since"))


def count_moves(tx: Transaction, cluster_id: int, links: Sequence[LinkKey]) -> dict[LinkKey, int]:
    """Count the moves of each link's standby that were, or may have been, sent to Slurm."""
    rows = tx.execute(_count_moves(tx.dialect.name), _build_parameters(cluster_id, links))
    return {(ChainId(chain_id), index): count for chain_id, index, count in rows}


@cache
def _count_moves(dialect: str) -> Select[Any]:
    is_sent = decisions.c.effect.in_((Effect.DONE.value, Effect.INTENDED.value))
    query = select(decisions.c.chain_id, decisions.c.index, func.count())
    query = query.where(_match_decisions(dialect), is_sent)
    return query.group_by(decisions.c.chain_id, decisions.c.index)


def list_links_refused_since(
    tx: Transaction, cluster_id: int, since: int
) -> set[tuple[ChainId, int]]:
    """Return links (chain, index) whose move Slurm refused at `since` or later. Pins and plans do
    not count, as a standby stays as it was without them."""
    rows = tx.execute(_SELECT_REFUSED, {"cluster_id": cluster_id, "since": since})
    return {(ChainId(chain_id), index) for chain_id, index in rows}


def list_refused_moves(
    tx: Transaction, cluster_id: int, links: Sequence[LinkKey]
) -> set[tuple[ChainId, int, Action]]:
    """Return the moves (chain, index, action) that Slurm has ever refused for these links."""
    rows = tx.execute(_select_refused_moves(tx.dialect.name), _build_parameters(cluster_id, links))
    return {(ChainId(chain_id), index, Action(action)) for chain_id, index, action in rows}


@cache
def _select_refused_moves(dialect: str) -> Select[Any]:
    is_refused = decisions.c.effect == Effect.REFUSED.value
    query = select(decisions.c.chain_id, decisions.c.index, decisions.c.action).distinct()
    return query.where(_match_decisions(dialect), is_refused)


def list_decisions(  # noqa: PLR0913 - filters
    tx: Transaction,
    cluster_id: int,
    *,
    chain_id: ChainId | None = None,
    own: OwnRows | None = None,
    after: int | None = None,
    limit: int = 100,
    where: DecisionFilter | None = None,
) -> list[DecisionRow]:
    """List decisions, newest first. `after` is the id of the last decision of the page before.
    `own`: only decisions on chains of this caller."""
    criteria = where or DecisionFilter()
    equal: dict[str, object] = {"cluster_id": cluster_id, "chain_id": chain_id}
    equal |= {"policy": criteria.policy}
    equal |= {"action": criteria.action, "effect": criteria.effect, "mode": criteria.mode}
    query = select(decisions).where(
        *(decisions.c[n] == v for n, v in equal.items() if v is not None),
        *filter_within(decisions.c.at, criteria),
    )
    if own is not None:
        own_chains = select(chains.c.chain_id).where(match_own_chains(own))
        query = query.where(decisions.c.chain_id.in_(own_chains))
    if after is not None:
        query = query.where(decisions.c.id < after)
    rows = tx.execute(query.order_by(decisions.c.id.desc()).limit(limit)).mappings()
    return [_build_decision(r) for r in rows]


def list_link_decisions(
    tx: Transaction, cluster_id: int, chain_id: ChainId, index: int, *, last: int
) -> list[DecisionRow]:
    """List the newest decisions on one link, oldest first."""
    equal = {"cluster_id": cluster_id, "chain_id": chain_id, "index": index}
    query = select(decisions).where(*(decisions.c[n] == v for n, v in equal.items()))
    rows = tx.execute(query.order_by(decisions.c.id.desc()).limit(last)).mappings()
    return [_build_decision(r) for r in rows][::-1]


def count_decisions_by_effect(tx: Transaction, cluster_id: int) -> dict[Effect, int]:
    """Count the decisions by effect, repeats included, also effects that no decision had."""
    count = func.sum(1 + decisions.c.repeats)
    query = select(decisions.c.effect, count).where(decisions.c.cluster_id == cluster_id)
    rows = tx.execute(query.group_by(decisions.c.effect))
    counts = {Effect(effect): int(n) for effect, n in rows}
    return {effect: counts.get(effect, 0) for effect in Effect}


def _is_repeat(before: DecisionRow, new: NewDecision) -> bool:
    is_same_answer = (before.action, before.mode, before.policy, before.effect) == (
        new.decision.action,
        new.mode,
        new.decision.policy,
        Effect.NONE,
    )
    is_recent = before.at <= new.at < before.at + RUN_S
    return (
        is_same_answer
        and is_recent
        and _strip_numbers(before.reason) == _strip_numbers(new.decision.reason)
    )


def _strip_numbers(reason: str) -> str:
    """Return the sentence without its numbers."""
    return _NUMBER.sub("#", reason)


def _build_values(new: NewDecision) -> dict[str, Any]:
    """Build the columns that hold the decision and its inputs."""
    forecast = new.decision.forecast
    return {
        "reason": new.decision.reason,
        "time_left_s": new.time_left_s,
        "p10_s": None if forecast is None else forecast.p10_s,
        "p50_s": None if forecast is None else forecast.p50_s,
        "p90_s": None if forecast is None else forecast.p90_s,
        "samples": 0 if forecast is None else forecast.samples,
        "inputs": dict(new.inputs),
        "release_at": new.decision.release_at,
    }


def _build_decision(row: RowMapping) -> DecisionRow:
    forecast = None
    if row["p50_s"] is not None:
        p10_s, p50_s, p90_s = row["p10_s"], row["p50_s"], row["p90_s"]
        forecast = Forecast(p10_s=p10_s, p50_s=p50_s, p90_s=p90_s, samples=row["samples"])
    return DecisionRow(
        id=row["id"],
        at=row["at"],
        last_at=row["last_at"],
        repeats=row["repeats"],
        chain_id=ChainId(row["chain_id"]),
        index=row["index"],
        mode=Mode(row["mode"]),
        policy=row["policy"],
        action=Action(row["action"]),
        reason=row["reason"],
        time_left_s=row["time_left_s"],
        forecast=forecast,
        effect=Effect(row["effect"]),
        error=row["error"],
        inputs=row["inputs"],
        submitted_at=row["submitted_at"],
        release_at=row["release_at"],
    )


# Statements of each tick are built once: building one costs more than running it.
_IS_IN_CLUSTER = decisions.c.cluster_id == bindparam("cluster_id")
_SELECT_INTENDED = (
    select(decisions)
    .where(_IS_IN_CLUSTER, decisions.c.effect == Effect.INTENDED.value)
    .order_by(decisions.c.id)
)
_SELECT_REFUSED = select(decisions.c.chain_id, decisions.c.index).where(
    _IS_IN_CLUSTER,
    decisions.c.effect == Effect.REFUSED.value,
    decisions.c.action.not_in((Action.PIN.value, Action.PLAN.value)),
    decisions.c.at >= bindparam("since"),
)
