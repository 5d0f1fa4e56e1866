"""The core of a link: the guard, the standby, signals, and how the end is written down."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import PATIENCE_S, wait_until
from tests.support.slurm_plugin.fakes import FakeSlurm, Link

SCRIPT = "#!/bin/sh\necho link $MIRAGE_LINK of $MIRAGE_LINKS after ${MIRAGE_PREV_JOBID:-none}\n"
REQUEUE = "echo PENDING None N/A N/A >$HOME/../state.101; touch $MIRAGE_DIR/done"
"""What `scontrol requeue` of link 1 leaves, while a later link finishes the work."""
TRAPS = (
    "#!/bin/bash\n"
    'for s in INT USR1 USR2 HUP TERM; do trap "echo $s >>$HOME/got" $s; done\n'
    "touch $HOME/ready\n"
    "i=0; while [ $((i += 1)) -lt 600 ]; do [ -e $HOME/end ] && exit 5; sleep 0.05; done\n"
)


@pytest.fixture
def make(slurm: FakeSlurm, shell: list[str]) -> Callable[..., Link]:
    def submit(*words: str, script: str = SCRIPT) -> Link:
        slurm.script(script)
        return Link.submitted(slurm, shell, *(words or ("--mirage-chain=3", "job.sh")))

    return submit


def test_three_links_each_put_the_next_in_place(make: Callable[..., Link]) -> None:
    link = make("--mirage-chain=3", "-N2", "-d", "afterok:5", "-Hb", "now+1hour", "job.sh", "x")
    outs = [link.run(n, "x").stdout.decode() for n in (1, 2, 3)]
    assert outs == [
        "link 1 of 3 after none\n",
        "link 2 of 3 after 101\n",
        "link 3 of 3 after 102\n",
    ]
    calls = link.slurm.calls()
    assert len(calls) == 3
    assert calls[1].argv == [
        "-N2",
        "--parsable",
        "--dependency=afterany:101",
        f"--comment=mirage:{link.chain.name}:2",
        "--open-mode=append",
        str(link.carrier),
        f"mirage:{link.chain.name}:2",
        "x",
    ]
    assert calls[2].argv[2] == "--dependency=afterany:102"
    assert [link.end_of(n) for n in (1, 2, 3)] == ["exit 0"] * 3


def test_the_standby_has_the_first_submissions_environment_and_directory(
    slurm: FakeSlurm, shell: list[str]
) -> None:
    slurm.script(SCRIPT)
    own = {"X": "a\nb 'c' \"d\"", "SBATCH_ACCOUNT": "a", "MIRAGE_CHAIN": "2", "SLURM_Y": "1"}
    first = slurm.sbatch("--open-mode=truncate", "job.sh", env=own)
    assert first.returncode == 0, first.stderr
    (directory,) = slurm.chains()
    link = Link(slurm=slurm, shell=shell, carrier=directory / "carrier" / "job.sh", chain=directory)
    link.run(env={"X": "changed", "ADDED": "1", "SLURM_JOB_NAME": "renamed"})
    one, two = slurm.calls()
    differ = {n for n in one.env.keys() | two.env.keys() if one.env.get(n) != two.env.get(n)}
    assert differ <= {"_", "OLDPWD", "SLURM_Y"}
    assert one.cwd == two.cwd
    assert "--job-name=renamed" in two.argv
    assert "--open-mode=append" not in two.argv


@pytest.mark.parametrize("python", ["/usr/bin/python3", "/nowhere/python3"])
def test_a_large_environment_reaches_sbatch_whole_and_in_no_command_line(
    slurm: FakeSlurm, shell: list[str], python: str
) -> None:
    large = {f"LARGE{n}": "x" * 100_000 for n in range(11)}
    odd = {"BASH_FUNC_f%%": "() {  :\n}", "a-b": "1"} if "usr" in python else {}
    own = {"AAA": "secret 'of' alice\n", "ZZZ": "2", "UID": "7", **large, **odd}
    slurm.command("env", '#!/bin/sh\necho "$@" >>{home}/seen; exec /usr/bin/env "$@"\n')
    slurm.script(SCRIPT)
    assert slurm.sbatch("--mirage-chain=2", "job.sh", env=own).returncode == 0
    (directory,) = slurm.chains()
    carrier = directory / "carrier" / "job.sh"
    text = carrier.read_text().replace("mirage_python=/usr/bin/python3", f"mirage_python={python}")
    carrier.write_text(text)
    Link(slurm=slurm, shell=shell, carrier=carrier, chain=directory).run()
    one, two = slurm.calls()
    differ = {n for n in one.env.keys() | two.env.keys() if one.env.get(n) != two.env.get(n)}
    assert differ <= {"_", "OLDPWD", "PWD", "SHLVL", *({"UID"} if "nowhere" in python else ())}
    assert b"secret" not in (slurm.root / "seen").read_bytes()


@pytest.mark.parametrize("marker", ["stop", "done"])
def test_a_marker_ends_the_chain_before_the_script(make: Callable[..., Link], marker: str) -> None:
    link = make()
    link.run(1)
    subprocess.run(
        [PLUGIN / "mirage-link", marker],
        check=True,
        env=link.slurm.environ | {"MIRAGE_DIR": str(link.chain)},
    )
    done = link.run(2)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"the script is not run" in done.stderr
    assert len(link.slurm.calls()) == 2


@pytest.mark.parametrize(
    ("slurm_says", "written", "runs"),
    [
        ("CANCELLED", "exit 0", False),
        ("CANCELLED", None, False),
        ("TIMEOUT", "cancelled", True),
        ("PREEMPTED", "cancelled", True),
        ("NODE_FAIL", "cancelled", True),
        ("FAILED", "exit 1", True),
        ("COMPLETED", None, True),
        ("RUNNING", None, True),
        ("PENDING", "cancelled", True),
        (None, "cancelled", False),
        (None, "timeout", True),
        (None, "exit 3", True),
        (None, None, True),
    ],
)
def test_the_guard_believes_slurm_first_and_the_file_second(
    make: Callable[..., Link], slurm_says: str | None, written: str | None, runs: bool
) -> None:
    link = make("--mirage-chain=3", "--mirage-style=concurrent", "job.sh")
    (link.chain / "jobs" / "1").write_text("101\n")
    (link.chain / "started" / "1").write_text("101\n")
    if written is not None:
        (link.chain / "ends" / "1").write_text(f"{written}\n")
    if slurm_says is not None:
        link.slurm.job_is(101, slurm_says, end=int(time.time()) + 600)
    (link.slurm.root / "count").write_text("2\n")  # the next job is 103, and not link 2 itself
    done = link.run(2)
    assert done.returncode == 0
    assert bool(done.stdout) is runs
    assert len(link.slurm.calls()) == (2 if runs else 1)
    if not runs:
        assert b"link 1 was cancelled" in done.stderr
        assert link.run(2).stdout == b""  # a requeue of it changes nothing


def test_a_standby_that_stands_already_is_not_made_twice(make: Callable[..., Link]) -> None:
    link = make()
    queue = link.slurm.root / "queue"
    queue.write_text(f"150 mine mirage:{link.chain.name}:12\n")
    link.run(1)
    assert len(link.slurm.calls()) == 2
    queue.write_text(f"151 mine mirage:{link.chain.name}:2\n")
    link.run(1)
    assert len(link.slurm.calls()) == 2
    assert (link.chain / "jobs" / "2").read_text() == "151\n"


def test_a_requeued_link_makes_the_standby_it_lacks_and_yields_to_a_later_one(
    make: Callable[..., Link],
) -> None:
    link = make()
    before = len(link.slurm.calls())
    assert link.run(1, env={"SLURM_RESTART_COUNT": "1"}).stdout != b""
    assert len(link.slurm.calls()) == before + 1
    (link.chain / "started" / "2").write_text("102\n")
    again = link.run(1, env={"SLURM_RESTART_COUNT": "1"})
    assert (again.returncode, again.stdout) == (0, b"")


def test_a_second_job_of_a_link_does_not_run_the_script(make: Callable[..., Link]) -> None:
    link = make()
    (link.chain / "started" / "2").write_text("202\n")
    calls = len(link.slurm.calls())
    second = link.run(2)
    assert (second.returncode, second.stdout) == (0, b"")
    assert b"link 2 has begun as job 202" in second.stderr
    assert len(link.slurm.calls()) == calls


def test_no_standby_never_stops_the_script(make: Callable[..., Link]) -> None:
    link = make()
    link.slurm.answers(stderr="sbatch: error: QOSMaxSubmitJobPerUserLimit\n", code=1)
    (link.slurm.root / "slurm.down").touch()
    done = link.run(1)
    assert (done.returncode, done.stdout) == (0, b"link 1 of 3 after none\n")
    first, last = done.stderr.decode().splitlines()
    assert first == "mirage: link 2 is not in the queue yet: squeue does not answer"
    assert last.endswith(f"if the link does not come: mirage-link resume {link.chain.name}")
    assert "link 2 is not in the queue yet" in link.log()


def test_done_within_a_link_takes_its_standby_back(make: Callable[..., Link]) -> None:
    link = make(script="#!/bin/sh\ntouch $MIRAGE_DIR/done\n")
    link.run(1)
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102\n"


def started(link: Link, **env: str) -> subprocess.Popen[bytes]:
    process = link.start(1, env=env)
    wait_until((link.slurm.root / "home" / "ready").exists)
    time.sleep(0.15)  # the lookout beside the script is a moment behind on a busy host
    return process


def end_script(link: Link, process: subprocess.Popen[bytes]) -> int:
    """The code of a link whose script has heard a signal, and had time to hear it twice."""
    wait_until(lambda: bool(got(link)))
    time.sleep(0.5)
    (link.slurm.root / "home" / "end").touch()
    process.communicate(timeout=PATIENCE_S)
    return process.returncode


def got(link: Link) -> list[str]:
    path = link.slurm.root / "home" / "got"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("name", ["USR1", "USR2", "HUP", "INT", "TERM"])
def test_a_signal_for_the_batch_shell_is_passed_on_once(
    make: Callable[..., Link], name: str
) -> None:
    link = make(script=TRAPS)
    process = started(link)
    process.send_signal(getattr(signal, f"SIG{name}"))
    assert end_script(link, process) == 5
    assert got(link) == [name]
    assert link.end_of(1) == "exit 5"


@pytest.mark.parametrize("name", ["USR1", "INT"])
def test_a_signal_for_the_whole_job_is_not_passed_on(make: Callable[..., Link], name: str) -> None:
    link = make(script=TRAPS)
    process = started(link)
    link.signal_job(process, name)
    assert end_script(link, process) == 5
    assert got(link) == [name]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("trap 'kill 0' EXIT; sleep 100 & sleep 0.4; exit 0", 143),
        ("sleep 0.4; kill 0", 143),
        ("sleep 0.4; kill -USR1 0", 138),
        ("sleep 0.4; kill -INT 0", 130),
        ("sleep 0.4; kill -TERM $PPID $$", 143),
        ("trap 'exit 5' TERM; sleep 0.4; kill 0; sleep 9", 5),
    ],
)
def test_a_script_that_signals_its_own_group_ends_the_link(
    make: Callable[..., Link], script: str, code: int
) -> None:
    link = make(script=f"#!/bin/bash\n{script}\n")
    link.slurm.job_is(101, "RUNNING")
    process = link.start(1)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert link.end_of(1) == f"exit {code}"


@pytest.mark.parametrize(
    ("deadline_in_s", "slurm_says", "written"),
    [
        (3600, None, "cancelled"),
        (-1, None, "timeout"),
        (3600, "TIMEOUT", "timeout"),
        (3600, "PREEMPTED", "preempted"),
        (3600, "COMPLETING", "cancelled"),
        (3600, "RUNNING", "exit 5"),
    ],
)
def test_terminated_by_slurm_it_writes_why(
    make: Callable[..., Link], deadline_in_s: int, slurm_says: str | None, written: str
) -> None:
    link = make(script=TRAPS)
    if slurm_says is not None:
        link.slurm.job_is(101, slurm_says)
    process = started(link, SLURM_JOB_END_TIME=str(int(time.time()) + deadline_in_s))
    link.signal_job(process, "TERM")
    assert end_script(link, process) == 5
    assert link.end_of(1) == written


@pytest.mark.parametrize(
    ("slurm_says", "written"),
    [
        (None, None),
        ("COMPLETING", None),
        ("TIMEOUT", "timeout"),
        ("CANCELLED", "cancelled"),
    ],
)
def test_a_link_that_was_not_told_its_time_limit_takes_no_silence_for_a_cancellation(
    make: Callable[..., Link], slurm_says: str | None, written: str | None
) -> None:
    """Its time limit ends it as slurmctld comes back. The next link asks Slurm which it was."""
    link = make(script=TRAPS)
    silent = link.slurm.root / "slurm.down"
    silent.touch()
    process = started(link)
    if slurm_says is not None:
        link.slurm.job_is(101, slurm_says)
        silent.unlink()
    link.signal_job(process, "TERM")
    assert end_script(link, process) == 5
    assert link.end_of(1) == written
    taken_back = (link.slurm.root / "scancelled").exists()
    assert taken_back == (written == "cancelled" and (link.chain / "jobs" / "2").exists())


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("1               N/A                             ", "requeued"),
        ("0               1795347311                      ", "preempted"),
        ("0               N/A                             ", "cancelled"),
        ("", "cancelled"),
    ],
)
def test_while_the_job_completes_squeue_knows_what_it_left(
    make: Callable[..., Link], shown: str, written: str
) -> None:
    """Of scontrol it is asked no more: a job's name comes first there, and may say all of it."""
    link = make(script=TRAPS)
    said = "JobId=101 JobName=x Restarts=7 PreemptTime=2026 \nJobId=1 Restarts=9"
    link.slurm.command("scontrol", f"#!/bin/sh\necho '{said}'\n")
    link.slurm.job_is(101, "COMPLETING")
    (link.slurm.root / "shown").write_text(f"{shown}\n")
    process = started(link, SLURM_JOB_END_TIME=str(int(time.time()) + 3600))
    link.signal_job(process, "TERM")
    assert end_script(link, process) == 5
    assert link.end_of(1) == written


