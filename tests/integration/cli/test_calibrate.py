"""`mirage calibrate` as a process: what it finds of a cluster that is known, and bad input."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.history.cluster_files.reader import load_cluster_params, parse_cluster_file
from mirage.history.workloads import replay, synthetic
from mirage.lab.calibration import optuna_search
from mirage.lab.calibration.calibration import build_default_plan
from mirage.lab.calibration.calibration import calibrate_params as calibrated
from mirage.lab.calibration.search_space import SEARCH_SETTINGS, get_search_values
from mirage.lab.simulation.fidelity import Window, measure_fidelity
from mirage.lab.simulation.simulation import build_simulator, write_jobs
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import NodeEvent, Outage, Params
from tests.support.paths import CHECKOUT

LS6 = CHECKOUT.parent / "shared/traces/tacc-ls6-a100.parquet"
LS6_CLUSTER = CHECKOUT.parent / "shared/clusters/ls6.toml"
DAY = 86400
DRAINED = (synthetic.EPOCH + 12 * DAY, synthetic.EPOCH + 17 * DAY)
TRUTH = Params(
    name="truth",
    nodes=20,
    max_jobs_pu=4,
    priority_weight_age=1000,
    priority_weight_fairshare=100000,
    node_events=tuple(
        NodeEvent(at, node, outage)
        for at, outage in zip(DRAINED, (Outage.DRAIN, Outage.RESUME), strict=True)
        for node in range(12, 20)
    ),
)
START = """\
[cluster]
name = "lab"
nodes = 30
"""
SITE = """
[[nodes]]
count = 10
CPUs = 64
[[nodes]]
count = 20
CPUs = 128
[[partitions]]
PartitionName = "batch"
Nodes = "0-24"
[[partitions]]
PartitionName = "other"
Nodes = "25-29"
[[qos]]
Name = "normal"
MaxJobsPU = 50
[[qos]]
Name = "urgent"
MaxJobsPU = 2
[[outages]]
Nodes = "0"
State = "DOWN"
StartTime = 2035-01-01T00:00:00Z
EndTime = 2035-01-02T00:00:00Z
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a cluster with TRUTH's settings did with a synthetic load: a log that hides them."""
    folder = tmp_path_factory.mktemp("calibrate")
    jobs = [
        j for j in synthetic.generate_workload("heavy", nodes=30, days=40, seed=3) if j.nodes <= 3
    ]
    sim = Simulator(TRUTH, jobs)
    sim.run_out()
    nothing = replay.LoggedOutcomes(
        eligible=np.full(len(sim.start), -1), start=sim.start, end=sim.end, suspect=sim.start < 0
    )
    known = replay.Replay(
        workload=sim.workload,
        logged=nothing,
        read=len(jobs),
        refused={},
        assumed={},
        rows_by_reason={},
    )
    write_jobs(folder / "log.parquet", known, sim)
    return folder / "log.parquet"


def calibrate(*args: str | Path, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mirage", "calibrate", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=CHECKOUT,
        env=os.environ | {"COLUMNS": "120", "TZ": "UTC", "PYTHONPATH": path},
        check=False,
    )


def test_what_the_log_shows_is_found_and_later_weeks_come_nearer(log: Path, tmp_path: Path) -> None:
    start, out = tmp_path / "start.toml", tmp_path / "out.toml"
    start.write_text(START)
    words = ("--cluster", start, "--trials", "24", "--out", out, "--json")
    done = calibrate(log, *words)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    rows = told["rows"]
    assert (rows["refused"], rows["skipped"]) == ({}, {})
    assert rows["read"] > 100
    seen = told["seen"]
    assert (seen["nodes"], seen["max_jobs_pu"]) == (20, 4)
    assert [level for _, level in seen["levels"]] == [20, 12, 20]
    # A drained node runs its job to the end, so the level is reached some time after the drain.
    assert 0 <= seen["levels"][1][0] - DRAINED[0] <= 2 * DAY
    assert 0 <= seen["levels"][2][0] - DRAINED[1] <= DAY / 4
    held_out = told["held_out"]
    assert held_out["calibrated"]["wait_mae_h"] < held_out["start"]["wait_mae_h"]
    assert held_out["calibrated"]["spearman"] > held_out["start"]["spearman"]
    assert {f["name"] for f in told["fitted"]} >= {"PriorityWeightFairshare", "bf_max_job_test"}
    assert all(f["low"] <= f["value"] <= f["high"] for f in told["fitted"])

    fitted = load_cluster_params(out)
    assert (fitted.name, fitted.nodes, fitted.max_jobs_pu) == ("lab", 30, 4)
    # None was cancelled, so nothing tells.
    assert "cancelled_jobs_run" not in out.read_text()
    assert {event.outage for event in fitted.node_events} == {Outage.DRAIN, Outage.RESUME}
    begin = min(event.at for event in fitted.node_events)
    assert [event.node for event in fitted.node_events if event.at == begin] == [*range(20, 30)]
    taken = replay.load_replay(log, fitted)
    sim = build_simulator(taken, fitted)
    sim.run_out()
    window = Window(begin=told["plan"]["until"], end=told["plan"]["end"])
    judged = measure_fidelity(taken.workload.submit, sim.start, taken.logged, window)
    assert judged.wait_mae_h == held_out["calibrated"]["wait_mae_h"]

    again = tmp_path / "again.toml"
    assert calibrate(log, *words[:-2], again).returncode == 0
    assert again.read_text() == out.read_text()


