"""A link's plan and what stands already: in Slurm, in the chain's files, in the user's cache."""

from __future__ import annotations

import ast
import os
import re
import time
from pathlib import Path

import pytest

from mirage.slurm.text import command_errors
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.planning import HOUR, NEXT, OWN, Planning


@pytest.mark.parametrize(
    "stands",
    [
        "(null)",
        "afterany:101(unfulfilled),afterok:7(unfulfilled)",
        "afterany:101(unfulfilled)?after:101+9(unfulfilled)",
        "afterok:101(unfulfilled)",
        "afterany:101(unfulfilled),singleton(unfulfilled)",
    ],
)
def test_a_dependency_that_somebody_changed_is_theirs(planning: Planning, stands: str) -> None:
    planning.waited([HOUR] * 30)
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=stands)
    planning.plan()
    assert planning.updates() == []
    assert "somebody else changed the dependency of job" in planning.log()
    assert planning.again_at() == 0


def test_its_own_plan_is_moved_and_one_that_was_taken_back_is_not(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.runs(end=planning.end + 2 * HOUR)  # the time limit was changed
    planning.plan(3)
    assert planning.lead_minutes() == -60
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=f"afterany:{OWN}(unfulfilled)")
    planning.plan(3, max_lead="5")
    assert planning.minutes() is None


