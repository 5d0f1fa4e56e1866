"""Links that start too early, fail, or are cancelled while they wait, on the real Slurm."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.slurm_plugin.fakes import PLUGIN
from tests.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm

LINK = """#!/bin/bash
#SBATCH --nodes=1 --time=5 --output=chain.out
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}"
[ ! -e fail ] || exit 1
until [ -e go.$MIRAGE_LINK ]; do sleep 0.1; done
echo "end $MIRAGE_LINK"
"""


@dataclass(frozen=True, slots=True)
class Alice:
    """alice, at a directory of her own, with a copy of the plugin that she may read."""

    testbed: Testbed
    home: Path

    def run(self, *words: str) -> str:
        """A command of hers; a word that names a file of the plugin is that file."""
        own = self.home / "plugin" / words[0]
        done = self.testbed.run(
            [str(own) if own.exists() else words[0], *words[1:]],
            user="alice",
            cwd=self.home,
            env={"MIRAGE_STATE_DIR": f"{self.home}/state", "MIRAGE_URL": "http://127.0.0.1:9"},
        )
        return done.stdout

    def submit(self, *words: str, links: int) -> None:
        self.run("sbatch", f"--mirage-chain={links}", *words, "link.sh")

    def asks_each_second(self) -> None:
        """Let the links of chains still to come, where they wait, look that often."""
        piece = self.home / "plugin" / "carrier_files.sh"
        piece.write_text("mirage_pace_s=1\n" + piece.read_text())

    @property
    def chain(self) -> Path:
        (chain,) = (self.home / "state").iterdir()
        return chain

    def says(self, name: str) -> str | None:
        path = self.chain / name
        return path.read_text().strip() if path.exists() else None

    def job(self, index: int) -> int:
        self.until(lambda: self.says(f"jobs/{index}") is not None, f"link {index} in the queue")
        return int(self.says(f"jobs/{index}") or "")

    def let_end(self, *links: int) -> None:
        for link in links:
            (self.home / f"go.{link}").touch()

    def lines(self) -> list[str]:
        """What the links' scripts have written, and Mirage has not."""
        path = self.home / "chain.out"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(("begin", "end"))]

    def until(self, predicate: object, what: str) -> None:
        self.testbed.wait_until(predicate, 40, what)  # type: ignore[arg-type]

    def free(self, job: int) -> None:
        """What Mirage does to a standby that is to start early; its owner may do it too."""
        self.run("scontrol", "update", f"JobId={job}", "Dependency=")

    def state(self, job: int) -> str:
        return self.testbed.state(job)

    def await_state(self, job: int, state: str) -> None:
        self.until(lambda: self.state(job) == state, f"job {job} {state}")

    def await_lines(self, *lines: str) -> None:
        self.until(lambda: self.lines() == list(lines), f"{lines}, not {self.lines()}")


@pytest.fixture
def alice(testbed: Testbed, tmp_path: Path) -> Iterator[Alice]:
    entry = pwd.getpwnam("alice")
    home = Path(entry.pw_dir) / f"link-{tmp_path.name}"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    shutil.copytree(PLUGIN, home / "plugin", ignore=shutil.ignore_patterns("__pycache__"))
    (home / "state").mkdir()
    (home / "link.sh").write_text(LINK)
    for path in (home, *home.rglob("*")):
        os.chown(path, entry.pw_uid, entry.pw_gid)
    yield Alice(testbed, home)
    testbed.cancel_all()
    shutil.rmtree(home, ignore_errors=True)


def test_a_link_that_starts_too_early_goes_behind_once_and_then_waits(alice: Alice) -> None:
    alice.asks_each_second()
    alice.submit("--mirage-never-overlap", links=3)
    first, early = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")
    alice.free(early)
    alice.await_state(early, "COMPLETED")
    again = alice.job(2)
    assert again != early
    assert alice.testbed.job(again)["Dependency"] == f"afterany:{first}(unfulfilled)"
    alice.free(again)
    alice.await_state(again, "RUNNING")
    third = alice.job(3)
    assert alice.testbed.job(third)["Dependency"] == f"afterany:{again}(unfulfilled)"
    alice.until(lambda: "waiting for its end" in (alice.chain / "log").read_text(), "the wait")
    assert alice.state(first) == "RUNNING"
    assert alice.lines() == ["begin 1 after nothing"]
    alice.let_end(1, 2, 3)
    alice.await_state(third, "COMPLETED")
    assert alice.lines() == [
        *["begin 1 after nothing", "end 1", "begin 2 after COMPLETED", "end 2"],
        *["begin 3 after COMPLETED", "end 3"],
    ]


