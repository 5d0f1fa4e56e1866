"""How often a link starts within the interval that is told beforehand, on episode tables.

    python -m benchmarks.expected_start TABLE.npz [...] [--read 0.5] [--rule cheapest-lead]

The sentence "Link N is expected to start at ... (8 of 10 times between ... and ...)" is read once
for each hand-over, as the predecessor has used a part of its time limit. A rule forecasts and plans
the release then, within max-overlap; the table has the start after that release. Below and above:
the shares of scripts that began earlier and later than was told. Tables: `mirage episodes`, of
training weeks.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirage.chains.expected_start import ExpectedStart, compute_expected_start
from mirage.chains.open_handovers import OpenHandover
from mirage.chains.start_range import build_forecast_row, compute_start_range
from mirage.database.chains.decisions import DecisionRow, Effect
from mirage.domain.chain import Chain, ChainId, Link, LinkState, Style, get_default_overlap_s
from mirage.domain.decision import Decision, Mode, PolicyView, Waits
from mirage.domain.job import JobId
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.judging.policy_runner import select_known_waits
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.rules.lead_rules import CheapestLead, Quantile
from mirage.policies.rules.overlap_bound import compute_max_lead_s

RULES: dict[str, Policy] = {rule.name: rule for rule in (Quantile(), CheapestLead())}
_CHAIN = ChainId("0f0000000000000000ab")
_NO_JOBS = np.array([], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Reading:
    """One sentence, and what happened; epoch seconds."""

    start: ExpectedStart
    began: int

    @property
    def is_below(self) -> bool:
        return self.began < self.start.p10 - MINUTE_S  # the sentence has whole minutes

    @property
    def is_above(self) -> bool:
        return self.began > self.start.p90 + MINUTE_S


def read_sentences(table: EpisodeTable, rule: Policy, part: float) -> Iterator[Reading]:
    """Yield the sentence of each hand-over when `part` of the predecessor's run is over, if its
    release is still to come."""
    at = int(part * (table.outcome_s.shape[1] - 1))
    for i in range(len(table)):
        view = _build_view(table, i, int(table.instants[i, at]))
        decision = rule.decide(view)
        k = int(np.searchsorted(table.instants[i], _bound_release(decision, view)))
        start = _compute_start(decision, int(table.instants[i, k]), view)
        if start is None or k <= at:
            continue
        end = view.predecessor_end
        yield Reading(start, max(end, end + int(table.outcome_s[i, k])))


def _build_view(table: EpisodeTable, i: int, now: int) -> PolicyView:
    metadata = table.metadata
    return PolicyView(
        now=now,
        predecessor_end=int(table.predecessor_end[i]),
        predecessor_start=int(table.predecessor_start[i]),
        partition=metadata.partition or "",
        nodes=metadata.nodes,
        time_limit_s=metadata.time_limit_s,
        jobs=select_known_waits(table.get_started_jobs(i), now),
        handovers=Waits(start=_NO_JOBS, wait_s=_NO_JOBS, nodes=_NO_JOBS, time_limit_s=_NO_JOBS),
        queue=Queue.from_jobs(now, []),
        free_nodes=0,
        max_overlap_s=get_default_overlap_s(metadata.time_limit_s),
    )


def _bound_release(decision: Decision, view: PolicyView) -> int:
    end, most_s = view.predecessor_end, compute_max_lead_s(decision, view)
    release = end if decision.release_at is None else decision.release_at
    return release if most_s is None else max(release, end - int(most_s))


def _compute_start(decision: Decision, release: int, view: PolicyView) -> ExpectedStart | None:
    """Return the sentence of a sequential chain, as a service in mode act has it."""
    chain = Chain(chain_id=_CHAIN, uid=1, links_planned=9, style=Style.SEQUENTIAL)
    began = view.predecessor_end - view.time_limit_s
    links = [
        Link(chain_id=_CHAIN, index=index, job_id=JobId(index), submit=began, nodes=view.nodes)
        for index in (1, 2)
    ]
    predecessor = links[0].replace(
        state=LinkState.RUNNING, start=began, time_limit_s=view.time_limit_s
    )
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
    forecast_row = build_forecast_row(row)
    waits = None if forecast_row is None else compute_start_range(links[1], forecast_row)
    return compute_expected_start(OpenHandover(chain, predecessor, links[1]), row, waits, view.now)


def describe_readings(name: str, readings: Sequence[Reading]) -> str:
    """Return a row of the table of Markdown."""
    below = statistics.fmean(reading.is_below for reading in readings)
    above = statistics.fmean(reading.is_above for reading in readings)
    error_min = (
        statistics.median(abs(reading.began - reading.start.p50) for reading in readings) / MINUTE_S
    )
    width_h = (
        statistics.fmean(reading.start.p90 - reading.start.p10 for reading in readings) / HOUR_S
    )
    return (
        f"| {name} | {len(readings)} | {1 - below - above:.2f} | {below:.2f} | {above:.2f} "
        f"| {error_min:.0f} | {width_h:.1f} |"
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--read", type=float, default=0.5, help="the part of the time limit")
    parser.add_argument("--rule", choices=RULES, default="quantile")
    options = parser.parse_args(words)
    print("| table | sentences | inside | below | above | error, median min | width, mean h |")
    print("|---|---|---|---|---|---|---|")
    for path in options.tables:
        readings = list(read_sentences(EpisodeTable.load(path), RULES[options.rule], options.read))
        print(describe_readings(path.stem, readings), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
