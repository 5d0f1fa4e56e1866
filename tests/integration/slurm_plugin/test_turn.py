"""One writer: in a sequential chain no link runs a line of its script beside the one before it.

What is counted is looks and questions.
"""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.two_links import SHOW_CONFIG, Pair, finish, let_end, lines, waits


def test_the_script_is_not_run_before_the_link_before_it_has_ended_in_slurm(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: link.slurm.count_looks() > 30)
    assert lines(link) == ["begin 1 after nothing <>"]
    let_end(link, 1)
    finish(first)
    link.slurm.job_is(101, "COMPLETING")
    looks = link.slurm.count_looks()
    wait_until(lambda: link.slurm.count_looks() > looks + 10)
    assert len(lines(link)) == 2
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]


def test_a_concurrent_chain_runs_both_scripts_at_once(pair: Pair) -> None:
    link, first = pair(style="concurrent")
    second = link.start(2)
    wait_until(lambda: len(lines(link)) == 2)
    assert lines(link)[1] == "begin 2 after RUNNING <>"
    for index in (1, 2):
        let_end(link, index)
    assert (finish(first)[0], finish(second)[0]) == (0, 0)


def test_files_are_looked_at_often_and_slurm_is_asked_seldom(pair: Pair) -> None:
    """Every sixty paces (half an hour), while the link before it shows that it lives."""
    link, first = pair(beat_s=200, pace_s=5)
    second = link.start(2)
    wait_until(lambda: waits(link))
    asked, looks = link.slurm.count_questions(101), link.slurm.count_looks()
    wait_until(lambda: link.slurm.count_looks() >= looks + 320)
    assert 2 <= link.slurm.count_questions(101) - asked <= 3
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 1)
    finish(first)
    let_end(link, 2)
    assert finish(second)[0] == 0


