"""The twin's answers: exact where the past leaves no choice, and never from the future."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue, Snapshot
from mirage.observation.feature_vector import SnapshotObserver
from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import RunningStats
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, Partition, SimJob, build_afterany
from mirage.twin.forecast import Futures, Probe, Twin, TwinForecast, group_probes
from mirage.twin.futures.submission_history import SubmissionHistory
from tests.integration.observation.test_no_future import (
    Change,
    _changed,
    _other_arrivals,
    _other_cancellations,
    _other_run_times,
)
from tests.support.observation import scene
from tests.support.observation.scene import BEGIN, HOUR, generate_jobs
from tests.support.simulator.jobs import make_sim_job

DAY = 24 * HOUR
ONE_NODE = Params(nodes=1, gpus_per_node=0, cpus_per_node=1)
SMALL = Twin(samples=20, horizon_s=2 * DAY)
FAR = Twin(samples=20, horizon_s=20 * DAY)
MIDNIGHT = BEGIN // DAY * DAY
NOW = MIDNIGHT + 8 * DAY


def make_first_hour_input(now: int = NOW, nodes: int = 1, job_id: int = 0) -> HandoverInput:
    return scene.make_handover_input(
        now,
        nodes,
        user="chain",
        job_id=job_id,
        predecessor_submit=now - HOUR,
        predecessor_start=now - HOUR,
        predecessor_end=now + DAY,
    )


def make_half_limit_job(job_id: int, at: int, limit_h: int = 8, *, nice: int = 0) -> SimJob:
    """One that runs half its limit, as all of its user's do."""
    limit_s = limit_h * HOUR
    return make_sim_job(
        job_id, submit=at, limit_s=limit_s, run_s=limit_s // 2, user="ann", nice=nice
    )


def seen(
    jobs: list[SimJob], now: int = NOW, params: Params = ONE_NODE
) -> tuple[Simulator, SubmissionHistory]:
    simulator = Simulator(params, jobs, now=MIDNIGHT)
    history = SubmissionHistory(MIDNIGHT)
    history.record_events(simulator.advance(now), {j.job_id: j for j in jobs}.get)
    return simulator, history


def only(forecast: TwinForecast) -> int:
    """The wait, where every sample has the same."""
    waits = set(forecast.wait_s.tolist())
    assert len(waits) == 1
    return int(waits.pop())


def test_known_run_times_give_the_exact_wait() -> None:
    """It runs 4 of its 8 hours and has run 3: an hour is left."""
    past = [make_half_limit_job(d, MIDNIGHT + 12 * HOUR) for d in (1,)]
    simulator, history = seen([*past, make_half_limit_job(9, NOW - 3 * HOUR)])
    assert (
        only(SMALL.forecast_from_simulator(simulator, make_first_hour_input(), history, seed=1))
        == HOUR
    )


def test_jobs_ahead_run_before_it() -> None:
    """An hour is left, then 2 and 1 hours of those that wait."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR)]
    ahead = [make_half_limit_job(10, NOW - HOUR, 4), make_half_limit_job(11, NOW - 1, 2)]
    simulator, history = seen([*past, make_half_limit_job(9, NOW - 3 * HOUR), *ahead])
    assert (
        only(SMALL.forecast_from_simulator(simulator, make_first_hour_input(), history, seed=1))
        == 4 * HOUR
    )


def test_who_comes_every_day_comes_again() -> None:
    """Each day at 0:30 a job that goes before everybody (nice) runs 2 h: it is first at 1:00."""
    daily = [
        make_half_limit_job(d + 1, MIDNIGHT + d * DAY + HOUR // 2, 4, nice=-5000) for d in range(9)
    ]
    simulator, history = seen([*daily, make_half_limit_job(50, NOW - 3 * HOUR)])
    assert (
        only(SMALL.forecast_from_simulator(simulator, make_first_hour_input(), history, seed=1))
        == 3 * HOUR
    )


def test_the_predecessor_runs_to_its_limit() -> None:
    """Ann's jobs run half of theirs; the chain's own link is known to go on."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR)]
    simulator, history = seen(past, NOW - HOUR)
    predecessor = simulator.inject(
        SimJob(nodes=1, time_limit_s=DAY, run_s=HOUR + 7, user="chain", submit=NOW - HOUR)
    )
    standby = simulator.inject(
        SimJob(time_limit_s=DAY, run_s=1, user="chain", dependencies=build_afterany(predecessor))
    )
    simulator.advance(NOW)
    found = SMALL.forecast_from_simulator(
        simulator, make_first_hour_input(job_id=standby), history, seed=1
    )
    assert only(found) == DAY - HOUR


