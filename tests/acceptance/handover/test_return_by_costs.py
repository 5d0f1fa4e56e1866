"""An early link on a real Slurm gives its nodes back by what the service forecasts, or by itself.

With no service from the start, and killed between two steps: test_return_real.py of the plugin.
"""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.foretelling import FASTEST, WAIT_S
from tests.support.handover.scene import Scene
from tests.support.slurm_plugin.link_patience import give_links_time, replace_once
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

MINUTE = 60
LIMIT_MIN = 60
BY_SERVICE_MIN = LIMIT_MIN - WAIT_S // MINUTE
BY_OWN_MIN = LIMIT_MIN - 5
"""On an idle cluster a link waits for no time. The least that it counts is five minutes."""
PLAN = re.compile(r"afterany:(\d+)\(unfulfilled\)\?after:\1\+(\d+)\(unfulfilled\)")


@testbed_with(TestbedSettings(speed=FASTEST))
def test_an_early_link_gives_back_by_the_services_costs_and_by_its_own_wait_once_that_is_dead(
    scene: Scene,
) -> None:
    _give_links_time(scene.root / "slurm_plugin")
    scene.start_service(policy="at-once", module="tests.support.handover.foretelling")
    first = _submit(scene, "with")
    verdict = _await_verdict(scene, 1)
    assert verdict.endswith("by the service's forecast")
    planned = {first: _await_plan(scene, first)}
    assert planned[first][1] == BY_SERVICE_MIN
    scene.testbed.wait_until(
        lambda: scene.show_chain("with")["returns"] == 1, 20 * MINUTE, "the service to count it"
    )
    scene.stop_service(signal.SIGKILL)

    alone = _submit(scene, "without", f"--mirage-lead={LIMIT_MIN - 5}:00")
    verdict = _await_verdict(scene, 2)
    assert "by its last wait of" in verdict
    planned[alone] = _await_plan(scene, alone)
    assert LIMIT_MIN / 2 < planned[alone][1] <= BY_OWN_MIN

    for job, (again, minutes) in planned.items():
        _await_run(scene, again)
        released = _instant(scene, again, "EligibleTime") - _instant(scene, job, "StartTime")
        assert minutes * MINUTE <= released < LIMIT_MIN * MINUTE


def _give_links_time(plugin: Path) -> None:
    """Verdicts of the service stay fresh for twenty minutes of this host's clock, too."""
    give_links_time(plugin, FASTEST)
    replace_once(
        plugin / "mirage_slurm/planner/give_back.py",
        "FRESH_S = 1200",
        f"FRESH_S = {1200 * FASTEST}",
    )


def _submit(scene: Scene, name: str, *options: str) -> int:
    """The job of the first link, which works until its time limit."""
    beside = f"--mirage-max-overlap={LIMIT_MIN}:00"
    return scene.submit_chain(
        name, links=2, run_s=None, limit_min=LIMIT_MIN, style="sequential",
        options=[beside, *options],
    )  # fmt: skip


def _await_verdict(scene: Scene, chains: int) -> str:
    """Why a link gave its nodes back, in its own words, once so many chains have done so."""
    states = scene.root / "alice" / "state"

    def list_returns() -> list[Path]:
        return sorted(states.glob("*/returns/2"), key=lambda path: path.stat().st_mtime)

    scene.testbed.wait_until(lambda: len(list_returns()) == chains, 7200, "a return")
    return list_returns()[-1].read_text().splitlines()[1]


def _await_plan(scene: Scene, first: int) -> tuple[int, int]:
    """The job that waits behind the first link with a release of its own, and its minutes."""
    plans: list[tuple[int, int]] = []

    def list_plans() -> bool:
        shown = [(job, scene.testbed.job(job)["Dependency"]) for job, _ in scene.standbys()]
        plans[:] = [
            (job, int(plan[2]))
            for job, text in shown
            if (plan := PLAN.fullmatch(text)) is not None and int(plan[1]) == first
        ]
        return bool(plans)

    scene.testbed.wait_until(list_plans, 1200, f"a plan behind job {first}")
    return plans[0]


def _await_run(scene: Scene, job: int) -> None:
    scene.testbed.wait_until(lambda: scene.testbed.state(job) == "RUNNING", 7200, f"job {job}")


def _instant(scene: Scene, job: int, name: str) -> float:
    return time.mktime(time.strptime(scene.testbed.job(job)[name], "%Y-%m-%dT%H:%M:%S"))
