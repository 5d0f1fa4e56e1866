"""Plans an episode table, and warns if a finished one depends on the end of its trace."""

import hashlib
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.generation.builder import describe_table
from mirage.lab.episodes.generation.resumable_build import TablePlan
from mirage.lab.study_output import StudyOutput
from mirage.simulator.types import Params, SimJob

_MANY_BEYOND = 0.01


def build_plan(
    trace: Path,
    params: Params,
    jobs: Sequence[SimJob],
    settings: PairSettings,
    load: float = 1.0,
    timezone: str = "",
) -> TablePlan:
    """Build the plan. `jobs`: the jobs of the trace, scaled to `load` and read in `timezone`."""
    metadata = describe_table(
        params,
        settings,
        trace=trace.name,
        source=str(trace.absolute()),
        trace_sha256=hashlib.sha256(trace.read_bytes()).hexdigest(),
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in ("mirage-provisioner", "numba", "numpy")},
        },
    )
    return TablePlan(params, jobs, settings, replace(metadata, load=load, timezone=timezone))


def warn_if_beyond_trace(path: Path, table: EpisodeTable, output: StudyOutput) -> None:
    """Warn if many outcomes of a table come from a queue that was only draining."""
    share = table.metadata.beyond_trace / max(1, table.outcome_s.size)
    if share >= _MANY_BEYOND:
        output.warn(
            f"{path}: in {share:.0%} of the decision instants the successor started after the last "
            "submission of the trace. The simulated queue was then only draining, so these waits "
            "are too short. Make the table again with an earlier --until"
        )


def count_cores() -> int:
    return len(os.sched_getaffinity(0))
