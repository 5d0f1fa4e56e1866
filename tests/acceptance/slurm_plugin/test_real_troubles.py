"""Chains in trouble on a real Slurm, with no service: preempted, requeued, at their total, in vain.

Sixty times faster than the clock, on a cluster whose partition `debug` preempts the others' jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_plugin.lone_alice import Alice
from tests.support.slurm_testbed import Testbed, TestbedSettings

pytestmark = pytest.mark.slurm

PROLOG, FAILS = Path("/run/mirage-troubles.prolog"), Path("/run/mirage-troubles.fails")
PREEMPTS = TestbedSettings(
    speed=60,
    nodes=4,
    extra=("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE", f"Prolog={PROLOG}"),
)
HEAD = "#!/bin/bash\n#SBATCH --nodes=1 --exclusive --output=chain.out --open-mode=append\n"
WORK = (
    HEAD
    + """#SBATCH --time=4:00:00
echo "begin $MIRAGE_LINK after ${MIRAGE_PREV_STATE:-nothing}"
trap 'echo "end $MIRAGE_LINK"; exit 0' TERM
until [ -e go.$MIRAGE_LINK ]; do sleep 5; done
"""
)
LONG = HEAD + '#SBATCH --time=6\necho "begin $MIRAGE_LINK $MIRAGE_DEADLINE"\nsleep 7200\n'
IN_VAIN = HEAD + '#SBATCH --time=60\necho "begin $MIRAGE_LINK"\nsleep 30\n'
AT_ONCE = HEAD + '#SBATCH --time=60\necho "begin $MIRAGE_LINK"\nexit 0\n'
HOUR_S = 3600


@pytest.fixture(scope="module")
def cluster(slurm_host: Testbed) -> Testbed:
    PROLOG.write_text(f"#!/bin/sh\n[ ! -e {FAILS} ]\n")
    PROLOG.chmod(0o755)
    slurm_host.up(PREEMPTS, fresh=True)
    slurm_host.run(["scontrol", "update", "PartitionName=debug", "Nodes=ALL"])
    return slurm_host


@pytest.fixture
def alice(cluster: Testbed) -> Iterator[Alice]:
    with Alice.at_home(cluster, "preempted", WORK) as made:
        yield made


def fate(alice: Alice, job: int) -> str:
    """State and time limit of its last run, from accounting: slurmctld forgets in seconds here."""
    words = ("sacct", "-n", "-X", "-P", "-j", str(job), "-o", "State,Timelimit")
    return alice.run(*words).strip()


def preempt(alice: Alice, job: int) -> None:
    """bob's job takes the node of alice's."""
    words = ("-p", "debug", "-w", alice.testbed.job(job)["NodeList"], "--exclusive", "-t", "30")
    bobs = alice.testbed.sbatch(*words, user="bob", run="sleep 1500")
    alice.until(lambda: alice.state(bobs) == "RUNNING", "bob's job", HOUR_S)


def test_a_preempted_chain_goes_on_and_never_has_two_writers(alice: Alice) -> None:
    alice.submit(links=3)
    first, second = alice.job(1), alice.job(2)
    alice.await_lines("begin 1 after nothing")

    preempt(alice, first)
    # Requeued: its standby waits on, and it comes back without making another one.
    alice.until(lambda: alice.lines()[1:] == ["end 1", "begin 1 after nothing"], "it back", HOUR_S)
    assert alice.testbed.job(first)["Restarts"] == "1"
    alice.until(lambda: "terminated: requeued" in (alice.says("log") or ""), "its own word")
    assert alice.state(second) == "PENDING"

    alice.testbed.run(["scontrol", "update", "PartitionName=gpu", "PreemptMode=CANCEL"])
    preempt(alice, first)
    alice.until(lambda: alice.lines()[3:] == ["end 1", "begin 2 after PREEMPTED"], "link 2", HOUR_S)
    assert alice.says("ends/1") == "preempted"
    mine = alice.run("squeue", "-h", "-u", "alice", "-o", "%A").split()
    assert sorted(map(int, mine)) == [second, alice.job(3)]


def test_a_link_that_slurm_could_not_launch_goes_on_as_the_status_says(alice: Alice) -> None:
    """Slurm requeues it and holds it: after a failed prolog, or if slurmctld dies before it has
    saved the job's start."""
    alice.submit(links=3)
    alice.await_lines("begin 1 after nothing")
    second = alice.job(2)
    FAILS.touch()
    try:
        alice.let_end(1)
        command = f"scontrol release {second}"
        hold = f"held (launch failed requeued held; to go on: {command})"
        status = ("mirage-link", "status", alice.chain.name)
        alice.until(lambda: f"\tstandby, {hold}\n" in alice.run(*status), "the hold", HOUR_S)
    finally:
        FAILS.unlink()
    drained = alice.run("sinfo", "-h", "-N", "-t", "drain", "-o", "%N").split()[0]
    alice.testbed.run(["scontrol", "update", f"NodeName={drained}", "State=RESUME"])
    alice.run(*command.split())
    alice.until(lambda: alice.lines()[1:] == ["begin 2 after COMPLETED"], "link 2", HOUR_S)


