"""Cluster files: what they set, and every fault at once."""

from pathlib import Path

import pytest

from mirage.errors import ConfigError
from mirage.sim.types import Params
from mirage.traces.clusterfile import read_cluster_file

LS6 = """
[cluster]
name = "ls6"
nodes = 76
gpus_per_node = 3

[scheduler]
PriorityWeightAge = 7000
PriorityMaxAge = "7-0"
PriorityWeightJobSize = 100
PriorityWeightFairshare = 0
PriorityFlags = "ACCRUE_ALWAYS"
MaxJobsPU = 8
bf_interval = 30
bf_window = 2880
bf_max_job_test = 1000
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "C.toml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_cluster_file(path)
    return caught.value.faults


def test_reads_slurms_names_in_slurms_units(tmp_path: Path) -> None:
    assert read_cluster_file(write(tmp_path, LS6)) == Params(
        name="ls6",
        nodes=76,
        gpus_per_node=3,
        priority_weight_age=7000,
        priority_max_age_s=7 * 86400,
        priority_weight_job_size=100,
        accrue_always=True,
        max_jobs_pu=8,
        bf_interval_s=30,
        bf_window_s=48 * 3600,
        bf_max_job_test=1000,
    )


def test_names_every_fault_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        [cluster]
        nodes = 0
        [scheduler]
        PriorityMaxAge = "soon"
        PriorityWeightFairshare = 5
        PriorityFlags = "ACCRUE_ALWAYS,FAIR_TREE"
        bf_intervall = 3
        bf_window = true
        [shed]
        """,
    )
    assert faults(path) == [
        "[shed]: no such section",
        "[cluster] nodes = 0: must be a whole number, at least 1",
        "[scheduler] PriorityMaxAge = 'soon': not a time limit: 'soon'",
        "[scheduler] PriorityWeightFairshare = 5: not simulated: must be 0",
        "[scheduler] PriorityFlags = 'ACCRUE_ALWAYS,FAIR_TREE': not simulated: FAIR_TREE",
        "[scheduler] bf_intervall: no such key",
        "[scheduler] bf_window = True: must be a whole number, at least 1",
        "[cluster] name: missing",
    ]


def test_says_when_there_is_no_file_or_no_toml(tmp_path: Path) -> None:
    assert faults(tmp_path / "absent.toml") == ["cannot be read: No such file or directory"]
    assert faults(write(tmp_path, "[cluster"))[0].startswith("not TOML")


def test_a_name_is_as_long_as_slurm_and_the_database_take_it(tmp_path: Path) -> None:
    lines = '[cluster]\nname = "{}"\nnodes = 1\n'
    assert read_cluster_file(write(tmp_path, lines.format(40 * "c"))).name == 40 * "c"
    (fault,) = faults(write(tmp_path, lines.format(41 * "c")))
    assert fault.endswith("must be at most 40 characters long")


def test_the_documented_file_sets_what_is_the_default(tmp_path: Path) -> None:
    docs = (Path(__file__).parents[2] / "docs/traces.md").read_text(encoding="utf-8")
    documented = docs.partition("```toml\n")[2].partition("```")[0]
    assert read_cluster_file(write(tmp_path, documented)) == Params(name="lab", nodes=76)
