"""Releases that are planned in Slurm, on a real one: they happen whoever is alive.

The service plans them from what jobs of the partition have waited. A plan of the link's own is in
tests/acceptance/slurm_plugin/test_plan_real.py.
"""

import re
import signal
import time
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain and the jobs of its links 1 and 2."""

    name: str
    first: int
    second: int


@testbed_with(_FAST)
def test_plans_outlive_the_service(scene: Scene) -> None:
    """One predecessor is left alone, one is requeued before the plan, one after it."""
    _start_planning(scene)
    alone, before, after = _submit_planned(scene, "alone", "before", "after")
    scene.stop_service(signal.SIGKILL)

    planned = {chain: _release(scene, chain) for chain in (alone, before, after)}
    began = _instant(scene, before.first, "StartTime")

    # Requeued before the plan: it counts anew.
    scene.testbed.run(["scontrol", "requeue", str(before.first)])
    scene.testbed.wait_until(
        lambda: _runs(scene, before, 1) == 2 and scene.testbed.state(before.first) == "RUNNING",
        7200,
        "the second run of link 1",
    )
    again = _instant(scene, before.first, "StartTime")
    assert again > began
    assert scene.testbed.state(before.second) == "PENDING"
    assert _release(scene, before) > planned[before], "after the new start"

    _await_release(scene, alone, planned)
    # Requeued after the plan: never two writers, since link 2 has taken over.
    _await_release(scene, after, planned)
    eligible = _instant(scene, after.second, "EligibleTime")
    scene.testbed.run(["scontrol", "requeue", str(after.first)])
    _await_release(scene, before, planned)
    scene.testbed.wait_until(
        lambda: _is_over(scene, after.first), 7200, "the end of the requeued link 1"
    )
    assert scene.testbed.state(after.second) == "RUNNING"
    assert _instant(scene, after.second, "EligibleTime") == eligible
    assert _runs(scene, after, 1) == 1

    # Left alone: the chain goes on without the service too.
    scene.testbed.wait_until(
        lambda: _find_standby(scene, alone.second) is not None, 7200, "the standby of link 3"
    )
    assert [run.link for run in scene.list_runs("alone")] == [1, 2]


@testbed_with(_FAST)
def test_when_act_ends_plans_are_taken_back(scene: Scene) -> None:
    _start_planning(scene)
    (chain,) = _submit_planned(scene, "a")
    release = _release(scene, chain)
    scene.mirage("mode", "shadow")
    _await_plain(scene, chain, before=release)
    scene.let_end("a", 1)  # its time limit is near by now
    _await_run(scene, chain)
    assert _is_over(scene, chain.first)


@testbed_with(_FAST)
def test_while_its_predecessor_is_suspended_nothing_is_planned(scene: Scene) -> None:
    """Slurm's clock runs on: the plan that stands would come too early by the whole pause."""
    _start_planning(scene)
    (chain,) = _submit_planned(scene, "a")
    release = _release(scene, chain)
    scene.testbed.run(["scontrol", "suspend", str(chain.first)])
    _await_plain(scene, chain, before=release)
    scene.testbed.run(["scontrol", "resume", str(chain.first)])
    scene.testbed.wait_until(
        lambda: _minutes(scene, chain) is not None or _runs(scene, chain, 2) > 0,
        1800,
        "a new plan",
    )
    _await_run(scene, chain)
    assert scene.testbed.state(chain.first) == "RUNNING"
    assert _instant(scene, chain.second, "EligibleTime") > release + LATE_S


def _start_planning(scene: Scene) -> None:
    """Start the service, which plans releases by what jobs of the partition have waited."""
    scene.let_jobs_wait(WAITED_MIN, jobs=16)
    scene.start_service(policy="average")


def _submit_planned(scene: Scene, *names: str) -> list[Chain]:
    """Submit chains whose first links run until told to end; return them once all are planned."""
    firsts = {
        name: scene.submit_chain(name, links=3, run_s=None, limit_min=LIMIT_MIN) for name in names
    }
    return [_await_plan(scene, name, first) for name, first in firsts.items()]


def _await_plan(scene: Scene, name: str, first: int) -> Chain:
    scene.testbed.wait_until(
        lambda: _find_standby(scene, first) is not None, 3600, f"the standby of {name}"
    )
    second = _find_standby(scene, first)
    assert second is not None
    chain = Chain(name, first, second)
    scene.testbed.wait_until(lambda: _minutes(scene, chain) is not None, 1800, f"{name}'s plan")
    return chain


def _find_standby(scene: Scene, predecessor: int) -> int | None:
    """The job that waits for the predecessor's end, if there is one."""
    begin = f"afterany:{predecessor}("
    return next(
        (
            job
            for job, _ in scene.standbys()
            if scene.testbed.job(job)["Dependency"].startswith(begin)
        ),
        None,
    )


def _await_release(scene: Scene, chain: Chain, planned: dict[Chain, float]) -> None:
    """Wait until link 2 runs beside link 1, and compare its eligible time with the plan.

    Without a service a requeued link 1 may move its plan: the one that stood last counts.
    """

    def has_begun() -> bool:
        for one in planned:
            if (minutes := _minutes(scene, one)) is not None:
                planned[one] = _instant(scene, one.first, "StartTime") + minutes * MINUTE
        return _runs(scene, chain, 2) > 0

    scene.testbed.wait_until(has_begun, 7200, f"link 2 of {chain.name}")
    assert scene.testbed.state(chain.first) == "RUNNING"
    assert 0 <= _instant(scene, chain.second, "EligibleTime") - planned[chain] <= LATE_S


def _is_over(scene: Scene, job: int) -> bool:
    """Whether a job has ended, which slurmctld may have forgotten by now."""
    try:
        return scene.testbed.state(job) in {"COMPLETED", "CANCELLED", "TIMEOUT"}
    except LookupError:
        return True


def _await_plain(scene: Scene, chain: Chain, *, before: float) -> None:
    """Wait until the plan is taken back before its instant, and see that it stays so after it."""
    plain = f"afterany:{chain.first}(unfulfilled)"
    scene.testbed.wait_until(
        lambda: scene.testbed.job(chain.second)["Dependency"] == plain, 600, "plain afterany"
    )
    assert scene.testbed.now() < before, "it came too late to tell"
    scene.testbed.wait_until(
        lambda: scene.testbed.now() > before + LATE_S, 2 * LIMIT_MIN * MINUTE, "the instant"
    )
    assert scene.testbed.job(chain.second)["Dependency"] == plain


def _minutes(scene: Scene, chain: Chain) -> int | None:
    """The minutes after its predecessor's start that stand in the standby's dependency."""
    found = _PLAN.fullmatch(scene.testbed.job(chain.second)["Dependency"])
    return None if found is None else int(found[2])


def _release(scene: Scene, chain: Chain) -> float:
    """The instant of the plan that stands in Slurm."""
    minutes = _minutes(scene, chain)
    assert minutes is not None, scene.testbed.job(chain.second)["Dependency"]
    return _instant(scene, chain.first, "StartTime") + minutes * MINUTE


def _instant(scene: Scene, job: int, name: str) -> float:
    return time.mktime(time.strptime(scene.testbed.job(job)[name], "%Y-%m-%dT%H:%M:%S"))


def _runs(scene: Scene, chain: Chain, link: int) -> int:
    """How often a link's script has begun."""
    return sum(run.link == link for run in scene.list_runs(chain.name))


def _await_run(scene: Scene, chain: Chain) -> None:
    """Wait until link 2's script has begun."""
    scene.testbed.wait_until(lambda: _runs(scene, chain, 2) > 0, 7200, f"link 2 of {chain.name}")