def bring_back(alice: Alice) -> None:
    """Link 1: an admin requeues it when link 2 has begun."""
    alice.let_end(1)
    alice.submit(links=3)
    alice.until(lambda: len(alice.lines()) == 2, "link 2", HOUR_S)
    alice.testbed.run(["scontrol", "requeue", str(alice.job(1))])


def test_links_that_exit_at_once_pause_after_five_without_a_service(cluster: Testbed) -> None:
    with Alice.at_home(cluster, "at-once", AT_ONCE) as alice:
        alice.submit(links=100)
        alice.await_empty_queue(2 * HOUR_S)
        # A busy machine may take a second of ours, a minute of the cluster's, for the first ones.
        sentence = re.fullmatch(
            r"links (\d+) to (\d+) each ran for less than 60 s", alice.says("paused") or ""
        )
        assert sentence is not None
        first, last = map(int, sentence.groups())
        assert last - first == 4
        assert alice.lines() == [f"begin {link}" for link in range(1, last + 1)]
        told = [line for line in alice.output() if line.startswith("mirage: the chain is paused")]
        assert [line.endswith(f"mirage-link resume {alice.chain.name}") for line in told] == [True]


def test_totals_links_in_vain_and_a_link_that_comes_back_late(
    cluster: Testbed,
) -> None:
    with (
        Alice.at_home(cluster, "total", LONG) as total,
        Alice.at_home(cluster, "in-vain", IN_VAIN) as in_vain,
        Alice.at_home(cluster, "late", WORK) as late,
    ):
        total.submit("--mirage-total=10", links=9)
        in_vain.submit("--mirage-checkpoint=saved", links=9)
        bring_back(late)

        said = "links 1 and 2 left nothing new in"
        in_vain.until(lambda: said in (in_vain.says("paused") or ""), "the pause", HOUR_S)
        assert in_vain.lines() == ["begin 1", "begin 2"]
        # The link tells of the pause after it has made it.
        told = f"mirage: the chain is paused: {said}"
        in_vain.until(lambda: told in "\n".join(in_vain.output()), "its word of the pause")
        ended = f"mirage: link 1 ended before it saved anything in {in_vain.home}/saved"
        assert ended in in_vain.output()
        third = in_vain.job(3)
        in_vain.until(lambda: fate(in_vain, third).startswith("CANCELLED"), "no link 3", HOUR_S)

        total.until(lambda: total.says("done") is not None, "the end", HOUR_S)
        assert "s of the 600 s asked for" in (total.says("done") or "")
        first, second = total.job(1), total.job(2)
        total.until(lambda: "TIMEOUT" in fate(total, second), "its record", HOUR_S)
        assert fate(total, first) == "TIMEOUT|00:06:00"
        assert "00:01:00" <= fate(total, second)[-8:] <= "00:05:00", "what is left of the total"
        assert len(total.lines()) == 2

        gone = "mirage: link 2 has begun meanwhile; the script is not run"
        late.until(lambda: gone in late.output(), "link 1 to leave", HOUR_S)
        assert late.lines() == ["begin 1 after nothing", "begin 2 after COMPLETED"]