def test_a_standby_is_let_go_in_the_twin_alone() -> None:
    simulator, history = seen([])
    blocker = simulator.inject(SimJob(time_limit_s=HOUR, run_s=HOUR, begin=NOW + DAY))
    standby = simulator.inject(
        SimJob(time_limit_s=DAY, run_s=DAY, user="chain", dependencies=build_afterany(blocker))
    )
    assert (
        only(
            SMALL.forecast_from_simulator(
                simulator, make_first_hour_input(job_id=standby), history, seed=1
            )
        )
        == 0
    )
    record = simulator.find(standby)
    assert record is not None
    assert record.start is None
    assert record.dependencies == build_afterany(blocker)


def test_nobody_waits_longer_than_the_horizon() -> None:
    simulator, history = seen([make_half_limit_job(9, NOW - HOUR, 400)])
    found = SMALL.forecast_from_simulator(simulator, make_first_hour_input(), history, seed=1)
    assert only(found) == SMALL.horizon_s
    assert found.unstarted == SMALL.samples


def test_a_live_queue_gives_the_same() -> None:
    rows = [
        Job(
            job_id=JobId(9),
            submit=NOW - 3 * HOUR,
            eligible=NOW - 3 * HOUR,
            start=NOW - 3 * HOUR,
            state=JobState.RUNNING,
            user="ann",
            time_limit_s=8 * HOUR,
        )
    ]
    _, history = seen([make_half_limit_job(1, MIDNIGHT + 12 * HOUR)])
    snapshot = Snapshot(queue=Queue.from_jobs(NOW, rows), nodes=())
    look = SnapshotObserver(snapshot, ONE_NODE, RunningStats())
    found = SMALL.forecast_from_queue(look, make_first_hour_input(), history, seed=1)
    assert only(found) == HOUR


def forecast_at(jobs: list[SimJob], at: int, seed: int = 5) -> tuple[TwinForecast, Simulator]:
    simulator = Simulator(scene.PARAMS, jobs, now=BEGIN)
    history = SubmissionHistory(BEGIN)
    history.record_events(simulator.advance(at), {j.job_id: j for j in jobs}.get)
    return FAR.forecast_from_simulator(
        simulator, make_first_hour_input(at, nodes=4), history, seed=seed
    ), simulator


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("change", [_other_run_times, _other_cancellations, _other_arrivals])
def test_another_future_gives_the_same_samples(change: Change, seed: int) -> None:
    jobs, at = generate_jobs(seed, jobs=150), BEGIN + (27 + 3 * seed) * HOUR + 11
    found, simulator = forecast_at(jobs, at)
    assert len(set(found.wait_s.tolist())) > 1
    other_jobs = _changed(jobs, change, simulator, seed)
    assert other_jobs != jobs
    assert forecast_at(other_jobs, at)[0].wait_s.tolist() == found.wait_s.tolist()


def test_the_same_seed_gives_the_same_samples_and_another_does_not() -> None:
    jobs, at = generate_jobs(1, jobs=150), BEGIN + 30 * HOUR
    first, second, other = (forecast_at(jobs, at, seed)[0] for seed in (5, 5, 6))
    assert first.wait_s.tolist() == second.wait_s.tolist()
    assert first.wait_s.tolist() != other.wait_s.tolist()


