"""`mirage cluster import` as a process: from captured answers, from commands, from a real Slurm."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirage.history.cluster_files.reader import load_cluster_file, parse_cluster_file
from mirage.history.site_import.slurm_answers import ASSOCIATIONS, NODES, QOS, QUESTIONS
from mirage.simulator.types import Partition, Qos, SelectType
from tests.support.cluster.site_texts import texts
from tests.support.paths import CHECKOUT
from tests.support.slurm_testbed import Testbed


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mirage", "cluster", "import", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=CHECKOUT,
        env=os.environ | {"COLUMNS": "120"} | environment,
        check=False,
    )


def refused(code: int, *words: str | Path, **environment: str) -> str:
    """The one sentence on standard error."""
    done = run(*words, **environment)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    folder = tmp_path / "captured"
    folder.mkdir()
    for name, text in texts().items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def path(tmp_path: Path, captured: Path) -> str:
    """A PATH on which scontrol and sacctmgr answer as captured."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for command in ("scontrol", "sacctmgr"):
        lines = [
            f'"{" ".join(q.argv[1:])}") exec cat "{captured / q.file}" ;;'
            for q in QUESTIONS
            if q.argv[0] == command
        ]
        script = "\n".join(["#!/bin/sh", 'case "$*" in', *lines, "*) exit 64 ;;", "esac", ""])
        (folder / command).write_text(script)
        (folder / command).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_captured_answers_become_a_file_on_standard_output(captured: Path) -> None:
    done = run("--from-dir", captured)
    assert (done.returncode, done.stderr) == (0, "")
    found = parse_cluster_file(done.stdout, "stdout")
    assert (found.params.nodes, len(found.params.partitions)) == (7, 3)
    assert found.node_names[-2:] == ("big1", "big2")
    assert "# Out at the import, and up in this file: gpu05 IDLE+DRAIN.\n" in done.stdout


def test_commands_and_their_captured_answers_give_the_same_file(captured: Path, path: str) -> None:
    assert run(PATH=path).stdout == run("--from-dir", captured).stdout


LOG = """JobIDRaw|User|Account|Partition|QOS|State|Submit|Start|End|TimelimitRaw|NNodes
1|ann|physics|gpu|normal|COMPLETED|1699990000|1699990000|1699993600|120|1
2|bea|physics|gpu|normal|COMPLETED|1700000000|1700000000|1700003600|120|1
3|bea|physics|big|high|COMPLETED|1700003000|1700003000|1700003600|120|1
"""


def test_a_log_says_how_many_jobs_each_thing_left_out_concerns(
    tmp_path: Path, captured: Path
) -> None:
    (tmp_path / "jobs.txt").write_text(LOG)
    plain = run("--from-dir", captured, "--json", TZ="UTC")
    done = run("--from-dir", captured, "--log", tmp_path / "jobs.txt", "--json", TZ="UTC")
    assert done.returncode == 0, done.stderr
    before, after = (json.loads(one.stdout)["notes"] for one in (plain, done))
    counts = {b: a for b, a in zip(before, after, strict=True) if a != b}
    assert {b.split(":")[0]: a.rpartition(" (")[2] for b, a in counts.items()} == {
        "Not simulated of partition big": "1 of 3 jobs of the log).",
        "Reservation maint is for root": "1 of 3 jobs of the log).",
        "Reservation course is for students": "1 of 3 jobs of the log).",
        "Not simulated of reservation course": "1 of 3 jobs of the log).",
        "Not simulated of QOS normal": "2 of 3 jobs of the log).",
        "Not simulated": "2 of 3 jobs of the log).",
    }
    assert "1 of 3 jobs of the log" in json.loads(done.stdout)["text"].replace("\n#  ", "")


def test_a_file_is_written_and_not_over_another(tmp_path: Path, captured: Path) -> None:
    out = tmp_path / "C.toml"
    done = run("--from-dir", captured, "--out", out, TZ="UTC")
    assert (done.returncode, done.stderr) == (0, "")
    for row in (["nodes", "7"], ["partitions", "3"], ["reservations", "2"], ["qos", "2"]):
        assert any(all(word in line for word in row) for line in done.stdout.splitlines())
    assert "- reservations 'maint' and 'course' overlap\n" in done.stdout
    written = out.read_text()
    assert "exists already: give --force" in refused(2, "--from-dir", captured, "--out", out)
    out.write_text("x")
    assert run("--from-dir", captured, "--out", out, "--force", TZ="UTC").returncode == 0
    assert out.read_text() == written
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["C.toml"]


def test_one_json_object_tells_all(tmp_path: Path, captured: Path) -> None:
    done = run("--from-dir", captured, "--json", TZ="UTC")
    told: dict[str, Any] = json.loads(done.stdout)
    text, notes = told.pop("text"), told.pop("notes")
    assert parse_cluster_file(text, "text").params.nodes == 7
    assert len(notes) == 14
    assert told == {
        "cluster": "testbed",
        "nodes": 7,
        "node_groups": 2,
        "partitions": 3,
        "qos": 2,
        "accounts": 2,
        "reservations": 2,
        "warnings": ["reservations 'maint' and 'course' overlap"],
        "out": None,
    }


def test_local_times_are_those_of_the_zone_given(captured: Path) -> None:
    there = run("--from-dir", captured, "--timezone", "America/Chicago").stdout
    here = run("--from-dir", captured, TZ="UTC").stdout
    assert "StartTime = 2023-11-14T23:00:00Z\n" in here
    assert "StartTime = 2023-11-15T05:00:00Z\n" in there
    assert "no time zone 'Mars'" in refused(2, "--from-dir", captured, "--timezone", "Mars")