def test_a_plan_that_was_cut_off_as_it_was_written_is_known_either_way(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    kept = planning.chain / "plans/1"
    first, said = kept.read_text().split("\n")[:2]
    words = first.split(" ")
    for stands in ("1200", "-"):
        # What stood before it is the last word of a line whose end is not known.
        kept.write_text(" ".join([*words[:2], "1300", *words[3:], stands]) + f"\n{said}\n")
        term = "" if stands == "-" else f"?after:{OWN}+{stands}(unfulfilled)"
        for now in (term, f"?after:{OWN}+1300(unfulfilled)"):
            before = kept.read_text()
            planning.slurm.job_in_full(
                NEXT, "PENDING", dependency=f"afterany:{OWN}(unfulfilled){now}"
            )
            planning.plan(3)
            assert planning.lead_minutes() == 60
            kept.write_text(before)


def test_a_small_move_is_none_and_costs_no_question_the_second_time(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    asked = len(planning.questions())
    assert (asked, len(planning.updates())) == (1, 1)
    planning.plan(2)
    assert len(planning.questions()) == asked
    planning.plan(3)
    assert (len(planning.questions()), len(planning.updates())) == (2, 1)
    assert planning.again_at() == planning.end - HOUR, "the release: only a suspension looks again"


@pytest.mark.parametrize("state", ["SUSPENDED", "COMPLETING", "PENDING"])
def test_a_predecessor_that_does_not_run_gets_no_plan(planning: Planning, state: str) -> None:
    planning.waited([HOUR] * 30)
    planning.runs(state=state)
    planning.plan()
    assert planning.updates() == []


@pytest.mark.parametrize(("job", "elsewhere"), [(OWN, False), ((1 << 26) + OWN, True)])
def test_other_clusters_are_asked_of_a_federations_jobs_alone(
    planning: Planning, job: int, elsewhere: bool
) -> None:
    planning.plan(job=job)
    (question,) = planning.questions()
    assert question.endswith(" local") is not elsewhere


def test_a_predecessor_that_slurm_has_forgotten_gets_no_plan(planning: Planning) -> None:
    """The term would be met at once."""
    planning.waited([HOUR] * 30)
    (planning.slurm.root / f"full.{OWN}").unlink()
    assert planning.plan().returncode == 3
    assert planning.updates() == []


@pytest.mark.parametrize("end", ["N/A", "NONE"])
def test_without_an_end_there_is_no_plan(planning: Planning, end: str) -> None:
    planning.waited([HOUR] * 30)
    planning.runs(end=end)
    planning.plan()
    assert planning.updates() == []


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_while_an_earlier_link_runs_there_is_none(planning: Planning, state: str) -> None:
    planning.waited([HOUR] * 30)
    planning.has("jobs/2", OWN)
    planning.has("jobs/3", NEXT)
    planning.has("jobs/1", 100)
    planning.has("beat/1", int(time.time()))
    times = ("N/A", planning.start, planning.end)
    planning.slurm.job_in_full(100, state, times=times)
    assert planning.plan(link=2).returncode == 3
    assert planning.plan(link=2).returncode == 3
    assert planning.questions() == [], "its files tell"
    assert planning.log().count("no plan yet: link 1 still runs") == 1
    planning.has("deadline/1", planning.start)
    assert planning.plan(link=2).returncode == 3, "its time is over, and still it runs"
    planning.has("ends/1", "timeout")
    assert planning.plan(link=2).returncode == 0
    assert planning.lead_minutes() == 60


def test_a_next_link_that_came_too_early_once_has_no_second_plan(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    (planning.chain / "requeued").mkdir()
    planning.has("requeued/2", OWN)
    planning.plan()
    assert planning.updates() == []


def test_a_next_link_that_gave_its_nodes_back_keeps_its_own_release(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    (planning.chain / "returns").mkdir()
    planning.has("returns/2", f"1 {OWN} 0")
    planning.plan()
    assert planning.updates() == []
    assert "the next link has given its nodes back, with a release of its own" in planning.log()


def test_a_site_that_refuses_is_asked_once_in_the_chains_life(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    refusal = planning.slurm.root / "scontrol.err"
    refusal.write_text("slurm_update error: Access/permission denied\n")
    planning.plan()
    planning.plan(2)
    refusal.unlink()
    planning.has("jobs/3", 103)
    planning.has("jobs/2", OWN)
    planning.plan(link=2)
    assert len(planning.updates()) == 1
    assert "the site refuses plans: slurm_update error: Access/permission denied" in planning.log()


@pytest.mark.parametrize(
    "said",
    [
        "slurm_update error: Unable to contact slurm controller (connect failure)",
        "Unexpected message received for job 42",
        "slurm_update error: Zero Bytes were transmitted or received",
        "slurm_update error: Job/step already completing or completed",
    ],
)
def test_a_slurm_that_does_not_answer_is_no_refusal(planning: Planning, said: str) -> None:
    planning.waited([HOUR] * 30)
    trouble = planning.slurm.root / "scontrol.err"
    trouble.write_text(f"{said}\n")
    assert planning.plan().returncode == 3, "the link asks again soon"
    assert planning.minutes() is None
    assert f"no plan: Unseen: {said}" in planning.log()
    trouble.unlink()
    planning.plan(2)
    assert planning.lead_minutes() == 60


@pytest.mark.parametrize("end", ["kill -TERM $$", "kill -TERM $PPID; sleep 5", "exit 143"])
def test_a_change_that_a_signal_cut_short_is_no_refusal(planning: Planning, end: str) -> None:
    """At its time limit a link's processes are sent one, as it plans."""
    planning.waited([HOUR] * 30)
    scontrol = planning.slurm.root / "bin" / "scontrol"
    real = scontrol.read_text()
    scontrol.write_text(f"#!/bin/sh\n{end}\n")
    assert planning.plan().returncode == 3, "the link asks again"
    assert not (planning.chain / "unplanned").exists()
    scontrol.write_text(real)
    planning.plan(2)
    assert planning.lead_minutes() == 60


def test_a_change_that_slurm_made_without_an_answer_is_the_links_own(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    trouble = planning.slurm.root / "scontrol.err"
    trouble.write_text("Unexpected message received for job 102\n")
    planning.plan()
    trouble.unlink()
    minutes = (planning.end - planning.start) // 60 - 60
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=f"afterany:{OWN}?after:{OWN}+{minutes}")
    planning.plan(2)
    assert len(planning.updates()) == 1, "it stands already"
    planning.plan(3, lead=2 * HOUR)
    assert planning.lead_minutes() == 120


@pytest.mark.parametrize("nothing", ["", "(null)"])
def test_a_plan_that_slurm_has_carried_out_is_nobody_elses_change(
    planning: Planning, nothing: str
) -> None:
    planning.waited([23 * HOUR] * 30)
    planning.plan(max_overlap=24 * HOUR)
    assert planning.minutes() == 60, "it began an hour ago"
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=nothing)
    planning.plan(3, lead=2 * HOUR)
    assert planning.log().splitlines()[-1].endswith("released the next link, job 102, by the plan")
    assert len(planning.updates()) == 1


UNCONFIRMED = "slurm_update error: Zero Bytes were transmitted or received\n"


def test_what_slurm_has_not_confirmed_is_taken_back_too(planning: Planning) -> None:
    """A step back to plain `afterany` was not confirmed, and then the admin's word changes."""
    planning.waited([HOUR] * 30)
    planning.plan()
    trouble = planning.slurm.root / "scontrol.err"
    trouble.write_text(UNCONFIRMED)
    assert planning.plan(2, lead=0).returncode == 3
    trouble.unlink()
    assert planning.lead_minutes() == 60
    planning.conf.write_text("plans = never\n")
    planning.plan(3)
    assert planning.minutes() is None
    assert planning.log().splitlines()[-1].endswith("no plan: plans = never in client.conf")


def test_a_plan_whose_taking_back_was_not_confirmed_is_nobody_elses_change(
    planning: Planning,
) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.conf.write_text("plans = never\n")
    trouble = planning.slurm.root / "scontrol.err"
    trouble.write_text(UNCONFIRMED)
    assert planning.plan(2).returncode == 3
    trouble.unlink()
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=f"afterany:{OWN}(unfulfilled)")
    planning.plan(2)
    assert "somebody else" not in planning.log()
    assert len(planning.updates()) == 2, "it is back already"


def test_a_plan_that_the_site_does_not_let_go_of_is_said_to_stay(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.conf.write_text("plans = never\n")
    (planning.slurm.root / "scontrol.err").write_text("slurm_update error: Access denied\n")
    planning.plan(2)
    assert "the plan stays: slurm_update error: Access denied" in planning.log()
    assert planning.lead_minutes() == 60


def test_the_plugin_and_the_service_know_the_same_words_of_a_slurm_that_does_not_answer() -> None:
    source = (PLUGIN / "mirage_slurm/planner/slurm_jobs.py").read_text()
    words = re.search(r"^NO_ANSWER = \(\n(.*?)^\)", source, re.MULTILINE | re.DOTALL)
    assert words is not None
    assert ast.literal_eval(f"({words[1]})") == command_errors.NO_ANSWER.pattern


# --- the cache -----------------------------------------------------------------------


def cache(planning: Planning) -> Path:
    (path,) = [
        path
        for path in (planning.slurm.root / "home/.cache/mirage").iterdir()
        if path.suffix != ".asked"
    ]
    return path


def test_what_sacct_said_is_kept_for_all_chains_of_the_user(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    found = cache(planning).stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.getuid())
    planning.answers("", 1)
    planning.slurm.job_in_full(NEXT, "PENDING", dependency=f"afterany:{OWN}(unfulfilled)")
    (planning.chain / "plans/1").unlink()
    planning.plan()
    assert planning.lead_minutes() == 60


@pytest.mark.parametrize("spoilt", ["torn", "open", "link", "other"])
def test_a_kept_answer_that_is_not_the_users_own_is_not_believed(
    planning: Planning, spoilt: str
) -> None:
    planning.waited([HOUR] * 30)
    planning.plan(lead=600)
    path = cache(planning)
    text = path.read_text()
    if spoilt == "torn":
        path.write_text(text[:-3])
    elif spoilt == "open":
        path.chmod(0o666)
    elif spoilt == "link":
        elsewhere = planning.slurm.root / "theirs"
        elsewhere.write_text(text)
        path.unlink()
        path.symlink_to(elsewhere)
    else:
        path.write_text(text.replace("gpu", "cpu"))
    planning.plan(3)
    assert "60, 60 and 60 min" not in planning.log().splitlines()[-1]
