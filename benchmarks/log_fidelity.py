"""How near replays of Lonestar6 are to its log: `python -m benchmarks.log_fidelity`.

Two parts: the cluster file that all results are measured with, over 7 November to 26 February; and
what `mirage calibrate` makes of the weeks before 16 January, judged on those after. `--folds`
prints instead how the score of the search was chosen, within the weeks before 16 January.
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirage.domain.time_units import HOUR_S, WEEK_S
from mirage.learn import optuna_search
from mirage.services.replay.calibration import (
    CalibrationPlan,
    apply_log_facts,
    calibrate_params,
    read_log_facts,
)
from mirage.sim.packing.workload import Workload
from mirage.sim.simulator import Simulator
from mirage.sim.types import Params, SimJob
from mirage.traces.calibration.fidelity import Fidelity, Window, mask_judged_jobs, measure_fidelity
from mirage.traces.calibration.search_space import SEARCH_SETTINGS, apply_search_values
from mirage.traces.cluster_files.reader import load_cluster_params
from mirage.traces.workloads import replay
from mirage.traces.workloads.replay import Replay, recompute_cancelled_runs

SHARED = Path(__file__).parents[2] / "shared"
Starts = NDArray[np.int64]


def at(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


BEGIN, UNTIL, END = at("2022-11-07"), at("2023-01-16"), at("2023-02-27")
CLASSES: dict[str, Callable[[SimJob], bool]] = {
    "limit < 12 h": lambda job: job.time_limit_s < 12 * HOUR_S,
    "limit >= 12 h": lambda job: job.time_limit_s >= 12 * HOUR_S,
    "1 node": lambda job: job.nodes == 1,
    "2-7 nodes": lambda job: 1 < job.nodes < 8,
    ">= 8 nodes": lambda job: job.nodes >= 8,
}


def starts(params: Params, taken: Replay) -> Starts:
    sim = Simulator(params, Workload.from_jobs(params, taken.workload.jobs))
    sim.run_out()
    return sim.start


def show(name: str, found: Fidelity) -> None:
    numbers = (found.spearman, found.weekly_corr, found.mean_ratio, found.wait_mae_h)
    told = "".join(f"{'-' if x is None else format(x, '.2f'):>10}" for x in numbers)
    print(f"{name:34}{found.jobs:7}{told}")


def head(title: str) -> None:
    print(f"\n{title:34}{'jobs':>7}{'spearman':>10}{'weekly':>10}{'ratio':>10}{'diff. h':>10}")


def by_class(taken: Replay, start: Starts, window: Window) -> None:
    """Mean waits of log and replay by class of job."""
    submit, logged = taken.workload.submit, taken.logged
    rows = mask_judged_jobs(submit, start, logged, window)
    print(f"\n{'class':34}{'jobs':>7}{'log h':>10}{'replay h':>10}")
    for name, belongs in CLASSES.items():
        mine = rows & np.array([belongs(job) for job in taken.workload.jobs])
        waits = [float((x[mine] - submit[mine]).mean()) / HOUR_S for x in (logged.start, start)]
        print(f"{name:34}{mine.sum():7}" + "".join(f"{x:10.2f}" for x in waits))


def by_week(taken: Replay, start: Starts, found: Fidelity) -> None:
    """Mean waits, and mean nodes in use by all jobs."""
    jobs, logged = taken.workload.jobs, taken.logged
    nodes = np.array([job.nodes for job in jobs])
    ran = np.array([min(job.run_s, job.time_limit_s) for job in jobs])
    lives = ((logged.start, logged.end), (start, start + ran))
    columns = f"{'log h':>10}{'replay h':>10}{'log busy':>10}{'repl. busy':>11}"
    print(f"\n{'week from':34}{'jobs':>7}{columns}")
    for week in found.weeks:
        day = datetime.fromtimestamp(week.begin, UTC).date()
        waits = f"{week.logged_h:10.2f}{week.simulated_h:10.2f}"
        busy = [busy_nodes(nodes, begun, end, week.begin) for begun, end in lives]
        print(f"{day!s:34}{week.jobs:7}{waits}{busy[0]:10.1f}{busy[1]:11.1f}")


def busy_nodes(nodes: Starts, start: Starts, end: Starts, begin: int) -> float:
    """Mean over a week of the nodes that jobs were on."""
    inside = np.minimum(end, begin + WEEK_S) - np.maximum(start, begin)
    seconds = np.where(start >= 0, np.maximum(inside, 0), 0)
    return float((nodes * seconds).sum() / WEEK_S)


def figures(taken: Replay, site: Params, trials: int, seed: int) -> None:
    submit, logged = taken.workload.submit, taken.logged
    start = starts(site, taken)
    every, after = Window(begin=BEGIN, end=END), Window(begin=UNTIL, end=END)
    given_up = sum(job.cancel_at is not None for job in taken.workload.jobs)
    print(f"{given_up} of {len(taken.workload.jobs)} jobs were cancelled while they waited")
    head("clusters/ls6.toml, as it is")
    whole = measure_fidelity(submit, start, logged, every)
    show("7 November to 26 February", whole)
    show("16 January to 26 February", measure_fidelity(submit, start, logged, after))
    runs = replace(site, cancelled_jobs_run=True)
    all_run = starts(runs, recompute_cancelled_runs(taken, runs))
    head("the same, cancelled jobs run")
    show("7 November to 26 February", measure_fidelity(submit, all_run, logged, every))
    show("16 January to 26 February", measure_fidelity(submit, all_run, logged, after))
    by_week(taken, start, whole)
    by_class(taken, start, every)

    plan = CalibrationPlan(begin=BEGIN, until=UNTIL, end=END, trials=trials, seed=seed)
    found = calibrate_params(taken, site, plan, optuna_search.search_settings)
    head(f"calibrated: the {found.recipe} of {trials} trials, seed {seed}")
    show("fitted on, to 15 January", found.fitting["calibrated"])
    show("held out, from 16 January", found.held_out["calibrated"])
    taken = recompute_cancelled_runs(taken, found.params)
    fitted = starts(found.params, taken)
    by_week(taken, fitted, found.held_out["calibrated"])
    by_class(taken, fitted, after)
    print(f"\n{'setting':34}{'value':>10}{'from':>10}{'to':>10}{'drop':>10}")
    for f in found.fitted:
        print(f"{f.name:34}{f.value:10}{f.low:10}{f.high:10}{f.drop:10.3f}")
    print("inner hold-out:", {k: v and round(v, 3) for k, v in found.inner.items()})
    print("nodes:", [(str(datetime.fromtimestamp(t, UTC)), n) for t, n in found.seen.levels])
    print(f"MaxJobsPU: {found.seen.max_jobs_pu}; chains: {found.seen.chains}")


def _log(x: float | None) -> float:
    return abs(math.log(x)) if x else 9.0


SCORES: dict[str, Callable[[Fidelity], float]] = {
    "spearman": lambda f: f.spearman or 0,
    "-difference": lambda f: -(f.wait_mae_h or 99),
    "spearman, weekly, -|log ratio|": lambda f: (
        (f.spearman or 0) + (f.weekly_corr or 0) - 0.3 * _log(f.mean_ratio)
    ),
    "spearman, -|log ratio|": lambda f: (f.spearman or 0) - 0.3 * _log(f.mean_ratio),
    "spearman, -log difference": lambda f: (
        (f.spearman or 0) - 0.2 * math.log((f.wait_mae_h or 99) + 0.01)
    ),
}


def folds(taken: Replay, site: Params, samples: int, seed: int) -> None:
    """For each score: what the 20 best of random settings by it do in the weeks that follow."""
    submit, logged = taken.workload.submit, taken.logged
    seen = read_log_facts(taken, CalibrationPlan(begin=BEGIN, until=UNTIL, end=UNTIL))
    # Less the running limit: with this base the score was chosen.
    base = apply_log_facts(site, replace(seen, max_jobs_pu=0), taken.workload, UNTIL)
    early = submitted_before(taken, UNTIL)
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(samples):
        values = {k.name: round(k.low * (k.high / k.low) ** rng.random()) for k in SEARCH_SETTINGS}
        found = np.full(len(submit), -1, np.int64)
        sim = Simulator(
            params := apply_search_values(base, values), Workload.from_jobs(params, early)
        )
        sim.run_out()
        found[: len(early)] = sim.start
        runs.append(found)
    cuts = [UNTIL - weeks * WEEK_S for weeks in (3, 2, 1)]
    print("medians of the 20 best by each score before a day, in the weeks from then to 15 January")
    print(f"{'score':34}{'from':>12}{'spearman':>10}{'ratio':>10}{'diff. h':>10}")
    for name, score in SCORES.items():
        for cut in cuts:
            fits = [measure_fidelity(submit, r, logged, Window(begin=BEGIN, end=cut)) for r in runs]
            best = np.argsort([-score(f) for f in fits])[:20]
            then = Window(begin=cut, end=UNTIL)
            kept = [measure_fidelity(submit, runs[i], logged, then) for i in best]
            rows = [(f.spearman or 0, f.mean_ratio or 0, f.wait_mae_h or 0) for f in kept]
            day = datetime.fromtimestamp(cut, UTC).date()
            print(f"{name:34}{day!s:>12}" + "".join(f"{x:10.2f}" for x in np.median(rows, axis=0)))


def submitted_before(taken: Replay, until: int) -> list[SimJob]:
    """Those submitted before `until`: the first rows."""
    return [job for job in taken.workload.jobs if job.submit < until]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folds", type=int, metavar="SAMPLES", help="such as 300")
    args = parser.parse_args()
    site = load_cluster_params(SHARED / "clusters/ls6.toml")
    taken = replay.load_replay(SHARED / "traces/tacc-ls6-a100.parquet", site)
    if args.folds:
        folds(taken, site, args.folds, args.seed)
    else:
        figures(taken, site, args.trials, args.seed)


if __name__ == "__main__":
    main()