def test_the_simulator_goes_on_as_if_nobody_had_asked() -> None:
    jobs, at = generate_jobs(1, jobs=150), BEGIN + 30 * HOUR
    _, asked = forecast_at(jobs, at)
    bare = Simulator(scene.PARAMS, jobs, now=BEGIN)
    bare.advance(at)
    assert asked.advance(at + 2 * DAY) == bare.advance(at + 2 * DAY)


def test_quantiles_are_samples() -> None:
    simulator, history = seen(
        [make_half_limit_job(1, MIDNIGHT + 12 * HOUR), make_half_limit_job(9, NOW - 3 * HOUR)]
    )
    found = SMALL.forecast_from_simulator(simulator, make_first_hour_input(), history, seed=1)
    assert (found.to_forecast().p50_s, found.to_forecast().samples) == (HOUR, 20)
    spread = TwinForecast(np.arange(10, dtype=np.int64), 0)
    assert [spread.compute_quantile(q) for q in (0.1, 0.5, 0.9)] == [0, 4, 8]


def test_several_questions_are_answered_as_each_alone() -> None:
    """An hour is left, then 2 h of one that waits; what is asked first would run for a day."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR)]
    ahead = [make_half_limit_job(10, NOW - HOUR, 4)]
    simulator, history = seen([*past, make_half_limit_job(9, NOW - 3 * HOUR), *ahead])
    futures = Futures(SMALL, simulator, history, set(), seed=1)
    probes = [Probe(link=make_first_hour_input()) for _ in range(3)]
    first, *others = [only(one) for one in futures.simulate_waits(probes)]
    assert first == 3 * HOUR
    # One node: each has it for a second, and the next pass may be a second later.
    assert all(0 < wait_s - first <= 60 for wait_s in others)


def test_all_predecessors_run_to_their_limits() -> None:
    """Jobs of a day run half of it, but for the links that run now: two, on two nodes."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR, 24)]
    simulator, history = seen(past, NOW - HOUR, replace(ONE_NODE, nodes=2))
    for user in ("one", "two"):
        simulator.inject(SimJob(time_limit_s=DAY, run_s=HOUR + 7, user=user, submit=NOW - HOUR))
    simulator.advance(NOW)
    probe = Probe(link=make_first_hour_input())
    known = {("one", NOW - HOUR), ("two", NOW - HOUR)}
    [both] = Futures(SMALL, simulator, history, known, seed=1).simulate_waits([probe])
    assert only(both) == DAY - HOUR
    [one] = Futures(SMALL, simulator, history, {("one", NOW - HOUR)}, seed=1).simulate_waits(
        [probe]
    )
    assert only(one) == DAY // 2 - HOUR


def test_the_futures_are_the_same_whoever_asks() -> None:
    jobs, at = generate_jobs(1, jobs=150), BEGIN + 30 * HOUR
    simulator = Simulator(scene.PARAMS, jobs, now=BEGIN)
    history = SubmissionHistory(BEGIN)
    history.record_events(simulator.advance(at), {j.job_id: j for j in jobs}.get)
    futures = Futures(SMALL, simulator, history, set(), seed=1)
    probe = Probe(link=make_first_hour_input(at, nodes=4))
    first, _, again = [
        futures.simulate_waits([p])[0]
        for p in (probe, Probe(link=make_first_hour_input(at, nodes=8)), probe)
    ]
    assert first.wait_s.tolist() == again.wait_s.tolist()


