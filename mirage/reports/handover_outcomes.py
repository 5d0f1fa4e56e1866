"""Computes once what complete hand-overs cost, and what they would have cost under each policy.

How long the successor would have waited if it had become eligible at another moment cannot be
observed. That wait is assumed to be as long as the real one. So a successor that waited w after it
became eligible, and becomes eligible `lead` before its predecessor's end, starts w - lead after
that end. If a link gave its nodes back, w is the wait of its last job, and the time for which its
earlier jobs held nodes is overlap of Mirage's. The assumption does not hold for a successor that
was pinned, or hindered (a hold, a limit, maintenance): such hand-overs are not compared.
"""

from collections.abc import Mapping
from dataclasses import replace

from mirage.database.chains import chains, decisions, handover_outcomes
from mirage.database.chains.chains import HandoverRow
from mirage.database.chains.decisions import DecisionRow
from mirage.database.chains.handover_outcomes import (
    MIRAGE,
    REACTIVE,
    HandoverSplit,
    OutcomeKind,
    OutcomeRow,
)
from mirage.database.jobs import queue_sums
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Link, Planner, Position
from mirage.domain.decision import Action, Mode
from mirage.domain.job import compute_wait_s
from mirage.provision import baseline_counterfactuals

AGAIN_S = 2 * 86400
"""Seconds in which accounting may still correct a hand-over."""
LATE_S = 3600
"""Seconds after which nearly all ends and starts are known."""
AWAY_S = 900
"""Mirage counts as away if it stored no look at the queue for more than this many seconds, also if
Slurm did not answer. A site whose interval is long gives `record_outcomes` a larger number."""


def record_outcomes(
    tx: Transaction, cluster_id: int, again_s: int = AGAIN_S, away_s: int = AWAY_S
) -> int:
    """Store the outcome of each complete hand-over. Returns how many hand-overs were examined.

    Hand-overs more than `again_s` older than the newest stored one are not computed again.
    `away_s`: the seconds without a look at the queue after which Mirage counts as away.
    """
    newest = handover_outcomes.read_newest_at(tx, cluster_id)
    since = 0 if newest is None else newest - again_s
    handovers = chains.list_handovers(tx, cluster_id, since=since)
    keys = [(handover.chain.chain_id, handover.successor.index) for handover in handovers]
    would_free = handover_outcomes.list_would_free(tx, keys)
    last = decisions.find_last_decisions(tx, cluster_id, keys)
    rows = [
        replace(
            _build_row(handover, last.get(key), would_free.get(key, {})),
            while_away=_was_released_while_away(
                tx, cluster_id, handover.successor, last.get(key), away_s
            ),
        )
        for handover, key in zip(handovers, keys, strict=True)
    ]
    handover_outcomes.put_outcomes(tx, cluster_id, rows)
    return len(rows)


def _was_released_while_away(
    tx: Transaction, cluster_id: int, successor: Link, last: DecisionRow | None, away_s: int
) -> bool:
    """Return whether Slurm released the successor by a plan of Mirage's while Mirage was away.

    Away: the snapshots before and after the release are more than `away_s` seconds apart. If the
    service itself released the successor, its last decision on that link is FREE.
    """
    if successor.freed_at is None or successor.freed_by not in {Planner.SERVICE, Planner.LINK}:
        return False
    if last is not None and last.action is Action.FREE:
        return False
    gap = queue_sums.find_gap(tx, cluster_id, successor.freed_at)
    return gap is not None and gap[1] - gap[0] > away_s


def _build_row(
    handover: HandoverRow, last: DecisionRow | None, would_free: Mapping[str, int]
) -> OutcomeRow:
    chain, predecessor, successor = handover
    end, start = predecessor.end or 0, successor.start or 0  # the query has both
    kind = _classify_handover(successor, last)
    is_compared = kind is not OutcomeKind.NONE and successor.position is not Position.PINNED
    return OutcomeRow(
        chain_id=chain.chain_id,
        index=successor.index,
        at=max(end, start),
        partition=successor.partition,
        account=successor.account,
        user=chain.user,
        uid=chain.uid,
        nodes=successor.nodes,
        kind=kind,
        actual=_split_actual(predecessor, successor),
        returns=successor.returns,
        returned_s=successor.returned_s,
        returns_saved_s=_compute_saved_by_returns(predecessor, successor),
        by_policy=_compute_by_policy(predecessor, successor, kind, would_free)
        if is_compared and not successor.hindered
        else {},
    )


def _classify_handover(successor: Link, last: DecisionRow | None) -> OutcomeKind:
    if successor.freed_by is Planner.USER:
        return OutcomeKind.NONE  # the owner chose the moment, and Mirage did not change it
    if successor.freed_at is not None or (last is not None and last.mode is Mode.ACT):
        return OutcomeKind.ACT
    return OutcomeKind.NONE if last is None or last.mode is Mode.OBSERVE else OutcomeKind.SHADOW


def _compute_by_policy(
    predecessor: Link, successor: Link, kind: OutcomeKind, would_free: Mapping[str, int]
) -> dict[str, HandoverSplit]:
    """Return interruption and overlap, in seconds, by policy; `would_free` has their instants."""
    end, start = predecessor.end or 0, successor.start or 0
    eligible_at = end if successor.freed_at is None else min(successor.freed_at, end)
    # Slurm's own instant is later if a hold was lifted in between.
    wait_s = compute_wait_s(start, eligible_at, successor.eligible)

    def split_if_freed_by(policy: str) -> HandoverSplit:
        at = would_free.get(policy, end)
        # An instant before this run is of the predecessor's run before it was requeued.
        lead_s = 0 if at < (predecessor.start or 0) else max(0, end - at)
        return split_lateness(wait_s - lead_s)

    by_policy = {name: split_if_freed_by(name) for name in baseline_counterfactuals.BASELINES}
    by_policy[REACTIVE] = split_lateness(wait_s)
    by_policy[MIRAGE] = (
        _split_actual(predecessor, successor)
        if kind is OutcomeKind.ACT
        else split_if_freed_by(MIRAGE)
    )
    return by_policy


def _split_actual(predecessor: Link, successor: Link) -> HandoverSplit:
    """Return interruption and overlap as they were, with the time of jobs that gave nodes back."""
    interruption_s, overlap_s = split_lateness((successor.start or 0) - (predecessor.end or 0))
    return interruption_s, overlap_s + successor.returned_s


def _compute_saved_by_returns(predecessor: Link, successor: Link) -> int:
    """Return for how many seconds the successor's nodes were not held idle since its last return.

    They count from the return to the predecessor's end, or to the successor's own start if that
    came sooner. What earlier returns saved is not stored, so several returns have saved more.
    """
    if not successor.returns or successor.returned_at is None:
        return 0
    return max(0, min(predecessor.end or 0, successor.start or 0) - successor.returned_at)


def split_lateness(late_s: int) -> HandoverSplit:
    """Return interruption and overlap of a successor that started `late_s` after the end."""
    return max(0, late_s), max(0, -late_s)
