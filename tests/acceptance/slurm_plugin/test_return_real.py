"""An early link gives its nodes back and is released again by its plan: real Slurm, no service."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

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
    [ -e "$told" ] && read -r count job release <"$told" && [ "$job" = "${{SLURM_JOB_ID-}}" ] || continue
    case $* in
    *'%k %i')
        trap '' TERM  # of the link's own limit
        touch {home}/reached
        while [ -e {home}/reached ]; do sleep 60; done
        ;;
    esac
done
exec /usr/bin/squeue "$@"
"""
"""The look for the new job: no answer comes before the link is killed, however long that takes."""


@pytest.fixture
def alice(slurm_host: Testbed) -> Iterator[Alice]:
    slurm_host.up(TestbedSettings(speed=SPEED, nodes=4), fresh=True)
    with Alice.at_home(slurm_host, "returns", WORKS) as made:
        give_links_time(made.home / "plugin", SPEED)
        yield made


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
    look = alice.home / "plugin" / "squeue"  # the jobs' PATH has the plugin's
    look.write_text(LOOK.format(home=alice.home))
    look.chmod(0o755)
    done = alice.sbatch("--mirage-chain=2", *ask(DAY_MIN), "link.sh")
    assert done.returncode == 0, done.stderr
    early = alice.job(2)
    alice.until((alice.home / "reached").exists, "the look for the new job", DAY_MIN * MINUTE)
    alice.run("scancel", "--signal=KILL", "--full", str(early))
    queued = ("squeue", "-h", "-u", "alice", "-o", "%A")
    alice.until(lambda: str(early) not in alice.run(*queued).split(), "its end", 60 * MINUTE)
    look.unlink()
    alice.let_end(1, 2)
    await_end(alice, 2)
    assert alice.job(2) != early
    assert alice.lines() == [
        *["begin 1 after nothing", "end 1", "begin 2 after COMPLETED", "end 2"]
    ]
    alice.await_empty_queue(600)
