"""A chain on a simulated cluster, played until its work is done."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.domain.chain import Position, Style
from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.ports import Needs, Policy, SimplePolicy
from mirage.lab.episodes.chains.log_jobs import LogJobs
from mirage.lab.episodes.chains.standby import Standby
from mirage.lab.episodes.chains.work_run import Planner, Work, WorkRun, run_work
from mirage.lab.episodes.chains.world_memory import WorldMemory
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from mirage.policies.rules.return_rule import BACK_S
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob, build_afterany

HOUR = 3600
LIMIT = 10 * HOUR
FAR = 1000 * HOUR
TWO_NODES = Params(nodes=2, sched_interval_s=60, bf_interval_s=30)
LINK = SimJob(nodes=1, exclusive=True, time_limit_s=LIMIT, run_s=LIMIT, user="us")


def play(  # noqa: PLR0913 - a chain and its world
    policy: Policy,
    *others: SimJob,
    work_h: float = 25,
    startup_s: int = 0,
    at_most: int = FAR,
    returns: int = 0,
    style: Style = Style.SEQUENTIAL,
    by_links: bool = False,
    params: Params = TWO_NODES,
) -> WorkRun:
    """A chain that is submitted at 0, to two nodes if nothing else is said, beside these jobs."""
    workload = Workload.from_jobs(params, others or [other(0, 1, at=FAR)])
    sim = Simulator(params, workload, now=0)
    log = LogJobs.from_workload(workload)
    work = Work(
        link=LINK,
        work_s=round(work_h * HOUR),
        startup_s=startup_s,
        overlap_price=0.5,
        most_returns=returns,
        style=style,
    )
    memory = None
    if policy.needs != Needs():
        memory = WorldMemory({job.job_id: job for job in workload.jobs}, since=-1)
    planner = Planner(policy=policy, by_links=by_links)
    return run_work(sim, work, planner, log, at_most=at_most, memory=memory)


def other(job_id: int, hours: float, *, nodes: int = 1, at: int = 0) -> SimJob:
    run_s = round(hours * HOUR)
    return SimJob(
        job_id=job_id + 100, submit=at, nodes=nodes, time_limit_s=run_s, run_s=run_s, user="them"
    )


def test_on_an_idle_cluster_plain_slurm_needs_little_more_than_the_work() -> None:
    run = play(Reactive())
    assert run.finished is not None
    assert run.first_start is not None
    assert run.links == 3
    assert run.ran_s == 25 * HOUR
    assert run.finished - run.first_start == 25 * HOUR + run.interrupted_s
    assert 0 <= run.interrupted_s <= 2 * 60


def test_each_link_loses_its_startup_time() -> None:
    run = play(Reactive(), work_h=19, startup_s=HOUR)
    assert (run.links, run.ran_s) == (3, 22 * HOUR)


def test_a_link_that_starts_at_once_idles_until_its_predecessor_ends() -> None:
    run = play(AtOnce(), work_h=15)
    assert run.finished is not None
    assert run.idle_s > 0
    assert run.ran_s == 15 * HOUR + run.idle_s


@pytest.mark.parametrize("returns", [1, 2])
def test_a_link_that_starts_at_once_gives_its_nodes_back(returns: int) -> None:
    """It waited for nothing, so it is released again five minutes before its predecessor's end."""
    run = play(AtOnce(), work_h=15, returns=returns)
    assert run.finished is not None
    assert run.returns == 1
    assert run.links == 2
    assert 360 < run.idle_s <= 360 + 300
    assert run.ran_s == 15 * HOUR + run.idle_s
    assert run.interrupted_s == 0


def test_a_link_that_is_released_too_late_again_is_interrupted() -> None:
    # The other node is free for link 2 as it is released, 2.5 hours before link 1's end. Then the
    # node is theirs until after that end.
    crowd = [other(1, 12, at=round(7.6 * HOUR))]
    run = play(AtOnce(), *crowd, work_h=15, returns=2)
    assert run.finished is not None
    assert run.returns == 1
    assert run.interrupted_s <= 120


def test_an_interruption_is_the_wait_between_two_links() -> None:
    # Both nodes are theirs for six hours as soon as link 1 has ended. Who is released 2.5 hours
    # before that comes first, and has the other node half an hour before link 1 ends.
    crowd = [other(1, 9.5), other(2, 6, nodes=2, at=round(9.4 * HOUR))]
    reactive = play(Reactive(), *crowd, work_h=15)
    assert reactive.finished is not None
    assert 6 * HOUR <= reactive.interrupted_s <= 6 * HOUR + 300
    assert reactive.idle_s == 0
    early = play(AtOnce(), *crowd, work_h=15)
    assert early.finished == 15 * HOUR
    assert early.interrupted_s == 0
    assert HOUR / 2 - 300 <= early.idle_s <= HOUR / 2


