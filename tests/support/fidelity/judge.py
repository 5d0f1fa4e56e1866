"""Judges the simulator by recordings of the real slurmctld.

    python -m tests.support.fidelity.judge FILE... [--json] [--show 10] [--beat] [--repeat]
                                                   [--slurm 22.05]

A scene: planned starts, ours against `squeue --start`'s. A run: from each snapshot the starts of
the next 10 minutes (`Forecasts`), and one free run from the first snapshot to the end (`FreeRun`).
`--beat` counts the missed starts that are foretold if the backfill comes at another second
(`sort_by_beat`). `--repeat` lets our backfill come each bf_interval, as slurmctld's does, and not
just after a change (`_advance`). `--slurm` plans by the rules of another release than the
recording's.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.errors import ClusterRefused
from mirage.simulator.simulator import Simulator
from mirage.simulator.slurm_release import SlurmRelease, find_release
from mirage.simulator.types import Event, EventKind
from mirage.slurm.text.releases import parse_version
from tests.support.fidelity.recording import WAITING, Recording, Snapshot
from tests.support.fidelity.standin import Site

_AHEAD_S = 600
_INTERVALS = 2
"""A start is foretold where it comes within this many scheduling intervals."""


@dataclass(slots=True)
class Plans:
    """Rows of job number, planned start of the real cluster and of ours; None: there is no plan."""

    starts: list[tuple[int, int | None, int | None]] = field(default_factory=list)
    resolution_s: int = 60

    def agreement(self) -> float:
        """Share of jobs planned by either whose starts differ by at most one bf_resolution."""
        return sum(self._agrees(*row[1:]) for row in self.starts) / max(1, len(self.starts))

    def exact(self) -> float:
        return sum(real == ours for _, real, ours in self.starts) / max(1, len(self.starts))

    def _agrees(self, real: int | None, ours: int | None) -> bool:
        return real is not None and ours is not None and abs(real - ours) <= self.resolution_s

    def misses(self) -> list[tuple[int, int | None, int | None]]:
        return [row for row in self.starts if not self._agrees(*row[1:])]


def judge_plans(recording: Recording) -> Plans:
    """Compare the plan of each snapshot that has the instant of its cycle."""
    site = Site(recording)
    plans = Plans(resolution_s=recording.scheduler["bf_resolution"])
    for snapshot in recording.snapshots:
        if snapshot.cycle is None:
            continue
        ours = site.stand(snapshot).compute_planned_starts()
        plans.starts += _compare_plans(snapshot, ours, find_release(site.params.slurm_version))
    return plans


def _compare_plans(
    snapshot: Snapshot, ours: dict[int, int], release: SlurmRelease
) -> Iterator[tuple[int, int | None, int | None]]:
    """Yield one row for each job or array.

    Of an array, 22.05 shows the plan of the task planned last; later releases show the soonest.
    """
    array_plans = dict[int, int]()
    for job in snapshot.jobs:
        if job.array_id and job.number in ours:
            task = ours[job.number]
            soonest = min(task, array_plans.get(job.array_id, task))
            array_plans[job.array_id] = task if release < SlurmRelease.V24_11 else soonest
    for job in snapshot.jobs:
        if job.state == WAITING and job.first_of_array:
            planned = array_plans.get(job.array_id) if job.array_id else ours.get(job.number)
            if job.start is not None or planned is not None:
                yield job.number, job.start, planned


@dataclass(slots=True)
class Forecasts:
    """Starts of the 10 minutes after each snapshot: job, snapshot, real start, ours."""

    starts: list[tuple[int, int, int, int | None]] = field(default_factory=list)
    false_alarms: int = 0
    """Starts foretold that the real cluster made at least the tolerance later, or never."""
    tolerance_s: int = 60

    def foretold(self) -> float:
        return sum(self._is_foretold(row) for row in self.starts) / max(1, len(self.starts))

    def _is_foretold(self, row: tuple[int, int, int, int | None]) -> bool:
        return row[3] is not None and abs(row[2] - row[3]) <= self.tolerance_s

    def misses(self) -> list[tuple[int, int, int, int | None]]:
        return [row for row in self.starts if not self._is_foretold(row)]


def judge_forecasts(recording: Recording, repeat_s: int = 0) -> Forecasts:
    """Compare forecasts that each begin at the real state of a snapshot (teacher-forced)."""
    site = Site(recording, repeat_s)
    forecasts = Forecasts(tolerance_s=_INTERVALS * recording.scheduler["bf_interval"])
    for snapshot in recording.snapshots[:-1]:
        _judge_window(site, snapshot, forecasts)
    return forecasts


def _judge_window(site: Site, snapshot: Snapshot, forecasts: Forecasts) -> None:
    until = snapshot.now + _AHEAD_S
    slack = forecasts.tolerance_s
    ours = _starts(site, site.stand(snapshot), until + slack)
    outcomes = site.recording.outcomes
    for number, outcome in outcomes.items():
        if outcome.start is not None and snapshot.now < outcome.start <= until:
            forecasts.starts.append((number, snapshot.now, outcome.start, ours.get(number)))
    for number, start in ours.items():
        real = outcomes[number].start if number in outcomes else None
        late = real is None or real - start > slack
        forecasts.false_alarms += start <= until and late


@dataclass(slots=True)
class Beats:
    """Counts of the missed starts, and of those that another second of the backfill foretells."""

    windows: int = 0
    windows_whole: int = 0
    """Windows of which one such second foretells all missed starts."""
    starts: int = 0
    starts_found: int = 0
    """Missed starts that some such second foretells. Among so many trials one may be luck."""


def sort_by_beat(recording: Recording, forecasts: Forecasts) -> Beats:
    """Judge each window that has misses anew, at every second within one bf_interval.

    slurmctld's cycles come bf_interval after the last one ended, so the beat drifts; at 60 times
    the clock a cycle of 10 ms costs more than half a second of it.
    """
    site, beats = Site(recording), Beats()
    for snapshot in recording.snapshots[:-1]:
        missed = {row[0]: row[2] for row in forecasts.misses() if row[1] == snapshot.now}
        if missed:
            foretold = [
                _find_foretold(site, snapshot, earlier_s, missed, forecasts.tolerance_s)
                for earlier_s in range(recording.scheduler["bf_interval"])
            ]
            beats.windows += 1
            beats.windows_whole += len(missed) in map(len, foretold)
            beats.starts += len(missed)
            beats.starts_found += len(set().union(*foretold))
    return beats


def _find_foretold(
    site: Site, snapshot: Snapshot, earlier_s: int, missed: dict[int, int], slack_s: int
) -> set[int]:
    simulator = site.stand(snapshot, earlier_s=earlier_s)
    ours = _starts(site, simulator, snapshot.now + _AHEAD_S + slack_s)
    return {n for n, real in missed.items() if n in ours and abs(ours[n] - real) <= slack_s}


def _starts(site: Site, simulator: Simulator, until: int) -> dict[int, int]:
    """Repeat the real submissions and pins; return our starts until `until`, by job."""
    begin = simulator.now
    for job in site.arrivals(begin, until):
        # sacct may show a later submission than scontrol: then the job is there already.
        if simulator.find(job.job_id) is None:
            simulator.inject(job, at=job.submit)
    events = []
    for pin in site.pins(begin, until):
        events += _advance(simulator, pin.at, site.repeat_s)
        _pin(simulator, pin.number, pin.nodes)
    events += _advance(simulator, until, site.repeat_s)
    return {event.job_id: event.at for event in events if event.kind is EventKind.STARTED}


def _advance(simulator: Simulator, until: int, repeat_s: int) -> list[Event]:
    """Advance; every `repeat_s` (0: never) say that something changed, so that passes are due.

    slurmctld's cycle counts as a change itself: it marks the planned nodes.
    """
    events = list[Event]()
    while repeat_s and simulator.now + repeat_s < until:
        events += simulator.advance(simulator.now + repeat_s)
        job = next((job for job in simulator.list_pending() if not job.node_list), None)
        if job is not None:
            simulator.set_node_list(job.job_id, ())
    return events + simulator.advance(until)


def _pin(simulator: Simulator, number: int, nodes: tuple[int, ...]) -> None:
    try:
        simulator.set_node_list(number, nodes)
    except ClusterRefused:  # it has started here already: the miss is counted at its start
        return


@dataclass(slots=True)
class FreeRun:
    """One run from the first snapshot to the last: of each job its submission, and the start and
    end in reality and in ours."""

    submits: list[int] = field(default_factory=list)
    real: list[tuple[int, int]] = field(default_factory=list)
    ours: list[tuple[int, int]] = field(default_factory=list)
    unstarted: list[float] = field(default_factory=list)
    """Of each job left out because ours has not started it by the last snapshot, though in reality
    it ended by then: the logarithm of the least ratio of completion times."""

    def rank_correlation(self) -> float:
        """Spearman's, of the waits."""
        waits = [
            [start - submit for (start, _), submit in zip(runs, self.submits, strict=True)]
            for runs in (self.real, self.ours)
        ]
        return float(np.corrcoef(_ranks(waits[0]), _ranks(waits[1]))[0, 1])

    def jct_ratio(self, *, with_unstarted: bool = False) -> float:
        """Geometric mean of our job completion times over the real ones; with the jobs left out, as
        if each started at the last snapshot, it is at least so large."""
        logs = [
            math.log((ours - submit) / (real - submit))
            for submit, (_, real), (_, ours) in zip(self.submits, self.real, self.ours, strict=True)
        ]
        logs += self.unstarted if with_unstarted else []
        return math.exp(sum(logs) / len(logs))


