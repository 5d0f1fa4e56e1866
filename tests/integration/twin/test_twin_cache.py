"""The twin in the service: the answers of the tables, asked now and then and within a budget."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.ports import Needs
from mirage.errors import InputError
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.lab.tables.twin_tables import TwinTableRequest, make_twin_table
from mirage.observation.handover_input import HandoverInput
from mirage.provision.cluster_observer import Observer
from mirage.twin.cache import NEAR_PLACES, REFRESH_AFTER_S, GroupAnswers, TwinCache, TwinGroup
from mirage.twin.forecast import Futures, Probe, TwinForecast
from mirage.twin.piecework import Piecework
from mirage.twin.twin_features import LEVELS
from tests.integration.provision.test_cluster_observer import PAIR, POINT, Watching, worker
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, generate_jobs

LINK = HandoverInput(
    nodes=1,
    time_limit_s=48 * HOUR,
    user="u",
    job_id=7,
    predecessor_submit=0,
    predecessor_start=0,
    predecessor_end=48 * HOUR,
)


class Asks(Watching):
    """A policy that wants to know what the twin foretells."""

    needs = Needs(observation=True, twin=True)


class AsksTwinAlone(Watching):
    needs = Needs(twin=True)


def test_the_service_is_told_what_tables_are_told(sqlite_store: Store, tmp_path: Path) -> None:
    """The same hand-over, through queue and database and through the replay: other dice, and fewer
    futures where they settle the decision. So the medians agree about, not the samples."""
    jobs, settings = generate_jobs(3, jobs=400), PAIR
    world, _ = TraceReplay(PARAMS, jobs, settings).fork_at(POINT)
    assert world is not None
    asking = TwinTableRequest(PARAMS, jobs, settings, "pair", (POINT,))
    told = make_twin_table(asking, tmp_path / "t.twin.npz").quantile_s[0]
    cluster, watching = SimulatedCluster(PARAMS, jobs, now=BEGIN), Asks()
    # However slow this machine is: an answer of an hour ago would stand in for one of now.
    twin_cache = TwinCache(budget_s=3600.0)
    ticking = worker(
        sqlite_store, cluster, watching, Observer(params=PARAMS, twin_cache=twin_cache)
    )
    cluster.advance(POINT - BEGIN)
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user=PAIR.user
    )
    medians = []
    for asked_s in (1200, 4 * HOUR, 8 * HOUR):
        # Accounting is read at the end of a tick.
        for at in (world.start + asked_s - 60, world.start + asked_s):
            cluster.advance(at - cluster.read_clock())
            ticking.run_tick()
        seen = watching.views[-1].twin_s
        assert seen is not None
        assert seen.shape == (len(LEVELS),)
        medians.append((int(seen[9]), int(told[asked_s // 1200][9])))
    for live, table in medians:
        assert live == pytest.approx(table, rel=0.25), medians


def test_where_nothing_may_be_observed_the_twin_is_not_asked(sqlite_store: Store) -> None:
    """A new installation's first tick: the last day is not known, and no future can be drawn."""
    watching = AsksTwinAlone()
    cluster = SimulatedCluster(PARAMS, generate_jobs(3, jobs=50), now=BEGIN)
    observer = Observer(params=PARAMS, twin_cache=TwinCache(budget_s=3600.0))
    ticking = worker(sqlite_store, cluster, watching, observer)
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user="pair"
    )
    cluster.advance(60)
    ticking.run_tick()
    assert watching.views[-1].twin_s is None
    cluster.advance(60)
    ticking.run_tick()
    assert watching.views[-1].twin_s is not None


def test_a_policy_waits_for_the_twins_turn_while_there_is_time(sqlite_store: Store) -> None:
    """Another rule might free meanwhile, which cannot be taken back."""
    watching = AsksTwinAlone()
    cluster = SimulatedCluster(PARAMS, generate_jobs(3, jobs=50), now=BEGIN)
    observer = Observer(params=PARAMS, twin_cache=TwinCache(budget_s=0.0))
    ticking = worker(sqlite_store, cluster, watching, observer)
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user="pair"
    )
    # The first tick knows no history: there the twin cannot be asked at all.
    asked = []
    for share in (0.01, 0.02, 0.7, 0.8):
        cluster.advance(BEGIN + int(share * PAIR.time_limit_s) - cluster.read_clock())
        ticking.run_tick()
        asked.append(len(watching.views))
    assert asked == [1, 1, 1, 2]
    assert watching.views[-1].twin_s is None


