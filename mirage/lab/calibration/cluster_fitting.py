"""Fits a cluster file to a log: reads the log, runs the calibration, writes file and document."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mirage.errors import InputError
from mirage.history.cluster_files.writer import render_cluster_file
from mirage.history.workloads import replay
from mirage.lab.calibration import optuna_search
from mirage.lab.calibration.calibration import (
    Calibration,
    CalibrationPlan,
    build_default_plan,
    calibrate_params,
    read_log_facts,
)
from mirage.lab.simulation.log_replay import format_day, summarize_rows
from mirage.simulator.types import Params

_ANY_SIZE = 20000
"""A number of nodes that suffices for every job, until the log has shown how many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittingRequest:
    """A log, and how a cluster file is fitted to it."""

    trace: Path
    cluster: Path | None
    """The cluster file to start from; None: Slurm's usual settings."""
    nodes: int | None
    """The most nodes that the cluster had; None: as many as were ever busy."""
    cluster_name: str | None
    """Only rows of this cluster are read; None: all rows."""
    timezone: str | None
    """The zone of local times in the log, as `open_trace` has it."""
    trials: int
    seed: int
    instants: dict[str, int] = field(default_factory=dict)
    """The user's values for `begin`, `until` and `end` of the plan, in epoch seconds. What is not
    among them has a default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFitting:
    """A fitting that is ready to begin: the log was read, and the plan was made."""

    trace_replay: replay.Replay
    start: Params
    plan: CalibrationPlan

    @classmethod
    def from_request(cls, request: FittingRequest, load_params: Callable[[Path], Params]) -> Self:
        """Read the log. `load_params` reads a cluster file.

        Raises InputError where the log has no starts or is too short, or a file cannot be read.
        """
        trace, cluster, nodes = request.trace, request.cluster, request.nodes
        start = (
            load_params(cluster)
            if cluster
            else Params(name=_derive_cluster_name(trace), nodes=_ANY_SIZE)
        )
        if cluster and nodes is not None and nodes > start.nodes:
            raise InputError(f"--nodes {nodes}: {cluster} has {start.nodes}")
        trace_replay = replay.load_replay(trace, start, request.cluster_name, request.timezone)
        plan = replace(
            build_default_plan(trace_replay),
            nodes=nodes,
            trials=request.trials,
            seed=request.seed,
            **request.instants,
        )
        if cluster is None:
            start = replace(start, nodes=read_log_facts(trace_replay, plan).nodes)
        return cls(trace_replay=trace_replay, start=start, plan=plan)

    def fit_params(self, on_progress: Callable[[float], None] | None) -> Calibration:
        """Search for the settings; `on_progress` is called with the share done, 0 to 1.

        Raises InputError where Optuna is not installed.
        """
        return calibrate_params(
            self.trace_replay, self.start, self.plan, optuna_search.search_settings, on_progress
        )


def write_fitted_file(out: Path, calibration: Calibration, trace: Path) -> None:
    """Write the cluster file. Raises InputError where it cannot be written."""
    plan = calibration.plan
    text = render_cluster_file(
        calibration.params,
        [
            f"Fitted by `mirage calibrate` to {trace.name}, {format_day(plan.begin)} to "
            f"{format_day(plan.until)}, {plan.trials} trials, seed {plan.seed}.",
            "Only the ratios of the weights mean anything.",
        ],
    )
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}") from error


def build_document(calibration: Calibration, trace_replay: replay.Replay) -> dict[str, Any]:
    """Build what `mirage calibrate --json` gives."""
    document = asdict(calibration)
    del document["params"]
    cancelled_jobs = {"cancelled_jobs_run": calibration.params.cancelled_jobs_run}
    return document | cancelled_jobs | {"rows": summarize_rows(trace_replay)}


def _derive_cluster_name(trace: Path) -> str:
    return re.sub(r"\W", "_", f"c_{trace.name.split('.')[0]}")[:40]
