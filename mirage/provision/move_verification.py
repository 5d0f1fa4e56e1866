"""Checks by the next look at the queue that Slurm has kept a move: no call of its own.

An answer of 0 or of HTTP 200 is no proof. Backfill has undone updates that were made while it had
let go of its locks, and slurmrestd takes fields that it does not know. A move that was not kept
counts as failed. So it is decided anew, and made again if the reason for it still stands. If Slurm
does not keep the second move either, that one counts as refused, and is not made again for a while.
"""

from dataclasses import replace

import structlog

from mirage.chains.standby_position import GRACE_S
from mirage.database.chains import chains, decisions
from mirage.database.chains.decisions import DecisionRow, Effect
from mirage.database.chains.open_links import list_open_links
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import ChainId, Link, LinkState, Planner, Position
from mirage.domain.decision import Action
from mirage.domain.job import JobId
from mirage.domain.snapshot import Queue
from mirage.errors import MalformedText
from mirage.provision.provision_tick import apply_recorded_move
from mirage.slurm.text import dependency

_log = structlog.get_logger(__name__)

NOT_KEPT = "Slurm took the move, and its next queue does not show it"
NOT_KEPT_AGAIN = "Slurm took the move twice and kept it neither time"
_VISIBLE_MOVES = frozenset({Action.FREE, Action.PIN, Action.HOLD, Action.PLAN})
"""The moves that change a dependency, which the queue shows."""
_LAST_DECISIONS = 20
"""The last decisions of a link that are searched for an earlier move that Slurm did not keep."""


def verify_moves(
    tx: Transaction,
    cluster_id: int,
    queue: Queue,
    since: int | None,
    unread: frozenset[ChainId] = frozenset(),
) -> None:
    """Check the moves that Slurm took since the last look, at `since` (None: it is not known).

    Call this after `link_sync.sync_links`, when the links show what `queue` shows. Links of the
    chains `unread`, whose rows could not be read, are not checked.
    """
    begin = queue.taken_at - GRACE_S if since is None else since
    pending = {
        (link.chain_id, link.index): link
        for link in list_open_links(tx, cluster_id, LinkState.PENDING)
        if link.chain_id not in unread and link.seen_at == queue.taken_at
    }
    for key, row in decisions.find_last_moves(tx, cluster_id, list(pending), begin).items():
        standby = pending[key]
        is_visible = row.action in _VISIBLE_MOVES and row.inputs.get("standby") == standby.job_id
        if is_visible and not _is_kept(row, queue):
            _record_lost_move(tx, cluster_id, row, standby, queue.taken_at)


def _is_kept(row: DecisionRow, queue: Queue) -> bool:
    """Return whether the queue shows the move; True if the queue cannot tell.

    Only the dependency is compared: the queue does not show which nodes a job asks for. A
    dependency on a job that has ended is gone, whoever removed it, so such a move counts as kept.
    """
    predecessor = JobId(row.inputs.get("predecessor") or 0)
    standby_job = queue.find_job(row.inputs["standby"])
    predecessor_job = queue.find_job(predecessor)
    if standby_job is None or predecessor_job is None or predecessor_job.state.has_ended:
        return True
    try:
        is_held = dependency.has_own_term(standby_job.dependency, predecessor)
        minutes = dependency.find_plan_minutes(standby_job.dependency, predecessor)
    except MalformedText:
        return True
    if row.action in {Action.HOLD, Action.PLAN}:
        is_due = row.action is Action.PLAN and (row.release_at or 0) <= queue.taken_at
        return is_due or (is_held and minutes == row.inputs.get("plan_min"))
    return not is_held


def _record_lost_move(
    tx: Transaction, cluster_id: int, row: DecisionRow, standby: Link, now: int
) -> None:
    """Settle a move that Slurm did not keep, and put the stored link back to its true position."""
    earlier_rows = [
        earlier
        for earlier in decisions.list_link_decisions(
            tx, cluster_id, row.chain_id, row.index, last=_LAST_DECISIONS
        )
        if earlier.id < row.id and earlier.inputs.get("standby") == standby.job_id
    ]
    again = any(
        earlier.action is row.action and earlier.error == NOT_KEPT for earlier in earlier_rows
    )
    effect, error = (Effect.REFUSED, NOT_KEPT_AGAIN) if again else (Effect.FAILED, NOT_KEPT)
    decisions.settle_decision(tx, cluster_id, row.id, effect, error)
    chains.save_link(tx, cluster_id, _restore_link(row, standby, earlier_rows))
    entry = AuditEntry(
        at=now,
        actor="mirage",
        event=f"reconciled {row.action}: {effect}",
        chain_id=row.chain_id,
        job_id=standby.job_id,
        detail={"decision": row.id, "link": row.index, "error": error},
    )
    audit.write_entry(tx, cluster_id, entry)
    _log.warning("a move was not kept", chain_id=row.chain_id, action=row.action, again=again)


def _find_planner_before(standby: Link, earlier_rows: list[DecisionRow]) -> Planner | None:
    """Return who wrote the plan that still stands; None if there is none."""
    if standby.plan_min is None:
        return None
    is_mirages = any(
        row.effect is Effect.DONE and row.action is Action.PLAN for row in earlier_rows
    )
    return Planner.SERVICE if is_mirages else Planner.LINK


def _restore_link(row: DecisionRow, standby: Link, earlier_rows: list[DecisionRow]) -> Link:
    """Return the standby in its true position: held, or where the earlier move had put it."""
    if row.action is Action.PLAN:
        return replace(standby, planned_by=_find_planner_before(standby, earlier_rows))
    if row.action is not Action.HOLD:
        return replace(standby, position=Position.HELD, freed_at=None, freed_by=None)
    done_moves = [earlier for earlier in earlier_rows if earlier.effect is Effect.DONE]
    return apply_recorded_move(done_moves[-1], standby) if done_moves else standby
