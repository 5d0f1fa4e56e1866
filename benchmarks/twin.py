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
"""The number of waits of similar jobs from which the empirical quantiles are computed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """One question, the real wait, and the answers of twin, recent waits and Slurm; hours."""

    point: int
    """The predecessor's submission, epoch seconds."""
    nodes: int
    truth_h: float
    twin_h: Floats
    """Samples, ascending."""
    recent_h: Floats
    """Waits, ascending."""
    planned_h: float
    """By Slurm's backfill, from the jobs' time limits."""
    cost_ms: float
    """CPU time, so that other work of the machine does not count."""


class WorldQuestions:
    """The questions about one hand-over."""

    def __init__(
        self, point: int, world: ReplayFork, memory: WorldMemory, link: SimJob, twin: Twin
    ) -> None:
        self._point = point
        self._world, self._memory, self._job, self._twin = world, memory, link, twin
        self._answers: list[tuple[Floats, Floats, float, float]] = []

    def ask(self) -> list[Question]:
        world = self._world
        instants = world.start + np.array([*ASKED_AT_S, LIMIT_S], dtype=np.int64)
        outcomes = world.compute_outcomes(instants, self._memory.follow_world, self._answer)
        waits_s = outcomes[:-1] + world.end - instants[:-1]
        return [
            Question(self._point, self._job.nodes, truth_s / _HOUR_S, *answer)
            for truth_s, answer in zip(waits_s.tolist(), self._answers, strict=True)
        ]

    def _answer(self, k: int) -> None:
        if k == len(ASKED_AT_S):
            return
        sim = self._world.sim
        began_s = time.process_time()
        forecast = self._twin.forecast_from_simulator(
            sim, self._build_link(), self._memory.history, seed=sim.now
        )
        cost_ms = 1000.0 * (time.process_time() - began_s)
        planned = sim.plan_unrestricted(self._world.standby)
        planned_s = sim.params.bf_window_s if planned is None else planned - sim.now
        samples = forecast.wait_s / _HOUR_S
        self._answers.append((samples, self._find_recent_waits_h(), planned_s / _HOUR_S, cost_ms))

    def _find_recent_waits_h(self) -> Floats:
        rows = np.array(self._memory.past.started[-1000:], dtype=np.int64).reshape(-1, 4)
        waits = Waits(
            start=rows[:, 0], wait_s=rows[:, 1], nodes=rows[:, 2], time_limit_s=rows[:, 3]
        )
        like_waits = select_like_waits(waits, self._job.nodes, self._job.time_limit_s, enough=20)[
            -RECENT:
        ]
        waits_h: Floats = np.sort(like_waits) / _HOUR_S
        return waits_h

    def _build_link(self) -> HandoverInput:
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


def ask_all(params: Params, jobs: list[SimJob], every_h: int, twin: Twin) -> list[Question]:
    """Ask about chains of both sizes, over the training weeks."""
    first = min(job.submit for job in jobs) - 1
    main = Simulator(params, Workload.from_jobs(params, jobs), now=first)
    memory = WorldMemory({job.job_id: job for job in jobs}, first)
    questions: list[Question] = []
    for point in range(SINCE, UNTIL, every_h * _HOUR_S):
        memory.follow_world(main, point - 1)
        for nodes in (1, 8):
            settings = PairSettings(
                nodes=nodes, time_limit_s=LIMIT_S, every_s=_DAY_S, since=SINCE, until=UNTIL
            )
            job, own_memory = build_pair_job(settings), memory.fork()
            world = fork_handover(main, job, point, UNTIL + 60 * _DAY_S, own_memory.follow_world)
            if world is not None:
                questions += WorldQuestions(point, world, own_memory, job, twin).ask()
    return questions


