"""What an owner asks of a chain is what a real Slurm does; what anybody else asks is refused."""

import subprocess
from typing import Any

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

_FAST = TestbedSettings(speed=60)
LINKS, LIMIT_MIN = 4, 120
QUIET_S = 300
"""Five ticks, and ten rounds of Slurm's schedulers: a job that may start has started by then."""


@testbed_with(_FAST)
def test_an_owner_pauses_resumes_and_cancels_and_nobody_else_may(scene: Scene) -> None:
    """In shadow, the default mode: an owner's word counts there too."""
    scene.start_service(mode="shadow")
    scene.submit_chain("a", links=LINKS, run_s=None, limit_min=LIMIT_MIN)
    _wait_for_links(scene, {1: "running", 2: "pending"})
    chain, first, standby = _find_chain_id(scene), _find_job_id(scene, 1), _find_job_id(scene, 2)
    _wait_for_decision(scene, standby)
    page = _page(scene)
    assert page[0][:5] == [chain, "alice", "active", "1 of 4", str(first)]
    assert [row[:4] for row in page[1:]] == [
        ["1", str(first), "running", ""],
        ["2", str(standby), "pending", "held"],
    ]
    assert "Left the standby as it is." in _explained(scene, 2)

    assert _said(scene.chain("pause", chain)).startswith(f"chain {chain} is paused: ")
    scene.testbed.wait_until(lambda: _held(scene, standby), 600, "the hold")
    assert scene.testbed.job(standby)["Reason"] == "JobHeldUser", "alice can lift it herself"
    assert scene.testbed.state(first) == "RUNNING"
    _let_link_1_end_and_time_pass(scene)
    _nobody_else_may(scene)
    assert (_started(scene), _read_queue(scene)) == ([1], [f"{standby} PENDING 0"])
    page = _page(scene)
    assert page[0][2:5] == ["paused", "1 of 4", "-"]
    assert "\npaused by alice\n" in _said(scene.chain("show", chain))

    assert _said(scene.chain("resume", chain)).startswith(f"chain {chain} is active: ")
    _wait_for_links(scene, {1: "ended", 2: "running", 3: "pending"})
    _nobody_else_may(scene)
    assert (_started(scene), _held(scene, _find_job_id(scene, 3))) == ([1, 2], False)
    _wait_for_decision(scene, _find_job_id(scene, 3))
    assert "Left the standby as it is." in _explained(scene, 3)
    page = _page(scene)
    assert page[0][2:5] == ["active", "2 of 4", str(standby)]
    assert page[4][0] == "2", "the hand-over to link 2"

    assert _said(scene.chain("cancel", chain)).startswith(f"chain {chain} is cancelled: ")
    _wait_for_links(scene, {1: "ended", 2: "ended", 3: "ended"})
    page = _page(scene)
    assert page[0][2:5] == ["cancelled", "2 of 4", "-"]
    assert "\ncancelled by alice\n" in _said(scene.chain("show", chain))
    assert [row[2] for row in page[1:4]] == ["COMPLETED", "CANCELLED", "CANCELLED"]
    # One that is completing is over.
    assert [_read_queue(scene, states="PD,R"), _started(scene), scene.list_runs("a")[1].end] == [
        [],
        [1, 2],
        None,
    ]
    assert _told(scene) == ["suspend", "resume", "cancel", "cancel"]
    again = scene.chain("resume", chain)
    assert again.returncode == 1
    assert again.stderr == f"mirage: chain {chain} is cancelled: it cannot become active\n"


@testbed_with(_FAST)
def test_a_paused_chain_does_not_go_on_with_a_standby_that_was_free(scene: Scene) -> None:
    full = ["-p", "long", "-t", "600", "--gres=gpu:4", "--mem=100M", "--array=1-15"]
    scene.testbed.sbatch(*full, user="bob", run="sleep 36000")
    scene.testbed.wait_until(
        lambda: len(_read_queue(scene, "bob", "R")) == 15, 600, "60 GPUs in use"
    )
    scene.start_service()
    scene.submit_chain("a", links=LINKS, run_s=None, limit_min=LIMIT_MIN, policy="at-once")
    _wait_for_links(scene, {1: "running", 2: "pending"})
    standby = _find_job_id(scene, 2)
    scene.testbed.wait_until(lambda: "free: done" in _told(scene), 600, "the move")
    assert scene.testbed.job(standby)["Dependency"] == "(null)"
    assert "Freed the standby" in _explained(scene, 2)

    _said(scene.chain("pause", _find_chain_id(scene)))
    scene.testbed.wait_until(lambda: _held(scene, standby), 600, "the hold")
    _let_link_1_end_and_time_pass(scene)
    assert (scene.testbed.state(standby), _started(scene)) == ("PENDING", [1])

    _said(scene.chain("resume", _find_chain_id(scene)))
    scene.testbed.wait_until(lambda: _started(scene) == [1, 2], 1200, "link 2")
    # Link 3 may have been freed by now.
    assert _told(scene)[:3] == ["free: done", "suspend", "resume"]


