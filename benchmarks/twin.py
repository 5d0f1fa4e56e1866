"""The twin's forecasts of a wait beside the waits of late and Slurm's own plan, on Lonestar6.

`python -m benchmarks.twin [--every-h 20] [--samples 100] [--json]`: hand-overs spread over the
developers' training weeks (7 November 2022 to 7 February 2023), 48 h pairs of 1 and of 8 nodes; at
12, 24 and 36 h of each predecessor's run: how long would the successor wait if it became
eligible now? The truth is the replay's own, of a fork in which it does.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.domain.decision import Waits
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads.replay import load_workload
from mirage.judging.table.pair_settings import PairSettings, build_pair_job
from mirage.lab.episodes.chains.world_memory import WorldMemory
from mirage.lab.episodes.generation.replay_fork import ReplayFork, fork_handover
from mirage.observation.handover_input import HandoverInput
from mirage.policies.rules.lead_rules import select_like_waits
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob
from mirage.twin.forecast import Twin

SHARED = Path(__file__).resolve().parents[2] / "shared"
_HOUR_S, _DAY_S = 3600, 86400
SINCE = int(datetime(2022, 11, 7, tzinfo=UTC).timestamp())
UNTIL = int(datetime(2023, 2, 7, tzinfo=UTC).timestamp())
LIMIT_S = 48 * _HOUR_S
ASKED_AT_S = (12 * _HOUR_S, 24 * _HOUR_S, 36 * _HOUR_S)
LEVELS = np.arange(1, 10) / 10.0
RECENT = 200
"""Waits of like jobs that the empirical quantiles are of."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, what came of it, and everybody's answer; hours."""

    point: int
    """The predecessor's submission, epoch seconds."""
    nodes: int
    truth_h: float
    twin_h: Floats
    """Samples, ascending."""
    recent_h: Floats
    """Waits, ascending."""
    planned_h: float
    """By Slurm's backfill, limits as given."""
    cost_ms: float
    """Of CPU: what else the machine does must not count."""


class Asking:
    """One world's questions."""

    def __init__(
        self, point: int, world: ReplayFork, known: WorldMemory, link: SimJob, twin: Twin
    ) -> None:
        self._point = point
        self._world, self._known, self._job, self._twin = world, known, link, twin
        self._answers: list[tuple[Floats, Floats, float, float]] = []

    def asked(self) -> list[Asked]:
        world = self._world
        instants = world.start + np.array([*ASKED_AT_S, LIMIT_S], dtype=np.int64)
        outcomes = world.compute_outcomes(instants, self._known.follow_world, self._answer)
        waits_s = outcomes[:-1] + world.end - instants[:-1]
        return [
            Asked(self._point, self._job.nodes, truth_s / _HOUR_S, *answer)
            for truth_s, answer in zip(waits_s.tolist(), self._answers, strict=True)
        ]

    def _answer(self, k: int) -> None:
        if k == len(ASKED_AT_S):
            return
        sim = self._world.sim
        begun = time.process_time()
        forecast = self._twin.forecast_from_simulator(
            sim, self._link(), self._known.history, seed=sim.now
        )
        cost_ms = 1000.0 * (time.process_time() - begun)
        planned = sim.plan_unrestricted(self._world.standby)
        planned_s = sim.params.bf_window_s if planned is None else planned - sim.now
        samples = forecast.wait_s / _HOUR_S
        self._answers.append((samples, self._recent(), planned_s / _HOUR_S, cost_ms))

    def _recent(self) -> Floats:
        rows = np.array(self._known.past.started[-1000:], dtype=np.int64).reshape(-1, 4)
        waits = Waits(
            start=rows[:, 0], wait_s=rows[:, 1], nodes=rows[:, 2], time_limit_s=rows[:, 3]
        )
        like = select_like_waits(waits, self._job.nodes, self._job.time_limit_s, enough=20)[
            -RECENT:
        ]
        waits_h: Floats = np.sort(like) / _HOUR_S
        return waits_h

    def _link(self) -> HandoverInput:
        world, job = self._world, self._job
        return HandoverInput(
            nodes=job.nodes,
            cpus=job.cpus,
            gpus=job.gpus,
            time_limit_s=job.time_limit_s,
            user=job.user,
            job_id=world.standby,
            submit=world.start,
            predecessor_submit=world.start,
            predecessor_start=world.start,
            predecessor_end=world.end,
        )


def all_asked(params: Params, jobs: list[SimJob], every_h: int, twin: Twin) -> list[Asked]:
    """Of both sizes, over the training weeks."""
    first = min(job.submit for job in jobs) - 1
    main = Simulator(params, Workload.from_jobs(params, jobs), now=first)
    known = WorldMemory({job.job_id: job for job in jobs}, first)
    questions: list[Asked] = []
    for point in range(SINCE, UNTIL, every_h * _HOUR_S):
        known.follow_world(main, point - 1)
        for nodes in (1, 8):
            settings = PairSettings(
                nodes=nodes, time_limit_s=LIMIT_S, every_s=_DAY_S, since=SINCE, until=UNTIL
            )
            job, own = build_pair_job(settings), known.fork()
            world = fork_handover(main, job, point, UNTIL + 60 * _DAY_S, own.follow_world)
            if world is not None:
                questions += Asking(point, world, own, job, twin).asked()
    return questions


