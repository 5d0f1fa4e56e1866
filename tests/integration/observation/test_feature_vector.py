"""One observation, whether the queue is a simulator's or what a cluster shows of it."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.observation import feature_vector, spec
from mirage.observation.queue_view import LinkQueueView, ObservedQueue
from mirage.observation.running_stats import RunningStats
from mirage.simulator.types import NodeEvent, NodeGroup, Outage, Params, Partition, SelectType
from tests.support.observation.scene import (
    BEGIN,
    HOUR,
    PARAMS,
    add_requests,
    generate_jobs,
    make_handover_input,
    play_jobs,
)

_INSTANTS = [BEGIN + hours * HOUR + 7 for hours in (0, 1, 5, 20, 30, 47)]
SITES = {
    "whole nodes": PARAMS,
    "age from submission": replace(PARAMS, accrue_always=True, priority_favor_small=True),
    "partitions": replace(
        PARAMS,
        partitions=(
            Partition(name="gpu", nodes=tuple(range(12)), priority_job_factor=2),
            Partition(name="wide", nodes=tuple(range(8, 16))),
        ),
        priority_weight_partition=1000,
    ),
    "nodes down": replace(
        PARAMS,
        node_events=(
            NodeEvent(BEGIN + 2 * HOUR, 3, Outage.DOWN),
            NodeEvent(BEGIN + 2 * HOUR, 4, Outage.DRAIN),
            NodeEvent(BEGIN + 25 * HOUR, 3, Outage.RESUME),
        ),
    ),
    "shared nodes": replace(
        PARAMS,
        select_type=SelectType.CONS_TRES,
        node_groups=(NodeGroup(count=10, cpus=64, gpus=4), NodeGroup(count=6, cpus=32)),
    ),
    "fair share": replace(PARAMS, priority_weight_fairshare=5000),
}


def _both(
    params: Params, seed: int, at: int
) -> tuple[
    tuple[LinkQueueView, RunningStats], tuple[LinkQueueView, RunningStats], SimulatedCluster
]:
    jobs = add_requests(generate_jobs(seed), params)
    simulator, memory = play_jobs(jobs, at, params)
    cluster = SimulatedCluster(params, jobs, now=BEGIN)
    cluster.advance(at - BEGIN)
    told = RunningStats.from_accounting(cluster.fetch_history(0, at + 1), at, memory.utc_offset_s)
    simulated = LinkQueueView.from_simulator(simulator, make_handover_input(at), memory.users)
    shown = ObservedQueue(cluster.fetch_queue(), cluster.fetch_nodes(), params, told.users)
    live = LinkQueueView.from_observed_queue(shown, make_handover_input(at))
    return (simulated, memory), (live, told), cluster


@pytest.mark.parametrize("at", _INSTANTS)
@pytest.mark.parametrize("site", SITES)
def test_a_live_and_a_simulated_snapshot_give_the_same_numbers(site: str, at: int) -> None:
    simulated, live, _ = _both(SITES[site], 1, at)
    plans = (at + 100, None)
    a, b = (
        feature_vector.compute_raw_numbers(view, make_handover_input(at), memory, *plans)
        for view, memory in (simulated, live)
    )
    assert {n: (x, y) for n, x, y in zip(spec.FEATURE_NAMES, a, b, strict=True) if x != y} == {}


def test_the_scene_shows_something_in_every_group() -> None:
    """The comparison above is worth nothing for numbers that are always 0."""
    seen = np.zeros(len(spec.FEATURE_NAMES))
    for params in SITES.values():
        for seed, at in enumerate(_INSTANTS):
            view, memory = _both(params, seed, at)[0]
            seen = np.maximum(
                seen,
                np.abs(
                    feature_vector.compute_raw_numbers(
                        view, make_handover_input(at, 8), memory, None, None
                    )
                ),
            )
    never = {n for n, x in zip(spec.FEATURE_NAMES, seen, strict=True) if x == 0.0}
    assert never == {f"pending_run_p{p}" for p in (0, 25, 50, 75, 100)} | {
        "successor_wait",
        "successor_elapsed",
    }
