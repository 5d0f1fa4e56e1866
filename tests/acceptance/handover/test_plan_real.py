"""Releases that are planned in Slurm, on a real one: they happen whoever is alive.

The service plans them from what jobs of the partition have waited. A plan of the link's own is in
tests/acceptance/slurm_plugin/test_plan_real.py.
"""

import re
import signal
import time

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

_FAST = TestbedSettings(speed=60)
MINUTE = 60
LIMIT_MIN = 60
WAITED_MIN = 15
"""What the jobs of the partition have waited: the lead of the policy `average`."""
LATE_S = 10 * MINUTE
"""One pass of the schedulers, a minute that Slurm rounds by, and a busy machine: ten minutes are
ten of its seconds. Without a plan link 2 is eligible fifteen minutes later."""
_PLAN = re.compile(r"afterany:(\d+)\(unfulfilled\)\?after:\1\+(\d+)\(unfulfilled\)")


@pytest.fixture
def planned(scene: Scene) -> tuple[int, int]:
    """The jobs of link 1, which runs until told to end, and of link 2, whose plan stands."""
    _let_jobs_wait(scene)
    scene.start_service(policy="average")
    first = scene.submit_chain("a", links=3, run_s=None, limit_min=LIMIT_MIN)
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 1, 3600, "the standby")
    ((second, _),) = scene.standbys()
    scene.testbed.wait_until(lambda: _minutes(scene, second) is not None, 1800, "its plan")
    return first, second


@testbed_with(_FAST)
def test_a_plan_outlives_the_service(scene: Scene, planned: tuple[int, int]) -> None:
    first, second = planned
    scene.stop_service(signal.SIGKILL)
    release = _release(scene, first, second)
    _await_run(scene, 2)
    assert scene.testbed.state(first) == "RUNNING"
    assert 0 <= _instant(scene, second, "EligibleTime") - release <= LATE_S
    # The chain goes on without the service too.
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 1, 7200, "the standby of link 3")
    assert [run.link for run in scene.ran("a")] == [1, 2]


@testbed_with(_FAST)
def test_when_act_ends_plans_are_taken_back(scene: Scene, planned: tuple[int, int]) -> None:
    first, second = planned
    release = _release(scene, first, second)
    scene.mirage("mode", "shadow")
    plain = f"afterany:{first}(unfulfilled)"
    scene.testbed.wait_until(
        lambda: scene.testbed.job(second)["Dependency"] == plain, 600, "plain afterany"
    )
    assert scene.testbed.now() < release, "it came too late to tell"
    scene.testbed.wait_until(
        lambda: scene.testbed.now() > release + LATE_S, 2 * LIMIT_MIN * MINUTE, "the instant"
    )
    assert scene.testbed.job(second)["Dependency"] == plain
    scene.let_end("a", 1)
    _await_run(scene, 2)
    assert scene.testbed.state(first) == "COMPLETED"


@testbed_with(_FAST)
def test_a_predecessor_that_is_requeued_before_the_plan_counts_anew(
    scene: Scene, planned: tuple[int, int]
) -> None:
    first, second = planned
    scene.stop_service(signal.SIGKILL)
    release, began = _release(scene, first, second), _instant(scene, first, "StartTime")
    scene.testbed.run(["scontrol", "requeue", str(first)])
    scene.testbed.wait_until(
        lambda: scene.testbed.state(first) == "RUNNING" and _runs(scene, 1) == 2, 7200, "run 2"
    )
    again = _instant(scene, first, "StartTime")
    assert again > began
    assert scene.testbed.state(second) == "PENDING"
    later = _release(scene, first, second)
    assert later - release == again - began, "as many minutes after the new start"
    _await_run(scene, 2)
    assert scene.testbed.state(first) == "RUNNING"
    assert 0 <= _instant(scene, second, "EligibleTime") - later <= LATE_S