def test_a_settled_decision_ends_the_sampling() -> None:
    """An hour is left of the job ahead in every future: with two hours left nobody doubts, and with
    an unsettled hand-over beside it all futures are simulated."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR)]
    simulator, history = seen([*past, make_half_limit_job(9, NOW - 3 * HOUR)])
    futures = Futures(Twin(samples=80), simulator, history, set(), seed=1)
    link = make_first_hour_input()

    def count(*stakes: tuple[int, float]) -> int:
        [told] = futures.simulate_waits([Probe(link=link, stakes=stakes)])
        return len(told.wait_s)

    assert count((2 * HOUR, 1 / 3)) == 40
    assert count((HOUR // 2, 1 / 3)) == 40
    assert count() == 80
    # None of 40 late is no proof against one in a hundred.
    assert count((2 * HOUR, 1 / 3), (2 * HOUR, 0.01)) == 80


def test_a_settled_question_takes_no_part_in_more_futures() -> None:
    """An hour is left of the job ahead. One question is settled, the other never is: it has all
    futures, with the same waits as alone."""
    past = [make_half_limit_job(1, MIDNIGHT + 12 * HOUR)]
    simulator, history = seen([*past, make_half_limit_job(9, NOW - 3 * HOUR)])
    futures = Futures(Twin(samples=80), simulator, history, set(), seed=1)
    settled = Probe(link=make_first_hour_input(), stakes=((2 * HOUR, 1 / 3),))
    never = Probe(link=make_first_hour_input(), stakes=((2 * HOUR, 0.01),))
    first, second = futures.simulate_waits([settled, never])
    assert (len(first.wait_s), len(second.wait_s)) == (40, 80)
    assert only(first) == HOUR
    assert 0 < only(second) - HOUR <= 60


def test_pieces_with_other_questions_between_them_give_the_same_answer() -> None:
    """The worker observes the same cluster with the same simulator between two pieces."""
    jobs, at = generate_jobs(1, jobs=150), BEGIN + 30 * HOUR
    simulator = Simulator(scene.PARAMS, jobs, now=BEGIN)
    history = SubmissionHistory(BEGIN)
    history.record_events(simulator.advance(at), {j.job_id: j for j in jobs}.get)
    futures = Futures(FAR, simulator, history, set(), seed=1)
    probes = [Probe(link=make_first_hour_input(at, nodes=n)) for n in (4, 16)]
    [expected, _] = futures.simulate_waits(probes)
    work, pieces = futures.sample_waits(probes), 0
    try:
        while True:
            next(work)
            pieces += 1
            simulator.compute_planned_starts()
            simulator.fork().advance(at + HOUR)
    except StopIteration as end:
        [told, _] = end.value
    assert told.wait_s.tolist() == expected.wait_s.tolist()
    assert pieces > FAR.samples


def test_hand_overs_are_alike_where_as_many_jobs_are_ahead_to_a_tenth() -> None:
    """The users' priorities by their waiting jobs: forty stand between Ann's and Bob's, none of
    another user between Bob's and Eve's."""
    priority = {"ann": 9000, **{f"u{i}": 6000 + i for i in range(40)}, "bob": 5001, "eve": 5000}
    rows = [
        Job(
            job_id=JobId(i + 1),
            submit=NOW,
            eligible=NOW,
            state=JobState.PENDING,
            user=user,
            priority=points,
            time_limit_s=HOUR,
        )
        for i, (user, points) in enumerate(priority.items())
    ]
    params = replace(ONE_NODE, priority_weight_fairshare=10_000)
    snapshot = Snapshot(queue=Queue.from_jobs(NOW, rows), nodes=())
    look = SnapshotObserver(snapshot, params, RunningStats())
    link = make_first_hour_input()
    ann, bob, eve = (look.classify_wait(replace(link, user=u)) for u in ("ann", "bob", "eve"))
    assert bob == eve
    assert ann[0] == bob[0]
    assert ann[1] < bob[1]
    longer = replace(link, user="bob", time_limit_s=2 * DAY)
    assert look.classify_wait(longer)[0] != bob[0]


def test_probes_share_a_future_where_they_need_few_of_the_nodes() -> None:
    params = Params(nodes=100, partitions=(Partition(), Partition(name="few", nodes=(1, 2, 3, 4))))
    links = [make_first_hour_input(nodes=n) for n in (6, 3, 30, 5, 4)]
    few = [replace(link, nodes=1, partition="few") for link in links[:2]]
    probes = [Probe(link=link) for link in (*links, *few)]
    assert group_probes(probes, params, share=0.1) == [[0, 1], [2], [3, 4], [5], [6]]
