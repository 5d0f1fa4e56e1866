"""A chain that an older plugin submitted, on the real Slurm, after today's has taken its place.

Every link runs the carrier that the chain was submitted with. It finds today's plugin at the path
where its own was: mirage_next.py and mirage_plan.py, which the carrier runs, and what scripts and
users call.
"""

from __future__ import annotations

import filecmp
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import DATA, PLUGIN
from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.lone_alice import Alice

pytestmark = pytest.mark.slurm

# Today's sbatch names the next link to a script that submits itself; the old one submitted a job.
LINK = """#!/bin/bash
#SBATCH --nodes=1 --time=30 --output=chain.out
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}"
[ ! -e fail ] || exit 1
until [ -e go.$MIRAGE_LINK ]; do sleep 0.1; done
plugin/mirage-link begin || exit 2
echo "end $MIRAGE_LINK, next $(plugin/sbatch --parsable "$0")"
"""


@pytest.fixture(params=["5e998b7", "33c702b5"])
def old_alice(request: pytest.FixtureRequest, alice: Alice, tmp_path: Path) -> Alice:
    """alice, whose plugin is that of an earlier commit."""
    archive = DATA / f"plugin-{request.param}" / "slurm_plugin.tar.gz"
    subprocess.run(["tar", "-xzf", archive, "-C", tmp_path], check=True)
    alice.write("link.sh", LINK)
    install(alice, tmp_path / "slurm_plugin")
    return alice


