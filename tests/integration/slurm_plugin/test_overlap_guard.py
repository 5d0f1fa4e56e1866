"""A link that starts too early stands behind its predecessor once, then waits for its end."""

from __future__ import annotations

import time

import pytest

from tests.support.patient import PATIENCE_S, wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain


def beside(link: EditableLink, left_s: int | str, *, index: int = 1) -> None:
    """Let a link run for so long yet."""
    job = 100 + index
    link.has(f"jobs/{index}", job)
    link.has(f"started/{index}", job)
    end = left_s if isinstance(left_s, str) else int(time.time()) + left_s
    link.slurm.job_is(job, "RUNNING", end=end)


@pytest.mark.parametrize(
    ("left_s", "max_overlap", "begins"),
    [
        (3600, 14400, True),
        (14500, 14400, False),
        (3600, "", True),
        (3600, 0, False),
        (-5, 0, False),
        ("N/A", 14400, False),
    ],
)
def test_a_link_begins_beside_its_predecessor_only_near_its_end(
    chain: MakeChain, left_s: int | str, max_overlap: object, begins: bool
) -> None:
    link = chain(max_overlap=max_overlap, style="concurrent")
    beside(link, left_s)
    done = link.run(2, env={"SLURM_JOB_ID": "202"})
    assert (done.returncode, bool(done.stdout)) == (0, begins)
    call = link.slurm.calls()[-1]
    if begins:
        assert f"--comment=mirage:{link.chain.name}:3" in call.argv
    else:
        assert "--dependency=afterany:101" in call.argv
        assert call.argv[-1] == f"mirage:{link.chain.name}:2"
        assert b"link 2 now waits behind job 101, as job 102; the script is not run" in done.stderr
        assert (link.says("jobs/2"), link.says("requeued/2")) == ("102", "101")
        assert not (link.chain / "started" / "2").exists()


def test_the_second_early_start_waits_for_the_end(chain: MakeChain) -> None:
    link = chain(max_overlap=0, pace_s=1)
    link.has("requeued/2", 101)
    beside(link, 3600)
    process = link.start(2)
    wait_until(lambda: link.says("jobs/3") is not None)
    assert (link.says("started/2"), link.says("jobs/2")) == (None, "102")
    assert link.end_of(2) is None
    link.slurm.job_is(101, "COMPLETED")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out == b"ran\n"
    assert b"the script starts after the job has ended" in err
    assert link.end_of(2) == "exit 0"


def test_who_cannot_be_put_behind_waits_too(chain: MakeChain) -> None:
    link = chain(max_overlap=0, pace_s=1)
    beside(link, 3600)
    link.slurm.answers(stderr="sbatch: error: QOSMaxSubmitJobPerUserLimit\n", code=1)
    process = link.start(2)
    wait_until(lambda: "the script starts after the job has ended" in link.logged())
    link.slurm.job_is(101, "TIMEOUT")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out == b"ran\n"
    assert b"not submitted behind job 101: sbatch: error: QOSMaxSubmitJobPerUserLimit" in err


@pytest.mark.parametrize("end", ["CANCELLED", "stop"])
def test_while_it_waits_the_chain_may_end(chain: MakeChain, end: str) -> None:
    link = chain(max_overlap=0, pace_s=1)
    link.has("requeued/2", 101)
    beside(link, 3600)
    process = link.start(2)
    wait_until(lambda: "the script starts after the job has ended" in link.logged())
    if end == "stop":
        link.has("stop", "by the user")
    else:
        link.slurm.job_is(101, end)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, b"")
    assert not (link.chain / "started" / "2").exists()
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"


def test_a_predecessor_whose_queue_cannot_be_asked_is_not_taken_for_ended(chain: MakeChain) -> None:
    """Slurm is down as the link starts; the heartbeat of the predecessor is seen."""
    link = chain(max_overlap=0, pace_s=1)
    beside(link, 3600)
    link.has("beat/1", int(time.time()))
    (link.slurm.root / "slurm.down").touch()
    link.slurm.answers(stderr="sbatch: error: down\n", code=1)
    process = link.start(2)
    wait_until(lambda: "the script starts after the job has ended" in link.logged())
    (link.slurm.root / "slurm.down").unlink()
    link.has("ends/1", "exit 0")  # from now on it asks at each look
    asked = link.slurm.count_questions(101)
    wait_until(lambda: link.slurm.count_questions(101) >= asked + 3)
    assert process.poll() is None
    link.slurm.job_is(101, "COMPLETED")
    assert process.communicate(timeout=PATIENCE_S)[0] == b"ran\n"


