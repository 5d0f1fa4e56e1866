"""An early link gives its nodes back: a new job of the link stands with a plan of its own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink
from tests.support.slurm_plugin.fakes import Call
from tests.support.slurm_plugin.two_links import SHOW_CONFIG, Pair, finish, let_end, lines, waits

FIRST, OWN, NEW = 101, 102, 103
PLANNED = "--dependency=afterany:101?after:101+235"
"""The first link has four hours; five minutes before their end."""


@dataclass(slots=True)
class Early:
    """Link 1 is at work for an hour yet; link 2 waited half a minute, and starts as job 102."""

    link: EditableLink
    first: subprocess.Popen[bytes]

    def starts(self, job: int = OWN, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        return self.link.start(2, env={"SLURM_JOB_ID": str(job)} | (env or {}))

    def leaves(self, job: int = OWN) -> str:
        """Let link 2 start as this job, and return what it says as it leaves."""
        code, said = finish(self.starts(job))
        assert code == 0
        assert "the script is not run" in said
        queue = self.link.slurm.root / "queue"
        left = [line for line in queue.read_text().splitlines() if not line.startswith(f"{job} ")]
        queue.write_text("".join(f"{line}\n" for line in left))
        return said

    def keeps(self, process: subprocess.Popen[bytes], job: int = OWN) -> str:
        """Wait until link 2 waits, let link 1 end, and return what link 2 has said."""
        wait_until(lambda: f"link 2 job {job}: waits for link 1" in self.link.logged())
        self.first_ends()
        let_end(self.link, 2)
        code, said = finish(process)
        assert code == 0
        assert lines(self.link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]
        return said

    def first_ends(self) -> None:
        let_end(self.link, 1)
        finish(self.first)
        self.link.slurm.job_is(FIRST, "COMPLETED")

    def is_seen(self, job: int, *, waited_s: int = 30) -> None:
        """Slurm's word on a job of link 2, which has started now."""
        now = int(time.time())
        self.link.slurm.job_in_full(job, "RUNNING", times=(now - waited_s, now, now + 14400))

    def calls(self) -> list[Call]:
        """What sbatch was asked for link 2, but for the first of its jobs."""
        mark = f"mirage:{self.link.chain.name}:2"
        return [call for call in self.link.slurm.calls() if call.argv[-1] == mark][1:]

    def returns(self) -> str | None:
        said = self.link.says("returns/2")
        return said.split()[0] if said else said


MakeEarly = Callable[..., Early]


def gate(link: EditableLink, command: str, pattern: str, then: str) -> None:
    """Let a command of Slurm's do something after an answer to a call that fits the pattern."""
    path = link.slurm.root / "bin" / command
    real = path.with_name(f"{command}.real")
    path.rename(real)
    text = f'{real} "$@"; code=$?\ncase $* in {pattern}) {then} ;; esac\nexit $code\n'
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@pytest.fixture
def early(pair: Pair) -> MakeEarly:
    def make(*, left_s: int = 3600, waited_s: int = 30, **settings: object) -> Early:
        link, first = pair(**{"returns": 2} | settings)
        end = int(time.time()) + left_s
        start = end - 14400
        link.slurm.job_is(FIRST, "RUNNING", start=start, end=end)
        link.slurm.job_in_full(FIRST, "RUNNING", times=(start, start, end))
        made = Early(link, first)
        made.is_seen(OWN, waited_s=waited_s)
        return made

    return make


def test_it_stands_behind_its_predecessor_with_a_release_of_its_own_and_ends_well(
    early: MakeEarly,
) -> None:
    scene = early()
    said = scene.leaves()
    assert "link 2 gives its nodes back: job 101 may run for 3" in said
    assert "the link is released again at 20" in said
    assert ", as job 103; the script is not run" in said
    (call,) = scene.calls()
    assert PLANNED in call.argv
    link = scene.link
    assert (link.says("jobs/2"), scene.returns()) == ("103", "1")
    for name in ("started/2", "waits/2", "ends/2", "ran/2", "lost.2", "requeued/2", "done"):
        assert link.says(name) is None, name
    assert lines(link) == ["begin 1 after nothing <>"]

    assert "link 2\tjob 103\tstandby: link 2 gives its nodes back" in read_status(link)
    scene.first_ends()
    let_end(link, 2)
    assert finish(scene.starts(NEW))[0] == 0
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]
    assert len(scene.calls()) == 1, "the first link has seen that the second one stands"


