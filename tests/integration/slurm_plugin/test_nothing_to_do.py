"""A link that finds nothing to do ends its chain, and says so."""

from __future__ import annotations

import pytest

from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm

SAYS = "mirage: the chain is done: link 2 had nothing to do"


def test_a_brief_link_behind_a_long_one_ends_the_chain(chain: MakeChain) -> None:
    link = chain()
    link.ran(1, "timeout", seconds=7200)
    done = link.run(2)
    assert (done.returncode, SAYS in done.stderr.decode()) == (0, True)
    assert "link 1 ran for 7200 s" in (link.says("done") or "")
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"
    assert b"the chain is done; the script is not run" in link.run(3).stderr


ALL_RAN = "mirage: all 2 links have run; nobody said that the work is done\n"


@pytest.mark.parametrize(("ends", "code"), [("exit 0", 0), ("exit 3", 3)])
def test_the_last_link_says_that_nobody_said_that_the_work_is_done(
    chain: MakeChain, ends: str, code: int
) -> None:
    link = chain(f"#!/bin/sh\n{ends}\n", links=2)
    assert link.run(1).stderr == b""
    done = link.run(2)
    assert (done.returncode, done.stderr.decode()) == (code, ALL_RAN)
    assert ALL_RAN.removeprefix("mirage: ") in link.logged() + "\n"


def test_the_last_link_says_nothing_of_work_that_is_done(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\n: >$MIRAGE_DIR/done\n", links=1)
    assert link.run(1).stderr == b""


@pytest.mark.parametrize(
    ("script", "before", "seconds"),
    [
        ("exit 0", "exit 0", 9),  # not ten times as long as a second
        ("exit 3", "timeout", 7200),
        ("kill -s KILL $$", "timeout", 7200),
        ("sleep 1.2", "timeout", 9),
    ],
)
def test_no_other_end_is_taken_for_that(
    chain: MakeChain, script: str, before: str, seconds: int
) -> None:
    link = chain(f"#!/bin/sh\n{script}\n")
    link.ran(1, before, seconds=seconds)
    link.run(2)
    assert link.says("done") is None
    assert not (link.slurm.root / "scancelled").exists()


def test_a_link_that_a_signal_ended_has_found_something(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\ntrap 'exit 0' USR1\necho up\nwhile :; do sleep 0.05; done\n")
    link.ran(1, "timeout", seconds=7200)
    process = link.start(2)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    process.send_signal(10)  # as --signal=B:USR1 does
    process.communicate(timeout=60)
    assert (process.returncode, link.end_of(2), link.says("done")) == (0, "exit 0", None)


def test_a_predecessor_that_still_runs_is_no_measure(chain: MakeChain) -> None:
    """A program of a concurrent chain that finds another at work and ends."""
    link = chain(style="concurrent")
    link.ran(1, "timeout", seconds=7200)
    (link.chain / "ends" / "1").unlink()
    link.slurm.job_is(101, "RUNNING", start=1, end=4000000000)
    link.set(max_overlap=4000000000)
    assert link.run(2).stdout == b"ran\n"
    assert link.says("done") is None


@pytest.mark.parametrize(
    ("words", "goes_on"), [((), False), (("--mirage-continue=TIMEOUT,COMPLETED",), True)]
)
def test_who_said_that_it_goes_on_after_completed_is_believed(
    slurm: FakeSlurm, shell: list[str], words: tuple[str, ...], goes_on: bool
) -> None:
    slurm.script("#!/bin/sh\necho ran\n")
    link = EditableLink.submitted(slurm, shell, "--mirage-chain=9", *words, "job.sh")
    assert isinstance(link, EditableLink)
    link.ran(1, "timeout", seconds=7200)
    assert link.run(2).stdout == b"ran\n"
    assert (link.says("done") is None) is goes_on


def test_what_a_link_waited_is_not_its_run(chain: MakeChain) -> None:
    """It waited for longer than it may take to have found nothing."""
    link = chain()
    link.slurm.sleeps_briefly()
    link.has("jobs/1", 101)
    link.has("started/1", 101)
    link.has("ran/1", 7200)
    link.slurm.job_is(101, "RUNNING", start=1, end=4000000000)
    link.set(max_overlap=4000000000)
    second = link.start(2)
    wait_until(lambda: "waits for link 1" in link.logged() and link.slurm.count_looks() > 50)
    link.has("ends/1", "exit 0")
    link.slurm.job_is(101, "COMPLETED", start=1, end=7201)
    said = second.communicate(timeout=60)[1].decode()
    assert SAYS in said
