"""Least privilege: the service coordinates one account, and is no Operator."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

LIMIT_MIN = 60
_SCRIPT = '#!/bin/sh\nuntil [ -e "$1.$MIRAGE_LINK" ]; do sleep 5; done\n'


def _sacctmgr(scene: Scene, *words: str) -> None:
    scene.testbed.run(["sacctmgr", "-i", *words])


@pytest.fixture
def coordinator(scene: Scene) -> Iterator[Scene]:
    """alice and bob are of account research, carol of students."""
    right = ("coordinator", "account=research", "names=mirage")
    _sacctmgr(scene, "modify", "user", "mirage", "set", "AdminLevel=None")
    _sacctmgr(scene, "add", *right)
    home = scene.root / "carol"
    home.mkdir()
    shutil.chown(home, "carol")
    script = scene.root / "wait.sh"
    script.write_text(_SCRIPT)
    yield scene
    _sacctmgr(scene, "delete", *right)
    _sacctmgr(scene, "modify", "user", "mirage", "set", "AdminLevel=Operator")


@testbed_with(TestbedSettings(speed=60))
def test_a_coordinators_service_helps_that_account_and_says_why_not_the_others(
    coordinator: Scene,
) -> None:
    scene = coordinator
    scene.start_service(policy="at-once")
    # On a busy host it serves before accounting has answered, and says so; then it says this.
    whose = "jobs of accounts that it coordinates (research)"
    scene.testbed.wait_until(lambda: whose in scene.service_log(), 3600, "its rights")
    helped, left = _submit(scene, "alice"), _submit(scene, "carol")
    _wait_for_standby(scene, "alice")
    _wait_for_standby(scene, "carol")
    scene.testbed.wait_until(lambda: _ran(scene, "alice") == 2, 3600, "alice's second link")
    assert scene.testbed.state(helped) == "RUNNING", "it was released early"
    scene.testbed.wait_until(
        lambda: "may not move jobs of account students" in _explained(scene, "carol"), 3600, "why"
    )
    assert "plain Slurm starts it when its predecessor ends" in _explained(scene, "carol")
    assert _ran(scene, "carol") == 1
    (scene.root / "carol" / "log.1").touch()
    scene.testbed.wait_until(lambda: _ran(scene, "carol") == 2, 3600, "carol's second link")
    assert scene.testbed.state(left) == "COMPLETED"
    moves = [event for event, _, _ in scene.audit() if event.startswith(("free", "pin", "hold"))]
    assert moves == ["free: done"]


def _submit(scene: Scene, user: str) -> int:
    home = scene.root / user
    words = [str(scene.root / "slurm_plugin" / "sbatch"), "--parsable", "-p", "gpu"]
    words += ["--mirage-chain=2", f"--time={LIMIT_MIN}", "-o", "/dev/null", "--gres=gpu:1"]
    words += ["--mirage-style=concurrent", "--mirage-max-overlap=4:00:00"]
    words += [str(scene.root / "wait.sh"), str(home / "log")]
    env = {"MIRAGE_URL": "http://127.0.0.1:6497", "MIRAGE_STATE_DIR": str(home / "state")}
    done = scene.testbed.run(words, user=user, env=env, cwd=home)
    return int(done.stdout.partition(";")[0])


def _wait_for_standby(scene: Scene, user: str) -> None:
    scene.testbed.wait_until(lambda: len(_jobs(scene, user)) == 2, 3600, f"{user}'s standby")


def _jobs(scene: Scene, user: str) -> list[str]:
    """States of the user's jobs, ended ones too."""
    words = ["squeue", "-h", "-u", user, "-t", "all", "-o", "%T"]
    return scene.testbed.run(words).stdout.split()


def _ran(scene: Scene, user: str) -> int:
    """How many of the user's jobs have started."""
    return sum(state != "PENDING" for state in _jobs(scene, user))


def _explained(scene: Scene, user: str) -> str:
    return scene.chain("explain", user=user).stdout
