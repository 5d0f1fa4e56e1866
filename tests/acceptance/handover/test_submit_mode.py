"""Mode `submit` on a real Slurm: no link stands; the service decides, the running link submits."""

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings


@pytest.mark.slurm
@testbed_with(TestbedSettings())  # in real time, for which the link's own time-outs are made
def test_the_running_link_submits_the_next_one_when_the_service_says_so(scene: Scene) -> None:
    scene.start_service(policy="at-once", extra_config="[polling]\nqueue_s = 2\n")
    options = ["--mirage-mode=submit", "--mirage-min-runtime=0"]
    scene.submit_chain("a", links=2, run_s=None, limit_min=30, options=options)
    scene.testbed.wait_until(
        lambda: [run.link for run in scene.list_runs("a")] == [1, 2], 100, "link 2"
    )
    first, second = scene.list_runs("a")
    assert first.end is None
    assert scene.testbed.job(second.job_id)["Dependency"] == "(null)"
    assert "submit: intended" in _told(scene)


def _told(scene: Scene) -> list[str]:
    mine = scene.list_runs("a")[
        0
    ].chain  # in real time the service knows the chains of other tests too
    return [event for event, chain, _ in scene.audit() if chain == mine]
