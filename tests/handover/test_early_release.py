"""The main job on a real Slurm: helped chains against identical ones that are left alone."""

import itertools
import sys

import pytest

from mirage.domain.handover import Handover
from tests.fixtures_slurm import testbed_with
from tests.handover.scene import Scene
from tests.slurm_testbed import TestbedSettings

PAIRS, LINKS = 3, 3
LIMIT_MIN, RUN_S = 16, 15 * 60
BACKLOG = 14
"""Of 4 of the 64 GPUs, 10 to 20 minutes each: a newcomer waits some 20 minutes."""


@pytest.mark.slurm
@pytest.mark.timeout(420)
@testbed_with(
    TestbedSettings(speed=60, priority="age"),
    TestbedSettings(speed=60, priority="fairshare"),
    TestbedSettings(speed=60, priority="age", store_flags=False),
)
def test_mirage_costs_less_than_the_same_chains_left_reactive(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = _side_by_side(scene, capsys)
    assert sum(h.cost_h() for h in mine) < sum(h.cost_h() for h in theirs)


@pytest.mark.slurm
@pytest.mark.timeout(420)
@testbed_with(TestbedSettings(speed=60, priority="age", accrue_always=True))
def test_where_dependent_jobs_earn_age_there_is_little_to_win_and_little_is_spent(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = _side_by_side(scene, capsys)
    assert _mean_min(mine) < _mean_min(theirs) + 2


def _side_by_side(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> tuple[list[Handover], list[Handover]]:
    """Hand-overs of helped chains and of identical ones left alone, in one run."""
    scene.fill(backlog=BACKLOG, gpus=4, run_s=(600, 1200))
    scene.start_service(policy="average")
    # Every filler job that waits was submitted behind a full backlog once two of them have gone by.
    scene.testbed.wait_until(lambda: scene.submitted() > 3 * BACKLOG + 16, 7200, "a settled queue")
    names = [f"{p}{i}" for p, i in itertools.product(("average", "reactive"), range(PAIRS))]
    for name in names:
        scene.submit_chain(name, links=LINKS, run_s=RUN_S, limit_min=LIMIT_MIN, policy=name[:-1])
    scene.testbed.wait_until(
        lambda: all(scene.finished(name, LINKS) for name in names), 14400, "all chains to end"
    )
    mine = _collect(scene, "average")
    theirs = _collect(scene, "reactive")
    with capsys.disabled():
        _report(scene, mine, theirs)
    assert len(mine) == len(theirs) == PAIRS * (LINKS - 1)
    return mine, theirs


def _mean_min(handovers: list[Handover]) -> float:
    """Mean cost in minutes."""
    return 60 * sum(h.cost_h() for h in handovers) / len(handovers)


def _collect(scene: Scene, policy: str) -> list[Handover]:
    return [h for i in range(PAIRS) for h in scene.handovers(f"{policy}{i}")]


def _report(scene: Scene, mine: list[Handover], theirs: list[Handover]) -> None:
    config = scene.testbed.config()
    regime = {
        k: config[k] for k in ("PriorityFlags", "PriorityWeightAge", "PriorityWeightFairShare")
    }
    sys.stdout.write(f"\n{regime}, AccountingStoreFlags={config['AccountingStoreFlags']}\n")
    for name, handovers in (("average", mine), ("reactive", theirs)):
        shown = ", ".join(
            f"{60 * h.interruption_h:.0f}" if h.interruption_h else f"-{60 * h.overlap_h:.0f}"
            for h in handovers
        )
        sys.stdout.write(
            f"{name:9} minutes [{shown}] (minus: overlap), mean cost {_mean_min(handovers):.1f}\n"
        )