def test_a_cancelled_link_of_many_that_stand_lets_none_start_beside_a_running_one(
    alice: Alice,
) -> None:
    alice.submit("--hold", "--mirage-presubmit=all", links=4)
    first = min(map(int, alice.run("squeue", "-h", "-u", "alice", "-o", "%A").split()))
    second, third, fourth = (alice.job(n) for n in (2, 3, 4))
    alice.run("scontrol", "release", str(first))
    alice.await_lines("begin 1 after nothing")
    alice.run("scancel", str(second))
    # The user goes further and takes the next one's dependency away.
    alice.free(third)
    alice.await_state(third, "COMPLETED")
    replaced = alice.job(3)
    assert alice.testbed.job(replaced)["Dependency"] == f"afterany:{first}(unfulfilled)"
    behind = {word.partition("(")[0] for word in alice.testbed.job(fourth)["Dependency"].split(",")}
    assert behind == {f"afterany:{first}", f"afterany:{replaced}"}
    assert alice.lines() == ["begin 1 after nothing"]
    alice.let_end(1, 3, 4)
    alice.await_state(fourth, "COMPLETED")
    assert alice.lines()[1:] == [
        *["end 1", "begin 3 after COMPLETED", "end 3", "begin 4 after COMPLETED", "end 4"]
    ]


def test_two_fast_failures_pause_the_chain_and_resume_goes_on(alice: Alice) -> None:
    (alice.home / "fail").touch()
    alice.submit("--comment=exp\nseven", links=9)
    alice.until(lambda: alice.says("paused") is not None, "the pause")
    assert alice.says("paused") == "links 1 and 2 each failed within 600 s"
    alice.until(lambda: not alice.run("squeue", "-h", "-u", "alice"), "an empty queue")
    assert alice.lines() == ["begin 1 after nothing", "begin 2 after FAILED"]
    assert "mirage: the chain is paused: links 1 and 2" in (alice.home / "chain.out").read_text()
    assert "link 3\tjob" in alice.run("mirage-link", "status", alice.chain.name)
    assert "not in the queue" in alice.run("mirage-link", "status", alice.chain.name)
    (alice.home / "fail").unlink()
    shown = alice.run("mirage-link", "resume", alice.chain.name)
    third = alice.job(3)
    assert shown == f"link 3\tjob {third}\n"
    alice.until(lambda: alice.lines()[2:] == ["begin 3 after FAILED"], "link 3")
    assert alice.says("paused") is None
    standby = f"link 4\tjob {alice.job(4)}\tstandby\n"
    assert standby in alice.run("mirage-link", "status", alice.chain.name)


def test_a_link_takes_over_from_a_predecessor_that_was_requeued(alice: Alice) -> None:
    wait = "plugin/mirage-link handover wait --stale 1 || exit 0\necho"
    (alice.home / "link.sh").write_text(LINK.replace("echo", wait, 1))
    alice.submit("--mirage-style=switch", links=3)
    first, second = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")
    alice.run("scontrol", "requeue", str(first))
    alice.await_state(first, "PENDING")
    assert alice.says("ends/1") == "requeued"
    assert alice.testbed.job(second)["Dependency"] == f"afterany:{first}(unfulfilled)"
    alice.free(second)
    alice.until(lambda: alice.lines()[-1].startswith("begin 2"), "link 2")
    alice.await_state(first, "CANCELLED")
    assert alice.state(second) == "RUNNING"
    assert alice.lines() == ["begin 1 after nothing", "begin 2 after PENDING"]


def test_a_script_that_ends_its_own_process_group_ends_its_link(alice: Alice) -> None:
    script = alice.home / "link.sh"
    script.write_text(
        LINK.split("echo", 1)[0] + "trap 'kill 0' EXIT\nsleep 100 & sleep 1; exit 0\n"
    )
    alice.submit(links=1)
    first = alice.job(1)
    alice.await_state(first, "FAILED")
    assert alice.testbed.job(first)["ExitCode"] == "143:0"
    alice.until(lambda: alice.says("ends/1") == "exit 143", "the link's own word")