def test_after_the_last_return_it_waits(early: MakeEarly) -> None:
    scene = early()
    scene.leaves()
    scene.is_seen(NEW)
    assert "as job 104" in scene.leaves(NEW)
    assert scene.returns() == "2"
    scene.is_seen(104)
    scene.keeps(scene.starts(104), 104)
    assert "keeps its nodes: the link has given its nodes back 2 times, of 2" in scene.link.logged()


def test_where_the_end_is_near_nothing_is_asked(early: MakeEarly) -> None:
    scene = early(left_s=300)
    scene.keeps(scene.starts())
    assert "keeps its nodes: the predecessor ends too soon" in scene.link.logged()
    asked = (scene.link.slurm.root / "questions").read_text()
    assert f"-j {OWN},{FIRST} " not in asked


def test_where_a_new_wait_would_cost_more_it_keeps_its_nodes(early: MakeEarly) -> None:
    scene = early(waited_s=20000)
    scene.keeps(scene.starts())
    assert "by its last wait of 20000 s" in scene.link.logged()
    assert scene.returns() is None


@pytest.mark.parametrize(
    "settings",
    [
        {"returns": 0},
        {"returns": ""},
        {"returns": -1},
        {"returns": 1000},
        {"returns": "x"},
        {"max_returns": "0"},
        {"plans": "never"},
        {"lead": 0},
        {"price": 0},
    ],
    ids=str,
)
def test_who_may_not_keeps_its_nodes(early: MakeEarly, settings: dict[str, object]) -> None:
    scene = early(**settings)
    scene.keeps(scene.starts())
    assert scene.calls() == []
    assert scene.returns() is None


@pytest.mark.parametrize("settings", [{"presubmit": "all"}, {"mode": "submit"}], ids=str)
def test_chains_without_a_standby_keep_their_nodes(
    early: MakeEarly, settings: dict[str, object]
) -> None:
    scene = early(**settings)
    scene.keeps(scene.starts())
    assert not [call for call in scene.link.slurm.calls() if PLANNED in call.argv]


@pytest.mark.parametrize("env", [{"SLURM_RESTART_COUNT": "1"}, {"SLURM_HET_SIZE": "2"}], ids=str)
def test_a_requeued_or_heterogeneous_link_keeps_its_nodes(
    early: MakeEarly, env: dict[str, str]
) -> None:
    scene = early()
    scene.keeps(scene.starts(env=env))
    assert scene.calls() == []


# --- sbatch and squeue in the middle


def test_a_job_that_sbatch_denies_and_the_queue_shows_is_the_new_one(early: MakeEarly) -> None:
    scene = early()
    gate(scene.link, "sbatch", "*after:101*", "echo 'sbatch: error: timed out' >&2; exit 1")
    assert ", as job 103; the script is not run" in scene.leaves()
    assert scene.link.says("jobs/2") == "103"


def test_where_sbatch_refuses_it_keeps_its_nodes_and_the_return_counts(early: MakeEarly) -> None:
    scene = early()
    scene.link.slurm.answers(stderr="sbatch: error: AssocMaxSubmitJobLimit\n", code=1)
    second = scene.starts()
    wait_until(lambda: waits(scene.link))
    scene.link.slurm.answers()
    said = scene.keeps(second)
    assert "link 2 keeps its nodes: sbatch: error: AssocMaxSubmitJobLimit" in said
    assert scene.returns() == "1"
    assert len(scene.calls()) == 1


def test_a_new_job_that_is_not_seen_in_the_queue_lets_nobody_leave(early: MakeEarly) -> None:
    """sbatch has taken it, and slurmctld answers nobody since."""
    scene = early()
    link = scene.link
    gate(link, "sbatch", "*after:101*", f"touch {link.slurm.root}/slurm.down")
    second = scene.starts()
    wait_until(lambda: waits(link))
    assert "link 2 keeps its nodes: squeue does not show its new job" in link.logged()
    assert link.says("jobs/2") == "102"
    (link.slurm.root / "slurm.down").unlink()
    link.slurm.job_is(OWN, "RUNNING")
    assert "link 2 waits already, as job 102" in scene.leaves(NEW)
    assert link.says("waits/2") == "1 101"
    scene.keeps(second)
    assert not (link.slurm.root / "scancelled").exists(), "it is not known to be its own"


