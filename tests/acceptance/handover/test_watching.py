"""How the service watches a real Slurm: what it costs slurmctld, what it notices, and how soon."""

from __future__ import annotations

import re
import shutil
import signal
import sqlite3
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.handover.scene import PORT, Scene
from tests.support.paths import CHECKOUT
from tests.support.patient import PATIENCE_S
from tests.support.slurm_testbed import Testbed, TestbedSettings

pytestmark = pytest.mark.slurm

CHAINS = 50
WATCHED_MIN = 30
LOOK = 3
"""RPCs of a look, one a minute."""
BUDGET = 6.0
"""RPCs a minute of the service's user, moves included: three a minute for the looks, and three for
each move, which asks first whose job that is."""
HOOK = Path("/tmp/mirage-watching")  # noqa: S108 - slurm.conf names it, for all to run


@pytest.fixture(scope="module")
def scene(slurm_host: Testbed) -> Iterator[Scene]:
    """The service at its default intervals, sixty times faster than the clock."""
    _lay_out_hook()
    epilog = f"EpilogSlurmctld={HOOK}/epilog"
    slurm_host.up(TestbedSettings(speed=60, extra=(epilog,)), fresh=True)
    slurm_host.cancel_all()
    made = Scene.set_up(slurm_host)
    made.start_service(policy="at-once")
    yield made
    made.strike()
    shutil.rmtree(made.root, ignore_errors=True)
    shutil.rmtree(HOOK)


@pytest.fixture(autouse=True)
def empty(scene: Scene) -> Iterator[None]:
    yield
    scene.testbed.cancel_all()


def _lay_out_hook() -> None:
    """An epilog that pushes while the file `on` is there."""
    shutil.rmtree(HOOK, ignore_errors=True)
    shutil.copytree(CHECKOUT / "slurm_plugin", HOOK)
    HOOK.chmod(0o755)
    epilog = HOOK / "epilog"
    epilog.write_text(
        f"#!/bin/sh\n[ -e {HOOK}/on ] || exit 0\n"
        f"MIRAGE_URL=http://127.0.0.1:{PORT} exec {HOOK}/hooks/mirage-push\n"
    )
    epilog.chmod(0o755)


SETTINGS = "mirage:style=concurrent,max-overlap=4:00:00"
"""As the wrapped sbatch would have registered them; else their links would never be early."""


def submit(scene: Scene, name: str, *, links: int = 2, options: str = "-c 1") -> list[int]:
    """A chain of alice's whose links stand in the queue from the start; their jobs.

    A link may run for four minutes of our clock: more than the tests take on a busy machine.
    """
    words = f"sbatch --parsable -o /dev/null -p gpu -t 240 --mem=10M {options}"
    lines = ["after="]
    for index in range(1, links + 1):
        mark = f"--comment='{SETTINGS} mirage:{name}:{index}'"
        lines += [f"job=$({words} $after {mark} --wrap 'sleep 36000')", "echo $job"]
        lines.append("after=--dependency=afterany:$job")
    shown = scene.testbed.run(["sh", "-ec", "\n".join(lines)], user="alice").stdout
    return [int(job) for job in shown.split()]


def on_node(name: str) -> str:
    """A whole node: the next link has to wait for it."""
    return f"-N1 --exclusive -w {name}"


def get_chain(scene: Scene, name: str) -> dict[str, Any]:
    return scene.api(f"/api/v1/chains/{name}")


def risks(scene: Scene, *names: str) -> dict[str, str]:
    """Empty where a chain is at no risk, or not known yet."""
    items = scene.api("/api/v1/chains?limit=200")["items"]
    found = {item["chain_id"]: item["at_risk"] for item in items if item["at_risk"]}
    return {name: found[name]["reason"] if name in found else "" for name in names}


def risk(scene: Scene, name: str) -> str:
    return risks(scene, name)[name]


def known(scene: Scene, *names: str) -> bool:
    """Whether the service has seen them, with their first link running and the second one free."""
    items = {item["chain_id"] for item in scene.api("/api/v1/chains?limit=200")["items"]}
    return items.issuperset(names) and all(_freed(get_chain(scene, name)) for name in names)


def _freed(shown: dict[str, Any]) -> bool:
    first, *others = shown["links"]
    states = [(link["state"], link["position"]) for link in others]
    return first["state"] == "running" and ("pending", "free") in states


def root(scene: Scene, *words: str) -> str:
    return scene.testbed.run(list(words)).stdout


# --- what it costs ------------------------------------------------------------------------------


def rpcs(scene: Scene) -> dict[str, int]:
    """By the user who asked, since the last reset."""
    by_user = root(scene, "sdiag").split("statistics by user")[1].split("Pending RPC")[0]
    found = re.findall(r"^\s*(\S+)\s*\(\s*\d+\)\s*count:(\d+)", by_user, re.MULTILINE)
    return {user: int(count) for user, count in found}


