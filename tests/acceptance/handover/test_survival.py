"""Chains survive the service: killed, restarted, or left without a slurmctld. On a real Slurm."""

import signal

import pytest

from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm

_FAST = TestbedSettings(speed=60)
LIMIT_MIN, RUN_S = 12, 600
LONG_S = 1800
"""Long enough for a busy machine's service to look at a link while it runs."""


def _is_running(scene: Scene, name: str, link: int) -> bool:
    return any(r.link == link and r.end is None for r in scene.list_runs(name))


def _order(scene: Scene, name: str) -> list[int]:
    return [r.link for r in scene.list_runs(name)]


@testbed_with(_FAST)
def test_a_service_killed_and_never_restarted_loses_no_link(scene: Scene) -> None:
    scene.start_service(policy="average")
    scene.submit_chain("a", links=3, run_s=RUN_S, limit_min=LIMIT_MIN)
    scene.testbed.wait_until(lambda: _is_running(scene, "a", 2), 3600, "link 2")
    scene.stop_service(signal.SIGKILL)
    scene.testbed.wait_until(lambda: scene.is_finished("a", 3), 7200, "the end of link 3")
    assert _order(scene, "a") == [1, 2, 3]


@testbed_with(_FAST)
def test_a_restarted_service_adopts_and_repeats_nothing(scene: Scene) -> None:
    scene.start_service(policy="average")
    scene.submit_chain("a", links=4, run_s=RUN_S, limit_min=LIMIT_MIN)
    scene.testbed.wait_until(lambda: _is_running(scene, "a", 1), 3600, "link 1")
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 1, 600, "its standby")
    scene.stop_service(signal.SIGKILL)
    # A chain that began and moved on while nobody watched.
    scene.submit_chain("b", links=4, run_s=RUN_S, limit_min=LIMIT_MIN)
    scene.testbed.wait_until(lambda: _is_running(scene, "b", 2), 3600, "link 2 of b")
    scene.start_service(policy="average")
    scene.testbed.wait_until(lambda: _knows(scene, 2), 1200, "both chains to be known")
    marks = [comment for _, comment in scene.standbys()]
    assert len(marks) == len(set(marks)) <= 2
    scene.testbed.wait_until(
        lambda: scene.is_finished("a", 4) and scene.is_finished("b", 4), 10800, "the ends"
    )
    assert _order(scene, "a") == _order(scene, "b") == [1, 2, 3, 4]
    chain_b = scene.list_runs("b")[0].chain
    adopted = [detail for event, chain, detail in scene.audit() if event == "adopted"]
    assert [e for e, c, _ in scene.audit() if c == chain_b and e == "adopted"] == ["adopted"]
    assert adopted


def _knows(scene: Scene, chains: int) -> bool:
    items = scene.api("/api/v1/chains")["items"]
    assert isinstance(items, list)
    return len(items) >= chains


@testbed_with(_FAST)
def test_without_slurmctld_nothing_is_cancelled_and_the_service_recovers(scene: Scene) -> None:
    scene.start_service(policy="average")
    scene.submit_chain("a", links=3, run_s=RUN_S, limit_min=LIMIT_MIN)
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 1, 3600, "the standby")
    before = scene.standbys()
    scene.testbed.stop_ctld()
    scene.testbed.wait_until(lambda: _noticed(scene), 3600, "the service to notice")
    scene.testbed.start_ctld()
    assert scene.service is not None
    assert scene.service.poll() is None, scene.service_log()
    # By now the standby may wait, or run without having written a line yet.
    words = ["squeue", "-h", "-u", "alice", "-t", "PD,CF,R", "-o", "%A"]
    left = {int(job_id) for job_id in scene.testbed.run(words).stdout.split()}
    assert {job for job, _ in before} <= left
    assert not [event for event, _, _ in scene.audit() if "cancel" in event]
    scene.testbed.wait_until(lambda: scene.is_finished("a", 3), 10800, "the end of link 3")
    assert _order(scene, "a") == [1, 2, 3]
    scene.testbed.wait_until(lambda: _chain_state(scene) == "finished", 3600, "the chain's end")