@testbed_with(_FAST)
def test_a_predecessor_that_is_requeued_after_the_plan_does_not_begin_again(
    scene: Scene, planned: tuple[int, int]
) -> None:
    first, second = planned
    scene.stop_service(signal.SIGKILL)
    _await_run(scene, 2)
    eligible = _instant(scene, second, "EligibleTime")
    scene.testbed.run(["scontrol", "requeue", str(first)])
    over = {"COMPLETED", "CANCELLED"}
    scene.testbed.wait_until(lambda: scene.testbed.state(first) in over, 7200, "the end of link 1")
    assert scene.testbed.state(second) == "RUNNING"
    assert _instant(scene, second, "EligibleTime") == eligible
    assert _runs(scene, 1) == 1, "never two writers: link 2 has taken over"


@testbed_with(_FAST)
def test_while_its_predecessor_is_suspended_nothing_is_planned(
    scene: Scene, planned: tuple[int, int]
) -> None:
    """Slurm's clock runs on: the plan that stands would come too early by the whole pause."""
    first, second = planned
    release = _release(scene, first, second)
    scene.testbed.run(["scontrol", "suspend", str(first)])
    plain = f"afterany:{first}(unfulfilled)"
    scene.testbed.wait_until(
        lambda: scene.testbed.job(second)["Dependency"] == plain, 600, "plain afterany"
    )
    assert scene.testbed.now() < release, "it came too late to tell"
    scene.testbed.wait_until(
        lambda: scene.testbed.now() > release + LATE_S, 2 * LIMIT_MIN * MINUTE, "the instant"
    )
    assert scene.testbed.job(second)["Dependency"] == plain
    scene.testbed.run(["scontrol", "resume", str(first)])
    scene.testbed.wait_until(
        lambda: _minutes(scene, second) is not None or _runs(scene, 2) > 0, 1800, "a new plan"
    )
    _await_run(scene, 2)
    assert scene.testbed.state(first) == "RUNNING"
    assert _instant(scene, second, "EligibleTime") > release + LATE_S


def _let_jobs_wait(scene: Scene) -> None:
    """Sixteen jobs of the partition wait `WAITED_MIN`, behind jobs of another one on all nodes."""
    words = ["-p", "long", "--exclusive", f"--time={2 * WAITED_MIN}"]
    blockers = [
        scene.testbed.sbatch(*words, user="bob", run=f"sleep {WAITED_MIN * MINUTE}")
        for _ in range(8)
    ]
    scene.testbed.wait_until(
        lambda: all(scene.testbed.state(job) == "RUNNING" for job in blockers), 600, "full nodes"
    )
    waiting = [
        scene.testbed.sbatch("-p", "gpu", "--gres=gpu:4", "--time=5", user="bob", run="sleep 30")
        for _ in range(16)
    ]
    for job in blockers + waiting:
        scene.testbed.wait_until(
            lambda job=job: scene.testbed.state(job) == "COMPLETED",  # type: ignore[misc]
            3600,
            f"the end of job {job}",
        )


def _minutes(scene: Scene, job: int) -> int | None:
    """The minutes after its predecessor's start that stand in a job's dependency."""
    found = _PLAN.fullmatch(scene.testbed.job(job)["Dependency"])
    return None if found is None else int(found[2])


def _release(scene: Scene, first: int, second: int) -> float:
    minutes = _minutes(scene, second)
    assert minutes is not None, scene.testbed.job(second)["Dependency"]
    return _instant(scene, first, "StartTime") + minutes * MINUTE


def _instant(scene: Scene, job: int, name: str) -> float:
    return time.mktime(time.strptime(scene.testbed.job(job)[name], "%Y-%m-%dT%H:%M:%S"))


def _runs(scene: Scene, link: int) -> int:
    """How often a link's script has begun."""
    return sum(run.link == link for run in scene.ran("a"))


def _await_run(scene: Scene, link: int) -> None:
    scene.testbed.wait_until(lambda: _runs(scene, link) > 0, 7200, f"link {link}")
