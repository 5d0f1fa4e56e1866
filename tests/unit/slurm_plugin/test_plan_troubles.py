"""A link's plan where something goes wrong: a suspension, a full disk, a damaged file, no end."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.planning import HOUR, Planning
from tests.support.slurm_plugin.prepared import PATIENTLY, prepare_program

IGNORES_ALRM = ["/usr/bin/env", "--ignore-signal=ALRM"]
BRIEFLY = "program.LIMIT_S = 1"
FULL_DISK = "def fail(*_): raise OSError(28, 'No space left on device')\nos.rename = fail"


def release(fifo: Path) -> None:
    """End what reads this, if it has begun to."""
    with suppress(OSError):
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))


@pytest.mark.parametrize("turn", [2, 3])
def test_after_a_suspension_slurm_is_asked_and_the_plan_moves(
    planning: Planning, turn: int
) -> None:
    planning.waited([HOUR] * 30)
    for one in range(1, turn):
        planning.plan(one)
    planning.runs(end=planning.end + 10 * HOUR)
    assert planning.plan(turn, jumped=1).returncode == 0
    assert planning.lead_minutes() == 60 - 10 * 60, "by the first end"
    assert planning.again_at() > planning.end, "the later release is waited for too"


def test_a_look_at_a_suspended_job_is_no_last_one(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    kept = (planning.chain / "plans" / "1").read_text()
    planning.runs(state="SUSPENDED")
    assert planning.plan(2, jumped=1).returncode == 3
    assert (planning.chain / "plans" / "1").read_text() == kept
    assert "job 101 is SUSPENDED" in planning.log()


@pytest.mark.parametrize(("age_s", "code"), [(60, 3), (400, 0), (None, 0)])
def test_an_earlier_link_whose_heartbeat_stands_still_is_asked_about(
    planning: Planning, age_s: int | None, code: int
) -> None:
    """Its node has failed, and Slurm has forgotten it: nobody has written its end."""
    planning.waited([HOUR] * 30)
    planning.is_at(2)
    (planning.chain / "ends" / "1").unlink()
    planning.has("jobs/1", 100)
    planning.has("started/1", 100)
    planning.has("deadline/1", planning.end)
    if age_s is not None:
        planning.has("beat/1", int(time.time()) - age_s)
    assert planning.plan().returncode == code
    assert planning.lead_minutes() == (60 if code == 0 else None)


def test_a_plan_that_cannot_be_written_down_is_not_made(planning: Planning) -> None:
    full = replace(planning, program=prepare_program("planner.plan", FULL_DISK))
    planning.words["lead"] = str(HOUR)
    for _ in range(3):
        assert full.plan().returncode == 3
    assert planning.updates() == []
    said = "plans/1 cannot be written, so Slurm is not asked for a plan"
    assert planning.log().count(said) == 1, "once, however often it is tried again"
    assert planning.plan().returncode == 0
    assert planning.lead_minutes() == 60


def test_a_plan_is_not_taken_back_if_that_cannot_be_written_down(planning: Planning) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.conf.write_text("plans = never\n")
    full = replace(planning, program=prepare_program("planner.plan", FULL_DISK))
    assert full.plan(2).returncode == 3
    assert planning.lead_minutes() == 60
    planning.plan(2)
    assert planning.minutes() is None
    assert "somebody else" not in planning.log()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("lead", "-5", "lead='-5' is not a number"),
        ("lead", "abc", "lead='abc' is not a number"),
        ("lead", "\u0665", "lead='\\u0665' is not a number"),
        ("max_overlap", "-1", "max_overlap='-1' is not a number"),
        ("max_overlap", "0600", "max_overlap='0600' is not a number"),
        ("price", "-0.5", "price='-0.5' is not a price"),
        ("price", "nan", "price='nan' is not a price"),
        ("price", "\u0660.\u0665", "price='\\u0660.\\u0665' is not a price"),
    ],
)
def test_a_damaged_number_is_not_another_one(
    planning: Planning, name: str, value: str, said: str
) -> None:
    planning.waited([HOUR] * 30)
    planning.plan()
    planning.words[name] = value
    planning.plan(2)
    assert planning.minutes() is None, "a plan of before is taken back"
    last = planning.log().splitlines()[-1]
    assert last.endswith(f"no plan: the chain's carrier is damaged: {said}")
    assert planning.again_at() == 0, "which is said once"


def test_a_damaged_number_keeps_a_services_lead_away(planning: Planning, service: Service) -> None:
    service.answers = [{"mode": "act", "lead_s": HOUR, "ask_again_s": 600}]
    patient = replace(planning, program=prepare_program("planner.plan", PATIENTLY))
    env = {"MIRAGE_URL": service.url}
    patient.plan(env=env, service="site", max_overlap="-1")
    assert (service.requests, patient.updates()) == ([], [])
    patient.plan(env=env, service="site")
    assert patient.lead_minutes() == 60


@pytest.mark.parametrize(("count", "lead_h"), [(1, 4), (9, 4), (10, 6)])
def test_fewer_than_ten_long_waits_do_not_lift_the_bound(
    planning: Planning, count: int, lead_h: int
) -> None:
    """Holds, or a drain: the least of so few waits is no p10."""
    planning.answers("", 1)
    for link in range(2, 2 + count):
        planning.has(f"waited/{link}", f"{planning.start} 0 {6 * HOUR}")
    planning.is_at(1 + count)
    planning.plan()
    assert planning.lead_minutes() == 60 * lead_h
    assert ("cut to what max-overlap allows" in planning.log()) is (count < 10)


@pytest.mark.parametrize("what", ["note", "cache"])
def test_somebody_elses_file_is_none(
    planning: Planning, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    waits = importlib.import_module("mirage_slurm.planner.past_waits")
    now = int(time.time())
    path = planning.chain / "file"
    path.write_text(f"{waits.HEAD}key {now}\n1 2 3\n")
    path.chmod(0o600)

    def read() -> object:
        if what == "note":
            return waits.read_own_line(str(path), now)
        return waits._read_cache(str(path), "key", now)[1]

    assert read()
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert not read()


def test_a_plan_that_slurm_keeps_waiting_ends_although_its_loop_ignores_the_alarm(
    planning: Planning,
) -> None:
    never = planning.slurm.root / "never"
    os.mkfifo(never)
    planning.slurm.command("squeue", "#!/bin/sh\nexec cat {home}/never\n")
    planning.waited([HOUR] * 30)
    try:
        program = [*IGNORES_ALRM, *prepare_program("planner.plan", BRIEFLY)]
        done = replace(planning, program=program).plan()
    finally:
        release(never)
    assert (done.returncode, planning.updates()) == (-signal.SIGALRM, [])


def test_a_question_that_no_service_answers_ends_although_its_loop_ignores_the_alarm(
    slurm: FakeSlurm,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = subprocess.run(
            [*IGNORES_ALRM, *prepare_program("client.next_move", BRIEFLY), "0f0000000000000000ab"],
            check=False,
            env=slurm.environ | {"MIRAGE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"},
        )
    assert done.returncode == -signal.SIGALRM
