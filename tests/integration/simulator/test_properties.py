"""What holds of every simulation, on cases that Hypothesis picks."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from random import Random

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.errors import ClusterRefused
from mirage.simulator.packing.workload import JobColumns, Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import JobRecord, NodeGroup, Params, Qos, SelectType, SimJob
from tests.integration.simulator.cases import GROUPS, Case, case_of
from tests.support.simulator.scenes import T0, job_at, site
from tests.support.simulator.views import list_free_nodes, list_pending_ids

CASES = st.builds(case_of, st.sampled_from(GROUPS), st.integers(0, 10**6))
NUMBERS = st.builds(case_of, st.just("numbers"), st.integers(0, 10**6))
IN_TIME = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def instants(case: Case) -> Iterator[Simulator]:
    """The simulator at every instant of the case, its moves included."""
    sim = Simulator(case.params, case.jobs)
    for move in case.moves:
        yield from _steps(sim, move.at)
        with suppress(ClusterRefused):
            getattr(sim, move.name)(*move.args)
    yield from _steps(sim, case.until)


def _steps(sim: Simulator, until: int) -> Iterator[Simulator]:
    while True:
        sim.step(until)
        yield sim
        if sim.now >= until:
            return


def list_nodes(params: Params) -> list[NodeGroup]:
    """List each node's own size."""
    alike = NodeGroup(
        count=params.nodes,
        cpus=params.cpus_per_node,
        memory_mib=params.memory_mib_per_node,
        gpus=params.gpus_per_node,
    )
    groups = params.node_groups or (alike,)
    return [group for group in groups for _ in range(group.count)]


def has_whole_nodes(params: Params, job_: SimJob) -> bool:
    partition = next(one for one in params.partitions if job_.partition in {"", one.name})
    return params.select_type is SelectType.LINEAR or job_.exclusive or partition.exclusive


def list_qos(params: Params) -> tuple[Qos, ...]:
    return params.qos or (Qos(max_jobs_pu=params.max_jobs_pu),)


def find_qos(params: Params, job_: SimJob) -> Qos:
    return next(qos for qos in list_qos(params) if job_.qos in {"", qos.name})


@IN_TIME
@given(CASES)
def test_nodes_never_have_more_on_them_than_they_have(case: Case) -> None:
    nodes = list_nodes(case.params)
    for sim in instants(case):
        on: dict[int, list[SimJob]] = defaultdict(list)
        for record in sim.list_running():
            assert len(set(record.allocated)) == record.job.nodes
            for number in record.allocated:
                on[number].append(record.job)
        for number, jobs in on.items():
            if any(has_whole_nodes(case.params, j) for j in jobs):
                assert len(jobs) == 1
                continue
            node = nodes[number]
            assert sum(j.cpus or 1 for j in jobs) <= node.cpus
            assert not 0 < node.memory_mib < sum(j.memory_mib for j in jobs)
            assert sum(j.gpus for j in jobs) <= node.gpus


@IN_TIME
@given(CASES)
def test_nobody_starts_before_it_is_eligible(case: Case) -> None:
    for sim in instants(case):
        for r in sim.list_running():
            assert r.start is not None
            assert r.eligible is not None
            assert r.start >= max(r.submit, r.job.begin, r.eligible)
            assert not r.dependencies
            assert not r.held


@IN_TIME
@given(CASES)
def test_nobody_takes_a_reserved_node(case: Case) -> None:
    for sim in instants(case):
        for r in sim.list_running():
            assert r.start is not None
            for kept in case.params.reservations:
                if kept.start < r.start + r.job.time_limit_s and r.start < kept.end:
                    assert kept.nodes
                    assert not set(kept.nodes) & set(r.allocated)


@IN_TIME
@given(CASES)
def test_limits_are_kept(case: Case) -> None:
    for sim in instants(case):
        running = sim.list_running()
        users = Counter((r.job.user, find_qos(case.params, r.job)) for r in running)
        for (_, qos), count in users.items():
            assert not 0 < qos.max_jobs_pu < count
        for r in running:
            assert r.start is not None
            tasks = [s for s in running if s.job.array_id == r.job.array_id]
            earlier = sum(s.start is not None and s.start < r.start for s in tasks)
            assert not (r.job.array_id and 0 < r.job.array_limit <= earlier)
        _assert_nodes_limit(running, list_qos(case.params), case.params)


def _assert_nodes_limit(running: list[JobRecord], all_qos: tuple[Qos, ...], params: Params) -> None:
    for qos in all_qos:
        used: Counter[str] = Counter()
        for r in running:
            if find_qos(params, r.job) == qos:
                used[r.job.user] += r.job.nodes
        assert not any(0 < qos.max_nodes_pu < n for n in used.values())