def judge_free_run(recording: Recording, repeat_s: int = 0) -> FreeRun:
    """Compare the jobs that began and ended in reality between the first and the last snapshot, and
    that ours starts by then; a job has its real run time in both."""
    site = Site(recording, repeat_s)
    first = recording.snapshots[0]
    until = recording.snapshots[-1].now
    starts = _starts(site, site.stand(first), until)
    free = FreeRun()
    for number, outcome in recording.outcomes.items():
        if outcome.start is None or outcome.end is None:
            continue
        if outcome.start <= first.now or outcome.end > until:
            continue
        run_s, took_s = outcome.end - outcome.start, outcome.end - outcome.submit
        if number not in starts:
            free.unstarted.append(math.log((until + run_s - outcome.submit) / took_s))
            continue
        free.submits.append(outcome.submit)
        free.real.append((outcome.start, outcome.end))
        free.ours.append((starts[number], starts[number] + run_s))
    return free


def _ranks(values: list[int]) -> Any:
    """Ranks from 0, equal values sharing their mean rank."""
    array = np.array(values)
    order = np.argsort(array, kind="stable")
    ranks = np.empty(len(array))
    ranks[order] = np.arange(len(array))
    _, inverse = np.unique(array, return_inverse=True)
    return (np.bincount(inverse, ranks) / np.bincount(inverse))[inverse]


