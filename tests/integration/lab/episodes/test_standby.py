"""Standbys moved in a live simulator."""

from dataclasses import replace

import pytest

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import Policy, SimplePolicy
from mirage.history.workloads import synthetic
from mirage.lab.episodes.chains.standby import (
    NO_WAITS,
    SimulatedHandover,
    Standby,
    can_hold_only_one,
    run_handover,
)
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from mirage.policies.rules.pinning import Pin
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    NodeGroup,
    Outage,
    Params,
    Partition,
    SelectType,
    SimJob,
    build_afterany,
)

HOUR, DAY = 3600, 86400
NODES = 24


BY_NUMBER = Params(nodes=NODES)
BY_NAME = Params(
    nodes=NODES, select_type=SelectType.CONS_TRES, partitions=(Partition(exclusive=True),)
)
PLANS = pytest.mark.parametrize("params", [BY_NUMBER, BY_NAME], ids=["by number", "by name"])


def jobs() -> list[SimJob]:
    return list(synthetic.generate_workload("heavy", nodes=NODES, days=21, seed=1))


def pairs(params: Params, policy: Policy, *, link: SimJob | None = None) -> list[SimulatedHandover]:
    """Hand-overs of pairs of 8 h on two nodes, begun once a day on a busy cluster."""
    link = link or SimJob(nodes=2, exclusive=True, time_limit_s=8 * HOUR, run_s=8 * HOUR, user="us")
    sim = Simulator(params, Workload.from_jobs(params, jobs()))
    found = []
    for day in range(12, 20):
        sim.advance_quietly(synthetic.EPOCH + day * DAY)
        fork = sim.fork()
        predecessor = fork.inject(link)
        start = fork.run_until_started(predecessor)
        assert start is not None
        record = fork.find(predecessor)
        assert record is not None
        standby = Standby(
            predecessor=predecessor,
            job_id=fork.inject(_behind(link, predecessor)),
            job=link,
            node_list=record.allocated,
            end=start + link.time_limit_s,
        )
        done = run_handover(
            fork, standby, policy, lambda _: NO_WAITS, step_s=600, at_most=fork.now + 30 * DAY
        )
        found.append(done)
    return found


def _behind(link: SimJob, predecessor: int) -> SimJob:
    return replace(link, dependencies=build_afterany(predecessor))


@PLANS
def test_pinned_never_overlaps_and_beats_plain_slurm_by_one_move_each(params: Params) -> None:
    reactive, pinned = pairs(params, Reactive()), pairs(params, Pin())
    assert {h.touches for h in reactive} == {0}
    assert min(h.outcome_s for h in pinned) >= 0
    assert sum(h.outcome_s for h in pinned) < sum(h.outcome_s for h in reactive)
    assert {h.touches for h in pinned} <= {1, 2}


def test_freed_at_once_overlaps_where_pinned_does_not() -> None:
    idle = replace(BY_NUMBER, nodes=2 * NODES)
    assert min(h.outcome_s for h in pairs(idle, AtOnce())) < 0
    assert min(h.outcome_s for h in pairs(idle, Pin())) == 0


def test_one_that_may_run_beside_its_predecessor_is_not_pinned() -> None:
    shared = Params(
        nodes=NODES, gpus_per_node=4, cpus_per_node=64, select_type=SelectType.CONS_TRES
    )
    half = SimJob(nodes=2, cpus=1, gpus=2, time_limit_s=8 * HOUR, run_s=8 * HOUR, user="us")
    assert {h.touches for h in pairs(shared, Pin(), link=half)} == {0}


@pytest.mark.parametrize(
    ("cpus", "gpus", "exclusive", "expected"),
    [(0, 0, True, True), (33, 0, False, True), (1, 3, False, True), (32, 2, False, False)],
)
def test_room_for_both(cpus: int, gpus: int, exclusive: bool, expected: bool) -> None:
    groups = (NodeGroup(count=2, cpus=64, gpus=4),)
    params = Params(nodes=2, node_groups=groups, select_type=SelectType.CONS_TRES)
    job = SimJob(cpus=cpus, gpus=gpus, exclusive=exclusive, time_limit_s=60, run_s=60)
    assert can_hold_only_one(params, job, (0, 1)) is expected


class Looking(SimplePolicy):
    """Keeps what it is shown."""

    name = "looking"

    def __init__(self, answers: list[Action]) -> None:
        self.views: list[PolicyView] = []
        self.answers = answers

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        return Decision(action=self.answers[len(self.views) - 1], reason="", policy=self.name)


def test_the_view_shows_position_plan_and_nodes() -> None:
    sim = Simulator(Params(nodes=2), now=0)
    link = SimJob(nodes=1, time_limit_s=HOUR, run_s=HOUR)
    predecessor = sim.inject(link)
    sim.advance(10)
    standby = Standby(
        predecessor=predecessor,
        job_id=sim.inject(_behind(link, predecessor)),
        job=link,
        node_list=(0,),
        end=HOUR,
    )
    looking = Looking([Action.PIN, Action.WAIT, Action.HOLD])
    standby.ask_policy(sim, looking, NO_WAITS)
    standby.ask_policy(sim, looking, NO_WAITS)
    sim.set_node(0, Outage.DRAIN)
    standby.ask_policy(sim, looking, NO_WAITS)
    shown = [(v.position, v.planned_start, v.can_pin) for v in looking.views]
    assert shown[:2] == [(Position.HELD, None, True), (Position.PINNED, HOUR, True)]
    assert (shown[2][0], shown[2][2]) == (Position.PINNED, False)
    assert standby.touches == 2
    record = sim.find(standby.job_id)
    assert record is not None
    assert record.dependencies == build_afterany(predecessor)
    assert record.node_list == ()
