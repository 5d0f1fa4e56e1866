"""A running link plans beside its script: when it does, when not, and what is said of it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.slurm_plugin.test_beside_the_script import WAITS, finish
from tests.support.paths import PLUGIN
from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.planning import HOUR, SACCT, SCONTROL

DATE = r"""#!/bin/sh
[ "$*" = +%s ] || exec /usr/bin/date "$@"
echo "$(($(/usr/bin/date +%s) + $(cat {home}/ahead)))"
"""
Begin = Callable[..., tuple[EditableLink, "subprocess.Popen[bytes]"]]


@pytest.fixture
def begin(chain: MakeChain, slurm: FakeSlurm) -> Begin:
    """Link 1, with a day to run; jobs like it waited an hour."""

    def start(
        env: dict[str, str] | None = None, *, sacct: str = SACCT, **told: object
    ) -> tuple[EditableLink, subprocess.Popen[bytes]]:
        now = int(time.time())
        slurm.sleeps_briefly()
        slurm.command("scontrol", SCONTROL)
        slurm.command("sacct", sacct)
        row = f"{now - 9000}|{now - 9000}|{now - 5400}|1|1440|600|COMPLETED\n"
        (slurm.root / "sacct.rows").write_text(row * 30)
        (slurm.root / "sacct.code").write_text("0\n")
        slurm.job_is(101, "RUNNING", start=now, end=now + 24 * HOUR)
        slurm.job_in_full(101, "RUNNING", times=(now, now, now + 24 * HOUR))
        slurm.job_in_full(102, "PENDING", dependency="afterany:101(unfulfilled)")
        link = chain(WAITS, **{"pace_s": 1, **told})
        own = {
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_QOS": "normal",
            "SLURM_JOB_END_TIME": str(now + 24 * HOUR),
        }
        return link, link.start(1, env=own | (env or {}))

    return start


def slept(slurm: FakeSlurm) -> int:
    """How often something slept, the heartbeat above all."""
    path = slurm.root / "slept"
    return len(path.read_text().splitlines()) if path.exists() else 0


def minutes(slurm: FakeSlurm) -> str:
    return slurm.dependency(102).partition("?after:101+")[2]


@pytest.mark.parametrize(("returns", "released"), [(2, "1320"), (0, "")])
def test_a_link_that_may_give_its_nodes_back_is_released_earlier(
    begin: Begin, slurm: FakeSlurm, returns: int, released: str
) -> None:
    now = int(time.time())
    waits = [0] * 18 + [2 * HOUR] * 2  # a quantile of these is no lead
    times = ((now - 9000 + place - wait, now - 9000 + place) for place, wait in enumerate(waits))
    rows = "".join(f"{since}|{since}|{at}|1|1440|600|COMPLETED\n" for since, at in times)
    (slurm.root / "mixed.rows").write_text(rows)
    link, process = begin(sacct="#!/bin/sh\ncat {home}/mixed.rows\n", returns=returns)
    wait_until(lambda: "becomes eligible" in link.logged())
    assert minutes(slurm) == released
    finish(link, process)


def test_a_link_with_no_service_writes_when_the_next_one_is_released(
    begin: Begin, slurm: FakeSlurm
) -> None:
    link, process = begin()
    wait_until(lambda: minutes(slurm) == "1380")
    wait_until(lambda: "becomes eligible" in link.logged())
    (call,) = slurm.calls()[1:]
    assert "--dependency=afterany:101" in call.argv, "it stands before anything is known"
    said = subprocess.run(
        [PLUGIN / "mirage-link", "status", link.chain],
        capture_output=True,
        text=True,
        check=True,
        env=slurm.environ,
    ).stdout
    assert "\tlink 2, job 102, becomes eligible 1380 min after job 101 started" in said
    finish(link, process)


@pytest.mark.parametrize(
    ("told", "env"),
    [
        ({"max_overlap": 0}, {}),
        ({"lead": 0}, {}),
        ({"mode": "submit"}, {}),
        ({"presubmit": "all"}, {}),
        ({"links": 1}, {}),
        ({}, {"SLURM_HET_SIZE": "2"}),
        ({"plugin": "/nowhere"}, {}),
        ({"total": 600}, {}),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()),
)
def test_where_none_is_to_be_there_is_no_plan_and_no_question(
    begin: Begin, slurm: FakeSlurm, told: dict[str, object], env: dict[str, str]
) -> None:
    link, process = begin(env, beat_s=1, **told)
    wait_until(lambda: slept(slurm) >= 50)
    finish(link, process)
    assert not (slurm.root / "sacct.asked").exists()
    assert "?" not in slurm.dependency(102)


@pytest.mark.parametrize("name", ["lead", "max_overlap", "price"])
def test_a_damaged_number_in_the_carrier_is_said_and_plans_nothing(
    begin: Begin, slurm: FakeSlurm, name: str
) -> None:
    link, process = begin(**{name: "-1"})
    wait_until(lambda: f"carrier is damaged: {name}='-1' is not a" in link.logged())
    finish(link, process)
    assert not (slurm.root / "updates").exists()


def test_a_question_that_hangs_does_not_hold_up_the_links_end(
    begin: Begin, slurm: FakeSlurm
) -> None:
    link, process = begin(sacct="#!/bin/sh\ntouch {home}/hangs\nexec /usr/bin/sleep 600\n")
    wait_until((slurm.root / "hangs").exists)
    finish(link, process)
    assert link.end_of(1) == "exit 0"


def ahead(slurm: FakeSlurm, seconds: int) -> None:
    path = slurm.root / "ahead"
    path.with_suffix(".new").write_text(f"{seconds}\n")
    path.with_suffix(".new").rename(path)


def test_a_link_that_was_suspended_looks_again(begin: Begin, slurm: FakeSlurm) -> None:
    """Its clock ran on in Slurm, and its end has moved."""
    ahead(slurm, 0)
    slurm.command("date", DATE)
    link, process = begin(beat_s=50)
    wait_until(lambda: minutes(slurm) == "1380")
    wait_until(lambda: "becomes eligible" in link.logged())
    naps = slept(slurm)
    wait_until(lambda: slept(slurm) > naps + 20)  # on its way to the next turn
    now = int(time.time())
    slurm.job_in_full(101, "RUNNING", times=(now, now, now + 34 * HOUR))
    ahead(slurm, 10 * HOUR)
    wait_until(lambda: minutes(slurm) not in ("1380", ""))
    assert int(minutes(slurm)) >= 33 * 60 - 1
    finish(link, process)


def test_a_link_that_was_requeued_plans_anew_from_its_own_plan(
    begin: Begin, slurm: FakeSlurm
) -> None:
    link, process = begin()
    wait_until(lambda: "becomes eligible" in link.logged())
    link.signal(process, "KILL")
    process.communicate()
    later = int(time.time())
    slurm.job_in_full(101, "RUNNING", times=(later, later, later + 20 * HOUR))
    before = Path(link.chain / "log").read_text().count("becomes eligible")
    again = link.start(
        1,
        env={
            "SLURM_RESTART_COUNT": "1",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_QOS": "normal",
            "SLURM_JOB_END_TIME": str(later + 20 * HOUR),
        },
    )
    wait_until(lambda: minutes(slurm) == "1140")
    wait_until(lambda: link.logged().count("becomes eligible") > before)
    finish(link, again)
