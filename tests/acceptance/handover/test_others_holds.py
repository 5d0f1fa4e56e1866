"""On a real Slurm Mirage, an Operator, lifts no hold but its own; no admin's, no later one."""

from typing import Any

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

_FAST = TestbedSettings(speed=60)


@testbed_with(_FAST)
def test_an_admins_hold_outlives_a_pause_and_its_end(scene: Scene) -> None:
    standby = _paused(scene)
    scene.testbed.run(["scontrol", "hold", str(standby)])
    _ask(scene, "resume")
    _let_mirage_look(scene)
    scene.let_end("a", 1)
    scene.testbed.wait_until(lambda: scene.list_runs("a")[0].end is not None, 600, "link 1's end")
    _let_mirage_look(scene)
    assert _reason(scene, standby) == "JobHeldAdmin"

    _ask(scene, "pause")
    _let_mirage_look(scene)
    assert _reason(scene, standby) == "JobHeldAdmin", "no hold of Mirage's takes its place"
    _ask(scene, "resume")
    _let_mirage_look(scene)
    assert (_reason(scene, standby), _told(scene)) == ("JobHeldAdmin", ["suspend", "hold gone"])

    scene.testbed.run(["scontrol", "release", str(standby)])
    scene.testbed.wait_until(lambda: len(scene.list_runs("a")) > 1, 1200, "link 2")


@testbed_with(_FAST)
def test_a_pause_that_was_undone_by_hand_lifts_no_later_hold(scene: Scene) -> None:
    standby = _paused(scene)
    scene.mirage("mode", "observe")  # or the pause, which still stands, would hold it again
    scene.testbed.run(["scontrol", "release", str(standby)], user="alice")
    _ask(scene, "resume")
    _let_mirage_look(scene)
    scene.mirage("mode", "shadow")
    scene.testbed.run(["scontrol", "uhold", str(standby)], user="alice")
    _let_mirage_look(scene)
    assert _reason(scene, standby) == "JobHeldUser"
    scene.testbed.run(["scontrol", "hold", str(standby)])
    _let_mirage_look(scene)
    assert (_reason(scene, standby), _told(scene)) == ("JobHeldAdmin", ["suspend", "hold gone"])


def _paused(scene: Scene) -> int:
    """The standby of a chain that its owner has paused, once Mirage holds it."""
    scene.start_service(mode="shadow")
    scene.submit_chain("a", links=3, run_s=None, limit_min=120)
    scene.testbed.wait_until(lambda: scene.list_runs("a") != [], 3600, "link 1")
    scene.testbed.wait_until(lambda: len(_shown(scene)["links"]) == 2, 1200, "link 2 seen")
    standby = int(_shown(scene)["links"][1]["job_id"])
    _ask(scene, "pause")
    scene.testbed.wait_until(lambda: _reason(scene, standby) == "JobHeldUser", 600, "the hold")
    return standby


def _ask(scene: Scene, verb: str) -> None:
    done = scene.chain(verb, scene.list_runs("a")[0].chain)
    assert (done.returncode, done.stderr) == (0, "")


def _let_mirage_look(scene: Scene) -> None:
    """Until the third look from now: what follows from the second, which saw it all, is done."""
    seen = {_shown(scene)["as_of"]}

    def often() -> bool:
        seen.add(_shown(scene)["as_of"])
        return len(seen) > 3

    scene.testbed.wait_until(often, 1200, "three looks")


def _reason(scene: Scene, job_id: int) -> str:
    return scene.testbed.job(job_id)["Reason"]


def _told(scene: Scene) -> list[str]:
    verbs = ("suspend", "resume", "hold gone")
    return [event for event, _, _ in scene.audit() if event.partition(":")[0] in verbs]


def _shown(scene: Scene) -> dict[str, Any]:
    return scene.show_chain("a")