def test_a_directory_without_accounting_is_enough(captured: Path) -> None:
    for question in (QOS, ASSOCIATIONS):
        (captured / question.file).unlink()
    done = run("--from-dir", captured)
    assert done.returncode == 0
    assert "[[qos]]" not in done.stdout
    assert "`sacctmgr -P show qos` gave no answer" in done.stdout


def test_a_directory_without_nodes_is_bad_input(captured: Path) -> None:
    (captured / NODES.file).write_text("slurm_load_node error\n")
    assert "not scontrol's show node" in refused(2, "--from-dir", captured)
    (captured / NODES.file).unlink()
    sentence = refused(2, "--from-dir", captured)
    assert "scontrol-show-node.txt cannot be read" in sentence
    assert "`scontrol show node -o`" in sentence
    assert "is not a directory" in refused(2, "--from-dir", captured / "nowhere")


def test_a_slurm_that_is_not_there_is_code_3(tmp_path: Path) -> None:
    assert "scontrol is not on PATH" in refused(3, PATH=str(tmp_path))


def test_half_an_answer_of_slurm_is_code_3(captured: Path, path: str) -> None:
    (captured / NODES.file).write_text("NodeName=n1 Arch=x86_64\n")
    assert "half an answer" in refused(3, PATH=path)


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path: Path, captured: Path) -> None:
    out = tmp_path / "nowhere" / "C.toml"
    assert "cannot be written" in refused(2, "--from-dir", captured, "--out", out)


def _import(testbed: Testbed, out: Path, *words: str) -> list[str]:
    """The notes of an import from the testbed."""
    done = run("--out", out, "--json", *words, **testbed.env("root"))
    assert done.returncode == 0, done.stderr
    notes: list[str] = json.loads(done.stdout)["notes"]
    return notes


@pytest.mark.slurm
def test_the_testbed_is_imported_as_it_is_set_up(testbed: Testbed, tmp_path: Path) -> None:
    notes = _import(testbed, tmp_path / "C.toml")
    found = load_cluster_file(tmp_path / "C.toml")
    params = found.params
    assert found.node_names == tuple(f"gpu{i:02d}" for i in range(1, 9))
    assert (params.name, params.nodes, params.node_groups) == ("testbed", 8, ())
    assert (params.cpus_per_node, params.gpus_per_node) == (16, 8)
    assert params.memory_mib_per_node == 256000
    assert params.partitions == (
        Partition(name="gpu", max_time_s=172800),
        Partition(name="debug", nodes=(0,), priority_tier=2, max_time_s=1800),
        Partition(name="long"),
    )
    assert params.qos[0].name == "normal"
    assert {q.name: q.priority for q in params.qos} == {"normal": 0, "high": 100, "low": 0}
    assert dict(params.shares) == {"research": 10, "students": 5, "services": 1}
    assert params.select_type is SelectType.CONS_TRES
    assert (params.priority_weight_age, params.priority_max_age_s) == (1008000, 7 * 86400)
    assert (params.bf_window_s, params.bf_resolution_s, params.bf_max_job_test) == (172800, 1, 1000)
    assert not [n for n in notes if "gave no answer" in n or "does not read" in n]


@pytest.mark.slurm
def test_the_limits_of_a_qos_are_imported(testbed: Testbed, tmp_path: Path) -> None:
    keys = ("MaxJobsPU", "MaxSubmitJobsPU", "MaxTRESPU")
    given = dict(zip(keys, ("3", "9", "cpu=32,mem=512000,gres/gpu=8,node=2"), strict=True))
    none = dict(zip(keys, ("-1", "-1", "cpu=-1,mem=-1,gres/gpu=-1,node=-1"), strict=True))
    modify = ["sacctmgr", "-i", "modify", "qos", "high", "set"]
    testbed.run([*modify, *(f"{key}={value}" for key, value in given.items())])
    try:
        _import(testbed, tmp_path / "C.toml")
    finally:
        testbed.run([*modify, *(f"{key}={value}" for key, value in none.items())])
    (high,) = [q for q in load_cluster_file(tmp_path / "C.toml").params.qos if q.name == "high"]
    assert high == Qos(
        name="high",
        priority=100,
        max_jobs_pu=3,
        max_submit_pu=9,
        max_cpus_pu=32,
        max_memory_mib_pu=512000,
        max_gpus_pu=8,
        max_nodes_pu=2,
    )


@pytest.mark.slurm
def test_a_reservation_is_imported_and_accounting_may_be_off(
    testbed: Testbed, tmp_path: Path
) -> None:
    words = "StartTime=now+1hour Duration=60 Nodes=gpu[02-03] Users=root ReservationName=maint"
    testbed.run(["scontrol", "create", "reservation", *words.split()])
    try:
        now = int(testbed.now())
        testbed.stop_dbd()
        try:
            notes = _import(testbed, tmp_path / "C.toml")
        finally:
            testbed.start_dbd()
    finally:
        testbed.run(["scontrol", "delete", "ReservationName=maint"])
    params = load_cluster_file(tmp_path / "C.toml").params
    (reservation,) = params.reservations
    assert (reservation.name, reservation.nodes) == ("maint", (1, 2))
    assert reservation.end - reservation.start == 3600
    assert abs(reservation.start - now - 3600) < 120
    assert params.qos == ()
    assert [n for n in notes if "`sacctmgr -P show qos` gave no answer" in n]