def test_the_first_look_after_the_end_begins_the_script(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.slurm.job_is(101, "COMPLETED")
    asked = link.slurm.count_questions(101)
    let_end(link, 1)
    finish(first)
    wait_until(lambda: len(lines(link)) == 3)
    # One question at that look: its answer is the guard's as well.
    assert link.slurm.count_questions(101) - asked == 1
    let_end(link, 2)
    finish(second)


def test_a_link_that_was_killed_is_asked_after_once_its_heartbeat_stands_still(pair: Pair) -> None:
    link, first = pair(beat_s=20)
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.signal(first, "KILL")
    first.communicate()
    link.slurm.job_is(101, "NODE_FAIL")
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert lines(link)[1:] == ["begin 2 after NODE_FAIL <>", "end 2"]


def test_who_lets_go_of_the_lease_lets_the_next_one_begin(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    env = link.slurm.environ | {"MIRAGE_DIR": str(link.chain), "MIRAGE_LINK": "1"}
    for verb in ("wait", "release"):
        subprocess.run(
            [PLUGIN / "mirage-link", "handover", verb],
            env=env | {"SLURM_JOB_ID": "101"},
            check=True,
        )
    wait_until(lambda: len(lines(link)) == 2)
    assert lines(link)[1].startswith("begin 2")
    for index in (1, 2):
        let_end(link, index)
    assert (finish(first)[0], finish(second)[0]) == (0, 0)


def test_somebody_elses_lease_that_was_let_go_lets_nobody_begin(pair: Pair) -> None:
    """Of an earlier link: it says nothing of the one that runs now."""
    link, first = pair()
    lease = link.chain / "handover" / "lease"
    lease.mkdir(parents=True)
    (lease / "1").write_text("1 99 0\n")
    (lease / "1.free").write_text("")
    second = link.start(2)
    wait_until(lambda: link.slurm.count_looks() > 10)
    assert len(lines(link)) == 1
    link.slurm.job_is(101, "COMPLETED")
    for index in (1, 2):
        let_end(link, index)
    assert (finish(first)[0], finish(second)[0]) == (0, 0)


@pytest.mark.parametrize(
    ("left_s", "wait", "over", "begins"),
    [
        (-100, 30, "0 min", True),
        (-100, 300, "0 min", False),
        (-100, 30, "5 min", False),
        (-100, 30, "UNLIMITED", False),
        (600, 30, "0 min", False),
    ],
)
def test_while_slurm_does_not_answer_the_link_waits_as_long_as_the_other_may_run(
    chain: MakeChain, left_s: int, wait: int, over: str, begins: bool
) -> None:
    link = chain()
    link.slurm.sleeps_briefly()
    link.slurm.command("scontrol", SHOW_CONFIG.format(wait=wait, over=over))
    link.ran(1, "exit 0")
    link.has("deadline/1", int(time.time()) + left_s)
    (link.slurm.root / "slurm.down").touch()
    second = link.start(2)
    if not begins:
        wait_until(lambda: link.slurm.count_questions(101) > 5)
        assert link.says("started/2") is None
        (link.slurm.root / "slurm.down").unlink()
    code, said = finish(second)
    assert (code, "ran\n" in said) == (0, True)
    assert ("can run no more" in said) is begins


def test_while_slurm_does_not_answer_a_heartbeat_that_moves_outlasts_the_deadline(
    pair: Pair,
) -> None:
    """Somebody has lengthened its time limit since Slurm was last asked."""
    link, first = pair(beat_s=100, pace_s=2)
    link.has("deadline/1", int(time.time()) - 1000)
    link.slurm.job_is(101, "RUNNING", start=0, end=int(time.time()) - 1000)
    second = link.start(2)
    wait_until(lambda: waits(link))
    (link.slurm.root / "slurm.down").touch()
    asked = link.slurm.count_questions(101)
    wait_until(lambda: link.slurm.count_questions(101) > asked + 3)
    assert len(lines(link)) == 1
    link.signal(first, "KILL")
    first.communicate()
    let_end(link, 2)
    assert "can run no more" in finish(second)[1]


@pytest.mark.parametrize(("age_s", "asks"), [(3600, False), (2 * 86400, True), (-3600, True)])
def test_how_long_a_job_may_outlast_its_limit_is_asked_once_a_day(
    chain: MakeChain, age_s: int, asks: bool
) -> None:
    link = chain()
    link.slurm.sleeps_briefly()
    link.slurm.command("scontrol", SHOW_CONFIG.format(wait=40, over="1 min"))
    link.ran(1, "exit 0")
    now = int(time.time())
    link.has("deadline/1", now - 1000)
    link.has("grace", f"70 {now - age_s}")
    (link.slurm.root / "slurm.down").touch()
    assert "can run no more" in finish(link.start(2))[1]
    grace_s, at = (link.says("grace") or "").split()
    assert (grace_s, int(at) >= now) == (("100", True) if asks else ("70", False))


@pytest.mark.parametrize(("job", "elsewhere"), [(102, False), ((1 << 26) + 102, True)])
def test_other_clusters_are_asked_of_a_federations_jobs_alone(
    chain: MakeChain, job: int, elsewhere: bool
) -> None:
    link = chain()
    link.ran(1, "exit 0")
    assert finish(link.start(2, env={"SLURM_JOB_ID": str(job)}))[0] == 0
    asked = (link.slurm.root / "questions").read_text().splitlines()
    assert len(asked) > 2
    assert all(line.endswith(" local") is not elsewhere for line in asked)


def test_without_a_time_limit_the_links_own_end_bounds_the_wait(chain: MakeChain) -> None:
    link = chain()
    link.slurm.sleeps_briefly()
    link.slurm.command("scontrol", SHOW_CONFIG.format(wait=1, over="0 min"))
    link.ran(1, "exit 0")
    link.has("deadline/1", "none")
    (link.slurm.root / "slurm.down").touch()
    assert "ran\n" in finish(link.start(2))[1]


def test_without_the_chains_directory_its_marks_in_the_queue_are_looked_for(
    chain: MakeChain,
) -> None:
    link = chain("#!/bin/sh\necho ran\n")
    link.slurm.sleeps_briefly()
    shown = link.slurm.root / "shown"
    mark = f"my own: words mirage:{link.chain.name}"
    rows = [f"{mark}:1 99 RUNNING N/A", f"{mark}:3 103 PENDING N/A", f"{mark}:2 102 RUNNING N/A"]
    shown.write_text("\n".join([*rows, "mirage:another:1 98 RUNNING N/A"]) + "\n")
    link.slurm.command("squeue", "#!/bin/sh\necho >>{home}/asked\ncat {home}/shown\n")
    copy = link.slurm.root / "copy"
    copy.write_bytes(link.carrier.read_bytes())
    link.chain.rename(link.slurm.root / "gone")
    moved = EditableLink(
        slurm=link.slurm, shell=link.shell, carrier=copy, chain=link.chain, processes=link.processes
    )
    second = moved.start(2)
    asked = link.slurm.root / "asked"
    wait_until(lambda: asked.exists() and len(asked.read_text()) > 5)
    assert second.poll() is None
    shown.write_text("\n".join(rows[1:]) + "\n")
    code, said = finish(second)
    assert (code, said.count("waits for job 99"), "ran\n" in said) == (0, 1, True)


def test_the_wait_is_not_the_scripts_time(pair: Pair) -> None:
    """Nor is it in the chain's total, nor is the checkpoint older for it."""
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    real = time.time()
    wait_until(lambda: time.time() > real + 4)
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 1)
    let_end(link, 2)
    finish(first)
    assert finish(second)[0] == 0
    assert int(link.says("ran/2") or 99) <= 3
    assert int(link.says("began/2") or 0) >= int(real) + 4


def test_of_a_link_that_was_killed_no_more_is_counted_than_its_script(chain: MakeChain) -> None:
    """Slurm's start is that of the job, which waited for nearly all of its time."""
    now = int(time.time())
    link = chain("#!/bin/sh\nexit 1\n")
    link.ran(1, "exit 1", seconds=5)
    for name, text in (("jobs/2", 102), ("started/2", 102), ("began/2", now - 30)):
        link.has(name, text)
    link.slurm.job_is(102, "FAILED", start=now - 7200, end=now - 10)
    assert link.run(3).stdout == b""
    assert (link.says("ran/2"), link.says("ends/2")) == ("20", "failed")
    assert link.says("paused") == "links 1 and 2 each failed within 600 s"


def test_the_deadline_is_read_again_after_the_wait(pair: Pair) -> None:
    link, first = pair("#!/bin/sh\n[ $MIRAGE_LINK = 2 ] || sleep 1; echo until $MIRAGE_DEADLINE\n")
    later = int(time.time()) + 5000
    link.slurm.job_is(102, "RUNNING", end=later)
    second = link.start(2, env={"SLURM_JOB_END_TIME": str(later - 1000)})
    wait_until(lambda: waits(link))
    assert link.says("deadline/2") == str(later - 1000)
    link.slurm.job_is(101, "COMPLETED")
    finish(first)
    assert finish(second)[1].count(f"until {later}\n") == 1
    assert link.says("deadline/2") == str(later)


def test_status_says_for_whom_a_link_waits(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: link.says("waits/2") is not None)
    (link.slurm.root / "queue").write_text(
        "".join(f"{100 + n} mirage:{link.chain.name}:{n}\n" for n in (1, 2, 3))
    )
    done = subprocess.run(
        [PLUGIN / "mirage-link", "status", link.chain.name],
        env=link.slurm.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "link 2\tjob 102\twaits for link 1 (job 101)\n" in done.stdout
    assert "link 1\tjob 101\trunning\n" in done.stdout
    link.has("stop", "by the user")
    let_end(link, 1)
    finish(first)
    finish(second)


def test_a_link_behind_one_that_waits_goes_back_behind_it(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.slurm.job_is(102, "RUNNING")
    third = link.run(3)
    assert b"link 2 has not begun: link 3 now waits behind job" in third.stderr
    assert "--dependency=afterany:102" in link.slurm.calls()[-1].argv
    link.has("stop", "by the user")
    let_end(link, 1)
    finish(first)
    finish(second)


@pytest.mark.parametrize("settings", [{"presubmit": "all"}, {"mode": "submit"}])
def test_chains_without_a_standby_wait_too(pair: Pair, settings: dict[str, str]) -> None:
    link, first = pair(**settings)
    second = link.start(2)
    wait_until(lambda: waits(link))
    if "mode" in settings:
        assert link.says("jobs/3") is None
    let_end(link, 1)
    finish(first)
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]
