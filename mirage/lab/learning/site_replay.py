"""The snapshot of the stored history, and its replay on the site's cluster file."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.history.workloads import replay
from mirage.history.workloads.replay import LARGER, OTHER_PARTITION, Replay
from mirage.lab.learning.history_facts import WEEK_S
from mirage.lab.learning.learn_request import LearnRequest, NothingToLearn
from mirage.lab.simulation.log_waits import compare_waits
from mirage.lab.site_history import BEFORE_S, export_log
from mirage.lab.study_output import StudyOutput
from mirage.simulator.types import Params

UNFIT_SHARE = 0.2
"""A cluster file does not fit if it has no place for this share of the jobs."""
_LONGEST_LIMIT_S = 14 * DAY_S
"""Jobs of so long after the last learned week are exported too: hand-overs wait among them."""


def export_history(request: LearnRequest, path: Path, output: StudyOutput) -> None:
    """Export the jobs that a run reads as the trace `path`, if it is not there: one snapshot, in
    one read transaction, so that the service is not slowed down afterwards.

    Raises InputError if nothing is stored, or the file cannot be written.
    """
    if path.exists():
        return
    reach_s = (request.rules.weeks + 1) * WEEK_S + BEFORE_S + _LONGEST_LIMIT_S
    part = path.with_name(f".{path.name}.part")
    try:
        export_log(
            request.store, request.cluster, part, lambda last: max(0, last - reach_s), output
        )
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def load_site_replay(request: LearnRequest, history: Path) -> Replay:
    """Load the jobs of a snapshot. Raises InputError if the cluster file has no place for many of
    them, and NothingToLearn if there is no job to replay."""
    log_replay = replay.load_replay(history, request.params)
    unfit = {
        "ask for more nodes than it has": log_replay.refused.get(LARGER, 0),
        "name a partition that it has not": log_replay.assumed.get(OTHER_PARTITION, 0),
    }
    for what, rows in unfit.items():
        if rows > UNFIT_SHARE * log_replay.read:
            raise InputError(
                f"the cluster file does not fit: {rows:,} of {log_replay.read:,} jobs {what}. "
                "Write it anew with `mirage cluster import`, and check that cluster.name is the "
                "cluster of the history"
            )
    if not log_replay.workload.jobs:
        raise NothingToLearn("No stored job can be replayed.")
    return log_replay


def compare_site_waits(
    history: Path, params: Params, since: Mapping[str, int]
) -> dict[str, dict[str, Any]]:
    """Compare how long jobs waited at the site and in the replay, by partition, as numbers by the
    names of `LogWaits`."""
    compared = compare_waits(replay.load_replay(history, params), params, since)
    return {name: asdict(waits) for name, waits in compared.items()}


def count_rows(log_replay: Replay) -> dict[str, Any]:
    """Count the jobs by what became of them."""
    return {
        "read": log_replay.read,
        "replayed": len(log_replay.workload),
        "refused": log_replay.refused,
        "assumed": log_replay.assumed,
    }
