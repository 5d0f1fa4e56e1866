"""The main job on a real Slurm: helped chains against identical ones that are left alone."""

import sys

import pytest

from mirage.config.settings import ProvisionSettings
from mirage.domain.handover import Handover
from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

DEFAULT: str = ProvisionSettings().policy
PAIRS, LINKS = 3, 3
LIMIT_MIN, RUN_S = 16, 15 * 60
LONG, SHORT = 14, 7
"""bob's waiting jobs of 4 of the 64 GPUs, 10 to 20 minutes each: a newcomer waits some 18 minutes,
longer than a link, so that no moment is too early; or 9, so that the policy must find the moment.
"""
LITTLE_MIN = 10
"""Ten of our seconds: the chains of one run differ by some, the more the busier the host is."""
SPENT_MIN = 5
"""Overlap in the mean. A link lasts fifteen minutes, and whoever releases at once spends most of
them; a busy host delays starts, which makes overlap less and never more."""


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("testbed", "policy", "backlog"),
    [
        (TestbedSettings(speed=60, priority="age"), "quantile", LONG),
        (TestbedSettings(speed=60, priority="fairshare"), DEFAULT, SHORT),
        (TestbedSettings(speed=60, priority="age", store_flags=False), DEFAULT, SHORT),
    ],
    indirect=["testbed"],
    ids=str,
)
def test_mirage_costs_less_than_the_same_chains_left_reactive(
    scene: Scene, policy: str, backlog: int, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = _side_by_side(scene, policy, backlog, capsys)
    assert sum(h.compute_cost_h() for h in mine) < sum(h.compute_cost_h() for h in theirs)


@pytest.mark.slurm
@testbed_with(TestbedSettings(speed=60, priority="age", accrue_always=True))
def test_where_dependent_jobs_earn_age_there_is_little_to_win_and_little_is_spent(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = _side_by_side(scene, DEFAULT, LONG, capsys)
    assert _mean_min(mine) < _mean_min(theirs) + LITTLE_MIN
    assert 60 * sum(h.overlap_h for h in mine) / len(mine) < SPENT_MIN


def _side_by_side(
    scene: Scene, policy: str, backlog: int, capsys: pytest.CaptureFixture[str]
) -> tuple[list[Handover], list[Handover]]:
    """Hand-overs of helped chains and of identical ones left alone, in one run."""
    scene.fill(backlog=backlog, gpus=4, run_s=(600, 1200))
    # The default policy is what a service and a chain have that name none.
    named = None if policy == DEFAULT else policy
    scene.start_service(policy=named)
    # Every filler job that waits was submitted behind a full backlog once two of them have gone by.
    scene.testbed.wait_until(
        lambda: scene.count_submitted() > 3 * backlog + 16, 7200, "a settled queue"
    )
    helped, alone = ([f"{who}{i}" for i in range(PAIRS)] for who in ("helped", "alone"))
    for name in helped + alone:
        asked = named if name in helped else "reactive"
        scene.submit_chain(name, links=LINKS, run_s=RUN_S, limit_min=LIMIT_MIN, policy=asked)
    scene.testbed.wait_until(
        lambda: all(scene.is_finished(name, LINKS) for name in helped + alone), 14400, "all to end"
    )
    assert _deciders(scene, helped) == {policy}
    assert _deciders(scene, alone) == {"reactive"}
    mine = [h for name in helped for h in scene.handovers(name)]
    theirs = [h for name in alone for h in scene.handovers(name)]
    with capsys.disabled():
        _report(scene, {policy: mine, "reactive": theirs})
    assert len(mine) == len(theirs) == PAIRS * (LINKS - 1)
    return mine, theirs


def _deciders(scene: Scene, names: list[str]) -> set[str]:
    """The policies that decided last on each hand-over; none is asked while two links overlap.

    The service may see a chain's first job before its registration comes.
    """
    last: dict[tuple[str, int], tuple[int, str]] = {}
    for name in names:
        items = scene.api(f"/api/v1/chains/{scene.list_runs(name)[0].chain}/decisions")["items"]
        for decision in items:
            if decision["policy"] != "guard":
                key = (name, decision["link"])
                last[key] = max(last.get(key, (0, "")), (decision["id"], decision["policy"]))
    return {policy for _, policy in last.values()}


def _mean_min(handovers: list[Handover]) -> float:
    """Mean cost in minutes."""
    return 60 * sum(h.compute_cost_h() for h in handovers) / len(handovers)


def _report(scene: Scene, by_policy: dict[str, list[Handover]]) -> None:
    config = scene.testbed.config()
    regime = {
        k: config[k] for k in ("PriorityFlags", "PriorityWeightAge", "PriorityWeightFairShare")
    }
    sys.stdout.write(f"\n{regime}, AccountingStoreFlags={config['AccountingStoreFlags']}\n")
    for name, handovers in by_policy.items():
        shown = ", ".join(
            f"{60 * h.interruption_h:.0f}" if h.interruption_h else f"-{60 * h.overlap_h:.0f}"
            for h in handovers
        )
        sys.stdout.write(
            f"{name:9} minutes [{shown}] (minus: overlap), mean cost {_mean_min(handovers):.1f}\n"
        )
