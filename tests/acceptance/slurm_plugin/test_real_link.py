"""Links that start too early, fail, or are cancelled while they wait, on the real Slurm."""

from __future__ import annotations

import pytest

from tests.support.slurm_plugin.lone_alice import LINK, Alice

pytestmark = pytest.mark.slurm


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
    waits = "the script starts after the job has ended"
    alice.until(lambda: waits in (alice.chain / "log").read_text(), "the wait")
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
    alice.await_empty_queue(40)
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


def test_zero_undoes_a_dependency_of_the_scripts_own(alice: Alice) -> None:
    """What a link is submitted with that waits for none (build_later_words)."""
    first = alice.testbed.sbatch("--hold")
    alice.write("after.sh", f"#!/bin/sh\n#SBATCH --dependency=afterok:{first}\ntrue\n")
    seen = []
    for words in ([], ["--dependency=0"]):
        done = alice.sbatch("--hold", "--parsable", *words, "after.sh", wrapped=False)
        assert done.returncode == 0, done.stderr
        seen.append(alice.testbed.job(int(done.stdout))["Dependency"])
        alice.run("scancel", done.stdout.strip())
    alice.run("scancel", str(first))
    assert seen == [f"afterok:{first}(unfulfilled)", "(null)"]


def test_status_says_who_holds_the_next_link_and_who_cancelled_the_running_one(
    alice: Alice,
) -> None:
    alice.submit(links=3)
    alice.await_lines("begin 1 after nothing")
    first, second = alice.job(1), alice.job(2)
    alice.run("scontrol", "hold", str(second))
    held = f"link 2\tjob {second}\tstandby, held by its user (to go on: scontrol release {second})"
    assert held in alice.run("mirage-link", "status", alice.chain.name).splitlines()
    (listed,) = alice.run("mirage-link", "status").splitlines()
    assert listed == f"{alice.chain.name}\tlink.sh\tlink 1 of 3\trunning"
    alice.run("scancel", str(first))
    cancelled = f"link 1\tjob {first}\tcancelled by alice\n"
    alice.until(
        lambda: cancelled in alice.run("mirage-link", "status", alice.chain.name),
        "accounting's word",
    )
    alice.run("scontrol", "release", str(second))
    alice.until(lambda: alice.says("stop") == "link 1 was cancelled", "the end of the chain")
