"""`mirage simulate` on dumps that leave out what jobs asked for, or stand for more than one job."""

import json
from pathlib import Path

import pytest

from mirage.history.workloads import asked_resources, replay
from tests.integration.cli.test_simulate_dumps import SITE, T, Told, run, simulated
from tests.support import mirage_process

SHARED = """\
[cluster]
name = "g"
nodes = 1
gpus_per_node = 4
cpus_per_node = 64
[scheduler]
SelectType = "select/cons_tres"
[[partitions]]
PartitionName = "gpu"
"""
HEADER = "JobIDRaw|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes"
ONE = f"1|ann|gpu|COMPLETED|{T}|{T}|{T + 7200}|120|1"
TWO = f"2|bea|gpu|COMPLETED|{T + 60}|{T + 7200}|{T + 14400}|120|1"


def two_jobs(folder: Path, columns: str, cells: str, *, second: str = TWO) -> Told:
    log = "\n".join([HEADER + columns, ONE + cells, second + cells, ""])
    return simulated(folder, log, site=SHARED)


@pytest.mark.parametrize(
    ("columns", "cells", "assumed"),
    [
        (
            "|NCPUS|AllocTRES|ReqTRES",
            "|8|billing=8,cpu=8,node=1|billing=8,cpu=8,node=1",
            {asked_resources.NO_GPUS_WHOLE: 2},
        ),
        ("|NCPUS", "|8", {asked_resources.NO_GPUS_WHOLE: 2}),
        ("", "", {asked_resources.NO_GPUS_WHOLE: 2, asked_resources.NO_CPUS_WHOLE: 2}),
        ("|NCPUS|AllocTRES", "|8|cpu=8,gres/gpu=4,node=1", {}),
        ("|AllocTRES", "|gres/gpu=4,node=1", {asked_resources.NO_CPUS: 2}),
    ],
    ids=["GPUs not tracked", "no TRES", "nothing", "all", "no CPUs"],
)
def test_a_job_waits_although_the_log_does_not_tell_what_it_asked_for(
    tmp_path: Path, columns: str, cells: str, assumed: dict[str, int]
) -> None:
    told = two_jobs(tmp_path, columns, cells)
    assert told.wait_s(2) == 7140
    assert told.assumed == assumed


def test_jobs_that_shared_a_node_in_the_log_share_it_in_the_replay(tmp_path: Path) -> None:
    beside = f"2|bea|gpu|COMPLETED|{T + 60}|{T + 60}|{T + 14400}|240|1"
    told = two_jobs(tmp_path, "|NCPUS", "|8", second=beside)
    assert told.wait_s(2) == 0
    assert told.assumed == {asked_resources.NO_GPUS: 2}


def test_nodes_without_gpus_need_none_in_the_log(tmp_path: Path) -> None:
    plain = SHARED.replace("gpus_per_node = 4", "gpus_per_node = 0")
    log = "\n".join([HEADER + "|NCPUS", ONE + "|8", TWO + "|8", ""])
    told = simulated(tmp_path, log, site=plain)
    assert (told.wait_s(2), told.assumed) == (0, {})


def test_a_job_without_gpus_beside_jobs_with_some_has_none(tmp_path: Path) -> None:
    log = "\n".join(
        [HEADER + "|NCPUS|AllocTRES", ONE + "|8|cpu=8,gres/gpu=4", TWO + "|8|cpu=8", ""]
    )
    told = simulated(tmp_path, log, site=SHARED)
    assert (told.wait_s(2), told.assumed) == (0, {})


def array(folder: Path, shown: str, *more: str) -> tuple[int, float, dict[str, int]]:
    """The jobs that are replayed of a pending array, their mean wait in hours, and what is assumed.

    Each takes the whole node for two hours.
    """
    rows = (f"700|{shown}|ann|gpu|PENDING|{T}|Unknown|Unknown|120|1|64", *more)
    header = "JobIDRaw|JobID|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|NCPUS"
    (folder / "log.txt").write_text("\n".join([header, *rows, ""]))
    site = SHARED.replace("nodes = 1", "nodes = 10").replace(
        "gpus_per_node = 4", "gpus_per_node = 0"
    )
    done = run(folder, (folder / "log.txt").read_text(), site=site)
    assert done.code == 0, done.err
    told = Told(json.loads(done.out), {}, done.err)
    return told.json["jobs"], told.json["wait_h"]["mean"], told.assumed


@pytest.mark.parametrize(
    ("shown", "jobs", "mean_h"),
    [
        ("700_[1-20%4]", 20, 4.0),
        ("700_[1-20]", 20, 1.0),
        ("700_[0-9:3,11,20-22%2]", 8, 3.0),
        ("700_[5]", 1, 0.0),
    ],
)
def test_an_array_in_one_row_is_all_its_tasks_and_no_more_at_once(
    tmp_path: Path, shown: str, jobs: int, mean_h: float
) -> None:
    found = array(tmp_path, shown)
    assert found[0] == jobs
    assert found[1] == pytest.approx(mean_h, abs=0.1)
    assert found[2].get(replay.ARRAY, 0) == (jobs > 1)


def test_an_array_that_does_not_tell_its_tasks_is_counted(tmp_path: Path) -> None:
    assert array(tmp_path, "700_[1,3,5,7,...%4]")[2][replay.ARRAY_UNKNOWN] == 1


def test_tasks_with_rows_of_their_own_count_to_the_arrays_limit(tmp_path: Path) -> None:
    others = [f"70{n}|700_{n}|ann|gpu|COMPLETED|{T}|{T}|{T + 7200}|120|1|64" for n in (1, 2)]
    jobs, mean_h, _ = array(tmp_path, "700_[3-4%2]", *others)
    assert jobs == 4
    assert mean_h == pytest.approx(1.0, abs=0.1)


LOCAL = """\
JobIDRaw|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|NCPUS
1|ann|cpu|COMPLETED|2026-03-08T00:00:00|2026-03-08T00:30:00|2026-03-08T03:30:00|240|1|8
"""


@pytest.mark.parametrize(
    ("zone", "words", "run_s", "named"),
    [
        ("UTC", (), 10_800, "this host (UTC)"),
        ("America/Chicago", (), 7200, "this host (America/Chicago)"),
        ("UTC", ("--timezone", "America/Chicago"), 7200, "America/Chicago"),
    ],
)
def test_the_zone_of_times_that_name_none_is_said(
    tmp_path: Path, zone: str, words: tuple[str, ...], run_s: int, named: str
) -> None:
    told = simulated(tmp_path, LOCAL, *words, zone=zone)
    assert told.run_s(1) == run_s
    assert f"read as local times of {named} (--tim" in told.err


def test_nothing_is_said_of_zones_where_all_times_are_instants(tmp_path: Path) -> None:
    log = LOCAL.replace("2026-03-08T00:00:00", "1700000000")
    log = log.replace("2026-03-08T00:30:00", "2023-11-14T22:13:20+00:00")
    told = simulated(tmp_path, log.replace("2026-03-08T03:30:00", "1700003600"))
    assert "zone" not in told.err


def test_calibrate_takes_the_zone_as_simulate_does(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(LOCAL)
    (tmp_path / "site.toml").write_text(SITE)
    for command in (
        ("calibrate", "log.txt", "--out", "c.toml"),
        ("report", "shadow", "--from-sacct", "log.txt", "--cluster", "site.toml"),
    ):
        done = mirage_process.run(*command, "--timezone", "Mars/Base", cwd=tmp_path)
        assert (done.code, "no time zone 'Mars/Base' is known" in done.err) == (2, True)