def test_nothing_logged_after_until_enters(log: Path) -> None:
    start = replace(TRUTH, nodes=100, max_jobs_pu=0, node_events=())
    taken = replay.load_replay(log, start)
    until = synthetic.EPOCH + 25 * DAY
    plan = replace(build_default_plan(taken), until=until, trials=8)
    later = taken.logged.start >= until
    assert later.any()
    logged = taken.logged
    changed = replay.LoggedOutcomes(
        eligible=logged.eligible,
        start=np.where(later, logged.start + 5 * DAY, logged.start),
        end=np.where(logged.end >= until, logged.end + 9 * DAY, logged.end),
        suspect=logged.suspect,
    )
    found = calibrated(taken, start, plan, optuna_search.search_settings)
    other = calibrated(replace(taken, logged=changed), start, plan, optuna_search.search_settings)
    assert (other.params, other.seen, other.inner) == (found.params, found.seen, found.inner)
    assert other.held_out != found.held_out


def test_node_types_partitions_outages_and_qos_of_the_start_file_stay(
    log: Path, tmp_path: Path
) -> None:
    start, out = tmp_path / "start.toml", tmp_path / "out.toml"
    start.write_text(START + SITE)
    done = calibrate(log, "--cluster", start, "--trials", "8", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    given, fitted = load_cluster_params(start), load_cluster_params(out)
    assert (fitted.nodes, fitted.node_groups) == (30, given.node_groups)
    assert fitted.partitions == given.partitions
    assert set(given.node_events) <= set(fitted.node_events)
    # Partition `other` has none of the log's jobs: the log says nothing of its nodes.
    assert {event.node for event in fitted.node_events} <= set(range(25))
    assert [(q.name, q.max_jobs_pu) for q in fitted.qos] == [("normal", 4), ("urgent", 2)]
    assert fitted.max_jobs_pu == 0


def test_nodes_beyond_the_start_file_are_bad_input(log: Path, tmp_path: Path) -> None:
    start = tmp_path / "start.toml"
    start.write_text(START)
    done = calibrate(log, "--cluster", start, "--nodes", "31", "--out", tmp_path / "c.toml")
    assert done.returncode == 2
    assert done.stderr == f"mirage: --nodes 31: {start} has 30\n"


@pytest.mark.parametrize(
    ("weight", "missing", "runs"), [(TRUTH.priority_weight_fairshare, 0.0, False), (0, 0.1, True)]
)
def test_jobs_that_were_cancelled_run_where_the_log_is_nearer_to_that(
    weight: int, missing: float, runs: bool
) -> None:
    """Whatever the start file says: in a log of all jobs, and in one that lacks some of them."""
    truth = replace(TRUTH, node_events=(), priority_weight_fairshare=weight)
    taken = given_up(truth, missing, runs=runs)
    start = replace(parse_cluster_file(START, "start").params, cancelled_jobs_run=not runs)
    found = calibrated(
        taken, start, replace(build_default_plan(taken), trials=8), optuna_search.search_settings
    )
    assert sum(job.cancel_at is not None for job in taken.workload.jobs) > 100
    assert found.params.cancelled_jobs_run is runs


def given_up(truth: Params, missing: float, *, runs: bool) -> replay.Replay:
    """A log of which three jobs of ten are given up after some hours, and take as long if they
    start, or no time; a share of all jobs is missing in it."""
    dice = np.random.default_rng(1)
    jobs = [
        j for j in synthetic.generate_workload("heavy", nodes=30, days=40, seed=3) if j.nodes <= 3
    ]
    hours = dice.uniform(0.2, 20.0, len(jobs))
    waits = np.where(dice.random(len(jobs)) < 0.3, hours * 3600, 0).astype(int).tolist()
    jobs = [
        replace(job, cancel_at=job.submit + wait_s, run_s=wait_s if runs else 0) if wait_s else job
        for job, wait_s in zip(jobs, waits, strict=True)
    ]
    sim = Simulator(truth, jobs)
    sim.run_out()
    # One that started after all is in the log as any other.
    known = [
        job if start < 0 else replace(job, cancel_at=None)
        for job, start in zip(sim.workload.jobs, sim.start, strict=True)
    ]
    rows = np.flatnonzero(dice.random(len(known)) >= missing)
    workload = Workload.from_jobs(truth, [known[row] for row in rows])
    logged = replay.LoggedOutcomes(
        eligible=np.full(len(rows), -1),
        start=sim.start[rows],
        end=sim.end[rows],
        suspect=sim.start[rows] < 0,
    )
    return replay.Replay(
        workload=workload, logged=logged, read=len(rows), refused={}, assumed={}, rows_by_reason={}
    )


@pytest.mark.skipif(not LS6.exists(), reason="needs ../shared/traces: the LS6 log")
def test_lonestar6_is_nearer_where_jobs_that_were_cancelled_would_have_run(tmp_path: Path) -> None:
    out = tmp_path / "out.toml"
    words = ("--cluster", LS6_CLUSTER, "--until", "2023-01-16", "--trials", "8", "--out", out)
    done = calibrate(LS6, *words, "--json")
    assert done.returncode == 0
    told, fitted = json.loads(done.stdout), load_cluster_params(out)
    assert told["cancelled_jobs_run"]
    assert fitted.cancelled_jobs_run
    assert not load_cluster_params(LS6_CLUSTER).cancelled_jobs_run
    window = Window(begin=told["plan"]["until"], end=told["plan"]["end"])
    for params, which in ((fitted, "calibrated"), (load_cluster_params(LS6_CLUSTER), "start")):
        taken = replay.load_replay(LS6, params)
        sim = build_simulator(taken, params)
        sim.run_out()
        judged = measure_fidelity(taken.workload.submit, sim.start, taken.logged, window)
        assert judged.wait_mae_h == told["held_out"][which]["wait_mae_h"]


def test_a_start_file_with_fewer_nodes_than_were_busy_is_warned_of(
    log: Path, tmp_path: Path
) -> None:
    start, out = tmp_path / "start.toml", tmp_path / "out.toml"
    start.write_text(START.replace("30", "15"))
    done = calibrate(log, "--cluster", start, "--trials", "8", "--out", out)
    assert (done.returncode, load_cluster_params(out).nodes) == (0, 15)
    assert done.stderr == (
        "mirage: warning: in the log 20 nodes were busy at once, but the cluster file has "
        "15 nodes, which were kept: correct its nodes if they are too few\n"
    )


def test_what_a_trial_raises_is_not_told_by_optuna_too(capfd: pytest.CaptureFixture[str]) -> None:
    def score(_: Mapping[str, int]) -> float:
        raise InputError("no such thing")

    with pytest.raises(InputError, match="no such thing"):
        optuna_search.search_settings(
            SEARCH_SETTINGS, score, trials=8, seed=1, first=get_search_values(TRUTH)
        )
    assert capfd.readouterr().err == ""


def test_optuna_missing_is_one_sentence(log: Path, tmp_path: Path) -> None:
    (tmp_path / "optuna.py").write_text("raise ImportError('no such thing')\n")
    done = calibrate(log, "--out", tmp_path / "c.toml", path=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mirage: calibrating needs Optuna: pip install 'mirage-provisioner[calibrate]'\n"
    )
    assert not (tmp_path / "c.toml").exists()


def test_too_little_to_fit_is_bad_input(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.toml"
    done = calibrate(log, "--out", out, "--until", "2020-01-01")
    assert done.returncode == 2
    assert "too little to fit: 14 days are needed" in done.stderr
    empty = tmp_path / "queue.psv"
    empty.write_text("JobID|User|NNodes|TimelimitRaw|Submit|State\n1|a|1|60|1700000000|PENDING\n")
    done = calibrate(empty, "--out", out)
    assert (done.returncode, "the log has no starts" in done.stderr) == (2, True)
