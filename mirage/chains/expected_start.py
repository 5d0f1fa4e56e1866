"""Says when the script of a chain's next link is expected to begin, with today's plan in it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mirage.chains.open_handovers import OpenHandover, list_chain_handovers
from mirage.chains.standby_position import GRACE_S
from mirage.chains.start_range import (
    StartRange,
    build_forecast_row,
    compute_start_range,
    read_start_ranges,
)
from mirage.database.chains import decisions
from mirage.database.chains.decisions import DecisionRow
from mirage.database.schema.engine import Transaction
from mirage.domain import script_turns
from mirage.domain.chain import Chain, ChainState, Link, LinkState, Position, Style
from mirage.domain.decision import Mode
from mirage.domain.time_units import HOUR_S
from mirage.slurm.text.pending_reasons import Cure, find_hindrance_by_word

_LONGER = 0.5
"""What is added to log(1 + p90 in hours). Waits of neighbours are alike, so forecasts are too sure:
on the training weeks up to 0.40 of the scripts began after p90, and hardly any before p10. The wait
of a later release is no harder to foretell than that of one now (docs/research/plans.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """The start of the next link's script, epoch seconds; 8 of 10 lie between p10 and p90."""

    link: int
    p10: int
    p50: int
    p90: int


def read_expected_start(
    tx: Transaction, cluster_id: int, chain: Chain, links: Sequence[Link], *, now: int
) -> ExpectedStart | None:
    """Return when the next link's script begins; None if there is no forecast of it.

    `links` are the chain's, sorted by index. `now` is the instant of the last look at the queue.
    """
    if chain.state is not ChainState.ACTIVE:
        return None
    for index, awaited in sorted(script_turns.find_awaited_links(chain, links).items()):
        return _at_once(index, awaited.get_planned_end(), now)
    handover = next(list_chain_handovers(chain, links), None)
    if handover is None:
        return None
    key = (chain.chain_id, handover.standby.index)
    decision = decisions.find_last_decisions(tx, cluster_id, [key]).get(key)
    waits = read_start_ranges(tx, cluster_id, [handover.standby]).get(key)
    last = None if decision is None else build_forecast_row(decision)
    is_newer = last is not None and last.at >= (handover.standby.returned_at or 0)
    if waits is None and last is not None and is_newer:  # its predecessor's end has released it
        waits = compute_start_range(handover.standby, last)
    return compute_expected_start(handover, decision, waits, now)


def compute_expected_start(
    handover: OpenHandover, decision: DecisionRow | None, waits: StartRange | None, now: int
) -> ExpectedStart | None:
    """Compute the start of the standby's script from its release and the forecast of its wait.

    A sequential link's script begins no earlier than its predecessor's end. Once the forecast's p90
    has passed, Slurm's own plan counts, if there is one. The plan has all jobs run to their time
    limits, so the script may begin at any moment before it.
    """
    predecessor, standby = handover.predecessor, handover.standby
    runs = predecessor.state is LinkState.RUNNING
    end = predecessor.get_planned_end() if runs else predecessor.end
    if end is None or predecessor.state is LinkState.PENDING or _is_hindered(standby, runs):
        return None
    if runs and end + GRACE_S < now:  # suspended: nobody knows for how long
        return None
    if standby.position is Position.PINNED:
        return _at_once(standby.index, end, now)
    least = max(now, end) if handover.chain.style is Style.SEQUENTIAL else now
    if waits is not None:
        shift = 0 if waits.is_free else _find_release(handover, decision, end, now) - waits.since
        latest = waits.since + _lengthen_wait(waits.p90 - waits.since)
        known_until = latest if standby.planned_start is None else waits.p90
        if known_until + shift >= now:
            p10, p50, p90 = (max(least, at + shift) for at in (waits.p10, waits.p50, latest))
            return ExpectedStart(link=standby.index, p10=p10, p50=p50, p90=p90)
    if standby.planned_start is None:
        return None
    planned = max(least, standby.planned_start)
    latest = max(planned, now + _lengthen_wait(planned - now))
    return ExpectedStart(link=standby.index, p10=least, p50=planned, p90=latest)


def _lengthen_wait(p90_s: int) -> int:
    return round(math.expm1(math.log1p(max(0, p90_s) / HOUR_S) + _LONGER) * HOUR_S)


def _is_hindered(standby: Link, predecessor_runs: bool) -> bool:
    """Return whether something else than the queue holds the standby: a hold, a limit, maintenance.

    A limit that its own predecessor takes up ends with the predecessor.
    """
    hindrance = find_hindrance_by_word(standby.reason)
    return hindrance is not None and not (hindrance.cure is Cure.JOBS and predecessor_runs)


def _find_release(handover: OpenHandover, decision: DecisionRow | None, end: int, now: int) -> int:
    """Return when the standby became eligible, or becomes so: by the plan in Slurm, else when the
    service expects to release it, else at its predecessor's end."""
    standby = handover.standby
    if standby.position is Position.FREE and standby.eligible is not None:
        return standby.eligible
    release = standby.get_standing_release()
    if release is None and decision is not None and decision.mode is Mode.ACT:
        release = decision.release_at
    return max(now, end if release is None else min(release, end))


def _at_once(link: int, at: int | None, now: int) -> ExpectedStart | None:
    """Return the start of a link that waits for no nodes; None where the instant is not known."""
    if at is None:
        return None
    at = max(at, now)
    return ExpectedStart(link=link, p10=at, p50=at, p90=at)
