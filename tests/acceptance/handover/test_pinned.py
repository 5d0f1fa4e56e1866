"""A pinned standby on a real Slurm: it follows its predecessor at once, where plain Slurm waits."""

import sys

import pytest

from mirage.domain.handover import Handover
from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

LIMIT_MIN, RUN_S = 26, 25 * 60
BACKLOG = 14
"""bob's waiting jobs of half a node, 5 to 10 minutes each, on what two chains leave of 8 nodes."""
WHOLE_NODE = ("--gres=gpu:8",)
APART_MIN = 3.0
"""Of the cluster's time. Both starts are in one run, so a busy host delays both; on a quiet one the
pinned standby waits 0.6 minutes and the other one nine."""


@pytest.mark.slurm
@testbed_with(TestbedSettings(speed=60, priority="age"))
def test_a_pinned_standby_follows_at_once_where_plain_slurm_waits(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.start_service(policy="pin-then-free")
    for name, policy in (("pinned", None), ("alone", "reactive")):
        scene.submit_chain(
            name, links=2, run_s=RUN_S, limit_min=LIMIT_MIN, policy=policy, options=WHOLE_NODE
        )
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 2, 600, "both standbys")
    scene.fill(backlog=BACKLOG, gpus=4, run_s=(300, 600))
    scene.testbed.wait_until(
        lambda: len(scene.list_runs("pinned")) == len(scene.list_runs("alone")) == 2,
        7200,
        "both second links",
    )
    (pinned,), (alone,) = scene.handovers("pinned"), scene.handovers("alone")
    with capsys.disabled():
        sys.stdout.write(f"\npinned {_minutes(pinned):.1f} min, alone {_minutes(alone):.1f} min\n")
    assert pinned.overlap_h == 0.0
    assert _minutes(alone) > _minutes(pinned) + APART_MIN
    assert _moves(scene, "pinned") == ["pin"]
    assert _moves(scene, "alone") == []
    assert len({_nodes(scene, run.job_id) for run in scene.list_runs("pinned")}) == 1


def _minutes(handover: Handover) -> float:
    return 60 * handover.interruption_h


def _moves(scene: Scene, name: str) -> list[str]:
    """What Slurm was told of the chain's standby, in order."""
    path = f"/api/v1/chains/{scene.list_runs(name)[0].chain}/decisions"
    rows = scene.api(path)["items"]
    return [row["action"] for row in rows[::-1] if row["effect"] == "done"]


def _nodes(scene: Scene, job_id: int) -> str:
    words = ["sacct", "-n", "-X", "-P", "-j", str(job_id), "-o", "NodeList"]
    return scene.testbed.run(words).stdout.strip()