def install(alice: Alice, plugin: Path) -> None:
    """As a package's new release does: at the same path, and nothing stays of what was there."""
    entry = pwd.getpwnam("alice")
    there = alice.home / "plugin"
    shutil.rmtree(there)
    shutil.copytree(plugin, there, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (there, *there.rglob("*")):
        os.chown(path, entry.pw_uid, entry.pw_gid)


def upgrade(alice: Alice) -> None:
    assert not filecmp.cmp(alice.home / "plugin" / "mirage-link", PLUGIN / "mirage-link", False)
    install(alice, PLUGIN)


def status(alice: Alice) -> list[str]:
    lines = alice.run("mirage-link", "status", alice.chain.name).splitlines()
    return [line for line in lines if not line.startswith("plan\t")]


def script(alice: Alice, job: int) -> str:
    """As slurmctld keeps it."""
    return alice.run("scontrol", "write", "batch_script", str(job), "-")


def mark(alice: Alice, job: int) -> str:
    return alice.testbed.job(job)["Comment"].strip()


def check(alice: Alice, link: int, job: int) -> None:
    """While Slurm has not forgotten the job: its mark, and the carrier that it runs."""
    carrier = alice.chain / "carrier" / "link.sh"
    assert mark(alice, job) == f"exp seven mirage:{alice.chain.name}:{link}"
    assert script(alice, job).rstrip() == carrier.read_text().rstrip()


def submitted(alice: Alice) -> set[int]:
    """The jobs from alice's folder that Slurm has not forgotten, by whatever way they came."""
    shown = alice.run("squeue", "-h", "-t", "all", "-u", "alice", "-o", "%A %Z").splitlines()
    return {int(line.split()[0]) for line in shown if line.endswith(f" {alice.home}")}


def test_the_links_of_an_older_plugins_chain_follow_each_other_under_todays(
    old_alice: Alice,
) -> None:
    alice = old_alice
    alice.submit("--comment=exp seven", links=3)
    alice.await_lines("begin 1 after nothing")
    upgrade(alice)

    first, second = alice.job(1), alice.job(2)
    running = f"link 1\tjob {first}\trunning"
    assert status(alice) == [running, f"link 2\tjob {second}\tstandby"]
    assert alice.testbed.job(second)["Dependency"] == f"afterany:{first}(unfulfilled)"
    assert alice.state(second) == "PENDING"
    check(alice, 1, first)
    check(alice, 2, second)

    alice.let_end(1)
    alice.await_lines(
        *["begin 1 after nothing", f"end 1, next {second}", "begin 2 after COMPLETED"],
    )
    third = alice.job(3)
    assert status(alice) == [
        *[f"link 1\tjob {first}\texit 0", f"link 2\tjob {second}\trunning"],
        f"link 3\tjob {third}\tstandby",
    ]
    assert alice.testbed.job(third)["Dependency"] == f"afterany:{second}(unfulfilled)"
    check(alice, 3, third)
    jobs = (first, second, third)
    assert submitted(alice) <= set(jobs), "no job but the links"

    alice.let_end(2, 3)
    alice.await_state(third, "COMPLETED")
    assert alice.lines()[3:] == [
        *[f"end 2, next {third}", "begin 3 after COMPLETED", "end 3, next "],
    ]
    assert status(alice) == [f"link {n}\tjob {job}\texit 0" for n, job in enumerate(jobs, 1)]
    assert submitted(alice) <= set(jobs), "no job but the links"
    assert [alice.says(name) for name in ("stop", "paused", "done")] == [None] * 3


def test_todays_resume_goes_on_with_an_older_plugins_chain(old_alice: Alice) -> None:
    alice = old_alice
    (alice.home / "fail").touch()
    alice.submit(links=4)
    alice.until(lambda: alice.says("paused") is not None, "the pause")
    alice.await_empty_queue(40)
    upgrade(alice)
    assert status(alice)[-1] == "paused\tlinks 1 and 2 each failed within 600 s"

    (alice.home / "fail").unlink()
    shown = alice.run("mirage-link", "resume", alice.chain.name)
    third = alice.job(3)
    assert shown == f"link 3\tjob {third}\n"
    alice.until(lambda: alice.lines()[-1] == "begin 3 after FAILED", "link 3")
    fourth = alice.job(4)
    assert status(alice)[2:] == [
        *[f"link 3\tjob {third}\trunning", f"link 4\tjob {fourth}\tstandby"],
    ]
    for n, job in ((3, third), (4, fourth)):
        assert mark(alice, job) == f"mirage:{alice.chain.name}:{n}"
    alice.let_end(3, 4)
    alice.await_state(fourth, "COMPLETED")
    assert alice.lines()[-2:] == ["begin 4 after COMPLETED", "end 4, next "]


def names_the_service(alice: Alice, authorization: str) -> bool:
    """Does the credential say whom it is for (mirage_service.py)? The old plugin's did not."""
    credential = authorization.removeprefix("MUNGE ")
    shown = alice.testbed.run(["unmunge"], input=credential, check=False).stdout
    return shown.splitlines()[-1].endswith(" mirage")


@pytest.mark.parametrize("old_alice", ["5e998b7"], indirect=True)
def test_a_link_of_an_older_plugins_chain_asks_the_service_by_todays(
    old_alice: Alice, service: Service
) -> None:
    """Of mode submit: no link stands, and the next one is submitted when the service says so."""
    alice = old_alice
    service.answers = [{"submit_now": False, "ask_again_s": 1}]
    done = alice.sbatch(
        *["--mirage-chain=3", "--mirage-mode=submit", "--time=60", "link.sh"],
        env={"MIRAGE_URL": service.url},
    )
    assert done.returncode == 0, done.stderr
    alice.until(lambda: bool(service.requests), "a question of the old plugin's")
    upgrade(alice)

    def asked(times: int) -> bool:
        return len(service.requests) >= times

    since = len(service.requests)
    alice.until(lambda: asked(since + 3), "questions of today's plugin")
    assert alice.says("jobs/2") is None
    named = [names_the_service(alice, service.requests[n][1]) for n in (0, -1)]
    assert named == [False, True]
    service.answers = [{"submit_now": True, "ask_again_s": 1}]
    alice.await_lines(
        *["begin 1 after nothing", "begin 2 after RUNNING", "begin 3 after RUNNING"],
    )
    jobs = [alice.job(n) for n in (1, 2, 3)]
    for n, job in enumerate(jobs, 1):
        assert alice.testbed.job(job)["Dependency"] == "(null)"
        assert mark(alice, job) == f"mirage:{alice.chain.name}:{n}"
    assert status(alice) == [f"link {n}\tjob {job}\trunning" for n, job in enumerate(jobs, 1)]
    alice.let_end(1, 2, 3)
    alice.until(lambda: len(alice.lines()) == 6, "the links' ends")
    ends = [f"end 1, next {jobs[1]}", f"end 2, next {jobs[2]}", "end 3, next "]
    assert sorted(alice.lines()[3:]) == ends
    assert {path for path, _ in service.requests} == {f"/api/v1/chains/{alice.chain.name}/next"}


@pytest.mark.parametrize("old_alice", ["33c702b5"], indirect=True)
def test_a_link_of_an_older_plugins_chain_plans_by_todays(old_alice: Alice) -> None:
    alice = old_alice
    piece = alice.home / "plugin" / "carrier_files.sh"
    piece.write_text("mirage_pace_s=1\n" + piece.read_text())  # each link plans as it begins
    alice.submit("--mirage-lead=4", "--mirage-max-overlap=5", links=3)
    alice.await_lines("begin 1 after nothing")
    upgrade(alice)
    alice.let_end(1)
    second, third = alice.job(2), alice.job(3)
    planned = f"afterany:{second}(unfulfilled)?after:{second}+"
    alice.until(
        lambda: alice.testbed.job(third)["Dependency"].startswith(planned), "a plan by link 2"
    )
    assert "becomes eligible" in (alice.says("plans/2") or "")
    alice.let_end(2, 3)
    alice.await_state(third, "COMPLETED")