def judged(asked: list[Asked], answers: list[Floats]) -> dict[str, float]:
    """Hours and shares; `answers`: of each question the samples, ascending."""
    truth = np.array([a.truth_h for a in asked])
    pit = _randomised_pit(truth, answers)
    medians = np.array([np.quantile(s, 0.5, method="inverted_cdf") for s in answers])
    return {
        "pinball_h": float(_pinball(truth, answers).mean()),
        "p10_p90_pct": 100.0 * float(((pit >= 0.1) & (pit <= 0.9)).mean()),
        "below_p90_pct": 100.0 * float((pit <= 0.9).mean()),
        "median_error_h": float(np.abs(truth - medians).mean()),
    }


def _pinball(truth: Floats, answers: list[Floats]) -> Floats:
    """[questions], hours: the mean over the levels."""
    quantiles = np.array([np.quantile(s, LEVELS, method="inverted_cdf") for s in answers])
    over = truth[:, None] - quantiles
    loss_h: Floats = np.maximum(LEVELS * over, (LEVELS - 1.0) * over).mean(axis=1)
    return loss_h


def gain_pct(asked: list[Asked]) -> list[float]:
    """How much less the twin's pinball loss is than that of the recent waits, and a 95 % interval:
    weeks of the start points are drawn with replacement, seeded."""
    truth = np.array([a.truth_h for a in asked])
    week = np.array([(a.point - SINCE) // (7 * _DAY_S) for a in asked])
    answers = ([a.twin_h for a in asked], [a.recent_h for a in asked])
    losses = [_pinball(truth, given) for given in answers]
    sums = np.array([[loss[week == w].sum() for w in np.unique(week)] for loss in losses])
    drawn = np.random.default_rng(4).integers(0, sums.shape[1], (2000, sums.shape[1]))
    twin, recent = sums[0][drawn].sum(axis=1), sums[1][drawn].sum(axis=1)
    gains = 100.0 * (1.0 - twin / recent)
    whole = 100.0 * float(1.0 - sums[0].sum() / sums[1].sum())
    return [whole, *np.quantile(gains, (0.025, 0.975)).tolist()]


def _randomised_pit(truth: Floats, answers: list[Floats]) -> Floats:
    """Uniform where the answers are calibrated; an atom (waits of zero) is spread evenly over its
    jump, seeded."""
    dice = np.random.default_rng(4).random(len(truth))
    below = np.array([(s < y).mean() for s, y in zip(answers, truth, strict=True)])
    upto = np.array([(s <= y).mean() for s, y in zip(answers, truth, strict=True)])
    spread: Floats = below + dice * (upto - below)
    return spread


def report(asked: list[Asked]) -> dict[str, Any]:
    """Of each width, and of those hand-overs alone that had to wait."""
    result: dict[str, Any] = {}
    groups = {f"{n} nodes": [a for a in asked if a.nodes == n] for n in (1, 8)}
    groups |= {f"{k}, waited": [a for a in g if a.truth_h > 0] for k, g in groups.items()}
    for name, group in groups.items():
        result[name] = {
            "asked": len(group),
            "mean_wait_h": float(np.mean([a.truth_h for a in group])),
            "twin": judged(group, [a.twin_h for a in group]),
            "recent": judged(group, [a.recent_h for a in group]),
            "slurm": judged(group, [np.array([a.planned_h]) for a in group]),
            "gain_pct": gain_pct(group),
        }
    costs = np.array([a.cost_ms for a in asked])
    samples = len(asked[0].twin_h)
    result["cost"] = {
        "samples": samples,
        "median_ms": float(np.median(costs)),
        "p90_ms": float(np.quantile(costs, 0.9)),
        "samples_per_ms": float(samples / np.median(costs)),
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--every-h", type=int, default=20)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"twin: the traces are not there: {SHARED}")
    params = load_cluster_params(SHARED / "clusters/ls6.toml")
    jobs = list(load_workload(SHARED / "traces/tacc-ls6-a100.parquet", params).jobs)
    twin = Twin(samples=words.samples)
    begun = time.perf_counter()
    result = report(all_asked(params, jobs, words.every_h, twin))
    result["wall_s"] = time.perf_counter() - begun
    print(json.dumps(result, indent=1) if words.json else _shown(result))


def _shown(result: dict[str, Any]) -> str:
    lines = []
    for name in [n for n in result if "nodes" in n]:
        group = result[name]
        lines.append(f"{name}: {group['asked']} asked, mean wait {group['mean_wait_h']:.2f} h")
        lines += [
            f"  {source:7}" + "".join(f" {k} {v:7.3f} " for k, v in group[source].items())
            for source in ("twin", "recent", "slurm")
        ]
        gain, low, high = group["gain_pct"]
        lines.append(f"  twin's pinball loss {gain:.0f} % below recent's ({low:.0f} to {high:.0f})")
    cost = result["cost"]
    lines.append(
        f"{cost['samples']} samples in {cost['median_ms']:.1f} ms of CPU "
        f"(p90 {cost['p90_ms']:.1f} ms), {cost['samples_per_ms']:.2f} a ms; "
        f"{result['wall_s']:.0f} s in all"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
