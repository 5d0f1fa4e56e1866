"""Hand-made episode tables: one-node pairs whose outcomes are written down."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.judging.table.episode_table import NONE, EpisodeTable
from mirage.judging.table.metadata import STEP_S, TableMetadata

DAY_S, HOUR_S = 86400, 3600
MONDAY = 1_700_438_400
"""2023-11-20 00:00 UTC."""


def build_metadata(**fields: Any) -> TableMetadata:
    defaults: dict[str, Any] = {
        "trace": "made.parquet",
        "trace_sha256": "0" * 64,
        "cluster": {"name": "made", "nodes": 4, "cancelled_jobs_run": False},
        "nodes": 1,
        "time_limit_s": 2 * STEP_S,
        "every_s": 4 * HOUR_S,
        "since": MONDAY,
        "until": MONDAY + DAY_S,
        "features": ("time_left_s", "index"),
        "features_fingerprint": "made",
        "versions": {"mirage": "test"},
    }
    return TableMetadata(**defaults | fields)


def table(
    outcome_h: Sequence[Sequence[float]],
    *,
    start_points: Sequence[int] | None = None,
    waits_s: Sequence[int] = (),
    **columns: Any,
) -> EpisodeTable:
    """Build a table of predecessors that start when submitted. `waits_s`: the waits of jobs that
    started in the hour before."""
    outcome_s = np.round(np.array(outcome_h) * HOUR_S).astype(np.int32)
    episodes, instants = outcome_s.shape
    default_starts = [MONDAY + i * 4 * HOUR_S for i in range(episodes)]
    starts = np.array(default_starts if start_points is None else start_points, dtype=np.int64)
    limit_s = (instants - 1) * STEP_S
    job_count = len(waits_s)
    started_at = starts[:, None] - HOUR_S + np.arange(job_count)
    all_columns: dict[str, Any] = {
        "start_point": starts,
        "predecessor_start": starts,
        "predecessor_end": starts + limit_s,
        "instant_s": np.arange(0, limit_s + 1, STEP_S, dtype=np.int32),
        "outcome_s": outcome_s,
        "outcome_aged_s": outcome_s,
        "rivals": np.zeros((episodes, instants), dtype=np.int32),
        "rivals_planned_s": np.full((episodes, instants), NONE, dtype=np.int32),
        "free_nodes": np.zeros((episodes, instants), dtype=np.int32),
        "observations": np.zeros((episodes, instants, 2), dtype=np.float32),
        "started_first": np.arange(episodes + 1, dtype=np.int64) * job_count,
        "started_at": started_at.astype(np.int64).ravel(),
        "started_wait_s": np.tile(np.array(waits_s, dtype=np.int32), episodes),
        "started_nodes": np.ones(job_count * episodes, dtype=np.int32),
        "started_limit_s": np.full(job_count * episodes, limit_s, dtype=np.int32),
    }
    metadata = build_metadata(time_limit_s=limit_s)
    return EpisodeTable(metadata, all_columns | columns)