def report(
    path: Path, *, beat: bool = False, repeat: bool = False, slurm: str = ""
) -> dict[str, Any]:
    """All figures of a recording; with `beat` also those of `Beats`. With `repeat` our backfill
    comes each bf_interval. `slurm`: whose rules plan, where that is not the recording's release."""
    recording = Recording(path)
    if slurm:
        recording.config["SLURM_VERSION"] = slurm
    if recording.kind == "scene":
        plans = judge_plans(recording)
        return {
            "file": path.name,
            "jobs": len(plans.starts),
            "plans_agree": plans.agreement(),
            "plans_exact": plans.exact(),
            "misses": plans.misses(),
        }
    repeat_s = recording.scheduler["bf_interval"] if repeat else 0
    forecasts, free = judge_forecasts(recording, repeat_s), judge_free_run(recording, repeat_s)
    return {
        "file": path.name,
        "starts": len(forecasts.starts),
        "foretold": forecasts.foretold(),
        "false_alarms": forecasts.false_alarms,
        "released_starts": sum(row[0] in recording.released for row in forecasts.starts),
        "released_missed": sum(row[0] in recording.released for row in forecasts.misses()),
        "free_run_jobs": len(free.submits),
        "free_run_unstarted": len(free.unstarted),
        "free_run_rank_correlation": free.rank_correlation(),
        "free_run_jct_ratio": free.jct_ratio(),
        "free_run_jct_ratio_at_least": free.jct_ratio(with_unstarted=True),
        **({"beat": asdict(sort_by_beat(recording, forecasts))} if beat else {}),
        "misses": forecasts.misses(),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--show", type=int, default=0, help="misses to print")
    parser.add_argument("--beat", action="store_true", help="misses by the backfill's beat; slow")
    parser.add_argument("--repeat", action="store_true", help="backfill each bf_interval")
    parser.add_argument("--slurm", default="", metavar="VERSION", help="whose rules plan")
    options = parser.parse_args(arguments)
    if options.slurm and parse_version(options.slurm) is None:
        parser.error(f"--slurm {options.slurm}: not a version of Slurm, such as 24.11.5")
    warn_if_compiling()
    for path in options.files:
        figures = report(path, beat=options.beat, repeat=options.repeat, slurm=options.slurm)
        misses = figures.pop("misses")
        if options.json:
            sys.stdout.write(json.dumps(figures | {"misses": misses}) + "\n")
            continue
        cells = (f"{v:.3f}" if isinstance(v, float) else str(v) for v in figures.values())
        words = (f"{key} {cell}" for key, cell in zip(figures, cells, strict=True))
        sys.stdout.write("  ".join(words) + "\n")
        for miss in misses[: options.show]:
            sys.stdout.write(f"    {miss}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
