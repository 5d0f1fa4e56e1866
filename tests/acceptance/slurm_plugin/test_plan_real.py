"""A plan that a link wrote, with no service anywhere, on the real Slurm."""

from __future__ import annotations

import time

import pytest

from tests.support.slurm_plugin.lone_alice import Alice

pytestmark = pytest.mark.slurm

MINUTE = 60
PASS_S = 60  # the scheduler's, at most: sched_interval


def wait_for_plan(alice: Alice, first: int, second: int, minutes: int) -> None:
    """Wait until the standby is planned so."""
    planned = f"afterany:{first}(unfulfilled)?after:{first}+{minutes}(unfulfilled)"
    alice.until(lambda: alice.testbed.job(second)["Dependency"] == planned, f"{planned}")


def instant(alice: Alice, job: int, name: str) -> float:
    return time.mktime(time.strptime(alice.testbed.job(job)[name], "%Y-%m-%dT%H:%M:%S"))


def test_slurm_releases_the_next_link_as_the_running_one_planned(alice: Alice) -> None:
    alice.asks_each_second()
    alice.submit("--mirage-lead=4", "--mirage-max-overlap=5", links=3)
    first, second = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")
    wait_for_plan(alice, first, second, 1)
    assert "becomes eligible 1 min after job" in alice.run(
        "mirage-link", "status", alice.chain.name
    )
    alice.until(lambda: alice.state(second) == "RUNNING", "link 2 beside link 1", 3 * MINUTE)
    assert alice.state(first) == "RUNNING"
    planned = instant(alice, first, "StartTime") + MINUTE
    assert 0 <= instant(alice, second, "EligibleTime") - planned <= PASS_S + MINUTE
    assert alice.lines() == ["begin 1 after nothing"], "it holds its nodes and waits"
    alice.until(lambda: alice.says("waits/2") is not None, "the wait")
    alice.let_end(1)
    alice.await_lines("begin 1 after nothing", "end 1", "begin 2 after COMPLETED")
    alice.until(lambda: alice.says("waited/2") is not None, "the note of the hand-over")
    start, lead, wait = (int(word) for word in (alice.says("waited/2") or "").split())
    assert start == instant(alice, second, "StartTime")
    assert lead > 0
    assert 0 <= wait <= start - planned


def test_what_sacct_tells_of_like_jobs_is_the_forecast(alice: Alice) -> None:
    """They started at once: no plan is worth a change."""
    for _ in range(20):
        alice.sbatch("--time=5", "--output=/dev/null", "--wrap=true", wrapped=False)
    alice.until(lambda: len(list_ends(alice)) >= 20, "accounting", 4 * MINUTE)
    alice.asks_each_second()
    alice.submit(links=2)
    alice.until(lambda: "of similar nodes and time limit waited" in log(alice), "a forecast")
    second = alice.job(2)
    assert alice.testbed.job(second)["Dependency"] == f"afterany:{alice.job(1)}(unfulfilled)"


def test_a_dependency_that_its_owner_changed_stays(alice: Alice) -> None:
    alice.asks_each_second()
    piece = alice.home / "plugin/mirage_slurm/carrier/plan.sh"
    piece.write_text(piece.read_text().replace("mirage_turn=1 ", "mirage_sleep 10; mirage_turn=1 "))
    alice.submit("--mirage-lead=4", "--mirage-max-overlap=5", links=2)
    first, second = alice.job(1), alice.job(2)
    own = f"afterany:{first}?after:{first}+4"
    alice.run("scontrol", "update", f"JobId={second}", f"Dependency={own}")
    alice.until(lambda: "so the link leaves it alone" in log(alice), "the look")
    assert alice.testbed.job(second)["Dependency"].replace("(unfulfilled)", "") == own


def list_ends(alice: Alice) -> list[str]:
    """The instants at which jobs have ended, as far as accounting knows by now."""
    told = alice.run("sacct", "--noheader", "--allocations", "--format=End").split()
    return [word for word in told if word != "Unknown"]


def log(alice: Alice) -> str:
    return alice.says("log") or ""
