"""Two links in a row that come to nothing pause the chain; `mirage-link resume` goes on."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm

FAILS = "#!/bin/sh\nexit 2\n"
SAVES = "#!/bin/sh\nmkdir -p $HOME/out/deep; echo $MIRAGE_LINK >$HOME/out/deep/model\n"


def mirage_link(link: EditableLink, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PLUGIN / "mirage-link", *words],
        check=False,
        capture_output=True,
        text=True,
        env=link.slurm.environ,
    )


def test_one_fast_failure_goes_on_and_two_in_a_row_pause(chain: MakeChain) -> None:
    link = chain(FAILS)
    assert link.run(1).stderr == b""
    second = link.run(2)
    assert second.returncode == 2
    reason = "links 1 and 2 each failed within 600 s"
    assert (
        f"mirage: the chain is paused: {reason}; to go on: mirage-link resume"
        in second.stderr.decode()
    )
    assert link.says("paused") == reason
    assert reason in link.logged()
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 103\n"
    third = link.run(3)
    assert (
        third.stderr.decode() == f"mirage: the chain is paused: {reason}; the script is not run\n"
    )
    assert not (link.chain / "started" / "3").exists()


@pytest.mark.parametrize(
    ("ends", "pauses"),
    [
        ([("exit 1", 5), ("exit 1", 5)], True),
        ([("exit 1", 5), ("out_of_memory", 5)], True),
        ([("exit 1", 700), ("exit 1", 5)], False),
        ([("exit 1", 5), ("exit 1", 600)], False),
        ([("exit 1", 5), ("exit 0", 5)], False),
        ([("exit 0", 5), ("exit 1", 5)], False),
        ([("exit 1", 5), ("timeout", 5)], False),
        ([("node_fail", 5), ("node_fail", 5)], False),
    ],
)
def test_the_guard_judges_what_the_last_two_links_left(
    chain: MakeChain, ends: list[tuple[str, int]], pauses: bool
) -> None:
    link = chain()
    for index, (end, seconds) in enumerate(ends, 1):
        link.ran(index, end, seconds=seconds)
    assert bool(link.run(3).stdout) is not pauses
    assert (link.says("paused") is not None) is pauses


def test_a_link_killed_before_it_could_write_is_judged_by_slurms_word(chain: MakeChain) -> None:
    now = int(time.time())
    link = chain()
    link.ran(1, "exit 1", seconds=5)
    link.has("jobs/2", 102)
    link.has("started/2", 102)
    link.slurm.job_is(102, "FAILED", start=now - 30, end=now - 10)
    assert link.run(3).stdout == b""
    assert (link.says("ends/2"), link.says("ran/2")) == ("failed", "20")
    assert link.says("paused") == "links 1 and 2 each failed within 600 s"


def test_the_shortest_run_that_counts_is_the_users(chain: MakeChain) -> None:
    for setting, pauses in ((0, False), (4, False), (6, True)):
        link = chain(min_runtime=setting)
        link.ran(1, "exit 1", seconds=5)
        link.ran(2, "exit 1", seconds=5)
        assert bool(link.run(3).stdout) is not pauses
        link.chain.rename(link.slurm.root / f"chain-{setting}")


def test_a_failing_link_beside_its_running_successor_pauses_nothing(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\n: >$HOME/runs\nuntil [ -e $HOME/end ]; do sleep 0.02; done\nexit 2\n")
    link.ran(1, "exit 1", seconds=5)
    process = link.start(2)
    wait_until((link.slurm.root / "home" / "runs").exists)
    link.has("started/3", 103)
    (link.slurm.root / "home" / "end").touch()
    process.communicate(timeout=60)
    assert link.says("paused") is None


def test_two_links_without_a_checkpoint_pause(chain: MakeChain) -> None:
    link = chain(checkpoint="out")
    path = f"{link.slurm.root}/home/out"
    first = link.run(1)
    assert first.stderr.decode() == f"mirage: link 1 ended before it saved anything in {path}\n"
    second = link.run(2)
    assert f"links 1 and 2 left nothing new in {path}" in second.stderr.decode()
    assert link.says("made/1") == "0"
    assert link.run(3).stdout == b""


@pytest.mark.parametrize("end", ["exit 0", "exit 0 behind a long one", "any end"])
def test_five_brief_links_in_a_row_pause_and_say_how_to_go_on(chain: MakeChain, end: str) -> None:
    link = chain("#!/bin/sh\nexit 0\n", brief="")  # as `--mirage-continue` has it
    first = 1
    if end == "exit 0 behind a long one":
        link.ran(1, "timeout", seconds=60)
        first = 2
    for index in range(first, first + 4):
        if end == "any end":
            link.ran(index, "timeout" if index % 2 else "exit 0", seconds=59)
        else:
            assert link.run(index).stderr == b"", index
    last = first + 4
    done = link.run(last)
    reason = f"links {first} to {last} each ran for less than 60 s"
    said = f"the chain is paused: {reason}; to go on: mirage-link resume {link.chain.name}"
    assert done.stderr.decode() == f"mirage: {said}\n"
    assert link.says("paused") == reason
    standby = link.says(f"jobs/{last + 1}")
    assert (link.slurm.root / "scancelled").read_text() == f"--state=PENDING {standby}\n"
    assert b"the script is not run" in link.run(last + 1).stderr
    (link.slurm.root / "queue").write_text("")
    assert mirage_link(link, "resume", link.chain.name).returncode == 0
    assert link.run(last + 1).stderr == b"", "counted anew"
    assert link.says("paused") is None


def test_brief_links_that_all_stood_from_the_start_pause_nothing(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\nexit 0\n", presubmit="all")
    for index in range(1, 5):
        link.ran(index, "exit 0", seconds=1)
    link.run(5)
    assert link.says("paused") is None


def test_a_new_file_deep_below_the_path_is_progress(chain: MakeChain) -> None:
    link = chain(SAVES, checkpoint="out")
    saved = link.slurm.root / "home" / "out" / "deep" / "model"
    for index in (1, 2, 3):
        assert link.run(index).stderr == b""
        _age(link, index, by_s=100)
    saved_s = int(time.time()) - 50
    os.utime(saved, (saved_s, saved_s))
    (link.chain / "made" / "3").unlink()  # as where link 3 was killed
    assert link.run(4).stderr == b""
    assert link.says("paused") is None
    assert int(link.says("made/3") or "") == saved_s


def test_an_old_checkpoint_is_none(chain: MakeChain) -> None:
    link = chain(checkpoint="model.pt")
    saved = link.slurm.root / "home" / "model.pt"
    saved.touch()
    os.utime(saved, (time.time() - 5000, time.time() - 5000))
    for index in (1, 2):
        link.ran(index, "timeout")
        _age(link, index, by_s=3000 - index)
    link.has("made/1", int(saved.stat().st_mtime))
    assert link.run(3).stdout == b""
    assert "left nothing new" in (link.says("paused") or "")


def _age(link: EditableLink, index: int, *, by_s: int) -> None:
    then = time.time() - by_s
    os.utime(link.chain / "started" / str(index), (then, then))


def test_a_checkpoint_path_that_cannot_be_read_pauses_nothing(chain: MakeChain) -> None:
    link = chain(checkpoint="out")
    (link.slurm.root / "home" / "out").mkdir()
    link.slurm.command("find", "#!/bin/sh\nexit 1\n")
    for index in (1, 2, 3):
        assert link.run(index).stdout == b"ran\n"
    assert link.says("paused") is None


def test_resume_puts_the_next_link_in_place_and_counts_anew(chain: MakeChain) -> None:
    link = chain(FAILS)
    link.run(1)
    link.run(2)
    (link.slurm.root / "queue").write_text("")
    link.has("returns/3", "2 103 0")
    before = len(link.slurm.calls())
    done = mirage_link(link, "resume", link.chain.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert link.says("returns/3") is None
    assert done.stdout == f"link 3\tjob {100 + before + 1}\n"
    call = link.slurm.calls()[-1]
    assert f"--comment=mirage:{link.chain.name}:3" in call.argv
    assert not [word for word in call.argv if word.startswith("--dependency")]
    assert link.says("paused") is None
    assert link.run(3).returncode == 2
    assert link.says("paused") is None
    link.run(4)
    assert link.says("paused") == "links 3 and 4 each failed within 600 s"


def test_resume_stands_behind_a_link_that_still_lives(chain: MakeChain) -> None:
    link = chain()
    link.ran(1, "exit 1")
    link.has("paused", "a reason")
    queue = link.slurm.root / "queue"
    queue.write_text(f"101 mine mirage:{link.chain.name}:1\n55 mirage:other:1\n")
    assert mirage_link(link, "resume", link.chain.name).returncode == 0
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv


def test_a_dependency_of_the_scripts_own_was_the_first_links(chain: MakeChain) -> None:
    link = chain("#!/bin/sh\n#SBATCH --dependency=afterok:42\nexit 2\n")
    link.ran(1, "exit 1")
    link.has("paused", "a reason")
    (link.slurm.root / "queue").write_text("")
    assert mirage_link(link, "resume", link.chain.name).returncode == 0
    said = [word for word in link.slurm.calls()[-1].argv if word.startswith("--dependency")]
    assert said == ["--dependency=0"]


def test_where_all_links_stand_resume_puts_all_that_are_left(chain: MakeChain) -> None:
    link = chain(links=4, presubmit="all")
    link.ran(1, "exit 1")
    link.has("paused", "a reason")
    (link.slurm.root / "queue").write_text("")
    done = mirage_link(link, "resume", link.chain.name)
    assert done.stdout == "link 2\tjob 102\nlink 3\tjob 103\nlink 4\tjob 104\n"
    assert "--dependency=afterany:102:103" in link.slurm.calls()[-1].argv


@pytest.mark.parametrize("trouble", ["sbatch refuses", "squeue is down"])
def test_a_resume_that_fails_leaves_the_chain_paused(chain: MakeChain, trouble: str) -> None:
    link = chain()
    link.ran(1, "exit 1")
    link.has("paused", "a reason")
    if trouble == "squeue is down":
        (link.slurm.root / "slurm.down").touch()
    else:
        link.slurm.answers(stderr="sbatch: error: no\n", code=1)
    done = mirage_link(link, "resume", link.chain.name)
    assert done.returncode == 1
    assert "link 2 was not submitted" in done.stderr
    assert link.says("paused") == "a reason"


def test_a_chain_that_lost_its_standby_unseen_is_resumed(chain: MakeChain) -> None:
    """Both were cancelled, or the standby while no service was there: no guard has seen it."""
    link = chain()
    link.ran(1, "cancelled")
    link.slurm.job_is(101, "CANCELLED")
    (link.slurm.root / "queue").write_text("")
    done = mirage_link(link, "resume", link.chain.name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "link 2\tjob 102\n", "")
    assert link.run(2).stdout == b"ran\n"
    assert link.says("stop") is None


def test_a_chain_that_is_in_the_queue_or_may_be_is_not_resumed(chain: MakeChain) -> None:
    link = chain()
    link.ran(1, "exit 0")
    (link.slurm.root / "queue").write_text(f"102 exp\001 mirage:{link.chain.name}:2\n")
    link.slurm.environ["SQUEUE_STATES"] = "RUNNING"  # it stands there whatever this user is shown
    assert "its job 102 is in the queue" in mirage_link(link, "resume", link.chain.name).stderr
    (link.slurm.root / "slurm.down").touch()
    assert (
        "squeue does not say whether the chain still has a job"
        in mirage_link(link, "resume", link.chain.name).stderr
    )
    assert (len(link.slurm.calls()), link.says("passed.1")) == (1, None)


def test_a_chain_of_another_cluster_is_looked_for_there(slurm: FakeSlurm) -> None:
    """On a host of another cluster squeue alone would show none of its jobs."""
    slurm.script("#!/bin/sh\n:\n")
    link = EditableLink.submitted(slurm, ("sh",), "-M", "there", "--mirage-chain=3", "job.sh")
    assert isinstance(link, EditableLink)
    (slurm.root / "elsewhere").write_text("there\n")
    done = mirage_link(link, "resume", link.chain.name)
    assert (done.returncode, len(slurm.calls())) == (1, 1)
    assert "its job 101 is in the queue" in done.stderr


def test_a_chain_whose_links_have_all_begun_has_none_to_resume_with(chain: MakeChain) -> None:
    link = chain(links=1)
    link.ran(1, "exit 0")
    (link.slurm.root / "queue").write_text("")
    done = mirage_link(link, "resume", link.chain.name)
    assert (done.returncode, "all 1 links" in done.stderr) == (1, True)


def test_a_resumed_link_has_the_chains_name_and_any_script_name_will_do(
    slurm: FakeSlurm, shell: list[str]
) -> None:
    for name in (".hid.sh", "..hid.sh"):
        slurm.script("#!/bin/sh\n", name)
        assert slurm.sbatch("--mirage-chain=3", name).returncode == 0
    chains = slurm.chains()
    assert len(chains) == 2
    for chain in chains:
        (chain / "paused").write_text("a reason\n")
        done = subprocess.run(
            [PLUGIN / "mirage-link", "resume", chain.name],
            env=slurm.environ | {"SLURM_JOB_NAME": "interactive"},
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert not [word for word in slurm.calls()[-1].argv if "job-name" in word]


@pytest.mark.parametrize("marker", ["stop", "done", None])
def test_only_a_paused_chain_is_resumed(chain: MakeChain, marker: str | None) -> None:
    link = chain()
    if marker is not None:
        link.has("paused", "a reason")
        link.has(marker, "over")
    done = mirage_link(link, "resume", link.chain.name)
    assert done.returncode == 1
    assert ("the chain is over (over)" if marker else "not paused") in done.stderr
    assert len(link.slurm.calls()) == 1


def test_a_paused_chain_says_so_in_its_status(chain: MakeChain) -> None:
    link = chain()
    link.has("paused", "a reason")
    assert "paused\ta reason\n" in mirage_link(link, "status", str(link.chain) + "/").stdout


def test_hostile_words_reach_neither_shell_nor_log(chain: MakeChain, tmp_path: Path) -> None:
    link = chain(checkpoint="$(touch bad); `x`\n\033[31m\nforged link 9")
    link.run(1)
    done = link.run(2)
    assert b"\033" not in done.stderr
    assert "\nforged" not in link.logged()
    assert not list(tmp_path.rglob("bad"))
