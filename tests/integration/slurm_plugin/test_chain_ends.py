"""When a chain is over: its total time, the user's file, and the ends that it does not survive."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm


def submitted(link: EditableLink) -> int:
    """How many links sbatch has been asked for."""
    return len(link.slurm.calls())


def test_a_link_whose_chain_has_run_its_total_time_does_not_begin(chain: MakeChain) -> None:
    link = chain(total=3000)
    link.ran(1, "timeout", seconds=1999)
    link.ran(2, "timeout", seconds=1001)
    done = link.run(3)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"have run 3000 s of the 3000 s asked for; the script is not run" in done.stderr
    assert submitted(link) == 1
    assert link.says("done") is not None


def test_short_of_its_total_time_a_chain_goes_on(chain: MakeChain) -> None:
    link = chain(total=3001)
    link.ran(1, "timeout", seconds=2000)
    link.ran(2, "timeout", seconds=1000)
    assert link.run(3).stdout == b"ran\n"
    assert submitted(link) == 2


def test_a_predecessor_that_still_runs_counts_so_far(chain: MakeChain) -> None:
    now = int(time.time())
    link = chain(total=500)
    link.has("jobs/1", 101)
    link.has("started/1", 101)
    link.slurm.job_is(101, "RUNNING", start=now - 501, end=now + 60)
    assert link.run(2).stdout == b""
    assert link.says("done") is not None


def test_the_link_that_reaches_the_total_takes_its_standby_back(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\nsleep 1.1\n", total=1001)
    link.ran(1, "timeout", seconds=1000)
    link.run(2)
    assert submitted(link) == 2
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"


@pytest.mark.parametrize(
    ("left_s", "limit_s", "minutes"),
    [(1000, 3600, 17), (59, 3600, 1), (1000, 1020, None), (4000, 3600, None), (1000, None, 17)],
)
def test_no_link_is_longer_than_what_is_left_of_the_total(
    chain: MakeChain, left_s: int, limit_s: int | None, minutes: int | None
) -> None:
    link = chain("#!/bin/sh\necho $MIRAGE_DEADLINE $SLURM_JOB_END_TIME\n", total=left_s + 500)
    link.ran(1, "timeout", seconds=500)
    link.slurm.command("scontrol", '#!/bin/sh\necho "$*" >>{home}/moved\n')
    began = int(time.time())
    end = "N/A" if limit_s is None else began + limit_s
    link.slurm.job_is(102, "RUNNING", start=began, end=end)
    told = "" if limit_s is None else str(end)
    deadline = link.run(2, env={"SLURM_JOB_END_TIME": told}).stdout.decode().split()
    moved = link.slurm.root / "moved"
    if minutes is None:
        assert not moved.exists()
        assert deadline == [str(end)] * 2
    else:
        # The second may have passed in between.
        asked = {f"update JobId=102 TimeLimit={n}\n": n for n in (minutes, minutes + 1)}
        given = asked[moved.read_text()]
        assert deadline in ([], [str(began + 60 * given)] * 2)


def test_what_a_link_ran_is_added_to_what_it_ran_before_a_requeue(chain: MakeChain) -> None:
    link = chain()
    link.has("ran/1", 500)
    link.run(1, env={"SLURM_RESTART_COUNT": "1"})
    assert 500 <= int(link.says("ran/1") or "") <= 510


@pytest.mark.parametrize("relative", [True, False])
def test_the_users_file_ends_the_chain(chain: MakeChain, relative: bool) -> None:
    link = chain("#!/bin/sh\ntouch $HOME/finished\n")
    file = Path(link.slurm.environ["HOME"]) / "finished"
    link.set(until=file.name if relative else file)
    link.run(1)
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"
    late = link.run(2)
    assert late.stdout == b""
    assert b"the chain is done; the script is not run" in late.stderr
    assert submitted(link) == 2


@pytest.mark.parametrize(
    ("states", "end", "goes_on"),
    [
        ("TIMEOUT,PREEMPTED", "FAILED", False),
        ("TIMEOUT,PREEMPTED", "OUT_OF_MEMORY", False),
        ("TIMEOUT,PREEMPTED", "COMPLETED", False),
        ("TIMEOUT,PREEMPTED", "TIMEOUT", True),
        ("TIMEOUT,PREEMPTED", "RUNNING", True),
        ("FAILED", "OUT_OF_MEMORY", True),
        ("NODE_FAIL", "BOOT_FAIL", True),
        ("CANCELLED", "CANCELLED", True),
        ("", "FAILED", True),
    ],
)
def test_a_chain_goes_on_only_after_the_ends_it_was_told(
    chain: MakeChain, states: str, end: str, goes_on: bool
) -> None:
    link = chain(style="concurrent", **{"continue": states})
    link.has("jobs/1", 101)
    link.slurm.job_is(101, end, end=int(time.time()) + 60)
    done = link.run(2)
    assert bool(done.stdout) is goes_on
    if not goes_on:
        sentence = f"link 1 ended as {end}, and this chain goes on only after {states}"
        assert sentence in done.stderr.decode()
        assert link.says("stop") == sentence


@pytest.mark.parametrize(("code", "states"), [(0, "TIMEOUT"), (3, "TIMEOUT,COMPLETED")])
def test_a_link_that_ends_the_chain_takes_its_standby_back(
    chain: MakeChain, code: int, states: str
) -> None:
    link = chain(f"#!/bin/sh\nexit {code}\n", **{"continue": states})
    assert link.run(1).returncode == code
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"
    assert link.run(2).stdout == b""


@pytest.mark.parametrize(
    ("slurm_says", "written", "told"),
    [
        ("PREEMPTED", "exit 1", "PREEMPTED"),
        (None, "exit 0", "COMPLETED"),
        (None, "exit 3", "FAILED"),
        (None, "timeout", "TIMEOUT"),
        (None, "node_fail", "NODE_FAIL"),
        (None, None, ""),
    ],
)
def test_the_script_is_told_how_the_last_link_ended(
    chain: MakeChain, slurm_says: str | None, written: str | None, told: str
) -> None:
    link = chain("#!/bin/sh\necho $MIRAGE_PREV_STATE $MIRAGE_RESUME\n")
    link.has("jobs/1", 101)
    if written is not None:
        link.has("ends/1", written)
    if slurm_says is not None:
        link.slurm.job_is(101, slurm_says)
    assert link.run(2).stdout.decode().split() == [*told.split(), "1"]


def test_only_the_first_run_of_a_chain_does_not_resume(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\necho $MIRAGE_RESUME $MIRAGE_STYLE\n", style="switch")
    assert link.run(1).stdout == b"0 switch\n"
    assert link.run(1, env={"SLURM_RESTART_COUNT": "1"}).stdout == b"1 switch\n"


@pytest.mark.parametrize("value", ["", "x", "1x", "08", "-3", "9" * 30, "$(exit 3)", "1+"])
def test_a_setting_that_makes_no_sense_never_stops_the_script(chain: MakeChain, value: str) -> None:
    names = ("total", "max_overlap", "min_runtime", "beat_s", "pace_s")
    link = chain(**dict.fromkeys(names, value))
    link.ran(1, "exit 1", seconds=5)
    link.has("ran/1", value)
    link.has("resumed", value)
    assert link.run(2).stdout == b"ran\n"


def taken(slurm: FakeSlurm) -> str:
    """A script while which every pending job leaves the queue."""
    return f"#!/bin/sh\n: >{slurm.root}/queue\n"


@pytest.mark.parametrize("end", ["CANCELLED", "DEADLINE", None])
def test_a_standby_that_was_taken_away_is_made_anew(
    slurm: FakeSlurm, chain: MakeChain, end: str | None
) -> None:
    """An admin's scancel, say: the link's own end is the last moment to see to it. None: hours ago,
    and Slurm forgets a job within minutes (MinJobAge)."""
    link = chain(taken(slurm))
    if end is not None:
        slurm.job_is(102, end)
    link.run(1)
    assert (submitted(link), link.says("jobs/2")) == (3, "103")
    assert "--dependency=afterany:101" in slurm.calls()[-1].argv
    assert "a new job is submitted for the link" in link.logged()


def test_a_standby_is_made_anew_once(slurm: FakeSlurm, chain: MakeChain) -> None:
    link = chain(taken(slurm))
    slurm.job_is(102, "CANCELLED")
    link.has("lost.2", 100)
    link.run(1)
    assert submitted(link) == 2


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETED"])
def test_a_standby_that_stands_or_ran_is_left_alone(
    slurm: FakeSlurm, chain: MakeChain, state: str
) -> None:
    link = chain(taken(slurm))
    slurm.job_is(102, state)
    link.run(1)
    assert submitted(link) == 2


def test_a_slurm_that_does_not_answer_has_taken_nothing_away(
    slurm: FakeSlurm, chain: MakeChain
) -> None:
    link = chain(f"#!/bin/sh\ntouch {slurm.root}/slurm.down\n")
    link.run(1)
    assert (submitted(link), link.says("lost.2")) == (2, None)


NARROWED = {"SQUEUE_STATES": "RUNNING", "SQUEUE_PARTITION": "debug", "SQUEUE_USERS": "bob"} | {
    "SCANCEL_USER": "bob",
    "SCANCEL_PARTITION": "debug",
}


def test_what_the_users_own_commands_show_them_is_nothing_to_a_link(
    slurm: FakeSlurm, chain: MakeChain
) -> None:
    """Two standbys would stand where the first is not seen, or one behind a chain that is over."""
    link = chain("#!/bin/sh\ntouch $HOME/finished\n")
    link.set(until=Path(slurm.environ["HOME"]) / "finished")
    slurm.sbatch("--parsable", f"--comment=mirage:{link.chain.name}:2", "job.sh")
    link.run(1, env=NARROWED)
    assert submitted(link) == 2
    assert (slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"


def test_among_links_that_all_stand_none_is_made_anew(slurm: FakeSlurm, chain: MakeChain) -> None:
    link = chain(taken(slurm), presubmit="all")
    link.has("jobs/2", 102)
    slurm.job_is(102, "CANCELLED")
    link.run(1)
    assert submitted(link) == 1
