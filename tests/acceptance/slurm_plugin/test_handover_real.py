"""Hand-overs on a real Slurm: by switch, by wait, and with a part of it killed. All chains run in
one scene, beside each other; the service dies in the middle, before any of them hands over.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.handover.scene import PORT, Scene
from tests.support.paths import SUPPORT
from tests.support.slurm_plugin.counted_chain import STEPS
from tests.support.slurm_plugin.counting_link import GATE
from tests.support.slurm_plugin.real_chains import Alice, RealChain
from tests.support.slurm_testbed import Testbed, TestbedSettings, python_for_users

pytestmark = pytest.mark.slurm

PROGRAMS = SUPPORT / "slurm_plugin"


@dataclass
class Stage:
    chains: dict[str, RealChain]

    def over(self, name: str) -> RealChain:
        """The chain of that name, once its work is done."""
        chain = self.chains[name]
        chain.until(lambda: chain.done, "the end of the work")
        return chain


@pytest.fixture(scope="module")
def stage(slurm_host: Testbed) -> Iterator[Stage]:
    slurm_host.up(TestbedSettings())
    slurm_host.cancel_all()
    scene = Scene.set_up(slurm_host)
    try:
        scene.start_service(mode="shadow")
        with Alice.at_home(slurm_host) as alice:
            alice.url = f"http://127.0.0.1:{PORT}"
            chains = submitted(alice)
            for chain in chains.values():
                chain.until(lambda chain=chain: chain.job(2) > 0, "the standby")
                chain.until(lambda chain=chain: bool(chain.lines("step")), "the first step")
            os.kill(chains["verbs"].pids(1)[0], signal.SIGSTOP)
            for chain in chains.values():
                chain.free_standby(2)
            scene.stop_service(signal.SIGKILL)
            for chain in chains.values():
                chain.until(lambda chain=chain: chain.has_waited(2), "link 2 beside it")
            act(alice, chains)
            yield Stage(chains)
    finally:
        scene.strike()
        shutil.rmtree(scene.root, ignore_errors=True)


def submitted(alice: Alice) -> dict[str, RealChain]:
    python = python_for_users()[0]
    count = f"exec {python} {PROGRAMS}/counting_link.py {STEPS}"
    train = f"{python} -c 'import torch' || {count}\nexec {python} {PROGRAMS}/training_link.py"
    verb = "$PLUGIN/mirage-link handover wait --stale 2"
    until_asked, until_told = (
        {"GATE": str(alice.home / "never")},
        {"GATE": str(alice.home / "gate")},
    )
    cut = {"FAULT": "kill@half write staged#6"}  # the checkpoint of the last step

    def killed(point: str) -> dict[int, dict[str, str]]:
        return {1: until_asked, 2: {"FAULT": f"kill@{point}"}}

    chains = [
        alice.submit("switch", train, own={1: until_asked}),
        alice.submit("wait", train, style="wait", own={1: until_told | {"LAST": "22"}}),
        alice.submit("verbs", f"{verb} || {verb} || exit 0\n{count}", own={1: until_asked}),
        alice.submit("predecessor", count, style="wait", own={1: until_told | cut}),
        alice.submit("carrier", count, style="wait", own={1: until_told}),
        alice.submit("scancel", count, style="wait", own={1: until_told}),
        alice.submit("asks", count, links=4, own=killed("after rename request")),
        alice.submit("takes", count, links=4, own=killed("after link lease")),
        alice.submit("saves", count, links=4, own=killed("half write staged")),
    ]
    return {chain.name: chain for chain in chains}


def act(alice: Alice, chains: dict[str, RealChain]) -> None:
    """Every link 2 stands beside its predecessor by now, or has taken its place."""
    verbs = chains["verbs"]
    verbs.until(lambda: verbs.get("handover/request/2") != "", "its request")
    asker = int(verbs.get("handover/request/2").split()[1])
    os.kill(asker, signal.SIGKILL)
    os.kill(verbs.pids(1)[0], signal.SIGCONT)
    scancel = chains["scancel"]
    scancel.testbed.run(["scancel", str(scancel.job(1))], user="alice")
    scancel.until(lambda: scancel.get("stop") != "", "the chain's stop")
    os.kill(chains["carrier"].pids(1)[1], signal.SIGKILL)
    (alice.home / "gate").touch()


def test_a_training_hands_over_by_switch(stage: Stage) -> None:
    chain = stage.over("switch")
    chain.prove(each_step_once=True)
    assert [chain.steps_of(1), chain.steps_of(2)] == [GATE, STEPS - GATE]
    chain.until(lambda: chain.testbed.state(chain.job(1)) == "COMPLETED", "the predecessor's end")
    assert "handed-over" in chain.get("handover/verdict/1")


def test_a_training_hands_over_by_wait(stage: Stage) -> None:
    chain = stage.over("wait")
    chain.prove(each_step_once=True)
    assert [chain.steps_of(1), chain.steps_of(2)] == [22, STEPS - 22]


def test_mirage_link_killed_while_it_asks(stage: Stage) -> None:
    chain = stage.over("verbs")
    chain.prove(each_step_once=True)
    assert chain.steps_of(2) == STEPS - GATE


@pytest.mark.parametrize(
    ("name", "killed"), [("predecessor", 1), ("carrier", 1), ("takes", 2), ("saves", 2)]
)
def test_a_link_killed_is_followed_by_slurms_word(stage: Stage, name: str, killed: int) -> None:
    chain = stage.over(name)
    chain.prove()
    assert chain.testbed.state(chain.job(killed)) == "FAILED"


def test_a_successor_killed_while_it_asks_ends_nothing(stage: Stage) -> None:
    chain = stage.over("asks")
    chain.prove(each_step_once=True)
    assert chain.testbed.state(chain.job(2)) == "FAILED"


def test_scancel_of_the_predecessor_ends_the_chain(stage: Stage) -> None:
    chain = stage.chains["scancel"]
    chain.until(lambda: chain.testbed.state(chain.job(2)) == "COMPLETED", "the end of link 2")
    assert chain.get("stop") == "link 1 was cancelled"
    assert {number for _, number, _ in chain.lines()} == {1}