@IN_TIME
@given(NUMBERS, st.integers(0, 3000), st.integers(0, 100))
def test_a_job_behind_changes_no_plan_ahead_of_it(case: Case, after: int, which: int) -> None:
    jobs = [replace(j, node_list=()) for j in case.jobs]
    sim = Simulator(case.params, jobs)
    sim.advance(jobs[0].submit + after)
    order = list_pending_ids(sim)
    if not order:
        return
    place = which % len(order)
    twin = sim.fork()
    twin.remove(order[place])
    with_it, without = sim.compute_planned_starts(), twin.compute_planned_starts()
    ahead = order[:place]
    assert {i: with_it.get(i) for i in ahead} == {i: without.get(i) for i in ahead}


@IN_TIME
@given(st.integers(0, 10**6))
def test_with_exact_limits_and_no_newcomers_the_plan_comes_true(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - test cases, no secrets
    params = site(
        priority_weight_age=0, bf_interval_s=1, bf_resolution_s=1, bf_window_s=10**6, nodes=8
    )
    jobs = [
        job_at(i, nodes=rng.randint(1, 8), limit=rng.randint(1, 500), nice=rng.randint(0, 9))
        for i in range(1, 21)
    ]
    sim = Simulator(params, jobs)
    sim.advance(T0)
    plan = sim.compute_planned_starts()
    assert set(plan) == set(list_pending_ids(sim))
    sim.run_out()
    starts = dict(zip(sim.workload.job_id.tolist(), sim.start.tolist(), strict=True))
    assert {i: starts[i] for i in plan} == plan


@IN_TIME
@given(CASES, st.integers(0, 3000))
def test_a_fork_goes_on_as_the_original_does_and_leaves_it_alone(case: Case, after: int) -> None:
    sim = Simulator(case.params, case.jobs)
    for move in case.moves:
        sim.advance(move.at)
        with suppress(ClusterRefused):
            getattr(sim, move.name)(*move.args)
    sim.advance(max(sim.now, case.jobs[0].submit + after))
    now = sim.now
    before, arrays = _state(sim), (sim.start.tobytes(), sim.end.tobytes())
    twin = sim.fork()
    assert _state(twin) == before
    told = twin.advance(case.until)
    twin.inject(SimJob(time_limit_s=60, run_s=60, submit=twin.now))
    assert (_state(sim), (sim.start.tobytes(), sim.end.tobytes())) == (before, arrays)
    untouched = sim.fork()
    assert sim.advance(case.until) == told == untouched.advance(case.until)
    assert _state(sim) == _state(untouched)
    assert sim.list_ended_since(now + 1) == untouched.list_ended_since(now + 1)


def _state(sim: Simulator) -> tuple[object, ...]:
    return (
        sim.now,
        sim.list_pending(),
        sim.list_running(),
        sim.compute_planned_starts(),
        list_free_nodes(sim),
    )


@IN_TIME
@given(CASES, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(case: Case, rng: Random) -> None:
    shuffled = list(case.jobs)
    rng.shuffle(shuffled)
    one, two = Simulator(case.params, case.jobs), Simulator(case.params, shuffled)
    assert one.advance(case.until) == two.advance(case.until)
    assert one.end.tobytes() == two.end.tobytes()


@IN_TIME
@given(CASES)
def test_columns_are_the_jobs_they_stand_for(case: Case) -> None:
    jobs = [
        replace(j, dependencies=(), node_list=(), cancel_at=None, priority=None) for j in case.jobs
    ]
    values = {f.name: [getattr(j, f.name) for j in jobs] for f in fields(SimJob)}
    for name in ("dependencies", "node_list", "cancel_at", "priority"):
        del values[name]
    columns = {name: np.array(column) for name, column in values.items()}
    one = Workload.from_jobs(case.params, jobs)
    two = Workload.from_jobs(case.params, JobColumns(**columns))
    assert tuple(two.jobs) == one.jobs
    assert two.feed.tobytes() == one.feed.tobytes()
    assert two.images.tobytes() == one.images.tobytes()


@IN_TIME
@given(st.sampled_from(GROUPS), st.integers(0, 10**6))
def test_the_same_seed_gives_the_same_bytes(group: str, seed: int) -> None:
    runs = []
    for _ in range(2):
        case = case_of(group, seed)
        sim = Simulator(case.params, case.jobs)
        sim.advance(case.until)
        runs.append((sim.start.tobytes(), sim.end.tobytes()))
    assert runs[0] == runs[1]


@IN_TIME
@given(CASES, st.lists(st.integers(0, 5000), max_size=8))
def test_it_does_not_matter_in_how_many_steps_one_advances(case: Case, stops: list[int]) -> None:
    one, two = Simulator(case.params, case.jobs), Simulator(case.params, case.jobs)
    told = [event for stop in sorted(stops) for event in two.advance(case.jobs[0].submit + stop)]
    told += two.advance(case.until)
    assert one.advance(case.until) == told
    assert one.start.tobytes() == two.start.tobytes()
