"""Chains in trouble on a real Slurm, with no service: preempted, requeued, at their total, in vain.

Sixty times faster than the clock, on a cluster whose partition `debug` preempts the others' jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm_plugin.lone_alice import Alice
from tests.slurm_testbed import Testbed, TestbedSettings

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

PREEMPTS = TestbedSettings(
    speed=60, nodes=4, extra=("PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE")
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
HOUR_S = 3600


@pytest.fixture(scope="module")
def cluster(slurm_host: Testbed) -> Testbed:
    slurm_host.up(PREEMPTS, fresh=True)
    slurm_host.run(["scontrol", "update", "PartitionName=debug", "Nodes=ALL"])
    return slurm_host


@pytest.fixture
def alice(cluster: Testbed) -> Iterator[Alice]:
    with Alice.at_home(cluster, "preempted", WORK) as made:
        yield made


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


def brought_back(alice: Alice) -> int:
    """Link 1, which an admin requeues when link 2 has begun."""
    alice.let_end(1)
    alice.submit(links=3)
    alice.until(lambda: len(alice.lines()) == 2, "link 2", HOUR_S)
    first = alice.job(1)
    alice.testbed.run(["scontrol", "requeue", str(first)])
    return first


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
        back = brought_back(late)

        said = "links 1 and 2 left nothing new in"
        in_vain.until(lambda: said in (in_vain.says("paused") or ""), "the pause", HOUR_S)
        assert in_vain.lines() == ["begin 1", "begin 2"]
        told = "\n".join(in_vain.output())
        assert f"mirage: link 1 ended before it saved anything in {in_vain.home}/saved" in told
        assert f"mirage: the chain is paused: {said}" in told
        in_vain.until(lambda: in_vain.state(in_vain.job(3)) == "CANCELLED", "no link 3")

        total.until(lambda: total.says("done") is not None, "the end", HOUR_S)
        assert "s of the 600 s asked for" in (total.says("done") or "")
        first, second = total.job(1), total.job(2)
        assert [total.state(job) for job in (first, second)] == ["TIMEOUT", "TIMEOUT"]
        limits = [total.testbed.job(job)["TimeLimit"] for job in (first, second)]
        assert limits[0] == "00:06:00"
        assert "00:01:00" <= limits[1] <= "00:05:00", "what is left of the total"
        assert len(total.lines()) == 2

        late.until(lambda: late.state(back) == "COMPLETED", "link 1 to leave", HOUR_S)
        assert "mirage: link 2 has begun since; the script is not run" in late.output()
        assert late.lines() == ["begin 1 after nothing", "begin 2 after COMPLETED"]
