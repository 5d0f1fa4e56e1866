"""What ends or warns a link that waits for its turn, or the link that it waits for."""

from __future__ import annotations

import pytest

from tests.support.patient import wait_until
from tests.support.slurm_plugin.two_links import SHOW_CONFIG, Pair, finish, let_end, lines, waits


@pytest.mark.parametrize("marker", ["done", "stop", "paused"])
def test_a_chain_that_is_halted_turns_the_waiting_link_away(pair: Pair, marker: str) -> None:
    link, _ = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.has(marker, "by the user")
    assert finish(second)[0] == 0
    assert (lines(link), link.says("started/2"), link.says("waits/2")) == (
        ["begin 1 after nothing <>"],
        None,
        None,
    )


def test_a_cancelled_predecessor_ends_the_chain(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link) and lines(link) != [])
    link.slurm.job_is(101, "COMPLETING")
    link.signal(first, "TERM")
    finish(first)
    link.slurm.job_is(101, "CANCELLED")
    assert finish(second)[0] == 0
    assert link.says("stop") == "link 1 was cancelled"
    assert len(lines(link)) == 1
    assert "103" in (link.slurm.root / "scancelled").read_text()


def test_a_waiting_link_that_is_cancelled_is_made_anew_once_and_then_pauses_the_chain(
    pair: Pair,
) -> None:
    link, first = pair()
    link.slurm.command("scontrol", SHOW_CONFIG.format(wait=30, over="0 min"))
    second = link.start(2)
    wait_until(lambda: waits(link) and link.says("jobs/3") is not None)
    third = link.says("jobs/3")
    link.slurm.job_is(102, "COMPLETING")
    link.signal(second, "TERM")
    assert finish(second)[0] == 143
    new = link.says("jobs/2")
    assert new not in {None, "102"}
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv
    updated = (link.slurm.root / "updated").read_text()
    assert updated == f"update JobId={third} Dependency=afterany:101:{new}\n"
    assert (link.says("stop"), link.says("paused"), link.end_of(2)) == (None, None, None)
    again = link.start(2, env={"SLURM_JOB_ID": str(new)})
    wait_until(lambda: link.says("waits/2") is not None)
    link.slurm.job_is(int(new or 0), "COMPLETING")
    link.signal(again, "TERM")
    assert finish(again)[0] == 143
    assert link.says("paused") == "link 2 was cancelled twice before it began"
    let_end(link, 1)
    finish(first)
    assert len(lines(link)) == 2


def test_a_waiting_link_that_nobody_could_make_anew_is_by_the_one_it_waited_for(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link) and link.says("jobs/3") is not None)
    link.signal(second, "KILL")
    second.communicate()
    link.slurm.job_is(102, "CANCELLED")
    (link.slurm.root / "queue").write_text("")
    let_end(link, 1)
    finish(first)
    assert f"--comment=mirage:{link.chain.name}:2" in link.slurm.calls()[-1].argv
    assert (link.says("lost.2"), link.says("paused")) == ("102", None)


def test_a_requeued_predecessor_is_taken_over(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.signal(first, "KILL")
    first.communicate()
    link.has("ends/1", "requeued")
    link.slurm.job_is(101, "PENDING")
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert (link.slurm.root / "scancelled").read_text() == "--state=PENDING 101\n"
    again = link.run(1, env={"SLURM_RESTART_COUNT": "1"})
    assert b"link 2 has begun meanwhile" in again.stderr


@pytest.mark.parametrize("name", ["USR1", "TERM"])
def test_a_warning_during_the_wait_sends_the_link_back(pair: Pair, name: str) -> None:
    """--signal, of which the script has heard nothing; Slurm goes on with the job."""
    link, first = pair()
    link.slurm.job_is(102, "RUNNING")
    second = link.start(2)
    wait_until(lambda: waits(link))
    link.signal(second, name)
    code, said = finish(second)
    new = link.says("jobs/2")
    assert code == 0
    assert (
        f"a signal ({name}) came before the script began: link 2 now waits behind job 101" in said
    )
    assert new not in {None, "102"}
    assert len(lines(link)) == 1
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 1)
    finish(first)
    let_end(link, 2)
    assert link.run(2, env={"SLURM_JOB_ID": str(new)}).returncode == 0
    assert lines(link)[-1] == "end 2"


def test_where_it_cannot_be_put_back_a_warned_link_waits_on(pair: Pair) -> None:
    link, first = pair()
    second = link.start(2)
    wait_until(lambda: waits(link) and link.says("jobs/3") is not None)
    link.slurm.answers(stderr="sbatch: error: QOSMaxSubmitJobPerUserLimit\n", code=1)
    link.signal(second, "USR1")
    wait_until(lambda: "not submitted behind job 101" in link.logged())
    link.slurm.job_is(101, "COMPLETED")
    let_end(link, 1)
    finish(first)
    let_end(link, 2)
    assert finish(second)[0] == 0
    assert lines(link)[-1] == "end 2"
