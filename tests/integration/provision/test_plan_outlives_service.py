"""A plan that stands in a simulated Slurm happens though the service that wrote it is gone."""

from dataclasses import dataclass

import pytest

from mirage.database.chains.decisions import Effect
from mirage.database.schema.engine import Store
from mirage.domain.chain import Planner, Position
from mirage.domain.decision import Decision, Forecast, PolicyView
from mirage.domain.job import JobState
from mirage.domain.ports import SimplePolicy
from mirage.policies.rules.lead_rules import decide_by_lead
from tests.support.provision.scene import HOUR, Scene

MINUTE = 60
LEAD_S = 20 * MINUTE


@dataclass
class Leads(SimplePolicy):
    """Releases twenty minutes before the end."""

    name: str = "leads"

    def decide(self, view: PolicyView) -> Decision:
        return decide_by_lead(view, LEAD_S, Forecast(p50_s=LEAD_S), self.name)


@pytest.fixture
def scene(store: Store) -> Scene:
    """Link 1 runs for an hour, and the release of link 2 stands: from here on nobody is alive."""
    made = Scene(store, policies=Leads)
    made.tick()
    assert made.standby.plan_min == 40
    assert made.standby.planned_by is Planner.SERVICE
    return made


def test_slurm_releases_it_where_the_service_planned_it(scene: Scene) -> None:
    start = scene.job(1).start or 0
    scene.cluster.advance(39 * MINUTE - (scene.cluster.read_clock() - start))
    assert scene.held
    scene.cluster.advance(2 * MINUTE)
    assert scene.job(2).eligible == start + 40 * MINUTE
    assert scene.job(1).state is JobState.RUNNING


def test_a_service_that_returns_knows_whose_release_it_was(scene: Scene) -> None:
    start = scene.job(1).start or 0
    scene.cluster.advance(50 * MINUTE)
    moves = len(scene.decisions)
    scene.worker = scene.new_worker()
    scene.tick()
    assert scene.standby.freed_at == start + 40 * MINUTE
    assert scene.standby.freed_by is Planner.SERVICE
    assert scene.standby.position is Position.FREE
    assert all(row.effect is not Effect.DONE for row in scene.decisions[moves:]), "no move of its"


def test_the_chain_goes_on_though_nobody_returns(scene: Scene) -> None:
    start = scene.job(1).start or 0
    scene.cluster.advance(HOUR + 10 * MINUTE)
    successor = scene.job(2)
    assert successor.state is JobState.RUNNING
    assert successor.start == start + HOUR, "on its predecessor's node: no other is free"
