"""The simulator's benchmark runs, on jobs as they are described."""

import json

import numpy as np
import pytest

from benchmarks import simulator as benchmark
from benchmarks import simulator_workloads as workloads

TINY = ["--jobs", "300", "--queues", "40", "--repeat", "1"]


def test_every_part_gives_figures(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main([*TINY, "--json"])
    result = json.loads(capsys.readouterr().out)
    assert list(result) == list(benchmark.PARTS)
    for name in ("whole_nodes", "named_nodes", "shared", "sites"):
        assert all(row["jobs_per_s"] > 0 for row in result[name])
    assert result["queue"][0]["full_ms"] > 0
    assert result["shared"][0]["to_whole_nodes"] > 0
    assert [row["to_first"] > 0 for row in result["sites"]] == [True, True, True]
    assert result["memory"][0]["peak_mib"] >= result["memory"][0]["imports_mib"] > 0
    assert 0 < result["startup"][0]["first_step_s"] < 60


def test_the_table_names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    parts = ["whole_nodes", "named_nodes", "queue"]
    benchmark.main([*TINY, "--only", *parts])
    shown = capsys.readouterr().out
    assert [part for part in benchmark.PARTS if f"{part}: " in shown] == parts
    assert "jobs_per_s" in shown


def test_the_generated_jobs_are_as_described() -> None:
    table = workloads.generate_whole_nodes(10_000, 0.9)
    assert np.mean(table.nodes == 1) == pytest.approx(0.37, abs=0.02)
    assert table.nodes.mean() == pytest.approx(8.7, abs=0.4)
    assert np.median(table.run_s) == pytest.approx(40 * 60, rel=0.15)
    assert (table.run_s <= table.limit_s).all()
    assert (np.diff(table.submit) >= 0).all()
    offered = (table.nodes * table.run_s).sum()
    span = table.submit[-1] - table.submit[0]
    assert offered / (span * workloads.NODES) == pytest.approx(0.9, abs=0.02)