class Oracle:
    """Answers with how often it was asked, one group at a time, and takes `cost_s` each time."""

    def __init__(self, cost_s: float) -> None:
        self.asked: list[int] = []
        self.clock_s = 0.0
        self._cost_s = cost_s

    def __call__(self, groups: Sequence[TwinGroup]) -> Iterator[GroupAnswers | None]:
        for group in groups:
            self.asked.append(group.probe.link.nodes)
            self.clock_s += self._cost_s
            yield {group.key: np.full(len(LEVELS), len(self.asked), dtype=np.int32)}


def build_group(nodes: int, place: int = 0, run_s: int = 48 * HOUR) -> TwinGroup:
    return TwinGroup(nodes, place, run_s, Probe(link=replace(LINK, nodes=nodes)))


def test_an_answer_stands_for_ten_minutes_and_the_next_tick_goes_on_with_the_rest() -> None:
    ask = Oracle(cost_s=0.3)
    twin_cache = TwinCache(budget_s=0.5, clock=lambda: ask.clock_s)
    groups = [build_group(nodes) for nodes in (1, 2, 3)]
    twin_cache.refresh_answers(groups, 1000, ask)
    assert ask.asked == [1, 2]
    assert twin_cache.get_answer(groups[2], 1000) is None
    twin_cache.refresh_answers(groups, 1060, ask)
    assert ask.asked == [1, 2, 3]
    answers = [twin_cache.get_answer(group, 1060) for group in groups]
    # Of one queue, which is now a minute old.
    assert [answer.at for answer in answers if answer] == [1000, 1000, 1000]
    twin_cache.refresh_answers(groups, 1000 + REFRESH_AFTER_S - 1, ask)
    assert ask.asked == [1, 2, 3]
    twin_cache.refresh_answers(groups, 1000 + REFRESH_AFTER_S, ask)
    assert ask.asked == [1, 2, 3, 1, 2]


def test_a_round_goes_on_between_two_ticks() -> None:
    ask = Oracle(cost_s=0.3)
    twin_cache = TwinCache(budget_s=0.1, clock=lambda: ask.clock_s)
    groups = [build_group(nodes) for nodes in (1, 2, 3)]
    twin_cache.refresh_answers(groups, 1000, ask)
    assert (ask.asked, twin_cache.round.is_under_way) == ([1], True)
    twin_cache.round.go_on(0.1)
    assert ask.asked == [1, 2]
    twin_cache.round.go_on(10.0)
    assert (ask.asked, twin_cache.round.is_under_way) == ([1, 2, 3], False)
    assert all(twin_cache.get_answer(group, 1060) for group in groups)


def test_short_runs_are_asked_about_more_often() -> None:
    ask = Oracle(cost_s=0.0)
    twin_cache = TwinCache(budget_s=0.5, clock=lambda: ask.clock_s)
    groups = [build_group(1), build_group(2, run_s=2 * HOUR)]
    for now in (1000, 1100, 1200):
        twin_cache.refresh_answers(groups, now, ask)
    assert ask.asked == [1, 2, 2]


def test_an_answer_grows_too_old_for_a_short_run_first() -> None:
    """A twelfth of the run: four of its 48 parts."""
    ask = Oracle(cost_s=0.0)
    twin_cache = TwinCache(budget_s=0.5, clock=lambda: ask.clock_s)
    twin_cache.refresh_answers([build_group(1)], 1000, ask)
    later = 1000 + HOUR
    assert twin_cache.get_answer(build_group(1), later) is not None
    assert twin_cache.get_answer(build_group(1, run_s=12 * HOUR), later) is None
    assert twin_cache.get_answer(build_group(1), 1000 + 4 * HOUR) is None


def test_a_place_nearby_stands_in_until_its_own_answer_is_there() -> None:
    ask = Oracle(cost_s=0.0)
    twin_cache = TwinCache(budget_s=0.5, clock=lambda: ask.clock_s)
    twin_cache.refresh_answers([build_group(1, place=40)], 1000, ask)
    assert twin_cache.get_answer(build_group(1, place=40 + NEAR_PLACES), 1060) is not None
    assert twin_cache.get_answer(build_group(1, place=41 + NEAR_PLACES), 1060) is None
    assert twin_cache.get_answer(build_group(2, place=40), 1060) is None
    own = build_group(1, place=42)
    twin_cache.refresh_answers([own], 1060, ask)
    answer = twin_cache.get_answer(own, 1060)
    assert answer is not None
    assert answer.at == 1060


