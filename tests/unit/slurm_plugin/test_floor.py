"""A link is not asked to end before it has worked for its floor, nor while nobody waits.

The service and the links' own plans have these rules each: both answer one table of cases.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from mirage.policies.rules.overlap_bound import compute_work_floor_s
from mirage.slurm.text.wait_explanations import classify_reason, waits_for_nodes
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.planning import HOUR, OWN, Planning


@pytest.mark.parametrize(
    ("min_runtime_s", "limit_s", "floor_s"),
    [
        (600, 2400, 600),
        (600, 24 * HOUR, 8640),
        (0, 2400, 240),
        (0, 0, 0),
        (0, 301, 31),
        (3 * HOUR, HOUR, 3 * HOUR),
    ],
)
def test_service_and_link_have_one_floor(
    plugin: Callable[[str], Any], min_runtime_s: int, limit_s: int, floor_s: int
) -> None:
    assert compute_work_floor_s(min_runtime_s, limit_s) == floor_s
    assert (
        plugin("mirage_slurm.planner.lead_rules").compute_floor(min_runtime_s, limit_s) == floor_s
    )


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("Resources", True),
        ("Priority", True),
        ("(Priority)", True),
        ("PartitionBusy", True),
        ("Constraints", True),
        ("ReqNodeNotAvail, May be reserved for other job", True),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority"
            " partitions",
            True,
        ),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs", True),
        ("Required nodes lack available resources", True),
        ("None", False),
        ("", False),
        ("Dependency", False),
        ("DependencyNeverSatisfied", False),
        ("BeginTime", False),
        ("JobHeldUser", False),
        ("JobHeldAdmin", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocGrpNodeLimit", False),
        ("ReqNodeNotAvail, UnavailableNodes:gpu02", False),
        ("ReqNodeNotAvail, Reserved for maintenance", False),
        ("Reservation", False),
        ("Licenses", False),
        ("PartitionTimeLimit", False),
        ("JobArrayTaskLimit", False),
        ("PriorityFoo", False),
    ],
)
def test_service_and_link_take_the_same_jobs_for_waiting(
    plugin: Callable[[str], Any], reason: str, waits: bool
) -> None:
    assert waits_for_nodes(classify_reason(reason)) is waits
    assert (plugin("mirage_slurm.planner.slurm_jobs").IN_LINE.match(reason) is not None) is waits


@pytest.fixture
def short(slurm: FakeSlurm) -> Planning:
    """A switch chain of 40 min a link, behind waits of hours; link 1 began ten seconds ago."""
    planning = Planning.on(slurm, limit_s=2400, began_s=10)
    planning.words["style"] = "switch"
    planning.waited([5 * HOUR] * 30, minutes=40)
    return planning


def test_no_plan_comes_before_the_floor(short: Planning) -> None:
    short.plan()
    assert short.minutes() == 20, "ten of start-up, until one is known, and ten of work"
    assert "cut to what min-runtime allows" in short.log()


def test_the_floor_is_the_users_and_a_tenth_of_the_limit(short: Planning) -> None:
    lease = short.chain / "handover" / "lease"
    lease.mkdir(parents=True)
    (lease / "1").write_text(f"1 {OWN} 0\n")
    os.utime(lease / "1", (short.start + 120,) * 2)
    short.plan(min_runtime=0)
    assert short.minutes() == 2 + 4
    short.plan(2, min_runtime=1500)
    assert short.minutes() == 2 + 25
    short.plan(3, min_runtime=3000)
    assert short.minutes() is None


@pytest.mark.parametrize("style", ["sequential", "concurrent", "wait"])
def test_styles_in_which_no_link_asks_have_no_floor(short: Planning, style: str) -> None:
    short.queues()
    short.plan(style=style, max_overlap=2400)
    assert short.minutes() == 1


NOBODY = ["1002 RUNNING None", "1002 PENDING Dependency", "1002 PENDING QOSMaxJobsPerUserLimit"]


def test_where_nobody_waits_no_release_is_early(short: Planning) -> None:
    short.queues(*NOBODY)
    short.plan()
    assert (short.minutes(), short.updates()) == (None, [])
    assert "but no job waits for nodes of the partition now" in short.log()
    assert short.end - 1250 < short.again_at() < short.end - 1100, "half-way somebody may wait"
    short.queues(*NOBODY, "1002 PENDING Priority")
    short.plan(2)
    assert short.minutes() == 20


def test_a_plan_goes_where_nobody_waits_any_more(short: Planning) -> None:
    short.plan()
    assert short.minutes() == 20
    short.queues(*NOBODY)
    short.plan(3)
    assert short.minutes() is None


def test_a_lead_by_hand_does_not_look_at_who_waits(short: Planning) -> None:
    short.queues(*NOBODY)
    short.plan(lead=600)
    assert short.lead_minutes() == 10


@pytest.mark.parametrize(("private", "minutes"), [("none", None), ("usage,jobs", 20)])
def test_of_a_queue_that_may_have_gaps_nobody_can_say_that_none_waits(
    short: Planning, private: str, minutes: int | None
) -> None:
    """Its own jobs alone are seen: there are no others, or they are hidden. Slurm is asked once."""
    config = short.slurm.root / "config"
    config.write_text(f"PreemptMode             = OFF\nPrivateData             = {private}\n")
    short.slurm.command(
        "scontrol",
        '#!/bin/sh\nif [ "$1" = show ]; then echo >>{home}/shown; cat {home}/config; exit 0; fi\n'
        "job=${{2#JobId=}}\n"
        "printf '%s\\n' \"${{3#Dependency=}}\" >{home}/dependency.$job\n",
    )
    short.queues(f"{os.geteuid()} RUNNING None", f"{os.geteuid()} PENDING Dependency")
    short.plan()
    short.plan(3)
    assert short.minutes() == minutes
    assert (short.slurm.root / "shown").read_text() == "\n"


def test_where_slurm_does_not_say_who_waits_the_link_looks_again_later(short: Planning) -> None:
    (short.slurm.root / "partition.code").write_text("1\n")
    assert short.plan().returncode == 3
    assert short.updates() == []
    assert "no plan: Unseen" in short.log()
    (short.slurm.root / "partition.code").unlink()
    assert short.plan().returncode == 0
    assert short.minutes() == 20


def test_a_plan_looks_at_the_queue_once(short: Planning) -> None:
    short.plan()
    assert len([line for line in short.questions() if "-p gpu" in line]) == 1
