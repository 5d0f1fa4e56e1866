"""An early link gives its nodes back and is released again by its plan: real Slurm, no service."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.support.slurm_plugin.link_patience import give_links_time
from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_testbed import Testbed, TestbedSettings

pytestmark = pytest.mark.slurm

SPEED, MINUTE = 60, 60
LIMIT_MIN, AGAIN_MIN, DAY_MIN = 120, 115, 24 * 60
"""An idle cluster: the link waits for no more than a cycle of the scheduler, so it is released
again five minutes before the end; sooner where a busy host has let it wait for longer. Such a host
has more than a minute of its own time for the return."""


def ask(limit_min: int) -> tuple[str, ...]:
    """Options of a chain whose next link is released 20 min after the start of the one before."""
    return (
        *(f"--time={limit_min}", f"--mirage-lead={limit_min - 20}:00"),
        f"--mirage-max-overlap={limit_min}:00",
        "--mirage-continue=COMPLETED,TIMEOUT",  # a brief link is not the last one
    )


WORKS = """#!/bin/bash
#SBATCH --nodes=1 --output=chain.out --open-mode=append
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}"
until [ -e go.$MIRAGE_LINK ]; do sleep 1; done
echo "end $MIRAGE_LINK"
"""
LOOK = """#!/bin/sh
for told in {home}/state/*/returns/2; do
    [ -e "$told" ] && read -r count job release <"$told" || continue
    [ "$job" = "${{SLURM_JOB_ID-}}" ] && [ ! -e {home}/passed ] || continue
    case $* in
    *'%k %i')
        trap '' TERM  # of the link's own limit
        touch {home}/reached
        until [ -e {home}/passed ]; do sleep 60; done
        ;;
    esac
done
exec /usr/bin/squeue "$@"
"""
"""The look for the new job: it has no answer before the test lets it pass."""


MakeAlice = Callable[[str], Alice]


@pytest.fixture
def make_alice(slurm_host: Testbed) -> Iterator[MakeAlice]:
    """Homes of alice's, beside each other on one cluster."""
    slurm_host.up(TestbedSettings(speed=SPEED, nodes=8), fresh=True)
    with ExitStack() as homes:

        def make(name: str) -> Alice:
            made = homes.enter_context(Alice.at_home(slurm_host, name, WORKS))
            give_links_time(made.home / "plugin", SPEED)
            return made

        yield make


@pytest.fixture
def alice(make_alice: MakeAlice) -> Alice:
    return make_alice("returns")


def gate(alice: Alice) -> None:
    look = alice.home / "plugin" / "squeue"  # the jobs' PATH has the plugin's
    look.write_text(LOOK.format(home=alice.home))
    look.chmod(0o755)


def submit_gated(alice: Alice) -> tuple[int, int]:
    """Submit a chain whose second link stops at the look; return both jobs."""
    gate(alice)
    done = alice.sbatch("--mirage-chain=2", *ask(DAY_MIN), "link.sh")
    assert done.returncode == 0, done.stderr
    return alice.job(1), alice.job(2)


def await_look(alice: Alice) -> None:
    alice.until((alice.home / "reached").exists, "the look for the new job", DAY_MIN * MINUTE)


def let_pass(alice: Alice) -> None:
    (alice.home / "passed").touch()


def await_end(alice: Alice, link: int) -> None:
    alice.until(lambda: f"end {link}" in alice.lines(), f"the end of link {link}", 30 * MINUTE)


def test_an_early_link_gives_its_nodes_back_and_is_released_again_by_its_plan(
    alice: Alice,
) -> None:
    alice.submit(*ask(LIMIT_MIN), links=3)
    first, early = alice.job(1), alice.job(2)
    alice.until(lambda: alice.job(2) != early, "another job of link 2", LIMIT_MIN * MINUTE)
    again = alice.job(2)
    planned = rf"afterany:{first}\(unfulfilled\)\?after:{first}\+(\d+)\(unfulfilled\)"
    plan = re.fullmatch(planned, alice.testbed.job(again)["Dependency"])
    assert plan is not None
    minutes = int(plan[1])
    assert LIMIT_MIN / 2 < minutes <= AGAIN_MIN
    assert f"link 2 gives its nodes back: job {first} may run for" in "\n".join(alice.output())
    assert (alice.says("returns/2") or "").split()[:2] == ["1", str(early)]

    began = alice.testbed.job(first)["StartTime"]
    alice.until(lambda: len(alice.lines()) > 1, "link 2", 30 * MINUTE)
    shown = alice.testbed.job(again)
    released = instant(shown["EligibleTime"]) - instant(began)
    assert minutes * MINUTE <= released < LIMIT_MIN * MINUTE
    third = alice.job(3)
    # Link 2 may have planned its release by now.
    assert alice.testbed.job(third)["Dependency"].startswith(f"afterany:{again}(unfulfilled)")

    alice.let_end(2, 3)
    await_end(alice, 3)
    assert alice.lines() == [
        *["begin 1 after nothing", "begin 2 after TIMEOUT", "end 2"],
        *["begin 3 after COMPLETED", "end 3"],
    ]
    words = ("sacct", "-n", "-X", "-P", "-j", str(early), "-o", "State,ExitCode")
    assert alice.run(*words).strip() == "COMPLETED|0:0"
    for name in ("lost.2", "requeued/2", "paused", "done", "stop"):
        assert alice.says(name) is None, name


def instant(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


def test_a_link_that_is_killed_between_its_new_job_and_its_leave_is_not_lost(alice: Alice) -> None:
    _, early = submit_gated(alice)
    await_look(alice)
    alice.run("scancel", "--signal=KILL", "--full", str(early))
    queued = ("squeue", "-h", "-u", "alice", "-o", "%A")
    alice.until(lambda: str(early) not in alice.run(*queued).split(), "its end", 60 * MINUTE)
    let_pass(alice)
    alice.let_end(1, 2)
    await_end(alice, 2)
    assert alice.job(2) != early
    assert alice.lines() == [
        *["begin 1 after nothing", "end 1", "begin 2 after COMPLETED", "end 2"]
    ]
    alice.await_empty_queue(600)


def test_a_link_whose_predecessor_changes_meanwhile_runs_once(make_alice: MakeAlice) -> None:
    ends, requeued, suspended, lengthened = homes = [
        make_alice(name) for name in ("ends", "requeued", "suspended", "lengthened")
    ]
    jobs = [submit_gated(alice) for alice in homes]
    (first, _), (again, _), (stopped, _), (longer, _) = jobs
    for alice in homes:
        await_look(alice)

    ends.let_end(1)
    ends.await_state(first, "COMPLETED")
    root(requeued, "scontrol", "requeue", again)
    requeued.await_state(again, "PENDING")
    root(suspended, "scontrol", "suspend", stopped)
    suspended.await_state(stopped, "SUSPENDED")
    root(lengthened, "scontrol", "update", f"JobId={longer}", f"TimeLimit={2 * DAY_MIN}")
    for alice in homes:
        let_pass(alice)
    # Where the new job may have begun, the early job either cancels it or leaves the link to it.
    await_words(ends, f"its nodes back: job {first} is COMPLETED now")
    await_words(requeued, f"its nodes back: job {again} is PENDING now")
    await_words(suspended, f"link 2 does not give its nodes back: job {stopped} is SUSPENDED now")
    await_words(lengthened, f"link 2 gives its nodes back: job {longer} may run for ")
    root(suspended, "scontrol", "resume", stopped)

    for alice, (_, early) in zip(homes, jobs, strict=True):
        alice.let_end(1, 2)
        await_end(alice, 2)
        if alice in (suspended, lengthened):  # else the new job may have begun, and runs it
            assert (alice.job(2) == early) == (alice is suspended)
        first_end = [] if alice is requeued else ["end 1"]
        *before, begin, end = alice.lines()
        assert before == ["begin 1 after nothing", *first_end], alice.home
        assert begin.startswith("begin 2 after "), alice.home
        assert end == "end 2", alice.home
    ends.await_empty_queue(60 * MINUTE)


def test_a_link_that_a_job_awaits_or_that_may_submit_no_more_keeps_its_nodes(
    make_alice: MakeAlice,
) -> None:
    awaited, full = make_alice("awaited"), make_alice("full")
    for alice in (awaited, full):
        alice.submit(f"--time={DAY_MIN}", f"--mirage-max-overlap={DAY_MIN}:00", links=2)
    early = [alice.job(2) for alice in (awaited, full)]
    words = ("--parsable", f"--dependency=afterok:{early[0]}", "--wrap=true")
    report = awaited.sbatch(*words, wrapped=False)
    assert report.returncode == 0, report.stderr
    limit = ("sacctmgr", "-i", "modify", "user", "alice", "set")
    root(full, *limit, "MaxSubmitJobs=5")
    try:
        for alice, job in zip((awaited, full), early, strict=True):
            alice.await_lines("begin 1 after nothing")
            alice.free(job)
        kept = f"keeps its nodes: job {report.stdout.strip()} depends on this one"
        awaited.until(lambda: kept in (awaited.says("log") or ""), kept, DAY_MIN * MINUTE)
        await_words(full, "link 2 keeps its nodes: ")
        for alice, job in zip((awaited, full), early, strict=True):
            alice.let_end(1, 2)
            await_end(alice, 2)
            assert alice.job(2) == job
    finally:
        root(full, *limit, "MaxSubmitJobs=-1")
    assert (awaited.says("returns/2"), (full.says("returns/2") or "")[:2]) == (None, "1 ")
    full.await_empty_queue(60 * MINUTE)


def root(alice: Alice, *words: str | int) -> None:
    alice.testbed.run([str(word) for word in words])


def await_words(alice: Alice, words: str) -> None:
    alice.until(lambda: words in "\n".join(alice.output()), words, DAY_MIN * MINUTE)