def test_an_earlier_link_than_the_predecessor_counts_as_well(chain: MakeChain) -> None:
    link = chain(max_overlap=0)
    beside(link, 3600)
    link.ran(2, "exit 1")
    done = link.run(3)
    assert b"the script is not run" in done.stderr
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv


@pytest.mark.parametrize("word", ["PENDING", "EXPEDITING"])
def test_a_link_that_took_over_cancels_its_requeued_predecessor(
    chain: MakeChain, word: str
) -> None:
    link = chain()
    link.has("jobs/1", 101)
    link.has("started/1", 101)
    link.slurm.job_is(101, word)
    assert link.run(2).stdout == b"ran\n"
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 101\n"
    again = link.run(1, env={"SLURM_RESTART_COUNT": "1"})
    assert again.stdout == b""
    assert b"link 2 has begun meanwhile" in again.stderr


def test_the_cancelling_of_a_requeued_predecessor_is_not_the_users(chain: MakeChain) -> None:
    """Link 2 took over, and was itself requeued later: Slurm calls link 1 CANCELLED by then."""
    link = chain("#!/bin/sh\necho after $MIRAGE_PREV_STATE\n")
    link.has("jobs/1", 101)
    link.has("started/1", 101)
    link.slurm.job_is(101, "PENDING")
    assert link.run(2).stdout == b"after PENDING\n"
    assert (link.slurm.root / "state.101").read_text().startswith("CANCELLED")
    assert link.run(2, env={"SLURM_RESTART_COUNT": "1"}).stdout == b"after REQUEUED\n"
    assert (link.says("stop"), link.says("ends/1")) == (None, "requeued")


def test_a_new_job_of_a_link_that_was_passed_is_cancelled_by_its_user(chain: MakeChain) -> None:
    link = chain()
    link.ran(1, "cancelled")
    link.has("passed.1", 99)
    assert link.run(2).stdout == b""
    assert link.says("stop") == "link 1 was cancelled"


def test_a_requeued_predecessor_that_begins_at_the_same_moment_is_waited_for(
    chain: MakeChain,
) -> None:
    link = chain(max_overlap=0, pace_s=1)
    link.has("jobs/1", 101)
    link.has("started/1", 101)
    link.slurm.job_is(101, "PENDING")
    runs = "RUNNING None N/A N/A"
    link.slurm.command("scancel", f"#!/bin/sh\necho '{runs}' >{{home}}/state.101\n")
    process = link.start(2)
    wait_until(lambda: "the script starts after the job has ended" in link.logged())
    assert link.says("started/2") is None
    link.slurm.job_is(101, "COMPLETED")
    assert process.communicate(timeout=PATIENCE_S)[0] == b"ran\n"


def test_presubmitted_links_make_no_standby(chain: MakeChain) -> None:
    link = chain(presubmit="all", links=3)
    for index in (1, 2, 3):
        link.has(f"jobs/{index}", 100 + index)
    assert [link.run(index).stdout for index in (1, 2, 3)] == [b"ran\n"] * 3
    assert len(link.slurm.calls()) == 1


def test_where_not_all_links_stand_the_last_one_puts_the_next_in_place(chain: MakeChain) -> None:
    """The wrapper was refused them; it may still be at it, so not at once."""
    link = chain(
        "#!/bin/sh\nuntil [ -e $HOME/end ]; do sleep 0.1; done\n", presubmit="all", pace_s=1
    )
    process = link.start(1)
    wait_until(lambda: link.says("beat/1") is not None)
    assert len(link.slurm.calls()) == 1
    wait_until(lambda: link.says("jobs/2") is not None)
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv
    (link.slurm.root / "home" / "end").touch()
    process.communicate(timeout=PATIENCE_S)
    assert len(link.slurm.calls()) == 2


def test_a_presubmitted_link_beside_an_earlier_one_steps_back(chain: MakeChain) -> None:
    """The user has cancelled the pending link between them."""
    link = chain(presubmit="all", links=5)
    beside(link, 60)
    for index in (2, 3, 4, 5):
        link.has(f"jobs/{index}", 200 + index)
    link.slurm.job_is(202, "CANCELLED")
    link.slurm.command("scontrol", "#!/bin/sh\nprintf '%s\\n' \"$*\" >>{home}/updated\n")
    done = link.run(3, env={"SLURM_JOB_ID": "203"})
    assert done.stdout == b""
    assert (link.slurm.root / "updated").read_text().splitlines() == [
        "update JobId=204 Dependency=afterany:101:102",
        "update JobId=205 Dependency=afterany:101:102:204",
    ]
