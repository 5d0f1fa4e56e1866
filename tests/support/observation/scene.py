"""A small busy cluster, seeded, and a link on it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import RunningStats
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import DEFAULT_PARTITION, Params, SelectType, SimJob

HOUR = 3600
BEGIN = 1_675_000_000
PARAMS = Params(
    name="scene",
    nodes=16,
    gpus_per_node=3,
    max_jobs_pu=3,
    priority_weight_age=7000,
    priority_max_age_s=7 * 24 * HOUR,
    bf_window_s=48 * HOUR,
)


def generate_jobs(seed: int, hours: int = 48, *, jobs: int = 400) -> list[SimJob]:
    """Generate more jobs than the cluster can run: there is always a queue."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    limits = (HOUR // 2, 2 * HOUR, 12 * HOUR, 48 * HOUR)
    return [
        SimJob(
            job_id=i + 1,
            submit=BEGIN + rng.randrange(hours * HOUR),
            nodes=rng.choice((1, 1, 1, 2, 4, 8)),
            time_limit_s=(limit := rng.choice(limits)),
            run_s=int(limit * min(1.1, rng.expovariate(3))),
            user=f"user-{rng.randrange(12)}",
            cancel_at=BEGIN + rng.randrange(hours * HOUR) if rng.random() < 0.1 else None,
        )
        for i in range(jobs)
    ]


def add_requests(jobs: Sequence[SimJob], params: Params, seed: int = 0) -> list[SimJob]:
    """Give the jobs partitions, and CPUs and GPUs if nodes are shared."""
    rng = random.Random(seed)  # noqa: S311
    names = [p.name for p in params.partitions if p.name != DEFAULT_PARTITION] or [""]
    are_nodes_shared = params.select_type is not SelectType.LINEAR
    return [
        replace(
            job,
            partition=rng.choice(names),
            nodes=min(job.nodes, 4) if are_nodes_shared else job.nodes,
            cpus=rng.choice((1, 8, 32)) if are_nodes_shared else 0,
            gpus=rng.choice((0, 0, 1, 4)) if are_nodes_shared else 0,
        )
        for job in jobs
    ]


def make_handover_input(now: int, nodes: int = 2, **fields: Any) -> HandoverInput:
    """A day's link, whose predecessor started six hours ago and is not one of the scene's jobs.

    `fields` replace these defaults.
    """
    defaults: dict[str, Any] = {
        "time_limit_s": 24 * HOUR,
        "user": "user-3",
        "predecessor_submit": now - 7 * HOUR,
        "predecessor_start": now - 6 * HOUR,
        "predecessor_end": now + 18 * HOUR,
    }
    return HandoverInput(nodes=nodes, **{**defaults, **fields})


def play_jobs(
    jobs: Sequence[SimJob], until: int, params: Params = PARAMS
) -> tuple[Simulator, RunningStats]:
    """Return the cluster at `until` and the statistics of its past."""
    simulator = Simulator(params, jobs, now=BEGIN)
    memory = RunningStats(utc_offset_s=-6 * HOUR)
    memory.record_events(simulator, simulator.advance(until))
    return simulator, memory
