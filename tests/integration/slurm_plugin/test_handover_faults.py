"""Links that are killed or stopped at every step of a hand-over: nothing is lost, one writes.

Each fault is met by a real process between two system calls of the shipped code. Slurm's word is
a stand-in's, since no Slurm can be made to say NODE_FAIL of a process that lives; the same with a
real Slurm is in test_handover_real.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_plugin.counted_chain import STEPS, Chain


@pytest.fixture
def duo(tmp_path: Path) -> Iterator[Chain]:
    made = Chain(tmp_path)
    yield made
    made.strike()


def overlap(chain: Chain, first: str = "", second: str = "", **env: str) -> None:
    """Link 1 works, link 2 starts beside it; each may carry a fault."""
    gate = chain.root / ("asked" if chain.style == "wait" else "never")
    chain.start(1, FAULT=first, GATE=str(gate), **env)
    chain.wait(lambda: len(chain.lines("step")) >= 6 or chain.halted(1), "six steps")
    chain.start(2, FAULT=second, **env)


@pytest.mark.parametrize("style", ["switch", "wait"])
def test_without_a_fault_no_step_is_lost_or_done_twice(duo: Chain, style: str) -> None:
    duo.style = style
    overlap(duo)
    duo.run_on()
    duo.prove(each_step_once=True)
    if style == "switch":
        assert duo.steps_of(2) > 0, "the predecessor should have ended early"
    else:
        assert duo.steps_of(1) == STEPS, "the predecessor works to its end"
        assert (duo.dir / "handover" / "verdict" / "2").read_text().startswith("done")


PREDECESSOR = [
    ("switch", "step 7"),
    ("switch", "before rename stage"),
    ("switch", "after rename stage#2"),
    ("switch", "half write staged"),
    ("switch", "half write staged#2"),
    ("switch", "before rename checkpoint#2"),
    ("switch", "after rename checkpoint#2"),
    ("switch", "after rename ready#2"),
    ("switch", "before unlink staged#2"),
    ("switch", "before rename free"),
    ("switch", "after rename free"),
    ("switch", "before rename beat#2"),
    ("switch", "before link lease"),
    ("switch", "after link lease"),
    ("switch", "after rename ready"),
    ("wait", "half write staged#2"),
    ("wait", "before rename checkpoint#2"),
    ("wait", "before rename done"),
]
SUCCESSOR = [
    "before rename request",
    "after rename request",
    "after rename request#2",
    "before link lease",
    "after link lease",
    "after unlink stage",
    "before rename ready",
    "after rename ready",
    "before unlink request",
    "before rename verdict",
    "half write staged",
    "before rename checkpoint",
    "after rename checkpoint",
    "before rename done",
    "after rename done",
]


@pytest.mark.parametrize(("style", "point"), PREDECESSOR)
def test_a_predecessor_killed(duo: Chain, style: str, point: str) -> None:
    duo.style = style
    overlap(duo, first=f"kill@{point}")
    duo.run_on()
    assert duo.links[1].returncode == -signal.SIGKILL
    duo.prove()


@pytest.mark.parametrize("point", SUCCESSOR)
def test_a_successor_killed(duo: Chain, point: str) -> None:
    # A lease that was killed leaves something staged for the next to take away.
    first = "kill@half write staged#2" if point == "after unlink stage" else ""
    overlap(duo, first=first, second=f"kill@{point}")
    duo.run_on()
    assert duo.links[2].returncode == -signal.SIGKILL
    duo.prove()


# HANDOVER_SWEEP=1 is every call that either link makes; without it some of them.
SWEEP = range(1, 101) if os.environ.get("HANDOVER_SWEEP") else (11, 29, 43)


@pytest.mark.parametrize("call", SWEEP)
@pytest.mark.parametrize("link", [1, 2])
def test_a_link_killed_at_any_call(duo: Chain, link: int, call: int) -> None:
    fault = f"kill@*#{call}"
    overlap(duo, first=fault if link == 1 else "", second=fault if link == 2 else "")
    duo.run_on()
    duo.prove()


@pytest.mark.parametrize("call", SWEEP)
def test_a_predecessor_stopped_at_any_call_and_lost_comes_back_in_vain(
    duo: Chain, call: int
) -> None:
    overlap(duo, first=f"stop@*#{call}")
    duo.wait(lambda: duo.halted(1) or duo.over(2), "the stop")
    if duo.stopped(1):
        duo.slurm_says(1, "NODE_FAIL")
        duo.wait(lambda: duo.done or duo.over(2), "the successor's work")
        duo.resume(1)
    duo.run_on()
    duo.prove()


STOPPED = [
    "step 7",
    "after rename stage#2",
    "half write staged#2",
    "before rename checkpoint#2",
    "after rename checkpoint#2",
    "before rename ready#2",
    "before rename beat#2",
    "before rename free",
]


@pytest.mark.parametrize("point", STOPPED)
def test_a_predecessor_on_a_lost_node_comes_back_and_overwrites_nothing(
    duo: Chain, point: str
) -> None:
    overlap(duo, first=f"stop@{point}")
    duo.wait(lambda: duo.stopped(1), "the stop")
    duo.slurm_says(1, "NODE_FAIL")
    duo.wait(lambda: duo.committed_by(2), "a checkpoint of the successor")
    duo.resume(1)
    duo.wait(lambda: duo.over(1), "the predecessor's end")
    duo.run_on()
    duo.prove()
    verdict = duo.verdict(1)
    assert verdict.startswith("handed-over" if point.endswith("free") else "lost"), verdict


@pytest.mark.parametrize("point", ["step 7", "half write staged#2", "before rename checkpoint#2"])
def test_nobody_takes_the_lease_of_a_predecessor_that_slurm_says_runs(
    duo: Chain, point: str
) -> None:
    """Stopped for longer than a beat may stand still, it is not gone."""
    overlap(duo, first=f"stop@{point}")
    duo.wait(lambda: duo.stopped(1), "the stop")
    duo.wait(lambda: duo.asked_slurm() >= 4, "questions of Slurm")
    assert {number for _, number, _ in duo.lines()} == {1}
    duo.resume(1)
    duo.run_on()
    duo.prove(each_step_once=True)


@pytest.mark.parametrize("point", ["after rename request", "before link lease"])
def test_a_successor_that_asks_and_does_not_come_is_not_waited_for(duo: Chain, point: str) -> None:
    requests = duo.dir / "handover" / "request"
    requests.mkdir(mode=0o700, parents=True)
    (requests / "2").write_text("an earlier one, so that the first of this run is news\n")
    overlap(duo, second=f"stop@{point}")
    duo.wait(lambda: duo.stopped(2), "the stop")
    duo.wait(lambda: "took-back" in duo.story(), "the lease taken back")
    duo.resume(2)
    duo.run_on()
    duo.prove(each_step_once=True)


@pytest.mark.parametrize("point", ["after link lease", "after rename ready", "half write staged"])
def test_a_successor_on_a_lost_node_comes_back_and_overwrites_nothing(
    duo: Chain, point: str
) -> None:
    overlap(duo, second=f"stop@{point}")
    duo.wait(lambda: duo.stopped(2) and duo.over(1), "the stop")
    duo.slurm_says(2, "PENDING", restarts=1)  # put back for its lost node
    duo.start(3)
    duo.wait(lambda: duo.committed_by(3), "a checkpoint of link 3")
    duo.resume(2)
    duo.run_on()
    duo.prove()
    assert duo.verdict(2).startswith("lost")


def test_scancel_of_the_predecessor_is_meant_for_the_chain(duo: Chain) -> None:
    duo.slurm_says(1, "CANCELLED")
    overlap(duo, first="kill@step 7")
    duo.wait(lambda: duo.over(2), "the successor's end")
    assert duo.links[2].returncode == 0
    assert (duo.dir / "stop").read_text() == "link 1 was cancelled\n"
    assert {number for _, number, _ in duo.lines()} == {1}


VERBS = [
    ("wait", "before rename request"),
    ("wait", "after rename request#2"),
    ("wait", "before link lease"),
    ("wait", "after link lease"),
    ("wait", "before rename ready"),
    ("wait", "before rename verdict"),
    ("release", "before rename free"),
    ("release", "after rename free"),
]


@pytest.mark.parametrize(("verb", "point"), VERBS)
def test_mirage_link_killed(duo: Chain, verb: str, point: str) -> None:
    """The script runs the verb again, as a user would; the program then goes on with the lease."""
    first = second = "exec $count"
    if verb == "wait":
        second = f"FAULT='kill@{point}' $verb wait; $verb wait || exit 0; exec $count"
    else:
        first = f"LEAVE=1 $count; FAULT='kill@{point}' $verb release; $verb release"
    duo.start(1, script=first, GATE=str(duo.root / "never"))
    duo.wait(lambda: len(duo.lines("step")) >= 6, "six steps")
    duo.start(2, script=second)
    duo.run_on()
    duo.prove(each_step_once=True)
    assert "Killed" in (duo.root / f"out.{2 if verb == 'wait' else 1}").read_text()


def test_a_lease_taken_by_a_mirage_link_that_was_killed_is_a_whole_one(duo: Chain) -> None:
    """It died before it had taken away what the predecessor, stopped, was about to make current."""
    duo.start(1, FAULT="stop@before rename checkpoint#2")
    duo.wait(lambda: duo.stopped(1), "the stop")
    duo.slurm_says(1, "NODE_FAIL")
    killed = "FAULT='kill@after link lease' $verb wait; $verb wait || exit 0; exec $count"
    duo.start(2, script=killed)
    duo.wait(lambda: duo.committed_by(2), "a checkpoint of the successor")
    duo.resume(1)
    duo.run_on()
    duo.prove()
    assert duo.verdict(1).startswith("lost")


DEAF = [
    ("down", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"),
    ("garbage", "echo '<html>502</html>'; exit 0"),
    ("nothing", "exit 0"),
    ("half an answer", "echo 'COMPLETED'; exit 0"),
    ("a state unheard of", "echo 'LEVITATING  0'; exit 0"),
]
FORGETFUL = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.mark.parametrize("says", [says for _, says in DEAF], ids=[name for name, _ in DEAF])
def test_no_answer_is_never_read_as_gone(duo: Chain, says: str) -> None:
    """Not even of a predecessor that is dead: the successor waits until Slurm says so."""
    duo.squeue(says)
    overlap(duo, first="kill@step 7")
    duo.wait(lambda: duo.asked_slurm() >= 3, "questions of Slurm")
    assert {number for _, number, _ in duo.lines()} == {1}
    assert not duo.over(2)
    duo.squeue("")
    duo.run_on()
    duo.prove()


def test_a_slurm_that_has_forgotten_a_job_takes_nothing_from_one_that_beats(
    duo: Chain,
) -> None:
    duo.style = "wait"
    duo.squeue(FORGETFUL)
    overlap(duo, STALE_S="10")  # a busy host is slow to beat
    duo.run_on()
    assert duo.asked_slurm() >= 1
    duo.prove(each_step_once=True)


def test_a_job_that_slurm_has_forgotten_and_that_is_still_is_gone(duo: Chain) -> None:
    duo.squeue(FORGETFUL)
    overlap(duo, first="stop@before rename checkpoint#2")
    duo.wait(lambda: duo.committed_by(2), "a checkpoint of the successor")
    duo.resume(1)
    duo.run_on()
    duo.prove()
    assert duo.verdict(1).startswith("lost")


@pytest.mark.parametrize(("first_s", "second_s"), [(86400, 0), (0, 86400), (-7200, 7200)])
@pytest.mark.parametrize("fault", ["", "kill@half write staged#2"])
def test_clocks_that_differ_do_no_harm(duo: Chain, first_s: int, second_s: int, fault: str) -> None:
    deadline = str(int(time.time()) + 3600)
    gate = str(duo.root / "never")
    duo.start(1, SKEW_S=str(first_s), MIRAGE_DEADLINE=deadline, FAULT=fault, GATE=gate)
    duo.wait(lambda: len(duo.lines("step")) >= 6 or duo.over(1), "six steps")
    duo.start(2, SKEW_S=str(second_s), MIRAGE_DEADLINE=deadline)
    duo.run_on()
    duo.prove(each_step_once=not fault)


def test_a_quota_that_cuts_a_write_short_leaves_the_last_checkpoint(duo: Chain) -> None:
    duo.start(1, LIMIT="15")
    duo.run_on()
    duo.prove(each_step_once=True)
    assert [step for _, _, step in duo.lines("full")] == [4, 8, 12]
    assert [step for _, _, step in duo.lines("commit")] == [16, 20, 24, 24]


def test_a_full_disk_leaves_the_last_checkpoint_and_the_lease(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a full disk is a small tmpfs here: mounting one needs root")
    chain = Chain(disk)
    try:
        gate = tmp_path / "gate"
        chain.start(1, GATE=str(gate))  # else a busy machine lets it end before the disk is full
        chain.wait(lambda: chain.committed_by(1), "a first checkpoint")
        with (disk / "ballast").open("wb", buffering=0) as ballast:
            with contextlib.suppress(OSError):
                while ballast.write(b"x" * 4096):
                    pass
            ballast.truncate(ballast.tell() - 8192)  # room for the link's lines, for no checkpoint
        gate.touch()
        chain.wait(lambda: bool(chain.lines("full")), "a checkpoint that found no room")
        kept = chain.read_checkpoint()
        assert kept >= 4
        (disk / "ballast").unlink()
        chain.start(2)
        chain.run_on()
        chain.prove(each_step_once=True)
    finally:
        chain.strike()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_what_a_crash_leaves_about_is_looked_over(duo: Chain) -> None:
    """Half a temporary file, a request of a dead successor, a beat that is no number."""
    for folder in ("lease", "request", "stage", "beat", "ready"):
        (duo.dir / "handover" / folder).mkdir(mode=0o700, parents=True)
        (duo.dir / "handover" / folder / ".1.0123").write_bytes(b"\xff\0half")
    (duo.dir / "handover" / "request" / "2").write_bytes(b"\xff\0")
    (duo.dir / "handover" / "request" / "notes").write_text("of somebody\n")
    (duo.dir / "handover" / "beat" / "1").write_bytes(b"\xff")
    duo.start(1)
    duo.run_on()
    duo.prove(each_step_once=True)
    assert {number for _, number, _ in duo.lines()} == {1}, "a dead successor's request counted"
