"""The same hand-over by commands and by slurmrestd, whatever the release: a standby is pinned, put
back and pinned again, released early, refused; and the service is killed amid a move."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.acceptance.handover.gates import CommandsGate, Gate, RestGate
from tests.support.cluster import rest_host
from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

_WHOLE_NODE = ("--gres=gpu:8",)
_POLICY = "pin-then-free"


@contextmanager
def by_commands(scene: Scene) -> Iterator[tuple[Gate, str]]:
    real = scene.testbed.env("mirage")["PATH"]
    yield CommandsGate(scene.root / "gate", real), ""


@contextmanager
def by_slurmrestd(scene: Scene) -> Iterator[tuple[Gate, str]]:
    with rest_host.running_slurmrestd(scene.testbed) as host:
        own = scene.root / "mirage" / "own.jwt"
        own.touch(mode=0o600)
        own.write_text(host.token("mirage", 360_000).text)
        shutil.chown(own, "mirage")
        gate = RestGate(host.socket)
        try:
            yield (
                gate,
                (f'transport = "rest"\nrest_url = "{gate.url}"\nrest_token_file = "{own}"\n'),
            )
        finally:
            gate.close()


@testbed_with(TestbedSettings(speed=60))
@pytest.mark.parametrize("transport", [by_commands, by_slurmrestd])
def test_a_service_hands_over(scene: Scene, transport: object) -> None:
    with transport(scene) as (gate, cluster):  # type: ignore[operator]
        scene.start_service(policy=_POLICY, cluster=cluster, path=gate.path)
        scene.submit_chain("a", links=3, run_s=None, limit_min=600, options=_WHOLE_NODE)
        _await(scene, lambda: _begun(scene) == [1], "link 1")
        _await(scene, lambda: _is_pinned(scene), "a pinned standby")

        # Killed between intention and effect: the move was never made, and is made afterwards.
        gate.shut()
        scene.mirage("mode", "shadow")
        _await(scene, gate.is_reached, "a move under way")
        scene.stop_service(signal.SIGKILL)
        gate.drop()
        assert _is_pinned(scene)
        scene.start_service(mode="shadow", policy=_POLICY, cluster=cluster, path=gate.path)
        _await(scene, lambda: _is_held(scene), "the standby behind its predecessor")

        scene.mirage("mode", "act")
        _await(scene, lambda: _is_pinned(scene), "a standby that is pinned again")
        node = scene.testbed.job(scene.list_runs("a")[0].job_id)["NodeList"]
        scene.let_end("a", 1)
        _await(scene, lambda: _begun(scene) == [1, 2], "link 2")
        assert scene.testbed.job(scene.list_runs("a")[1].job_id)["NodeList"] == node

        # Released early, beside its predecessor; and refused, since its user asks for nodes.
        # Its time limit is within the most overlap that the scene's chains allow.
        scene.submit_chain("early", links=2, run_s=None, limit_min=200, policy="at-once")
        _await(scene, lambda: len(scene.list_runs("early")) == 2, "a link that was released early")
        scene.submit_chain(
            "asks", links=2, run_s=None, limit_min=600, options=(*_WHOLE_NODE, "-w", "gpu08")
        )
        _await(scene, lambda: _refused(scene, "asks"), "a refused pin")
        for link in (2, 3):
            scene.let_end("a", link)
        _await(scene, lambda: scene.is_finished("a", 3), "the end of the chain")
        assert _begun(scene) == [1, 2, 3]


def _await(scene: Scene, holds: object, what: str) -> None:
    scene.testbed.wait_until(holds, 7200, what)  # type: ignore[arg-type]


def _begun(scene: Scene) -> list[int]:
    return [run.link for run in scene.list_runs("a")]


def _find_standby(scene: Scene) -> dict[str, str] | None:
    found = [job_id for job_id, _ in scene.standbys()]
    return scene.testbed.job(found[0]) if found else None


def _is_pinned(scene: Scene) -> bool:
    standby = _find_standby(scene)
    first = scene.testbed.job(scene.list_runs("a")[-1].job_id)["NodeList"]
    return standby is not None and (standby["ReqNodeList"], standby["Dependency"]) == (
        first,
        "(null)",
    )


def _is_held(scene: Scene) -> bool:
    standby = _find_standby(scene)
    behind = f"afterany:{scene.list_runs('a')[-1].job_id}"
    return (
        standby is not None
        and standby["ReqNodeList"] == "(null)"
        and standby["Dependency"].startswith(behind)
    )


def _refused(scene: Scene, name: str) -> bool:
    ran = scene.list_runs(name)
    return bool(ran) and any(
        event == "pin: refused" and chain == ran[0].chain for event, chain, _ in scene.audit()
    )