def test_begin_knows_a_link_from_a_job_that_it_submitted(make: Callable[..., Link]) -> None:
    begin = f"{PLUGIN}/mirage-link begin; echo $?"
    link = make(script=f"#!/bin/sh\n{begin}\nexport SLURM_JOB_ID=555\n{begin}\n")
    done = link.run(1)
    assert done.stdout == b"0\n1\n"
    assert b"this job is no link: submit the script with" in done.stderr


def test_a_comment_of_several_lines_hides_no_standby(make: Callable[..., Link]) -> None:
    link = make("--mirage-chain=3", "--comment=exp\nseven", "job.sh")
    link.run(1)
    again = link.run(1, env={"SLURM_RESTART_COUNT": "1"})
    assert (again.stdout, again.stderr) == (b"link 1 of 3 after none\n", b"")
    assert len(link.slurm.calls()) == 2
    assert (link.chain / "jobs" / "2").read_text() == "102\n"


def test_done_takes_back_an_earlier_link_that_was_requeued(
    make: Callable[..., Link],
) -> None:
    link = make(script=f"#!/bin/sh\n{REQUEUE}\n")
    (link.chain / "started" / "1").write_text("101\n")
    (link.chain / "jobs" / "1").write_text("101\n")
    link.run(2)
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 102 101\n"
    assert (link.slurm.root / "state.101").read_text().startswith("CANCELLED")


@pytest.mark.parametrize(("words", "code"), [([], 2), (["handover"], 2), (["done", "nochain"], 1)])
def test_mirage_link_says_what_is_wrong(slurm: FakeSlurm, words: list[str], code: int) -> None:
    done = subprocess.run(
        [PLUGIN / "mirage-link", *words],
        check=False,
        capture_output=True,
        env=slurm.environ,
    )
    assert done.returncode == code
    assert done.stderr
