"""Chains among the jobs of a log."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.chain_replay import ChainReplay, ChainSlot
from mirage.domain.ports import Policy
from mirage.history.workloads import synthetic
from mirage.policies.rules.lead_rules import Reactive
from mirage.policies.rules.pinning import PinThenFree
from mirage.simulator.packing.workload import Workload
from mirage.simulator.types import Params, SimJob

HOUR, DAY = 3600, 86400
NODES = 24


def replay(policy: Policy, run_s: int = 8 * HOUR) -> ChainReplay:
    """Two users with two chains of three links each, on nodes of their own beside the log's."""
    params = Params(nodes=NODES + 3)
    jobs = list(synthetic.generate_workload("heavy", nodes=NODES, days=21, seed=1))
    first = synthetic.EPOCH + 12 * DAY
    job = SimJob(nodes=1, exclusive=True, time_limit_s=8 * HOUR, run_s=8 * HOUR)
    slots = tuple(
        ChainSlot(first=first + i * 5000, job=replace(job, nodes=i + 1, user=f"u{i}"), chains=2)
        for i in range(2)
    )
    chain_replay = ChainReplay(
        params,
        Workload.from_jobs(params, jobs),
        slots,
        policy,
        lambda *_: run_s,
        first + 9 * DAY,
        links=3,
    )
    chain_replay.run()
    return chain_replay


def test_chains_follow_each_other_link_by_link() -> None:
    chain_replay = replay(Reactive())
    places = [(r.slot, r.chain, r.link) for r in chain_replay.runs]
    assert sorted(places) == [(s, c, k) for s in range(2) for c in range(2) for k in range(3)]
    ends = {(r.slot, r.chain, r.link): r.end for r in chain_replay.runs}
    for run in chain_replay.runs:
        assert run.start is not None
        assert run.end == run.start + 8 * HOUR
        if run.link:
            before = ends[run.slot, run.chain, run.link - 1]
            assert before is not None
            assert run.start >= before


@pytest.mark.parametrize("run_s", [8 * HOUR, 5000], ids=["to the limit", "early"])
def test_pinned_chains_wait_less_than_plain_ones(run_s: int) -> None:
    def gaps(chain_replay: ChainReplay) -> list[int]:
        by_job = {r.job_id: r for r in chain_replay.runs}
        behind = [(r, by_job[r.standby.predecessor]) for r in chain_replay.runs if r.standby]
        return [(after.start or 0) - (before.end or 0) for after, before in behind]

    reactive, pinned = gaps(replay(Reactive(), run_s)), gaps(replay(PinThenFree(), run_s))
    assert len(reactive) == len(pinned) == 8
    assert np.mean(pinned) < np.mean(reactive)
    assert min(pinned) >= 0