def judge(questions: list[Question], answers: list[Floats]) -> dict[str, float]:
    """Judge the answers: hours and shares. `answers`: the samples of each question, ascending."""
    truth_h = np.array([question.truth_h for question in questions])
    pit = _compute_pit(truth_h, answers)
    medians = np.array([np.quantile(s, 0.5, method="inverted_cdf") for s in answers])
    return {
        "pinball_h": float(_compute_pinball_h(truth_h, answers).mean()),
        "p10_p90_pct": 100.0 * float(((pit >= 0.1) & (pit <= 0.9)).mean()),
        "below_p90_pct": 100.0 * float((pit <= 0.9).mean()),
        "median_error_h": float(np.abs(truth_h - medians).mean()),
    }


def _compute_pinball_h(truth_h: Floats, answers: list[Floats]) -> Floats:
    """Compute the pinball loss [questions], hours: the mean over the levels."""
    quantiles = np.array([np.quantile(s, LEVELS, method="inverted_cdf") for s in answers])
    over = truth_h[:, None] - quantiles
    loss_h: Floats = np.maximum(LEVELS * over, (LEVELS - 1.0) * over).mean(axis=1)
    return loss_h


def compute_gain_pct(questions: list[Question]) -> list[float]:
    """Compute how much less the twin's pinball loss is than that of the recent waits, and a 95 %
    interval: weeks of the start points are drawn with replacement, seeded."""
    truth_h = np.array([question.truth_h for question in questions])
    week = np.array([(question.point - SINCE) // (7 * _DAY_S) for question in questions])
    answers = (
        [question.twin_h for question in questions],
        [question.recent_h for question in questions],
    )
    losses = [_compute_pinball_h(truth_h, samples) for samples in answers]
    sums = np.array([[loss[week == w].sum() for w in np.unique(week)] for loss in losses])
    drawn_weeks = np.random.default_rng(4).integers(0, sums.shape[1], (2000, sums.shape[1]))
    twin_sums, recent_sums = sums[0][drawn_weeks].sum(axis=1), sums[1][drawn_weeks].sum(axis=1)
    gains = 100.0 * (1.0 - twin_sums / recent_sums)
    whole_pct = 100.0 * float(1.0 - sums[0].sum() / sums[1].sum())
    return [whole_pct, *np.quantile(gains, (0.025, 0.975)).tolist()]


def _compute_pit(truth_h: Floats, answers: list[Floats]) -> Floats:
    """Compute the PIT: uniform if the answers are calibrated. Waits of zero are spread evenly over
    their jump, seeded."""
    dice = np.random.default_rng(4).random(len(truth_h))
    share_below = np.array([(s < y).mean() for s, y in zip(answers, truth_h, strict=True)])
    share_up_to = np.array([(s <= y).mean() for s, y in zip(answers, truth_h, strict=True)])
    spread: Floats = share_below + dice * (share_up_to - share_below)
    return spread


def build_report(questions: list[Question]) -> dict[str, Any]:
    """Report the figures of each width, and of only those hand-overs that had to wait."""
    result: dict[str, Any] = {}
    groups = {
        f"{n} nodes": [question for question in questions if question.nodes == n] for n in (1, 8)
    }
    groups |= {
        f"{k}, waited": [question for question in g if question.truth_h > 0]
        for k, g in groups.items()
    }
    for name, group in groups.items():
        result[name] = {
            "asked": len(group),
            "mean_wait_h": float(np.mean([question.truth_h for question in group])),
            "twin": judge(group, [question.twin_h for question in group]),
            "recent": judge(group, [question.recent_h for question in group]),
            "slurm": judge(group, [np.array([question.planned_h]) for question in group]),
            "gain_pct": compute_gain_pct(group),
        }
    costs = np.array([question.cost_ms for question in questions])
    samples = len(questions[0].twin_h)
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
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"twin: the traces are not there: {SHARED}")
    params = load_cluster_params(SHARED / "clusters/ls6.toml")
    jobs = list(load_workload(SHARED / "traces/tacc-ls6-a100.parquet", params).jobs)
    twin = Twin(samples=options.samples)
    began = time.perf_counter()
    result = build_report(ask_all(params, jobs, options.every_h, twin))
    result["wall_s"] = time.perf_counter() - began
    print(json.dumps(result, indent=1) if options.json else _format_report(result))


def _format_report(result: dict[str, Any]) -> str:
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