def test_nobody_is_asked_for_again_before_all_were_asked_for() -> None:
    """One answer a tick, and ten ticks after the first it is out of date."""
    ask = Oracle(cost_s=0.5)
    twin_cache = TwinCache(budget_s=0.5, clock=lambda: ask.clock_s)
    ages_s = []
    for now in range(1000, 7000, 60):
        twin_cache.refresh_answers([build_group(n) for n in range(50)], now, ask)
        answer = twin_cache.get_answer(build_group(ask.asked[-1]), now)
        ages_s.append(now - answer.at if answer else None)
    assert ask.asked[:50] == [*range(50)]
    # Answers of one queue are equally old: the first groups may come twice before the last.
    assert {*ask.asked[50:]} >= {*range(44)}
    # A round that lasts longer begins anew from a new queue.
    assert max(ages_s, key=lambda age_s: age_s or 0) == REFRESH_AFTER_S


def test_a_round_that_fails_is_an_answer_for_ten_minutes() -> None:
    asked = []

    def fail(groups: Sequence[TwinGroup]) -> Iterator[GroupAnswers | None]:
        asked.append(len(groups))
        yield {groups[0].key: np.zeros(len(LEVELS), dtype=np.int32)}
        raise InputError("the cluster file and the queue contradict each other")

    twin_cache, groups = TwinCache(budget_s=60.0), [build_group(1), build_group(2)]
    for now in (1000, 1060):
        twin_cache.refresh_answers(groups, now, fail)
    assert asked == [2]
    first, second = (twin_cache.get_answer(group, 1060) for group in groups)
    assert first is not None
    assert first.quantile_s is not None
    assert second is not None
    assert second.quantile_s is None
    twin_cache.refresh_answers(groups, 1000 + REFRESH_AFTER_S, fail)
    assert asked == [2, 2]


def test_the_worker_asks_between_two_ticks(sqlite_store: Store) -> None:
    """A tick may not ask at all here, and the second one decides by an answer."""
    watching = AsksTwinAlone()
    cluster = SimulatedCluster(PARAMS, generate_jobs(3, jobs=50), now=BEGIN)
    observer = Observer(params=PARAMS, twin_cache=TwinCache(budget_s=0.0))
    ticking = worker(sqlite_store, cluster, watching, observer)
    cluster.submit_chain(
        ChainId("chain000"), links=2, nodes=2, time_limit_s=PAIR.time_limit_s, user="pair"
    )
    # The first tick knows no history: there the twin cannot be asked at all.
    cluster.advance(60)
    ticking.run_tick()
    stop = threading.Event()

    def sleep(_: float) -> None:
        if not observer.twin_cache.round.is_under_way:
            cluster.advance(60)
        if watching.views[-1].twin_s is not None:
            stop.set()

    ticking.run(stop, sleep)
    assert watching.views[-1].twin_s is not None


def test_hand_overs_of_one_shape_are_asked_about_once(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three users' chains of two shapes: two questions, three answers."""
    asked: list[int] = []
    sample = Futures.sample_waits

    def count(self: Futures, probes: Sequence[Probe]) -> Piecework[list[TwinForecast]]:
        asked.extend(probe.link.nodes for probe in probes)
        return sample(self, probes)

    monkeypatch.setattr(Futures, "sample_waits", count)
    watching, cluster = AsksTwinAlone(), SimulatedCluster(PARAMS, [], now=BEGIN)
    twin_cache = TwinCache(budget_s=3600.0)
    ticking = worker(
        sqlite_store, cluster, watching, Observer(params=PARAMS, twin_cache=twin_cache)
    )
    for chain, nodes in (("chain000", 2), ("chain001", 2), ("chain002", 4)):
        cluster.submit_chain(
            ChainId(chain), links=2, nodes=nodes, time_limit_s=PAIR.time_limit_s, user=chain
        )
    for _ in range(2):
        cluster.advance(60)
        ticking.run_tick()
    views = [view for view in watching.views if view.twin_s is not None]
    assert sorted(asked) == [2, 4]
    assert sorted(view.nodes for view in views) == [2, 2, 4]
