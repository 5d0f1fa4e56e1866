"""Fits the site's cluster file to its history, and says whether the fitted file replays newer days,
which it was not fitted to, better beyond luck.

The fitted file is offered and not used by itself: the twin that decides and the replay that models
learn from are of one file, the one that the configuration names.
"""

import importlib.util
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.history.workloads import replay
from mirage.history.workloads.replay import Replay
from mirage.judging.owner_weighed_test import WeighedDifference
from mirage.lab.blocks.local_processes import run_apart
from mirage.lab.calibration.calibration import (
    CalibrationPlan,
    Search,
    build_default_plan,
    calibrate_params,
)
from mirage.lab.calibration.cluster_fitting import write_fitted_file
from mirage.lab.calibration.optuna_search import search_settings
from mirage.lab.calibration.search_space import SEARCH_SETTINGS
from mirage.lab.learning import week_tables
from mirage.lab.learning.learn_request import LearnRequest
from mirage.lab.learning.run_folder import read_json, write_json
from mirage.lab.simulation.fidelity import Window, mask_judged_jobs
from mirage.lab.simulation.simulation import build_simulator, run_to_log_end
from mirage.simulator.types import Params

STANDS_S = 90 * DAY_S
"""For so long a fitting is not repeated, unless the cluster file changes."""
LEAST_ERROR_H = 0.1
"""If waits differ by less from the log's, a job, another cluster file is not worth the search."""
MOST_TRIALS, FEWEST_TRIALS = 100, 20
_FILE, _RECORD = "cluster.toml", "calibration.json"
_OTHER_REPLAYS = 7 * len(SEARCH_SETTINGS) + 6
"""Replays of a fitting beside the trials of its two searches (`lab.calibration`)."""
_ERROR = 0.025
"""Of the interval of the difference, at each end: 95 %."""


def is_installed() -> bool:
    """Return whether there is what fits a cluster file (Optuna)."""
    return importlib.util.find_spec("optuna") is not None


def renew_calibration(request: LearnRequest, history: Path, left_s: float) -> dict[str, Any] | None:
    """Fit the cluster file if that is due and there is time: in at most a quarter of the budget.
    Return what `fit_cluster` says, and `is_new`; None: nothing is known."""
    folder = request.folder.path
    file, of = folder / _RECORD, week_tables.hash_cluster(request.params)
    stored = read_json(file) or {}
    is_fresh = request.now - STANDS_S <= stored.get("at", 0) <= request.now
    if is_fresh and stored.get("of") == of:
        return stored | {"is_new": False}
    if left_s <= 0 or not is_installed():
        return None
    most_s = min(left_s, request.budget.wall_s / 4)
    result = run_apart(fit_cluster, history, request.params, most_s, folder / _FILE)
    # A history that was too short grows, and another run has more time.
    if result["figures"] is not None:
        write_json(file, {"at": request.now, "of": of} | result)
    return result | {"is_new": True}


def fit_cluster(
    history: Path, params: Params, most_s: float, out: Path, search: Search = search_settings
) -> dict[str, Any]:
    """Fit the cluster file to a history in about `most_s` seconds, and write it to `out` if it is
    better. Return `sentence`, `file` (None: there is none) and `figures`, for JSON.

    Raises InputError if the file cannot be written.
    """
    begun = time.monotonic()
    log_replay = replay.load_replay(history, params)
    try:
        plan = build_default_plan(log_replay)
        errors_h = _measure_errors_h(log_replay, params)
        replay_s = time.monotonic() - begun
        error = _compare(log_replay, plan, errors_h)
        if error is None:
            return _build_result("The cluster file is not fitted to the history: it has no waits.")
        if error.mean_h < LEAST_ERROR_H:
            return _build_result(
                "The cluster file replays the history well: waits differ from the log's by "
                f"{error.mean_h:.2f} h a job."
            )
        trials = min(MOST_TRIALS, int((most_s / replay_s - _OTHER_REPLAYS) / 2))
        if trials < FEWEST_TRIALS:
            needed_s = (2 * FEWEST_TRIALS + _OTHER_REPLAYS) * replay_s
            return _build_result(
                "The cluster file is not fitted to the history: about "
                f"{needed_s / 60:.0f} min are needed."
            )
        # The site's file is imported, so its nodes are known; nodes that were idle were no drains.
        plan = replace(plan, nodes=params.nodes, trials=trials)
        fitted = calibrate_params(log_replay, params, plan, search)
    except InputError as error:
        return _build_result(f"The cluster file is not fitted to the history: {error}.")
    fitted_errors_h = _measure_errors_h(
        replay.recompute_cancelled_runs(log_replay, fitted.params), fitted.params
    )
    difference = _compare(log_replay, plan, fitted_errors_h - errors_h)
    if difference is None or not difference.is_cheaper:
        why = "no job can be compared" if difference is None else _explain(difference)
        return _build_result(
            "Fitted to the history, the cluster file does not replay newer days better beyond "
            f"luck: {why}.",
            difference,
        )
    write_fitted_file(out, fitted, history)
    return _build_result(
        "Fitted to the history, the cluster file replays newer days better: "
        f"{_explain(difference)}. It is {out}: set cluster.file to a copy of it.",
        difference,
        out,
    )


def _build_result(
    sentence: str, difference: WeighedDifference | None = None, file: Path | None = None
) -> dict[str, Any]:
    return {
        "sentence": sentence,
        "file": None if file is None else str(file),
        "figures": None if difference is None else difference.build_figures(),
    }


def _measure_errors_h(log_replay: Replay, params: Params) -> Floats:
    """Measure by how many hours each job's wait in the replay differs from that in the log; NaN
    where it cannot be told. One value a job, in the order of the log."""
    sim = build_simulator(log_replay, params)
    run_to_log_end(log_replay, sim)
    submit = log_replay.workload.submit
    window = Window(begin=int(submit.min(initial=0)), end=int(submit.max(initial=0)) + 1)
    rows = mask_judged_jobs(submit, sim.start, log_replay.logged, window)
    return np.where(rows, np.abs(sim.start - log_replay.logged.start) / HOUR_S, np.nan)


def _compare(
    log_replay: Replay, plan: CalibrationPlan, difference_h: Floats
) -> WeighedDifference | None:
    """Compare the errors on the days that were held out: each user has one vote."""
    submit = log_replay.workload.submit
    held_out = Window(begin=plan.until, end=plan.end).mask_submissions(submit)
    rows = held_out & np.isfinite(difference_h)
    if not rows.any():
        return None
    users = np.unique([job.user for job in log_replay.workload.jobs], return_inverse=True)[1]
    return WeighedDifference.from_differences(
        submit[rows], users[rows], difference_h[rows], error=_ERROR
    )


def _explain(difference: WeighedDifference) -> str:
    low_h, high_h = difference.interval_h
    jobs, days = difference.handovers, difference.days
    return (
        f"its waits differ from the log's by {difference.mean_h:+.2f} h more (+) or less (-) a job "
        f"(95 % interval {low_h:+.2f} to {high_h:+.2f} h, {jobs:,} jobs of {days} days)"
    )