def _noticed(scene: Scene) -> bool:
    return '"error": ' in scene.service_log() and '"level": "warning"' in scene.service_log()


def _chain_state(scene: Scene) -> str:
    items = scene.api("/api/v1/chains")["items"]
    assert isinstance(items, list)
    return str(items[0]["state"])


def _knows_a_link(scene: Scene) -> bool:
    chains = scene.api("/api/v1/chains")["items"]
    return any(scene.api(f"/api/v1/chains/{one['chain_id']}")["links"] for one in chains)


@testbed_with(_FAST)
def test_scancel_of_the_running_link_ends_the_chain(scene: Scene) -> None:
    scene.start_service(policy="average")
    # Its script does not end by itself, however late a busy machine's service looks.
    job_id = scene.submit_chain("a", links=3, run_s=None, limit_min=600)
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 1, 3600, "the standby")
    scene.testbed.wait_until(lambda: _is_running(scene, "a", 1), 600, "a line of the script")
    # Cancelled before the service's first look, it is told by accounting alone: after a week's
    # catch-up of one window in five minutes.
    scene.testbed.wait_until(lambda: _knows_a_link(scene), 1200, "the service's look at link 1")
    scene.testbed.run(["scancel", str(job_id)], user="alice")
    scene.testbed.wait_until(lambda: _chain_state(scene) != "active", 1200, "the verdict")
    assert _chain_state(scene) == "cancelled", scene.api("/api/v1/chains")
    scene.testbed.wait_until(lambda: not scene.standbys(), 1200, "no standby")
    assert _order(scene, "a") == [1]


@testbed_with(_FAST)
def test_a_link_that_was_cancelled_while_it_waited_hands_nothing_over(scene: Scene) -> None:
    scene.start_service(mode="shadow")
    options = ["--mirage-presubmit=all"]
    first = scene.submit_chain("a", links=3, run_s=LONG_S, limit_min=35, options=options)
    scene.testbed.wait_until(lambda: len(scene.standbys()) == 2, 3600, "two standbys")
    scene.testbed.wait_until(lambda: _is_running(scene, "a", 1), 600, "a line of the script")
    scene.testbed.wait_until(lambda: _knows_a_link(scene), 1200, "the service's look at link 1")
    (second,) = (job for job, comment in scene.standbys() if comment.endswith(":2"))
    scene.testbed.run(["scancel", str(second)], user="alice")
    scene.testbed.wait_until(lambda: scene.is_finished("a", 2), 10800, "the end of link 3")
    assert _order(scene, "a") == [1, 3]
    scene.testbed.wait_until(lambda: _chain_state(scene) == "finished", 3600, "the chain's end")
    third = scene.list_runs("a")[1].job_id
    gap_s = _read_instants(scene, third)[0] - _read_instants(scene, first)[1]
    assert gap_s < LONG_S, "link 2 was cancelled at the beginning of link 1"
    (handover,) = scene.show_chain("a")["handovers"]
    (listed,) = scene.api("/api/v1/handovers")["items"]
    (served,) = scene.api(f"/api/v1/chains/{scene.list_runs('a')[0].chain}/timeline")["handovers"]
    assert (listed["predecessor"], listed["successor"]) == (first, third)
    for found in (handover, listed, served):
        assert (found["link"], round(found["interruption_h"] * 3600)) == (3, gap_s)


def _read_instants(scene: Scene, job_id: int) -> tuple[int, int]:
    """Start and end of a job, as accounting has them."""
    words = ["sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", "Start,End"]
    start, end = scene.testbed.run(words, env={"SLURM_TIME_FORMAT": "%s"}).stdout.split("|")
    return int(start), int(end)