def test_the_second_of_two_jobs_of_a_link_leaves_before_it_queues_the_next_link(
    early: MakeEarly,
) -> None:
    """The first one is still about to queue link 3. None of them has given nodes back: two jobs of
    the link before may each have queued this link."""
    scene = early(returns=0)
    link = scene.link
    looks, passed = link.slurm.root / "looks", link.slurm.root / "passed"
    wait = f"touch {looks}; until [ -e {passed} ]; do /usr/bin/sleep 0.1; done"
    gate(link, "squeue", "*'%k %i'", wait)
    second = scene.starts()
    wait_until(looks.exists)
    link.slurm.job_is(OWN, "RUNNING")
    assert "link 2 waits already, as job 102" in scene.leaves(NEW)
    assert (link.says("jobs/2"), link.says("waits/2")) == ("102", "1 101")
    passed.touch()
    scene.keeps(second)


def test_of_two_jobs_of_the_link_one_runs_the_script(early: MakeEarly) -> None:
    scene = early()
    link = scene.link
    gate(link, "sbatch", "*after:101*", f"touch {link.slurm.root}/slurm.down")
    second = scene.starts()
    wait_until(lambda: waits(link))
    (link.slurm.root / "slurm.down").unlink()
    scene.first_ends()
    wait_until(lambda: len(lines(link)) == 3)
    assert f"link 2 has begun as job {OWN}" in scene.leaves(NEW)
    let_end(link, 2)
    finish(second)
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]


MOVES = """#!/bin/sh
case $* in
*.new.102*jobs/2)
    [ -e {chain}/started/2 ] || {{ echo 103 >{chain}/started/2; echo 103 >{chain}/jobs/2; }}
    ;;
esac
exec /usr/bin/mv "$@"
"""


def test_links_ask_about_that_of_two_jobs_which_has_begun(early: MakeEarly) -> None:
    """The other one begins as this one comes to wait: else link 3 would not wait for its end."""
    scene = early(returns=0)
    link = scene.link
    (link.slurm.root / "bin" / "mv").write_text(MOVES.format(chain=link.chain))
    (link.slurm.root / "bin" / "mv").chmod(0o755)
    assert f"link 2 has begun as job {NEW}" in scene.leaves()
    assert (link.says("jobs/2"), link.says("started/2")) == ("103", "103")


def test_the_next_link_waits_for_that_of_two_jobs_which_runs_the_script(early: MakeEarly) -> None:
    """Neither job has seen the other, and the one for which the next link waits is the slower."""
    scene = early()
    link = scene.link
    link.slurm.command("scontrol", SHOW_CONFIG.format(wait=30, over="0 min"))
    gate(link, "sbatch", "*after:101*", f"touch {link.slurm.root}/slurm.down")
    second = scene.starts()
    wait_until(lambda: waits(link))
    (link.slurm.root / "slurm.down").unlink()
    wait_until(lambda: link.says("jobs/3") is not None)
    third = link.says("jobs/3")
    link.signal(second, "STOP")
    other = scene.starts(NEW)  # squeue does not say that job 102 runs
    wait_until(lambda: f"link 2 job {NEW}: waits for link 1" in link.logged())
    scene.first_ends()
    wait_until(lambda: len(lines(link)) == 3)
    updated = link.slurm.root / "updated"
    wait_until(updated.exists)
    assert updated.read_text() == f"update JobId={third} Dependency=afterany:{NEW}\n"
    link.signal(second, "CONT")
    code, said = finish(second)
    assert (code, f"link 2 has begun as job {NEW}" in said) == (0, True)
    let_end(link, 2)
    finish(other)
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]


