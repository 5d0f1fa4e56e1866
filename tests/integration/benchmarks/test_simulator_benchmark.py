"""The simulator's benchmark runs, and C starts every job of it at the same second as ours."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import simulator as benchmark
from benchmarks import simulator_workloads as workloads
from mirage.sim.simulator import Simulator

TINY = ["--jobs", "300", "--queues", "40", "--repeat", "1"]


@pytest.fixture(autouse=True)
def _gcc() -> None:
    if shutil.which("gcc") is None:
        message = "the benchmark's C program needs gcc, which is not on the PATH"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)


@pytest.mark.parametrize("max_age_s", [7 * 86400, 6 * 3600])
@pytest.mark.parametrize(("seed", "tests"), [(1, 1000), (2, 1000), (3, 20)])
def test_c_and_the_simulator_start_every_job_at_the_same_second(
    tmp_path: Path, max_age_s: int, seed: int, tests: int
) -> None:
    """The short PriorityMaxAge lets ages saturate, which reorders the queue between events; of the
    few tests some are then of the old, some of the young."""
    table = workloads.whole_nodes(800, 1.05, seed=seed)
    params = workloads.whole_node_params(
        priority_max_age_s=max_age_s, default_queue_depth=3, bf_max_job_test=tests
    )
    starts, _ = benchmark.Peer(tmp_path).replay(table, params)
    sim = Simulator(params, workloads.jobs(table))
    sim.run_out()
    assert (starts >= table.submit).all()
    np.testing.assert_array_equal(sim.start, starts)


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
@pytest.mark.parametrize(("seed", "tests"), [(1, 1000), (2, 1000), (3, 20)])
def test_c_plans_by_name_as_the_simulator_does(
    tmp_path: Path, version: str, seed: int, tests: int
) -> None:
    table = workloads.named_nodes(800, 1.05, seed=seed)
    params = workloads.named_node_params(
        default_queue_depth=3, bf_max_job_test=tests, slurm_version=version
    )
    peer = benchmark.Peer(tmp_path)
    starts, few = peer.replay(table, params)
    whole, all_of_them = peer.replay(table, params, full_plans=True)
    sim = Simulator(params, workloads.columns(table, params.partitions))
    sim.run_out()
    assert (starts >= table.submit).all()
    np.testing.assert_array_equal(sim.start, starts)
    np.testing.assert_array_equal(whole, starts)
    assert few["tests"] < all_of_them["tests"]


def test_c_plans_alike_with_and_without_its_early_stop(tmp_path: Path) -> None:
    table = workloads.whole_nodes(800, 1.05)
    peer, params = benchmark.Peer(tmp_path), workloads.whole_node_params()
    stopping, few = peer.replay(table, params)
    whole, all_of_them = peer.replay(table, params, full_plans=True)
    np.testing.assert_array_equal(stopping, whole)
    assert few["tests"] < all_of_them["tests"]


def test_every_part_gives_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main([*TINY, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == list(benchmark.PARTS)
    for row in [*result["whole_nodes"], *result["named_nodes"]]:
        assert row["equal_starts"]
        assert row["jobs_per_s"] > 0
        assert row["to_c"] > 0
    assert result["queue"][0]["equal_starts"]
    assert result["queue"][0]["full_ms"] > 0
    assert result["shared"][0]["jobs_per_s"] > 0
    assert result["shared"][0]["to_whole_nodes"] > 0
    assert [row["to_first"] > 0 for row in result["sites"]] == [True, True, True]
    assert result["memory"]["peak_mib"] >= result["memory"]["imports_mib"] > 0
    assert 0 < result["startup"]["first_step_s"] < 60


def test_the_table_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    parts = ["whole_nodes", "named_nodes", "queue"]
    assert benchmark.main([*TINY, "--only", *parts]) == 0
    shown = capsys.readouterr().out
    assert "C / ours" in shown
    assert "equal" in shown
    assert "DIFFER" not in shown


def test_the_generated_jobs_are_as_described() -> None:
    table = workloads.whole_nodes(10_000, 0.9)
    assert np.mean(table.nodes == 1) == pytest.approx(0.37, abs=0.02)
    assert table.nodes.mean() == pytest.approx(8.7, abs=0.4)
    assert np.median(table.run_s) == pytest.approx(40 * 60, rel=0.15)
    assert (table.run_s <= table.limit_s).all()
    assert (np.diff(table.submit) >= 0).all()
    offered = (table.nodes * table.run_s).sum()
    span = table.submit[-1] - table.submit[0]
    assert offered / (span * workloads.NODES) == pytest.approx(0.9, abs=0.02)