def test_no_link_is_released_earlier_than_max_overlap_allows() -> None:
    run = play(AtOnce(), work_h=15)
    assert 0 < run.idle_s <= LIMIT / 4


@pytest.mark.parametrize("at_most", [5 * HOUR, 12 * HOUR])
def test_work_that_is_not_done_in_the_time_has_no_end(at_most: int) -> None:
    assert play(Reactive(), at_most=at_most).finished is None


def test_a_chain_that_never_starts_has_no_link() -> None:
    crowd = [other(i, 400) for i in (1, 2)]
    run = play(Reactive(), *crowd, at_most=300 * HOUR)
    assert (run.first_start, run.finished, run.links, run.ran_s) == (None, None, 0, 0)


def test_the_log_shows_the_waits_of_the_jobs_that_have_started() -> None:
    jobs = [other(1, 5, nodes=2), other(2, 1, nodes=1, at=HOUR)]
    workload = Workload.from_jobs(TWO_NODES, [replace(job, user="them") for job in jobs])
    sim = Simulator(TWO_NODES, workload, now=0)
    sim.advance_quietly(3 * HOUR)
    log = LogJobs.from_workload(workload)
    assert log.collect_waits(sim.start).nodes.tolist() == [2]
    sim.advance_quietly(8 * HOUR)
    waits = log.collect_waits(sim.start)
    assert waits.nodes.tolist() == [2, 1]
    assert np.all(waits.wait_s[1] >= 4 * HOUR)


# --- nodes that are given back


def test_nodes_that_are_given_back_are_not_free_before_the_link_has_left() -> None:
    crowd = other(1, 1, at=2 * HOUR)
    sim = Simulator(TWO_NODES, Workload.from_jobs(TWO_NODES, [crowd]), now=0)
    predecessor = sim.inject(LINK)
    assert sim.run_until_started(predecessor, HOUR) is not None
    job = replace(LINK, dependencies=build_afterany(predecessor))
    end = sim.now + LIMIT
    standby = Standby(
        predecessor=predecessor, job_id=sim.inject(job), job=job, node_list=(), end=end, returns=1
    )
    sim.advance_quietly(2 * HOUR - 120)
    sim.set_dependencies(standby.job_id, ())
    early, begun = standby.job_id, standby.run_until_started(sim, 3 * HOUR)
    assert begun is not None
    assert begun < 2 * HOUR
    assert standby.give_back(sim, end - HOUR) is None
    assert sim.now == begun + BACK_S
    assert sim.find(early) is None or sim.find(early).end == sim.now  # type: ignore[union-attr]
    sim.advance_quietly(end)
    assert begun + BACK_S <= sim.start[0] <= begun + BACK_S + 120, "their job waited for the node"
    again = sim.find(standby.job_id)
    assert again is not None
    assert again.start is not None
    assert end - HOUR <= again.start <= end - HOUR + 180
    assert standby.returns == 0


class Foretold(SimplePolicy):
    """Frees at once, with a forecast of the wait."""

    name = "foretold"

    def __init__(self, *waits_s: int, p10_s: int = 0) -> None:
        self._forecast = Forecast(p50_s=0, p10_s=p10_s, waits_s=waits_s)

    def decide(self, view: PolicyView) -> Decision:
        return Decision(action=Action.FREE, reason="", policy=self.name, forecast=self._forecast)


def test_a_fresh_forecast_decides_when_the_link_is_released_again() -> None:
    """It waited for nothing, but each new release is expected to wait for an hour."""
    run = play(Foretold(HOUR), work_h=15, returns=1)
    assert run.returns == 1
    assert 360 + HOUR - 180 < run.idle_s <= 360 + HOUR
    assert run.interrupted_s == 0


def test_a_link_that_is_too_early_and_has_no_return_left_is_released_once_more() -> None:
    """Max-overlap is a quarter of the time limit."""
    run = play(Foretold(p10_s=LIMIT), work_h=15)
    assert run.returns == 0
    assert run.interrupted_s == 0
    assert 360 + LIMIT / 4 - 1000 < run.idle_s <= 360 + LIMIT / 4