@pytest.mark.parametrize("state", ["COMPLETED", "SUSPENDED", "PENDING"])
def test_a_predecessor_that_stops_running_meanwhile_is_not_left(
    early: MakeEarly, state: str
) -> None:
    scene = early()
    link = scene.link
    gate(link, "sbatch", "*after:101*", f"echo {state} None N/A N/A >{link.slurm.root}/state.101")
    second = scene.starts()
    wait_until(lambda: "link 2 does not give its nodes back: job 101 is" in link.logged())
    assert (link.slurm.root / "scancelled").read_text().startswith("--state=PENDING 103\n")
    assert link.says("jobs/2") == "102"
    if state == "SUSPENDED":
        scene.keeps(second)
        return
    let_end(link, 1)
    finish(scene.first)
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert lines(link)[1:] == ["end 1", f"begin 2 after {state} <>", "end 2"]


def test_a_link_whose_new_job_has_started_meanwhile_leaves_the_link_to_it(
    early: MakeEarly,
) -> None:
    """The predecessor's end has released the new job. If both waited, each would queue link 3."""
    scene = early()
    link, root = scene.link, scene.link.slurm.root
    then = "; ".join(
        f"echo {state} None N/A N/A >{root}/state.{job}"
        for job, state in ((FIRST, "COMPLETED"), (NEW, "RUNNING"))
    )
    gate(link, "sbatch", "*after:101*", then)
    said = scene.leaves()
    assert "link 2 gives its nodes back: job 101 is COMPLETED now, and its new job 103" in said
    assert (link.says("jobs/2"), link.says("jobs/3"), link.says("waits/2")) == ("103", None, None)
    let_end(link, 1)
    finish(scene.first)
    let_end(link, 2)
    assert finish(scene.starts(NEW))[0] == 0
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]


def test_a_predecessor_that_is_lengthened_meanwhile_is_stood_behind_by_its_new_end(
    early: MakeEarly,
) -> None:
    scene = early()
    link, root = scene.link, scene.link.slurm.root
    state, reason, end, start = (root / f"state.{FIRST}").read_text().split()
    longer = int(end) + 3600
    then = (
        f"echo {state} {reason} {longer} {start} >{root}/state.{FIRST}; "
        f"echo {state} {start} {start} {longer} 1 >{root}/full.{FIRST}"
    )
    gate(link, "sbatch", "*after:101*", then)
    scene.leaves()
    scene.is_seen(NEW)
    scene.leaves(NEW)
    first, second = scene.calls()
    assert PLANNED in first.argv
    assert "--dependency=afterany:101?after:101+295" in second.argv
    assert scene.returns() == "2"


@pytest.mark.parametrize("since", ["requeued/2", "lost.2"])
def test_the_status_tells_of_no_return_once_another_job_stands_for_the_link(
    early: MakeEarly, since: str
) -> None:
    scene = early()
    scene.leaves()
    (scene.link.chain / since).parent.mkdir(exist_ok=True)
    (scene.link.chain / since).write_text("103\n")
    assert "link 2\tjob 103\tstandby\n" in read_status(scene.link)


