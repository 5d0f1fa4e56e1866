"""The testbed is what the other tests on a real Slurm take it for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.paths import CHECKOUT
from tests.support.slurm_testbed import Testbed, TestbedFailure, TestbedSettings

pytestmark = pytest.mark.slurm

FAST = TestbedSettings(speed=60)


def left_behind(sessions: set[int]) -> list[str]:
    """Return the living processes of these sessions, and those of jobs of the testbed's nodes."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        of_a_job = "/mirage-testbed/spool/" in command
        if stat[0] != "Z" and (int(stat[3]) in sessions or of_a_job):
            found.append(command)
    return found


def node_states(testbed: Testbed) -> dict[str, str]:
    shown = testbed.run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T"]).stdout
    return dict(line.split() for line in shown.splitlines())


def test_eight_nodes_are_idle(testbed: Testbed) -> None:
    assert node_states(testbed) == {f"gpu0{index}": "idle" for index in range(1, 9)}


def test_up_again_does_nothing(testbed: Testbed) -> None:
    before = testbed.daemons()
    testbed.up()
    assert testbed.daemons() == before


def test_a_user_gets_gpus_and_others_may_look_but_not_touch(testbed: Testbed) -> None:
    job_id = testbed.sbatch("--gres=gpu:4", "-t", "10", user="alice", run="sleep 300")
    testbed.wait_until(lambda: testbed.state(job_id) == "RUNNING", 30)
    shown = testbed.job(job_id)
    assert "gres/gpu=4" in shown.get("AllocTRES", shown.get("TRES", ""))
    assert shown["UserId"].startswith("alice(")
    refused = testbed.run(["scancel", str(job_id)], user="carol", check=False)
    assert refused.returncode != 0


def test_accounts_and_the_services_admin_level(testbed: Testbed) -> None:
    shown = testbed.run(["sacctmgr", "-nP", "show", "assoc", "format=user,account,fairshare"])
    assert {"alice|research|parent", "bob|research|parent", "carol|students|parent"} <= set(
        shown.stdout.split()
    )
    levels = testbed.run(["sacctmgr", "-nP", "show", "user", "format=user,adminlevel"])
    assert "mirage|Operator" in levels.stdout.split()


def test_only_owner_and_operator_may_clear_a_dependency(testbed: Testbed) -> None:
    held = testbed.sbatch("-H", "-t", "10")
    standby = testbed.sbatch("-t", "10", "-d", f"afterany:{held}")
    free = ["scontrol", "update", f"JobId={standby}", "Dependency="]
    refused = testbed.run(free, user="bob", check=False)
    assert (refused.returncode, "Invalid user id" in refused.stderr) == (1, True)
    assert testbed.job(standby)["Dependency"] == f"afterany:{held}(unfulfilled)"
    testbed.run(free, user="mirage")
    testbed.wait_until(lambda: testbed.state(standby) == "RUNNING", 30)


def test_slurmctld_goes_away_and_comes_back_with_its_jobs(testbed: Testbed) -> None:
    job_id = testbed.sbatch("-t", "10")
    testbed.stop_ctld()
    assert testbed.run(["scontrol", "ping"], check=False).returncode != 0
    testbed.start_ctld()
    assert testbed.state(job_id) in ("PENDING", "RUNNING")


def test_a_failed_command_says_what_it_said(testbed: Testbed) -> None:
    with pytest.raises(TestbedFailure, match="invalid partition"):
        testbed.sbatch("-p", "nowhere")
    with pytest.raises(LookupError):
        testbed.job(999_999)


def test_a_command_that_slurm_puts_off_runs_again(testbed: Testbed, tmp_path: Path) -> None:
    later = "Job update not available right now, the DB index is being set, try again in a bit"
    script = tmp_path / "scontrol"
    script.write_text(
        f"#!/bin/sh\necho run >>{tmp_path}/runs\n"
        f"[ $(wc -l <{tmp_path}/runs) -lt 3 ] || exit 0\necho '{later}' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    testbed.run([str(script)])
    assert (tmp_path / "runs").read_text() == "run\n" * 3


@testbed_with(FAST)
def test_fast_time_is_fast_for_daemons_clients_and_jobs(testbed: Testbed) -> None:
    began, really_began = testbed.now(), time.monotonic()
    job_id = testbed.sbatch("-t", "30", "--export=NONE", run="sleep 600")
    testbed.wait_until(lambda: testbed.state(job_id) == "COMPLETED", 1800)
    passed = testbed.now() - began
    assert passed >= 600
    assert time.monotonic() - really_began < passed / 2
    fields = ["-nXP", "-j", str(job_id), "-o", "ElapsedRaw"]
    testbed.wait_until(lambda: testbed.run(["sacct", *fields]).stdout.strip() != "", 600)
    assert 595 <= int(testbed.run(["sacct", *fields]).stdout) <= 700
    shown = float(testbed.run(["date", "+%s.%N"], user="alice").stdout)
    assert shown == pytest.approx(testbed.now(), abs=60)


@testbed_with(FAST)
def test_a_time_limit_strikes_when_a_site_would_see_it_strike(testbed: Testbed) -> None:
    job_id = testbed.sbatch("-t", "10", run="sleep 7200")
    testbed.wait_until(lambda: testbed.state(job_id) == "TIMEOUT", 1800)
    hours, minutes, seconds = map(int, testbed.job(job_id)["RunTime"].split(":"))
    assert 600 <= hours * 3600 + minutes * 60 + seconds <= 600 + 120


@testbed_with(
    FAST,
    TestbedSettings(speed=60, priority="fairshare"),
    TestbedSettings(accrue_always=True, store_flags=False, extra=("MinJobAge=123",)),
)
def test_settings_show_in_the_configuration(
    testbed: Testbed, request: pytest.FixtureRequest
) -> None:
    settings: TestbedSettings = request.node.callspec.params["testbed"]
    config = testbed.config()
    age, fair = int(config["PriorityWeightAge"]), int(config["PriorityWeightFairShare"])
    assert (age > 10 * fair) if settings.priority == "age" else (fair > 10 * age)
    assert ("ACCRUE_ALWAYS" in config["PriorityFlags"]) is settings.accrue_always
    assert ("job_comment" in config["AccountingStoreFlags"]) is settings.store_flags
    assert ("bf_interval=30" in config["SchedulerParameters"]) is (settings.speed > 1)
    assert config["MinJobAge"].startswith("123 " if settings.extra else "300 ")


def test_down_leaves_no_process_and_no_job_behind(testbed: Testbed) -> None:
    stubborn = testbed.sbatch("-t", "10", run="trap '' TERM; sleep 300; sleep 300")
    testbed.wait_until(lambda: testbed.state(stubborn) == "RUNNING", 30)
    sessions = set(testbed.daemons().values())
    assert len(left_behind(sessions)) > 10
    testbed.down()
    assert left_behind(sessions) == []
    testbed.up()
    assert len(node_states(testbed)) == 8


def test_a_user_other_than_root_is_told_so(testbed: Testbed) -> None:
    nobody = 65534
    done = subprocess.run(
        ["/usr/bin/env", "python3", str(CHECKOUT / "deploy/testbed/testbed.py"), "up"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"/usr/bin:{os.path.dirname(sys.executable)}"},
        user=nobody,
    )
    assert done.returncode == 1
    assert "root" in done.stderr