# --- links without a service


class Leads(SimplePolicy):
    """A rule that says these leads in turn, and notes how much time was left."""

    name = "leads"

    def __init__(self, *leads_s: int) -> None:
        self._leads_s = list(leads_s)
        self.asked: list[int] = []

    def decide(self, view: PolicyView) -> Decision:
        self.asked.append(view.time_left_s)
        lead_s = self._leads_s.pop(0) if len(self._leads_s) > 1 else self._leads_s[0]
        at = view.predecessor_end - lead_s
        return Decision(action=Action.WAIT, reason="", policy=self.name, release_at=at)


def test_links_without_a_service_look_three_times_and_hold_to_the_plan() -> None:
    rule = Leads(HOUR, 2 * HOUR, 2 * HOUR, 9 * HOUR)
    run = play(rule, work_h=15, by_links=True)
    assert len(rule.asked) == 3
    assert 2 * HOUR - 180 < run.idle_s <= 2 * HOUR
    assert run.interrupted_s == 0


def test_links_without_a_service_give_back_by_their_own_wait() -> None:
    run = play(Leads(2 * HOUR), work_h=15, by_links=True, returns=2)
    assert run.returns == 1
    assert 360 < run.idle_s <= 360 + 300


# --- models and the twin


class Sees(SimplePolicy):
    """Needs all that there is, and frees with an hour left."""

    name = "sees"
    needs = Needs(observation=True, window=True, twin=True)

    def __init__(self) -> None:
        self.views: list[PolicyView] = []

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        action = Action.FREE if view.time_left_s <= HOUR else Action.WAIT
        return Decision(action=action, reason="", policy=self.name)


def test_a_policy_that_needs_more_is_shown_it_at_each_look() -> None:
    policy = Sees()
    crowd = [other(1, 4, at=60), other(2, 9, nodes=2, at=2 * HOUR)]
    run = play(policy, *crowd, work_h=15, params=replace(TWO_NODES, name="lab"))
    assert run.links == 2
    views = [view for view in policy.views if view.position is Position.HELD]
    assert len(views) == 55, "every ten minutes of nine hours"
    for k, view in enumerate(views):
        assert view.observation is not None
        assert view.window is not None
        assert view.twin_s is not None
        assert len(view.window) == k + 1
        assert np.array_equal(view.window[-1], view.observation)
        assert view.twin_s.shape == (19,)
        assert view.cluster == "lab"
    first, last = views[0].observation, views[-1].observation
    assert first is not None
    assert last is not None
    assert not np.array_equal(first, last), "the queue has grown"


def test_what_a_policy_sees_changes_nothing_in_the_world() -> None:
    crowd = [other(1, 4, at=60), other(2, 9, nodes=2, at=2 * HOUR)]
    blind = Sees()
    blind.needs = Needs()
    assert play(Sees(), *crowd, work_h=25, returns=2) == play(blind, *crowd, work_h=25, returns=2)


# --- other styles

CROWDED = Params(nodes=4, max_jobs_pu=2, sched_interval_s=60, bf_interval_s=30)
"""Their third job waits for a place of their own, and one node stands free."""


def crowd_out() -> list[SimJob]:
    return [other(i, 400) for i in (1, 2, 3)]


def test_a_link_that_switches_ends_its_predecessor_once_it_has_started_up() -> None:
    run = play(
        AtOnce(),
        *crowd_out(),
        work_h=15,
        startup_s=600,
        style=Style.SWITCH,
        params=CROWDED,
    )
    assert run.finished is not None
    assert run.first_start is not None
    assert run.links > 2, "each is released when a tenth of the time limit is over"
    assert run.idle_s == 600 * (run.links - 1)
    assert run.interrupted_s == 0
    assert run.finished - run.first_start == 15 * HOUR + 600


def test_a_link_that_switches_is_not_early_where_nobody_waits() -> None:
    run = play(AtOnce(), work_h=15, startup_s=600, style=Style.SWITCH)
    assert (run.links, run.idle_s) == (2, 0)


def test_a_link_that_waits_starts_up_beside_its_predecessor_and_holds_its_nodes() -> None:
    run = play(AtOnce(), work_h=15, startup_s=600, style=Style.WAIT, returns=2)
    assert run.finished is not None
    assert run.first_start is not None
    assert run.returns == 0
    assert 600 < run.idle_s <= LIMIT / 4
    assert run.finished - run.first_start == 15 * HOUR + 600, "the second link loses no time"
