"""Whether a cluster file that is fitted to the history is offered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.history.cluster_files.reader import load_cluster_file
from mirage.history.workloads import synthetic
from mirage.lab.calibration.search_space import SearchSetting, SearchTrial
from mirage.lab.learning.run_folder import write_json
from mirage.lab.learning.site_calibration import (
    MOST_TRIALS,
    STANDS_S,
    fit_cluster,
    renew_calibration,
)
from mirage.lab.learning.week_tables import hash_cluster
from mirage.simulator.types import Params
from tests.support.episodes.tables import DAY_S
from tests.support.learning.site import open_site
from tests.support.learning.site_log import build_params, build_site_jobs, write_sacct

DAYS = 40
_ONE_JOB_A_USER = replace(build_params(), max_jobs_pu=1)


def search(
    settings: Sequence[SearchSetting],
    score: Callable[[Mapping[str, int]], float],
    *,
    trials: int,
    seed: int,
    first: Mapping[str, int],
) -> list[SearchTrial]:
    """Finds nothing better than the start, so that only what the log shows is fitted."""
    assert settings
    assert (trials, seed) == (MOST_TRIALS, 1)
    return [SearchTrial(values=first, score=score(first))]


def test_a_limit_that_the_log_shows_is_offered_once_newer_days_replay_better_beyond_luck(
    tmp_path: Path,
) -> None:
    """Of 40 days nine are held out, of 60 days thirteen. Fewer than twelve tell nothing."""
    out = tmp_path / "cluster.toml"
    truth = Params(name="lab", nodes=20, max_jobs_pu=4, priority_weight_age=1000)
    every = synthetic.generate_workload("heavy", nodes=30, days=60, seed=3)
    jobs = [job for job in every if job.nodes <= 3]
    for days in (DAYS, 60):
        until = jobs[0].submit + days * DAY_S
        log = write_sacct(tmp_path / "log.txt", [j for j in jobs if j.submit < until], params=truth)
        result = fit_cluster(log, replace(truth, max_jobs_pu=0), 1e6, out, search)
        if days == DAYS:
            assert (result["file"], out.exists()) == (None, False)
            assert "does not replay newer days better beyond luck" in result["sentence"]
    assert result["file"] == str(out), result["sentence"]
    assert "replays newer days better" in result["sentence"]
    assert result["figures"]["difference_h_ci"][1] < 0
    assert load_cluster_file(out).params.max_jobs_pu == 4


def test_a_file_that_replays_the_history_well_is_left_alone(tmp_path: Path) -> None:
    log = write_sacct(tmp_path / "log.txt", build_site_jobs(DAYS))
    out = tmp_path / "cluster.toml"
    result = fit_cluster(log, build_params(), 1e6, out, search)
    assert (result["file"], out.exists()) == (None, False)
    assert "replays the history well: waits differ from the log's by 0.00 h" in result["sentence"]


def test_without_time_or_history_nothing_is_fitted_and_it_says_so(tmp_path: Path) -> None:
    out = tmp_path / "cluster.toml"
    log = write_sacct(tmp_path / "log.txt", build_site_jobs(DAYS), params=_ONE_JOB_A_USER)
    assert "min are needed" in fit_cluster(log, build_params(), 1e-9, out, search)["sentence"]
    short = write_sacct(tmp_path / "short.txt", build_site_jobs(12), params=_ONE_JOB_A_USER)
    assert "too little to fit" in fit_cluster(short, build_params(), 1e6, out, search)["sentence"]


def test_a_fitting_stands_until_the_cluster_file_changes_or_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_site(tmp_path) as site:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        request = site.build_request(DAYS)
        request.folder.path.mkdir()
        log = tmp_path / "log.txt"
        assert renew_calibration(request, log, 1.0) is None, "Optuna is not installed"
        of = hash_cluster(request.params)
        record = {"at": request.now, "of": of, "sentence": "no better", "file": None}
        write_json(request.folder.path / "calibration.json", record)
        assert renew_calibration(request, log, 1.0) == record | {"is_new": False}
        later = replace(request, now=request.now + STANDS_S + 1)
        assert renew_calibration(later, log, 1.0) is None
        other = replace(request, params=replace(request.params, nodes=9))
        assert renew_calibration(other, log, 1.0) is None
