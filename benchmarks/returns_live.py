"""Returns on the live simulator beside what a table answers for the same releases.

    python -m benchmarks.returns_live TABLE.npz... [--handovers 100] [--policy planned-quantile]

TABLE: of `mirage episodes` on training weeks; its trace is replayed once more. A table answers each
release as if it were the only one: a visit that the link gave back has disturbed nobody. Here the
same hand-overs are played, those in which the policy's links gave their nodes back, spread over
the weeks. The link starts, holds its nodes for six minutes and ends, while its new job waits in the
queue for the release that the table's policy planned. Prints means over the hand-overs and 95 %
intervals, which resample days.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from benchmarks.leaderboard import TRAINED
from mirage.domain.arrays import Floats, Ints
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import HOUR_S
from mirage.history.workloads.replay import load_replay
from mirage.judging.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.policy_runner import (
    OWN_PLAN,
    OWN_SAMPLE,
    PlayedHandovers,
    Terms,
    play_own_plan,
    play_policy,
)
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.episodes.chains.standby import Standby
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.lab.episodes.generation.replay_fork import ReplayFork
from mirage.lab.tables.twin_tables import build_request
from mirage.policies.registry import POLICIES
from mirage.policies.rules.lead_rules import Quantile
from mirage.policies.rules.return_rule import BACK_S
from mirage.simulator.types import Params, SimJob

RETURNS = 2


@dataclass(frozen=True, slots=True)
class LiveHandover:
    """The outcome of a hand-over on the simulator."""

    outcome_s: int
    """The start of the link's last job, less its predecessor's end."""
    returns: int


def play_releases(
    world: ReplayFork, link: SimJob, releases_s: Sequence[int]
) -> LiveHandover | None:
    """Release the link at these instants of its predecessor's run, one after the other.

    It gives its nodes back between two of them, where it has started early. The last instant of the
    run is no release: Slurm lets the link go then. None: the link never starts.
    """
    sim, run_s = world.sim, world.end - world.start
    standby = Standby(
        predecessor=world.predecessor,
        job_id=world.standby,
        job=link,
        node_list=(),
        end=world.end,
    )
    first_s, *later_s = releases_s
    if first_s < run_s:
        sim.advance_quietly(world.start + first_s)
        sim.set_dependencies(standby.job_id, ())
    start, returns = standby.run_until_started(sim, world.at_most), 0
    for release_s in later_s:
        if start is None or start >= world.end:
            break
        release_at = max(world.start + release_s, start + BACK_S) if release_s < run_s else None
        start = standby.give_back(sim, release_at)
        start = start or standby.run_until_started(sim, world.at_most)
        returns += 1
    return None if start is None else LiveHandover(start - world.end, returns)


def play_table(table: EpisodeTable, policy: str) -> PlayedHandovers:
    terms = Terms(overlap_price=OVERLAP_PRICE, returns=RETURNS, guarded=True)
    if policy == OWN_PLAN:
        return play_own_plan(table, Quantile(last=OWN_SAMPLE), terms)
    return play_policy(table, POLICIES[policy], terms)


def compare_table(
    table: EpisodeTable, policy: str, handovers: int
) -> tuple[HandoverOutcomes, HandoverOutcomes]:
    """Return the outcomes of the hand-overs with returns: (by the table, on the simulator)."""
    played = play_table(table, policy)
    rows = np.flatnonzero(played.returns)
    if not len(rows):
        sys.exit("returns_live: no link of this table gives its nodes back")
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, handovers).round().astype(np.int64))]
    params = TypeAdapter(Params).validate_python(table.metadata.cluster)
    trace = load_replay(
        Path(table.metadata.source), params, timezone=table.metadata.timezone or None
    )
    request = build_request(table, params, trace.workload.jobs)
    worlds = TraceReplay(params, request.jobs, request.settings)
    live: list[LiveHandover] = []
    for row in rows.tolist():
        world = worlds.fork_without_history(int(table.start_point[row]))
        if world is None:
            raise RuntimeError("the table was made from another trace")
        releases_s = [int(table.instant_s[k]) for k in played.releases[row]]
        first_world = replace(world, sim=world.sim.fork())
        first_release = play_releases(first_world, worlds.link, releases_s[:1])
        live_handover = play_releases(world, worlds.link, releases_s)
        if (
            first_release is None
            or first_release.outcome_s != table.outcome_s[row, played.releases[row][0]]
        ):
            raise RuntimeError("the table was made by another simulator: make it again")
        if live_handover is None:
            raise RuntimeError("a link never started again")
        live.append(live_handover)
    by_table = HandoverOutcomes.from_choices(table, played.release_instants, returns=played.returns)
    points, chosen = table.start_point[rows], by_table.lead_h[rows]
    live_rows = np.array([(handover.outcome_s, handover.returns) for handover in live]).reshape(
        -1, 2
    )
    return (
        HandoverOutcomes(points, by_table.x_h[rows], chosen, played.returns[rows]),
        HandoverOutcomes(points, live_rows[:, 0] / HOUR_S, chosen, live_rows[:, 1]),
    )


def list_figures(by_table: HandoverOutcomes, live: HandoverOutcomes) -> list[str]:
    """Return a line of Markdown for each figure: both means, the difference and its interval."""
    counts = draw_day_counts(live.start_point)
    live_columns, table_columns = (
        outcomes.build_columns(OVERLAP_PRICE) for outcomes in (live, by_table)
    )
    return [
        f"| {name} | {table_columns[name].mean():.3f} | {live_columns[name].mean():.3f} | "
        f"{_format_difference(live_columns[name] - table_columns[name], counts)} |"
        for name in ("interruption_h", "overlap_h", "returns", "cost_h")
    ]


def _format_difference(values: Floats, counts: Floats) -> str:
    low, high = compute_interval(compute_means(counts, values)) or (np.nan, np.nan)
    return f"{values.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def count_differing(by_table: HandoverOutcomes, live: HandoverOutcomes) -> int:
    """Count the hand-overs that end otherwise by more than a minute."""
    difference_s: Ints = np.abs(np.round((live.x_h - by_table.x_h) * HOUR_S)).astype(np.int64)
    return int((difference_s > 60).sum())


def check_training(path: Path, table: EpisodeTable) -> None:
    """End the command for a table with weeks that models are judged on."""
    until = TRAINED[str(table.metadata.cluster["name"])][1]
    if table.metadata.until > datetime.fromisoformat(until).replace(tzinfo=UTC).timestamp():
        sys.exit(f"returns_live: {path} has start points after {until}: training weeks alone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE.npz")
    parser.add_argument("--handovers", type=int, default=100)
    parser.add_argument("--policy", choices=(OWN_PLAN, "at-once", "quantile"), default=OWN_PLAN)
    options = parser.parse_args()
    for path in options.tables:
        table = EpisodeTable.load(path)
        check_training(path, table)
        by_table, live = compare_table(table, options.policy, options.handovers)
        print(f"{path.name}, {options.policy}: {len(live.x_h)} hand-overs with returns, of which "
              f"{count_differing(by_table, live)} end otherwise by more than a minute\n\n"
              "| a hand-over | by the table | on the simulator | difference |\n"
              "|---|---|---|---|")  # fmt: skip
        print("\n".join(list_figures(by_table, live)), flush=True)


if __name__ == "__main__":
    main()
