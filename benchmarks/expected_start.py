"""How often a link starts within the interval that is told beforehand, on episode tables.

    python -m benchmarks.expected_start TABLE.npz [...] [--policy quantile] [--read 0.5]

The sentence "Link N is expected to start at ... (8 of 10 times between ... and ...)" is read as its
predecessor has used a part of its time limit, of each hand-over whose release is still to come. The
policy then releases the link by the forecast of then, within max-overlap, and the table has the
start. Only scripts that begin late tell good sentences from bad ones: a script that begins as its
predecessor ends lies inside any interval that reaches there. They have a column of their own.
Tables: `mirage episodes`, of training weeks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirage.domain.chain import Chain, ChainId, Link, LinkState, Style
from mirage.domain.decision import Decision, Mode, PolicyView
from mirage.domain.job import JobId
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.episodes.judge.policy_runner import Terms, play_policy
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.policy import registry
from mirage.policy.rules.overlap_bound import compute_max_lead_s
from mirage.ports import Policy, SimplePolicy
from mirage.services.chains.expected_start import ExpectedStart, compute_expected_start
from mirage.services.chains.open_handovers import OpenHandover
from mirage.services.chains.start_range import build_forecast_row, compute_start_range
from mirage.store.chains.decisions import DecisionRow, Effect

PRICE = 0.5
_CHAIN = ChainId("0f0000000000000000ab")


@dataclass(frozen=True, slots=True)
class Reading:
    """One sentence, and what happened; epoch seconds."""

    start: ExpectedStart
    end: int
    """The predecessor's."""
    began: int

    @property
    def is_inside(self) -> bool:
        return self.start.p10 - MINUTE_S <= self.began <= self.start.p90 + MINUTE_S

    @property
    def is_late(self) -> bool:
        return self.began > self.end + MINUTE_S


@dataclass(slots=True)
class Noting(SimplePolicy):
    """A policy whose decisions are written down, by the predecessor's end and the instant."""

    policy: Policy
    name: str = "noting"
    notes: dict[tuple[int, int], tuple[Decision, PolicyView]] = field(default_factory=dict)

    def decide(self, view: PolicyView) -> Decision:
        decision = self.policy.decide(view)
        self.notes[view.predecessor_end, view.now] = decision, view
        return decision


def read_sentences(table: EpisodeTable, policy: Policy, part: float) -> Iterator[Reading]:
    """Yield what was told when `part` of each predecessor's run was over."""
    noting = Noting(policy)
    played = play_policy(table, noting, Terms(overlap_price=PRICE, guarded=True))
    at = int(part * (table.outcome_s.shape[1] - 1))
    for i, chosen in enumerate(played.chosen.tolist()):
        if chosen <= at:
            continue
        end, now = int(table.predecessor_end[i]), int(table.instants[i, at])
        decision, view = noting.notes[end, now]
        told = _tell_start(decision, view, int(table.predecessor_start[i]))
        if told is not None:
            yield Reading(told, end, max(end, end + int(table.outcome_s[i, chosen])))


def _tell_start(decision: Decision, view: PolicyView, began: int) -> ExpectedStart | None:
    """Return the sentence of a sequential chain, as a service in mode act has it."""
    chain = Chain(chain_id=_CHAIN, uid=1, links_planned=9, style=Style.SEQUENTIAL)
    before = Link(
        chain_id=_CHAIN,
        index=1,
        job_id=JobId(1),
        submit=began,
        start=began,
        state=LinkState.RUNNING,
        time_limit_s=view.predecessor_end - began,
    )
    standby = Link(chain_id=_CHAIN, index=2, job_id=JobId(2), submit=began, nodes=view.nodes)
    release = decision.release_at
    most_s = compute_max_lead_s(decision, view)
    if release is not None and most_s is not None:
        release = max(release, view.predecessor_end - int(most_s))
    row = DecisionRow(
        id=1,
        at=view.now,
        last_at=view.now,
        repeats=0,
        chain_id=_CHAIN,
        index=2,
        mode=Mode.ACT,
        policy=decision.policy,
        action=decision.action,
        reason="",
        time_left_s=view.time_left_s,
        forecast=decision.forecast,
        release_at=release,
        inputs={},
        effect=Effect.NONE,
        error="",
    )
    made = build_forecast_row(row)
    waits = None if made is None else compute_start_range(standby, made)
    return compute_expected_start(OpenHandover(chain, before, standby), row, waits, view.now)


def describe_readings(name: str, readings: Sequence[Reading]) -> str:
    """Return a row of the table of Markdown."""
    late = [one for one in readings if one.is_late]
    error_min = statistics.median(abs(one.began - one.start.p50) for one in readings) / MINUTE_S
    width_h = statistics.median(one.start.p90 - one.start.p10 for one in readings) / HOUR_S
    return (
        f"| {name} | {len(readings)} | {_format_share(readings)} | {len(late)} "
        f"| {_format_share(late)} | {error_min:.0f} | {width_h:.1f} |"
    )


def _format_share(readings: Sequence[Reading]) -> str:
    if not readings:
        return "-"
    return f"{sum(one.is_inside for one in readings) / len(readings):.2f}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--policy", default="quantile")
    parser.add_argument("--read", type=float, default=0.5, help="the part of the time limit")
    options = parser.parse_args(words)
    policy = registry.get_policy(options.policy)
    print("| table | sentences | inside | late | of these inside | error, median min | width, h |")
    print("|---|---|---|---|---|---|---|")
    for path in options.tables:
        table = EpisodeTable.load(path)
        readings = list(read_sentences(table, policy, options.read))
        print(describe_readings(path.stem, readings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
