"""What a simulated cluster must keep to, whatever the workload."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.domain.job import JobState
from mirage.errors import ClusterRefused
from mirage.sim.backfill import Profile, nothing_fits_now
from mirage.sim.simulator import Simulator
from mirage.sim.types import Entry, EventKind, Params, SimJob
from tests.sim.test_against_reference import random_case

SMALL = Params(nodes=2, bf_interval_s=10, bf_resolution_s=1, bf_window_s=1000)


def job(limit: int = 100, run: int | None = None, **more: object) -> SimJob:
    return SimJob(time_limit_s=limit, run_s=limit if run is None else run, **more)  # type: ignore[arg-type]


def start_of(sim: Simulator, job_id: int) -> int | None:
    record = sim.find(job_id)
    assert record is not None
    return record.start


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000))
def test_never_more_nodes_than_there_are_and_never_before_eligible(seed: int) -> None:
    params, jobs = random_case(seed)
    sim = Simulator(params, jobs, now=0)
    while sim.next_instant() < 1000:
        sim.step(1000)
        running = [r for r in sim.records.values() if r.state is JobState.RUNNING]
        used = 0
        for r in running:
            assert r.start is not None
            assert r.eligible is not None
            assert r.start >= r.eligible
            assert r.allocated & used == 0, "a node is given twice"
            assert r.allocated.bit_count() == r.job.nodes
            used |= r.allocated
        assert used | sim.free_nodes == (1 << params.nodes) - 1
        if params.max_jobs_pu:
            assert max(sim.running_per_user.values(), default=0) <= params.max_jobs_pu


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), at=st.integers(0, 300), extra=st.integers(0, 300))
def test_fork_then_advance_equals_advance(seed: int, at: int, extra: int) -> None:
    params, jobs = random_case(seed)
    sim = Simulator(params, jobs, now=0)
    sim.advance(at)
    twin = sim.fork()
    first = twin.advance(at + extra)
    assert sim.advance(at + extra) == first
    assert sim.queue == twin.queue
    assert sim.ended == twin.ended


def test_a_fork_leaves_the_original_alone() -> None:
    sim = Simulator(SMALL, now=0)
    running = sim.inject(job(nodes=2))
    waiting = sim.inject(job(nodes=1))
    sim.advance(5)
    twin = sim.fork()
    twin.remove(running)
    twin.advance(20)
    assert start_of(twin, waiting) == 5
    assert start_of(sim, waiting) is None


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_the_input_changes_nothing(seed: int) -> None:
    params, jobs = random_case(seed)
    there = Simulator(params, jobs, now=0).advance(800)
    back = Simulator(params, jobs[::-1], now=0).advance(800)
    assert there == back


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000))
def test_planning_more_jobs_never_delays_the_plan_of_those_ahead(seed: int) -> None:
    params, jobs = random_case(seed)
    entries = [Entry(i, j.job_id, j.nodes, j.time_limit_s) for i, j in enumerate(jobs)]

    def plan(count: int) -> list[int | None]:
        profile = Profile(params, 0, params.nodes, [])
        return [profile.place(e.nodes, e.time_limit_s) for e in entries[:count]]

    for count in range(len(entries)):
        assert plan(count) == plan(len(entries))[:count]


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000))
def test_the_early_stop_knows_exactly_who_could_still_start(seed: int) -> None:
    params, jobs = random_case(seed)
    entries = [Entry(i, j.job_id, j.nodes, j.time_limit_s) for i, j in enumerate(jobs)]
    running = [Entry(37, 0, params.nodes // 2, 100)]
    for count, entry in enumerate(entries):
        profile = Profile(params, 0, params.nodes - params.nodes // 2, running)
        for e in entries[:count]:
            profile.place(e.nodes, e.time_limit_s)
        stopped = nothing_fits_now(profile, [entry])
        assert stopped == (profile.place(entry.nodes, entry.time_limit_s) != 0)


def test_backfill_starts_what_delays_nobody_and_only_that() -> None:
    sim = Simulator(SMALL, now=0)
    sim.inject(job(limit=100, nodes=1))
    sim.advance(0)
    wide = sim.inject(job(limit=100, nodes=2))
    short, long = sim.inject(job(limit=80, nodes=1)), sim.inject(job(limit=150, nodes=1))
    sim.advance(400)
    assert start_of(sim, short) == 10, "the next backfill interval"
    assert start_of(sim, wide) == 100
    assert start_of(sim, long) == 200


def test_the_planned_start_comes_true_when_limits_are_used_up() -> None:
    sim = Simulator(SMALL, now=0)
    sim.inject(job(limit=100, nodes=2))
    second = sim.inject(job(limit=50, nodes=2))
    third = sim.inject(job(limit=50, nodes=1))
    sim.advance(10)
    assert sim.planned_starts() == {second: 100, third: 150}
    sim.advance(200)
    assert (start_of(sim, second), start_of(sim, third)) == (100, 150)


def test_run_time_is_cut_at_the_limit() -> None:
    sim = Simulator(SMALL, now=0)
    job_id = sim.inject(job(limit=60, run=600))
    sim.advance(100)
    record = sim.find(job_id)
    assert record is not None
    assert (record.end, record.state) == (60, JobState.TIMEOUT)


def test_a_job_cancelled_while_pending_leaves_at_its_time() -> None:
    sim = Simulator(SMALL, now=0)
    sim.inject(job(limit=100, nodes=2))
    doomed = sim.inject(job(nodes=2, cancel_at=40))
    sim.advance(39)
    assert doomed in sim.records
    sim.advance(40)
    record = sim.find(doomed)
    assert record is not None
    assert (record.end, record.state, record.start) == (40, JobState.CANCELLED, None)


@pytest.mark.parametrize(("accrue_always", "first"), [(False, "waiting"), (True, "dependent")])
def test_a_dependent_job_earns_age_only_with_accrue_always(accrue_always: bool, first: str) -> None:
    params = Params(nodes=1, accrue_always=accrue_always, priority_weight_job_size=0)
    sim = Simulator(params, now=0)
    running = sim.inject(job(limit=100))
    ids = {"dependent": sim.inject(job(after=running)), "waiting": sim.inject(job(), at=50)}
    sim.advance(100)
    assert start_of(sim, ids[first]) == 100


def test_age_stops_counting_at_its_maximum() -> None:
    params = Params(nodes=2, priority_max_age_s=50, priority_weight_job_size=1000)
    sim = Simulator(params, now=0)
    sim.inject(job(limit=200, nodes=2))
    small, wide = sim.inject(job(nodes=1, limit=10)), sim.inject(job(nodes=2), at=10)
    sim.advance(200)
    assert start_of(sim, wide) == 200, "both are saturated: size decides"
    assert start_of(sim, small) is None


def test_freeing_counts_from_that_second_and_holding_takes_it_back() -> None:
    sim = Simulator(SMALL, now=0)
    running = sim.inject(job(limit=500, nodes=2))
    standby = sim.inject(job(after=running))
    sim.advance(30)
    sim.set_dependency(standby, None)
    assert sim.records[standby].eligible == 30
    sim.set_dependency(standby, running)
    assert sim.records[standby].eligible is None
    sim.advance(600)
    assert start_of(sim, standby) == 500


def test_a_pinned_job_waits_for_its_nodes_and_keeps_nobody_else() -> None:
    sim = Simulator(SMALL, now=0)
    first = sim.inject(job(limit=100))
    sim.advance(0)
    pinned = sim.inject(job(limit=100))
    sim.pin(pinned, sim.records[first].allocated)
    other = sim.inject(job(limit=300))
    sim.advance(1)
    assert sim.planned_starts()[pinned] == 100
    assert start_of(sim, other) == 0
    sim.advance(100)
    assert start_of(sim, pinned) == 100
    assert sim.records[pinned].allocated == 1


def test_a_held_job_does_not_start_and_a_released_one_does() -> None:
    sim = Simulator(SMALL, now=0)
    held = sim.inject(job())
    sim.hold(held)
    sim.advance(50)
    assert start_of(sim, held) is None
    sim.release(held)
    sim.advance(50)
    assert start_of(sim, held) == 50


def test_moves_of_jobs_that_do_not_wait_are_refused() -> None:
    sim = Simulator(SMALL, now=0)
    running = sim.inject(job())
    sim.advance(1)
    with pytest.raises(ClusterRefused, match="no longer pending"):
        sim.set_dependency(running, None)
    with pytest.raises(ClusterRefused, match="Invalid job id"):
        sim.remove(999)
    with pytest.raises(ClusterRefused, match="not available"):
        sim.inject(job(nodes=3))


def test_oversized_jobs_of_a_workload_are_left_out_and_named() -> None:
    sim = Simulator(SMALL, [job(job_id=7, nodes=3), job(job_id=8)])
    assert [j.job_id for j in sim.oversized] == [7]
    started = [e.job_id for e in sim.advance(10) if e.kind is EventKind.STARTED]
    assert started == [8]
