"""The simulator's own plan for the successor, as the observation has it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.observation import feature_vector, spec
from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import RunningStats
from mirage.observation.sim_columns import compute_usual_limits
from mirage.simulator import moves
from mirage.simulator.arrays import layout
from mirage.simulator.arrays.layout import NONE
from mirage.simulator.from_queue import build_queue_simulator
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob, build_afterany
from tests.integration.observation.test_feature_vector import SITES
from tests.support.observation.scene import (
    BEGIN,
    HOUR,
    PARAMS,
    add_requests,
    generate_jobs,
    make_handover_input,
    play_jobs,
)

AT = BEGIN + 20 * HOUR + 7
ACCRUING = replace(PARAMS, accrue_always=True)


def _jobs(seed: int, params: Params) -> list[SimJob]:
    """No long ones: the plan reaches to the end of the queue."""
    return add_requests(
        [j for j in generate_jobs(seed, jobs=460) if j.time_limit_s <= 12 * HOUR], params
    )


def _successor(seen: HandoverInput) -> SimJob:
    return replace(seen.build_successor(AT), submit=0)


def _scene(params: Params, seed: int = 5) -> tuple[Simulator, RunningStats, HandoverInput]:
    simulator, memory = play_jobs(_jobs(seed, params), AT, params)
    return simulator, memory, make_handover_input(AT)


def _plan(simulator: Simulator, seen: HandoverInput, memory: RunningStats) -> dict[str, float]:
    told = spec.invert_scaling(feature_vector.observe_simulator(simulator, seen, memory))
    return dict(zip(spec.FEATURE_NAMES, told.tolist(), strict=True))


def _plan_job(
    simulator: Simulator, job: SimJob, limits: Mapping[int, int] | None = None
) -> int | None:
    """Plan the start of `job` as if it were eligible now. `limits`: other limits by job id."""
    twin = simulator.fork()
    slot = twin.arena.find_slot(twin.inject(replace(job, job_id=0)))
    if limits:
        changed = np.zeros(twin.arena.room.slots, dtype=np.int64)
        for job_id, limit in limits.items():
            changed[twin.arena.find_slot(job_id)] = limit
        moves.set_time_limits(twin.arena.state, changed)
    start = int(twin.arena.plan_starts_by_slot(twin.arena.copy_for_plan())[slot])
    return None if start == NONE else start


def _inject_standby(simulator: Simulator, seen: HandoverInput) -> int:
    """Behind the job that runs longest."""
    last = simulator.list_running()[-1].job_id
    return simulator.inject(replace(_successor(seen), dependencies=build_afterany(last)))


@pytest.mark.parametrize("site", SITES)
def test_the_plan_is_the_simulators_plan_of_such_a_job(site: str) -> None:
    simulator, memory, seen = _scene(SITES[site])
    planned = _plan_job(simulator, _successor(seen))
    told = _plan(simulator, seen, memory)
    assert told["plan_missing"] == (planned is None)
    wait_s = PARAMS.bf_window_s if planned is None else planned - AT
    assert told["plan_wait"] == pytest.approx(wait_s, rel=1e-4)
    assert told["plan_gap"] == pytest.approx(AT + wait_s - seen.predecessor_end, rel=1e-4)


@pytest.mark.parametrize("site", SITES)
def test_a_standby_in_the_queue_changes_nothing(site: str) -> None:
    """Held, it is planned as if it were free; and it is no rival of its own."""
    simulator, memory, seen = _scene(SITES[site])
    without = feature_vector.observe_simulator(simulator, seen, memory)
    known = replace(seen, job_id=_inject_standby(simulator, seen))
    assert feature_vector.observe_simulator(simulator, known, memory).tobytes() == without.tobytes()


def test_the_age_that_a_standby_earns_counts() -> None:
    """Whether the simulator has it or is only told of it."""
    simulator, memory, seen = _scene(ACCRUING)
    twin = simulator.fork()
    known = replace(seen, job_id=_inject_standby(twin, seen), submit=AT)
    for one in (simulator, twin):
        one.advance(AT + 12 * HOUR)
    told = _plan(simulator, replace(seen, submit=AT), memory)
    assert _plan(twin, known, memory) == told
    assert told["plan_wait"] < _plan(simulator, seen, memory)["plan_wait"]


def test_a_free_successor_is_planned_where_it_stands() -> None:
    simulator, memory, seen = _scene(PARAMS)
    job_id = simulator.inject(_successor(seen))
    simulator.advance(AT)
    planned = simulator.compute_planned_starts()[job_id]
    told = _plan(simulator, replace(seen, job_id=job_id), memory)
    assert told["plan_wait"] == pytest.approx(planned - AT, rel=1e-4)


def test_a_successor_that_runs_waits_no_more() -> None:
    simulator, memory, seen = _scene(PARAMS)
    running = simulator.list_running()[0].job_id
    told = _plan(simulator, replace(seen, job_id=running), memory)
    assert told["plan_wait"] == told["usual_plan_wait"] == told["plan_missing"] == 0.0


@pytest.mark.parametrize("site", SITES)
def test_as_usual_is_the_plan_of_a_cluster_with_such_limits(site: str) -> None:
    """The queue is shown again with every limit as usual, and a cluster is stood up from that."""
    params = SITES[site]
    cluster = SimulatedCluster(params, _jobs(6, params), now=BEGIN)
    cluster.advance(AT - BEGIN)
    memory = RunningStats.from_accounting(cluster.fetch_history(0, AT + 1), AT)
    simulator = build_queue_simulator(
        params, cluster.fetch_queue(), cluster.fetch_nodes()
    ).simulator
    limits = _usual_limits(simulator, memory)
    queue = cluster.fetch_queue()
    shorter = np.array([limits.get(i, 1) for i in queue.job_id.tolist()], dtype=np.int64)
    other = build_queue_simulator(
        params, replace(queue, time_limit_s=shorter), cluster.fetch_nodes()
    ).simulator
    seen = replace(_successor(make_handover_input(AT, nodes=8)), user="a newcomer", exclusive=True)
    assert _plan_job(simulator, seen, limits) == _plan_job(other, seen)
    assert _plan_job(simulator, seen, limits) != _plan_job(simulator, seen)


def _usual_limits(simulator: Simulator, memory: RunningStats) -> dict[int, int]:
    state = simulator.arena.state
    number = memory.users.map_associations(simulator.arena.names.associations)
    by_slot = compute_usual_limits(state, number, memory.get_past(simulator.now), 0)
    live = (*simulator.list_pending(), *simulator.list_running())
    table = layout.get_section(state, layout.LIVE).reshape(-1, layout.RECORD)
    slot_of = {int(row[layout.ID]): slot for slot, row in enumerate(table)}
    return {i: int(by_slot[slot_of[i]]) for i in (record.job_id for record in live)}


def test_as_usual_a_running_job_uses_the_usual_share_of_what_is_left() -> None:
    simulator = Simulator(PARAMS, (), now=AT - 1600)
    for i in (1, 2):
        simulator.inject(SimJob(job_id=i, user=f"u{i}", time_limit_s=3600, run_s=9999))
    simulator.advance(AT)
    simulator.inject(SimJob(job_id=3, user="u3", time_limit_s=1000, run_s=9))
    memory = RunningStats()
    for _ in range(2000):
        memory.record_end(run_s=900, time_limit_s=3600, user="u1")
    limits = _usual_limits(simulator, memory)
    assert limits == {1: 1600 + 500, 2: 1600 + 500, 3: 250}