def _let_link_1_end_and_time_pass(scene: Scene) -> None:
    scene.let_end("a", 1)
    scene.testbed.wait_until(lambda: scene.list_runs("a")[0].end is not None, 600, "link 1's end")
    until = scene.testbed.now() + QUIET_S
    scene.testbed.wait_until(lambda: scene.testbed.now() > until, 2 * QUIET_S, "time to pass")


def _nobody_else_may(scene: Scene) -> None:
    chain, before = _find_chain_id(scene), (_read_queue(scene), _page(scene)[0])
    for verb in ("pause", "resume", "cancel"):
        refused = scene.chain(verb, chain, user="bob")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == f"mirage: chain {chain} is not bob's\n"
    _let_mirage_look_again(scene)
    assert (_read_queue(scene), _page(scene)[0]) == before


def _let_mirage_look_again(scene: Scene) -> None:
    """Until the second look from now: then all that follows from the first is done."""
    seen = {_shown(scene)["as_of"]}

    def twice() -> bool:
        seen.add(_shown(scene)["as_of"])
        return len(seen) > 2

    scene.testbed.wait_until(twice, 600, "two looks")


def _wait_for_links(scene: Scene, wanted: dict[int, str]) -> None:
    scene.testbed.wait_until(lambda: _started(scene) != [], 3600, "link 1")
    scene.testbed.wait_until(lambda: _links(scene) == wanted, 1200, f"links {wanted}")


def _wait_for_decision(scene: Scene, standby: int) -> None:
    decisions = f"/api/v1/chains/{_find_chain_id(scene)}/decisions"

    def decided() -> bool:
        return any(d["inputs"]["standby"] == standby for d in scene.api(decisions)["items"])

    scene.testbed.wait_until(decided, 600, "a decision")


def _find_chain_id(scene: Scene) -> str:
    return scene.list_runs("a")[0].chain


def _started(scene: Scene) -> list[int]:
    return [run.link for run in scene.list_runs("a")]


def _read_queue(scene: Scene, user: str = "alice", states: str = "PD,R,CG") -> list[str]:
    words = ["squeue", "-h", "-r", "-u", user, "-t", states, "-o", "%A %T %Q"]
    return scene.testbed.run(words).stdout.splitlines()


def _held(scene: Scene, job_id: int) -> bool:
    return scene.testbed.job(job_id)["Priority"] == "0"


def _told(scene: Scene) -> list[str]:
    """What Mirage did in Slurm, in order."""
    verbs = ("suspend", "resume", "cancel", "free")
    return [event for event, _, _ in scene.audit() if event.partition(":")[0] in verbs]


def _shown(scene: Scene) -> dict[str, Any]:
    return scene.show_chain("a")


def _links(scene: Scene) -> dict[int, str]:
    return {link["index"]: link["state"] for link in _shown(scene)["links"]}


def _find_job_id(scene: Scene, index: int) -> int:
    return next(int(link["job_id"]) for link in _shown(scene)["links"] if link["index"] == index)


def _page(scene: Scene) -> list[list[str]]:
    """The cells that `mirage chain show` prints: the chain, its links, its hand-overs."""
    lines = _said(scene.chain("show", _find_chain_id(scene))).splitlines()
    rows = (line.strip("│").split("│") for line in lines if line.startswith("│"))
    return [[cell.strip() for cell in row] for row in rows]


def _explained(scene: Scene, link: int) -> str:
    """The newest of `mirage chain explain`, which is of that link."""
    _price, newest, *_ = _said(scene.chain("explain", _find_chain_id(scene))).split("\n\n")
    assert f"link {link} (job {_find_job_id(scene, link)}), policy " in newest
    return newest


def _said(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
