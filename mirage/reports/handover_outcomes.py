"""Computes once what complete hand-overs cost, and what they would have cost under each policy.

Nobody can observe the wait under another moment of eligibility. That wait is taken to be as long as
the real one was. So a successor that waited w once eligible, and becomes eligible `lead` before its
predecessor's end, starts w - lead after that end. If a link gave its nodes back, w is the wait of
its last job, and the time for which its earlier jobs held nodes is overlap of Mirage's. This says
nothing of a successor that stood pinned, or was hindered (a hold, a limit, maintenance): such
hand-overs are compared with nothing.
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
from mirage.database.jobs import snapshots
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
"""Mirage counts as away if it stored no look at the queue for more than this many seconds.

That is so too if Slurm did not answer. A site that looks seldom gives `record_outcomes` more.
"""


def record_outcomes(
    tx: Transaction, cluster_id: int, again_s: int = AGAIN_S, away_s: int = AWAY_S
) -> int:
    """Store the outcome of each complete hand-over. Returns how many hand-overs were examined.

    Hand-overs more than `again_s` older than the newest stored one are not computed again.
    `away_s`: the seconds without a look at the queue after which Mirage counts as away.
    """
    newest = handover_outcomes.read_newest_at(tx, cluster_id)
    found = chains.list_handovers(tx, cluster_id, since=0 if newest is None else newest - again_s)
    keys = [(row.chain.chain_id, row.successor.index) for row in found]
    would = handover_outcomes.list_would_free(tx, keys)
    last = decisions.find_last_decisions(tx, cluster_id, keys)
    rows = [
        replace(
            _build_row(handover, last.get(key), would.get(key, {})),
            while_away=_was_released_while_away(
                tx, cluster_id, handover.successor, last.get(key), away_s
            ),
        )
        for handover, key in zip(found, keys, strict=True)
    ]
    handover_outcomes.put_outcomes(tx, cluster_id, rows)
    return len(rows)


def _was_released_while_away(
    tx: Transaction, cluster_id: int, after: Link, last: DecisionRow | None, away_s: int
) -> bool:
    """Return whether Slurm released the successor by a plan of Mirage's while Mirage was away.

    Away: the snapshots before and after the release are more than `away_s` seconds apart.
    If the service released it, that was the service's last decision on it.
    """
    if after.freed_at is None or after.freed_by not in {Planner.SERVICE, Planner.LINK}:
        return False
    if last is not None and last.action is Action.FREE:
        return False
    gap = snapshots.find_gap(tx, cluster_id, after.freed_at)
    return gap is not None and gap[1] - gap[0] > away_s


def _build_row(
    found: HandoverRow, last: DecisionRow | None, would: Mapping[str, int]
) -> OutcomeRow:
    chain, before, after = found
    end, start = before.end or 0, after.start or 0  # the query has both
    kind = _classify_handover(after, last)
    compared = kind is not OutcomeKind.NONE and after.position is not Position.PINNED
    return OutcomeRow(
        chain_id=chain.chain_id,
        index=after.index,
        at=max(end, start),
        partition=after.partition,
        account=after.account,
        user=chain.user,
        uid=chain.uid,
        nodes=after.nodes,
        kind=kind,
        actual=_split_actual(before, after),
        returns=after.returns,
        returned_s=after.returned_s,
        returns_saved_s=_compute_saved_by_returns(before, after),
        by_policy=_compute_by_policy(before, after, kind, would)
        if compared and not after.hindered
        else {},
    )


def _classify_handover(after: Link, last: DecisionRow | None) -> OutcomeKind:
    if after.freed_by is Planner.USER:
        return OutcomeKind.NONE  # its owner said when, and Mirage left it so
    if after.freed_at is not None or (last is not None and last.mode is Mode.ACT):
        return OutcomeKind.ACT
    return OutcomeKind.NONE if last is None or last.mode is Mode.OBSERVE else OutcomeKind.SHADOW


def _compute_by_policy(
    before: Link, after: Link, kind: OutcomeKind, would: Mapping[str, int]
) -> dict[str, HandoverSplit]:
    end, start = before.end or 0, after.start or 0
    eligible = end if after.freed_at is None else min(after.freed_at, end)
    # Slurm's own instant is later where a hold was lifted in between.
    wait_s = compute_wait_s(start, eligible, after.eligible)

    def split_if_freed_by(policy: str) -> HandoverSplit:
        at = would.get(policy, end)
        # Earlier than the run: of the one before its predecessor was requeued.
        lead_s = 0 if at < (before.start or 0) else max(0, end - at)
        return split_lateness(wait_s - lead_s)

    told = {name: split_if_freed_by(name) for name in baseline_counterfactuals.NAMES}
    told[REACTIVE] = split_lateness(wait_s)
    told[MIRAGE] = (
        _split_actual(before, after) if kind is OutcomeKind.ACT else split_if_freed_by(MIRAGE)
    )
    return told


def _split_actual(before: Link, after: Link) -> HandoverSplit:
    """Return interruption and overlap as they were, with what the successor gave back."""
    interruption_s, overlap_s = split_lateness((after.start or 0) - (before.end or 0))
    return interruption_s, overlap_s + after.returned_s


def _compute_saved_by_returns(before: Link, after: Link) -> int:
    """Return for how long the successor's nodes were not held idle since its last return.

    From then until its predecessor's end, or its own start where that came sooner. What earlier
    returns saved is not known any more, so several returns have saved more than that.
    """
    if not after.returns or after.returned_at is None:
        return 0
    return max(0, min(before.end or 0, after.start or 0) - after.returned_at)


def split_lateness(late_s: int) -> HandoverSplit:
    """Return interruption and overlap of a successor that started `late_s` after the end."""
    return max(0, late_s), max(0, -late_s)