def moves(scene: Scene) -> int:
    return sum(event == "free: done" for event, _, _ in scene.audit())


def test_fifty_chains_cost_slurmctld_six_questions_a_minute(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """One hand-over an hour and chain: far more than chains of day-long links have."""
    testbed = scene.testbed
    first = [submit(scene, f"budget{number:02}", links=3)[0] for number in range(CHAINS)]
    testbed.wait_until(lambda: moves(scene) >= CHAINS, 3600, "the first moves")
    ending = first[: round(CHAINS * WATCHED_MIN / 60)]
    before, began = moves(scene), testbed.now()
    root(scene, "sdiag", "--reset")
    # Spread over the time, as links that began at different times end.
    for number, job_id in enumerate(ending, start=1):
        _wait_for(testbed, began + 60 * WATCHED_MIN * number / (len(ending) + 2))
        root(scene, "scancel", "--signal=TERM", "--batch", str(job_id))
    _wait_for(testbed, began + 60 * WATCHED_MIN)
    testbed.wait_until(lambda: moves(scene) >= before + len(ending), 3600, "the moves")
    asked, minutes = rpcs(scene)["mirage"], (testbed.now() - began) / 60
    moved = moves(scene) - before
    with capsys.disabled():
        sys.stdout.write(f"\n{asked} RPCs in {minutes:.1f} min, {CHAINS} chains, {moved} moves\n")
    assert asked - LOOK <= BUDGET * minutes  # it may begin and end with a look: one is not due


def _wait_for(testbed: Testbed, instant: float) -> None:
    testbed.wait_until(lambda: testbed.now() >= instant, 60 * WATCHED_MIN)


# --- what it notices ----------------------------------------------------------------------------


def test_waits_that_no_forecast_cures_are_said_in_words(scene: Scene) -> None:
    testbed = scene.testbed
    jobs = submit(scene, "riskheld", options=on_node("gpu01"))
    submit(scene, "riskdrained", options=on_node("gpu02"))
    testbed.wait_until(lambda: known(scene, "riskheld", "riskdrained"), 1200, "both to be freed")
    root(scene, "scontrol", "hold", str(jobs[1]))
    root(scene, "scontrol", "update", "NodeName=gpu02", "State=DRAIN", "Reason=test")
    upkeep = "ReservationName=upkeep Nodes=ALL StartTime=now+30minutes Duration=60 Users=root"
    root(scene, "scontrol", "create", "reservation", *upkeep.split(), "Flags=MAINT,IGNORE_JOBS")
    try:
        submit(scene, "riskupkeep")
        expected = {"riskheld": "JobHeldAdmin", "riskupkeep": "Maintenance"}
        testbed.wait_until(lambda: risks(scene, *expected) == expected, 900, "these")
        root(scene, "scontrol", "delete", "ReservationName=upkeep")
        expected = {"riskdrained": "ReqNodeNotAvail", "riskupkeep": ""}
        testbed.wait_until(lambda: risks(scene, *expected) == expected, 900, "the others")
        shown = scene.chain("show", "riskheld").stdout
        assert "At risk (JobHeldAdmin)" in shown
        assert "an admin holds it" in " ".join(shown.split())
    finally:
        testbed.run(["scontrol", "delete", "ReservationName=upkeep"], check=False)
        root(scene, "scontrol", "update", "NodeName=gpu02", "State=RESUME")
    root(scene, "scontrol", "release", str(jobs[1]))
    testbed.wait_until(lambda: not risk(scene, "riskheld"), 600, "no risk any more")
    hindered = [link["hindered"] for link in get_chain(scene, "riskheld")["links"]]
    assert hindered == ["", "JobHeldAdmin"], "the wait is held against no forecast"


def test_a_standby_that_vanishes_is_noticed_and_a_second_one_pauses(scene: Scene) -> None:
    testbed = scene.testbed
    first, standby = submit(scene, "vanishes", options=on_node("gpu04"))
    testbed.wait_until(lambda: known(scene, "vanishes"), 1200, "the standby to be freed")
    root(scene, "scancel", str(standby))
    testbed.wait_until(lambda: risk(scene, "vanishes") == "StandbyVanished", 600, "the notice")
    words = f"sbatch --parsable -o /dev/null -t 240 --dependency=afterany:{first}".split()
    words += ["--comment=mirage:vanishes:2", *on_node("gpu04").split(), "--wrap", "sleep 9999"]
    again = testbed.run(words, user="alice").stdout.strip()
    testbed.wait_until(lambda: not risk(scene, "vanishes"), 600, "the replacement to be seen")
    root(scene, "scancel", again)
    testbed.wait_until(lambda: get_chain(scene, "vanishes")["state"] == "paused", 600, "the pause")
    assert "as was the one before it" in get_chain(scene, "vanishes")["note"]


def test_a_link_that_its_guard_sent_back_is_followed(scene: Scene) -> None:
    """The wrapped sbatch, its registration, the link's guard and the service, end to end."""
    testbed = scene.testbed
    scene.submit_chain(
        "early", links=3, run_s=None, limit_min=240, options=["--mirage-max-overlap=5"]
    )
    testbed.wait_until(lambda: len(scene.standbys()) == 1, 1200, "the standby")
    ((standby, mark),) = scene.standbys()
    name = mark.split(":")[1]
    testbed.wait_until(lambda: len(get_chain(scene, name)["links"]) == 2, 600, "both to be known")
    assert get_chain(scene, name)["max_overlap_s"] == 300
    root(scene, "scontrol", "update", f"JobId={standby}", "Dependency=")
    testbed.wait_until(lambda: _second(scene, name)["job_id"] != standby, 1200, "another job")
    second = _second(scene, name)
    assert (second["state"], second["position"]) == ("pending", "held")
    seen = testbed.now()
    testbed.wait_until(lambda: _looked_since(scene, name, seen), 600, "another look")
    assert (get_chain(scene, name)["state"], _second(scene, name)["position"]) == ("active", "held")
    assert [ran.link for ran in scene.list_runs("early")] == [1], "the script ran once"


def _second(scene: Scene, name: str) -> dict[str, Any]:
    found: dict[str, Any] = get_chain(scene, name)["links"][1]
    return found


def _looked_since(scene: Scene, name: str, instant: float) -> bool:
    return datetime.fromisoformat(get_chain(scene, name)["as_of"]).timestamp() > instant


def test_a_submit_limit_is_at_risk_until_there_is_room(scene: Scene) -> None:
    testbed = scene.testbed
    limit = ["sacctmgr", "-i", "modify", "user", "alice", "set"]
    root(scene, *limit, "MaxSubmitJobs=1")
    try:
        scene.submit_chain("full", links=3, run_s=None, limit_min=240)
        testbed.wait_until(lambda: bool(scene.list_runs("full")), 600, "link 1")
        name = scene.list_runs("full")[0].chain
        testbed.wait_until(lambda: risk(scene, name) == "NoStandby", 1200, "the risk")
        assert not scene.standbys()
    finally:
        root(scene, *limit, "MaxSubmitJobs=-1")
    testbed.wait_until(lambda: len(scene.standbys()) == 1, 2400, "the standby after all")
    testbed.wait_until(lambda: not risk(scene, name), 600, "no risk any more")


# --- what slurmctld tells by itself -------------------------------------------------------------


def looks(scene: Scene) -> int:
    """How often squeue was run."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    found = re.search(r'mirage_slurm_commands_total{command="squeue"} (\S+)', text)
    assert found is not None
    return round(float(found[1]))


def test_pushed_completions_make_it_look_sooner_and_less(scene: Scene) -> None:
    testbed = scene.testbed
    (HOOK / "on").touch()
    first, _ = submit(scene, "pushedends", options=on_node("gpu05"))
    testbed.wait_until(lambda: known(scene, "pushedends"), 1200, "the standby to be freed")
    root(scene, "scancel", "--signal=TERM", "--batch", str(first))
    testbed.wait_until(lambda: _has_ended(scene, "pushedends"), 600, "link 1's end to be known")
    assert _told(scene, first), "slurmctld told of it"
    before, began = looks(scene), testbed.now()
    _wait_for(testbed, began + 480)
    assert looks(scene) - before <= 5, "every two minutes, not every one"


def _told(scene: Scene, job_id: int) -> bool:
    with closing(sqlite3.connect(scene.root / "mirage" / "mirage.db")) as db:
        (at,) = db.execute("SELECT pushed_at FROM links WHERE job_id = ?", [job_id]).fetchone()
    return bool(at)


def _has_ended(scene: Scene, name: str) -> bool:
    return bool(get_chain(scene, name)["links"][0]["state"] == "ended")


def test_an_epilog_without_a_service_harms_no_job(scene: Scene) -> None:
    """Last, for it ends the service."""
    testbed = scene.testbed
    (HOOK / "on").touch()
    scene.stop_service(signal.SIGKILL)
    jobs = [testbed.sbatch("-p", "gpu", "-c", "1", "--mem=10M", run="true") for _ in range(20)]
    # Of accounting: in fast time slurmctld forgets the first before the last has ended.
    states = ["sacct", "-nXPo", "State", "-j", ",".join(map(str, jobs))]
    testbed.wait_until(
        lambda: testbed.run(states).stdout.split() == ["COMPLETED"] * len(jobs),
        600,
        "twenty jobs' ends",
    )
    assert testbed.run(["scontrol", "ping"]).stdout.count("UP") == 1