def read_status(link: EditableLink) -> str:
    words = ["mirage-link", "status", link.chain.name]
    return subprocess.run(
        words, env=link.slurm.environ, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("how", ["stop", "paused", "done"])
def test_a_chain_that_is_over_meanwhile_leaves_no_new_job_behind(
    early: MakeEarly, how: str
) -> None:
    scene = early()
    link = scene.link
    gate(link, "sbatch", "*after:101*", f"echo enough >{link.chain}/{how}")
    code, said = finish(scene.starts())
    assert code == 0
    assert "does not give its nodes back: the chain is done, stopped or paused" in said
    assert "cancelled its new job 103" in said
    assert (link.slurm.root / "scancelled").read_text().startswith("--state=PENDING 103\n")
    assert "the script is not run" in said


def test_a_warning_meanwhile_is_not_lost(early: MakeEarly) -> None:
    """What a standby that runs is warned of has another job run the script."""
    scene = early()
    link = scene.link
    gate(link, "sbatch", "*after:101*", f"touch {link.slurm.root}/made; sleep 20")
    second = scene.starts()
    wait_until((link.slurm.root / "made").exists)
    second.send_signal(10)  # USR1, to the carrier alone
    code, said = finish(second)
    assert code == 0
    assert (link.slurm.root / "scancelled").read_text().startswith("--state=PENDING 103\n")
    assert "a signal (USR1) came before the script began" in said


# --- it is killed between two steps


@pytest.mark.parametrize(
    ("command", "pattern", "count"),
    [
        ("squeue", f"*{OWN},{FIRST}*JobID:*", None),
        ("squeue", "*'%k %i %E'*", None),
        ("sbatch", "*after:101*", "1"),
        ("squeue", "*'%k %i'", "1"),
        ("squeue", f"*'-j {FIRST} -o %T %S %e'", "1"),
    ],
    ids=["it asks", "it looks who waits for it", "it submits", "it looks", "it looks back"],
)
def test_a_link_that_is_killed_in_the_middle_is_neither_lost_nor_doubled(
    early: MakeEarly, command: str, pattern: str, count: str | None
) -> None:
    scene = early()
    link = scene.link
    once = link.slurm.root / "reached"
    stop = f"[ -e {once} ] || {{ touch {once}; /usr/bin/sleep 60; }}"
    gate(link, command, pattern, f"[ ! -e {link.chain}/returns/2 ] || {stop}" if count else stop)
    second = scene.starts()
    wait_until(once.exists)
    link.signal(second, "KILL")
    second.communicate()
    link.slurm.job_is(OWN, "FAILED")
    scene.first_ends()
    standing = [
        line.split()[0]
        for line in (link.slurm.root / "queue").read_text().splitlines()
        if line.endswith(f"mirage:{link.chain.name}:2") and not line.startswith(f"{OWN} ")
    ]
    assert len(standing) == 1
    assert link.says("jobs/2") == standing[0]
    assert scene.returns() == count
    let_end(link, 2)
    assert finish(scene.starts(int(standing[0])))[0] == 0
    assert lines(link)[1:] == ["end 1", "begin 2 after COMPLETED <>", "end 2"]


def test_a_return_counts_before_sbatch_is_asked(early: MakeEarly) -> None:
    scene = early()
    link = scene.link
    sbatch = link.slurm.root / "bin" / "sbatch"
    counted = link.slurm.root / "counted"
    sbatch.write_text(f"#!/bin/sh\ncat {link.chain}/returns/2 >>{counted}\nexit 1\n")
    second = scene.starts()
    wait_until(lambda: waits(link))
    assert counted.read_text().startswith("1 102 ")
    link.has("stop", "by the user")
    finish(second)
    scene.first_ends()


# --- beyond max-overlap


def test_beyond_max_overlap_the_step_back_has_a_release_of_its_own(early: MakeEarly) -> None:
    """Whatever the rule says: it waited for so long that the next wait would cost more. So its new
    job is released earlier than max-overlap before the end, which would be minute 210."""
    scene = early(waited_s=20000, max_overlap=1800)
    assert "gives its nodes back" in scene.leaves()
    (call,) = scene.calls()
    release = next(word for word in call.argv if word.startswith("--dependency="))
    assert 182 <= int(release.removeprefix("--dependency=afterany:101?after:101+")) < 210
    assert (scene.link.says("requeued/2"), scene.returns()) == (None, "1")


@pytest.mark.parametrize(
    "settings",
    [{"returns": 0}, {"max_overlap": 0}, {"style": "concurrent"}, {"style": "wait"}],
    ids=str,
)
def test_without_a_return_the_step_back_is_todays(
    early: MakeEarly, settings: dict[str, object]
) -> None:
    scene = early(**{"max_overlap": 1800} | settings)
    scene.leaves()
    (call,) = scene.calls()
    assert "--dependency=afterany:101" in call.argv
    assert (scene.link.says("requeued/2"), scene.returns()) == ("101", None)


def test_after_a_refusal_beyond_max_overlap_sbatch_is_asked_no_second_time(
    early: MakeEarly,
) -> None:
    scene = early(max_overlap=1800)
    scene.link.slurm.answers(stderr="sbatch: error: down\n", code=1)
    second = scene.starts()
    wait_until(lambda: waits(scene.link))
    assert len(scene.calls()) == 1
    scene.link.slurm.answers()
    scene.keeps(second)
