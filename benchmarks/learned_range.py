"""How often a young site's model may be asked in the week after its training, and how often it is
asked although the load is really elsewhere.

`python -m benchmarks.learned_range DIR [--site demo ...]` makes in DIR a table of the observations
of each site (a hand-over every twelve hours, without the twin), and splits it by weeks. For each
week from the third on, `TrainingRange` is of the weeks before it. Printed is the share of instants,
one an hour, at which the range lets the model be asked, and what it says most often where not.
Some minutes of a core. The sites are the simulated one of `mirage demo --learn`, and the traces'
training weeks; validation weeks are not read.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.leaderboard import SHARED, TRAINED, WINDOWS
from mirage.domain.arrays import Flags, Observations
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.history.cluster_files.reader import load_cluster_file
from mirage.history.workloads import replay, synthetic
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.demo.comparison_plan import LEARNING, LEARNING_NODES, PRESET, SEED
from mirage.lab.episodes.generation.builder import describe_table
from mirage.lab.episodes.generation.resumable_build import TablePlan, build_table
from mirage.lab.learning.history_facts import WEEK_S
from mirage.lab.tables.pair_options import LEAD_IN_S, parse_instant
from mirage.observation import spec
from mirage.policies.models.artefact import TrainingRange
from mirage.simulator.types import Params, SimJob

EVERY_S = 12 * HOUR_S
STEP = 6
"""One instant an hour."""
FEWEST_WEEKS = 2
QUEUE = (
    "pending_jobs",
    "pending_nodes",
    "pending_node_hours",
    "ahead_jobs",
    "ahead_nodes",
    "ahead_node_hours",
    "ahead_node_hours_as_usual",
    "ahead_open_node_hours",
    "ahead_no_wider_jobs",
)
"""Of a queue that is ten times as long these numbers are ten times as large, at least."""
TRACES = {"ls6": "ls6-1", "theta": "theta-128", "thetagpu": "thetagpu-1"}
SITES = ("demo", *TRACES)


@dataclass(frozen=True, slots=True)
class SiteWeeks:
    """The observations [n, F] of a site, and the week [n] of each."""

    observations: Observations
    week: NDArray[np.int64]

    @classmethod
    def from_table(cls, table: EpisodeTable) -> "SiteWeeks":
        taken = table.observations[:, :-1:STEP]
        week = (table.start_point - table.start_point[0]) // WEEK_S
        return cls(taken.reshape(-1, taken.shape[2]), np.repeat(week, taken.shape[1]))


def make_table(folder: Path, site: str) -> EpisodeTable:
    """Make the table of a site if it is not there."""
    path = folder / f"{site}.npz"
    if not path.exists():
        params, jobs, settings = _read_demo() if site == "demo" else _read_trace(site)
        about = describe_table(params, settings, trace=site)
        build_table(TablePlan(params, jobs, settings, about), path)
    return EpisodeTable.load(path)


def _read_demo() -> tuple[Params, list[SimJob], PairSettings]:
    params, days = Params(nodes=LEARNING_NODES), LEARNING.longest_s // DAY_S
    jobs = synthetic.generate_workload(PRESET, nodes=LEARNING_NODES, days=days, seed=SEED)
    limit_s = LEARNING.time_limit_s
    first, last = jobs[0].submit, jobs[-1].submit
    settings = PairSettings(
        nodes=LEARNING.nodes,
        time_limit_s=limit_s,
        every_s=EVERY_S,
        since=first + LEAD_IN_S,
        until=last - 2 * limit_s,
    )
    return params, jobs, settings


def _read_trace(site: str) -> tuple[Params, list[SimJob], PairSettings]:
    window = WINDOWS[TRACES[site]]
    params = load_cluster_file(SHARED / "clusters" / window.cluster).params
    since, until = (parse_instant(day, "") for day in TRAINED[site])
    settings = PairSettings(
        nodes=window.nodes,
        time_limit_s=window.hours * HOUR_S,
        every_s=EVERY_S,
        since=since,
        until=until - 2 * window.hours * HOUR_S,
    )
    jobs = replay.load_workload(SHARED / "traces" / window.trace, params).jobs
    return params, [job for job in jobs if job.submit < until], settings


def find_obstacles(seen: Observations, asked: Observations) -> list[str | None]:
    """Find why a model that has learned from `seen` [n, F] is not asked about each of `asked`."""
    learned = TrainingRange(seen.min(axis=0), seen.max(axis=0))
    return [learned.explain_out_of_range(row) for row in asked]


def compute_share(obstacles: list[str | None]) -> float:
    return obstacles.count(None) / len(obstacles)


def lengthen_queue(observations: Observations) -> Observations:
    """Return the busiest tenth of the observations with a queue ten times as long."""
    load = observations[:, spec.PLACES["pending_node_hours"]]
    busiest = observations[load >= np.quantile(load, 0.9)].copy()
    busiest[:, [spec.PLACES[name] for name in QUEUE]] += np.log(10.0)
    return busiest


def report_site(name: str, site: SiteWeeks, others: dict[str, SiteWeeks]) -> None:
    weeks = range(FEWEST_WEEKS, int(site.week.max()) + 1)
    shares, reasons = [], Counter[str]()
    for week in weeks:
        before: Flags = site.week < week
        obstacles = find_obstacles(site.observations[before], site.observations[site.week == week])
        shares.append(compute_share(obstacles))
        reasons.update(why for why in obstacles if why is not None)
    young = site.observations[site.week < FEWEST_WEEKS]
    print(f"{name}: asked in the weeks after the training: median {np.median(shares):.1%}")
    print("  by week:", " ".join(f"{share:.0%}" for share in shares))
    for why, count in reasons.most_common(5):
        print(f"  {count:5} {why}")
    longer = compute_share(find_obstacles(site.observations, lengthen_queue(site.observations)))
    print(f"  ten times the queue of the busiest tenth: {longer:.1%}")
    for other, elsewhere in others.items():
        share = compute_share(find_obstacles(young, elsewhere.observations))
        print(f"  the load of {other}: {share:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=Path)
    parser.add_argument("--site", action="append", default=[], choices=SITES)
    words = parser.parse_args()
    words.folder.mkdir(parents=True, exist_ok=True)
    names = words.site or SITES
    sites = {name: SiteWeeks.from_table(make_table(words.folder, name)) for name in names}
    for name, site in sites.items():
        report_site(name, site, {k: v for k, v in sites.items() if k != name})


if __name__ == "__main__":
    main()
