"""Small random traces, and settings for pairs in them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.builder import EpisodeBuilder, describe_table
from mirage.simulator.types import Params, SimJob
from tests.support.episodes.tables import HOUR_S, MONDAY

TRACE_S = 60 * HOUR_S
START_POINT = MONDAY + 20 * HOUR_S


def params(**fields: object) -> Params:
    defaults: dict[str, object] = {"name": "small", "nodes": 8, "priority_max_age_s": 86400}
    defaults |= {"priority_weight_age": 1000, "max_jobs_pu": 3}
    return Params(**(defaults | fields))  # type: ignore[arg-type]


def trace(seed: int, *, jobs: int = 300, nodes: int = 8, load: float = 1.0) -> list[SimJob]:
    """Draw jobs of a few users over 60 h. Their work is about `load` times what all nodes do."""
    draw = np.random.default_rng(seed)
    submit = np.sort(draw.integers(0, TRACE_S, size=jobs)) + MONDAY
    width = draw.choice([1, 1, 1, 2, 4, nodes], size=jobs)
    limit = draw.choice([600, 1800, 3600, 4 * HOUR_S, 8 * HOUR_S], size=jobs)
    used = draw.choice([0.05, 0.3, 0.7, 1.0, 1.2], size=jobs)
    work = float((width * limit * np.minimum(used, 1.0)).sum())
    limit = np.maximum(60, limit * load * nodes * TRACE_S / work).astype(np.int64)
    gives_up = draw.random(jobs) < 0.1
    return [
        SimJob(
            job_id=i + 1,
            submit=int(submit[i]),
            nodes=int(width[i]),
            time_limit_s=int(limit[i]),
            run_s=int(limit[i] * used[i]),
            user=f"u{draw.integers(6)}",
            cancel_at=int(submit[i]) + int(draw.integers(1, 20000)) if gives_up[i] else None,
        )
        for i in range(jobs)
    ]


def settings(**fields: Any) -> PairSettings:
    """One-node pairs of two hours: 13 instants; four start points."""
    defaults: dict[str, Any] = {
        "nodes": 1,
        "time_limit_s": 2 * HOUR_S,
        "every_s": 5 * HOUR_S,
        "since": START_POINT,
        "until": START_POINT + 20 * HOUR_S,
    }
    return PairSettings(**defaults | fields)


def build_episodes(params: Params, jobs: Sequence[SimJob], settings: PairSettings) -> EpisodeTable:
    """Build all episodes in this process."""
    builder = EpisodeBuilder(params, jobs, settings)
    return builder.build_table(settings.start_points, describe_table(params, settings))
