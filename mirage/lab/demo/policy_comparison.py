"""A rehearsal: identical chains side by side on a simulated cluster, one set for each policy.

Everything but the cluster is the product itself: the same worker, store and policies, ticking on
the simulated clock.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.chains import lifecycle as chain_service
from mirage.chains.lifecycle import Registration
from mirage.database.chains import chains
from mirage.database.chains.chains import HandoverRow
from mirage.domain.chain import ChainId
from mirage.domain.decision import Mode
from mirage.domain.handover import Handover, LinkPair
from mirage.domain.time_units import DAY_S
from mirage.lab.demo.comparison_plan import BASELINE, ComparisonPlan
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.provision.control.modes import set_mode
from mirage.service.wiring import Service
from mirage.service.worker import Worker
from mirage.simulator.types import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonProgress:
    """The progress of a rehearsal."""

    now: int
    completed: int
    """The number of completed hand-overs of all policies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """Means per hand-over of one policy, over the hand-overs that the baseline completed too."""

    handovers: int
    interruption_h: float
    overlap_h: float
    zero_interruption_pct: float
    cost_h: float
    less_than_reactive_pct: float | None
    """How much lower the cost is than the baseline's on the same hand-overs."""


def build_placeholder_jobs(
    plan: ComparisonPlan, jobs: Sequence[SimJob], start: int
) -> list[SimJob]:
    """Build jobs that occupy each chain's nodes from the first of `jobs` until the chain is
    submitted.

    Chains are a large share of a demo's machine. The machine has their nodes on top, and these jobs
    keep the workload from using those nodes earlier. The queue is then as long as without the
    chains.
    """
    first, last_id = jobs[0].submit, max(job.job_id for job in jobs)
    submissions = [at for at, _, _ in _list_submissions(plan, start)][: plan.room // plan.nodes]
    run_times_s = [at - first for at in submissions]
    return [
        SimJob(
            job_id=last_id + i,
            submit=first,
            nodes=plan.nodes,
            time_limit_s=run_s,
            run_s=run_s,
            exclusive=True,
            # Each has a user of its own, since MaxJobsPU would keep most of them from running.
            user=f"forerunner-{i}",
        )
        for i, run_s in enumerate(run_times_s, start=1)
        if run_s > 0
    ]


def run_comparison(
    plan: ComparisonPlan, service: Service, cluster: SimulatedCluster, worker: Worker
) -> Iterator[ComparisonProgress]:
    """Run to the end of all chains. Yields once per simulated hour."""
    start = cluster.read_clock()
    with service.store.begin() as tx:
        set_mode(tx, service.cluster_id, Mode.ACT, "", now=start, actor="demo")
    due_chains = list(_list_submissions(plan, start))
    total = plan.handovers * len(plan.policies)
    last_report = start
    while cluster.read_clock() < start + plan.longest_s:
        while due_chains and due_chains[0][0] <= cluster.read_clock():
            _submit_chain(plan, service, cluster, *due_chains.pop(0)[1:])
        worker.run_tick()
        if cluster.read_clock() - last_report >= DAY_S // 24:
            last_report = cluster.read_clock()
            completed = len(list_completed_handovers(service))
            yield ComparisonProgress(now=last_report, completed=completed)
            if completed >= total:
                return
        cluster.advance(plan.tick_s)


def list_completed_handovers(service: Service) -> list[HandoverRow]:
    with service.store.read() as tx:
        return chains.list_handovers(tx, service.cluster_id)


def compute_outcomes(rows: Sequence[HandoverRow], overlap_price: float) -> dict[str, PolicyOutcome]:
    """Return the outcomes by policy.

    Only hand-overs (chain number, link) that the baseline also has are counted.
    """
    by_policy: dict[str, dict[tuple[str, int], Handover]] = {}
    for row in rows:
        pair = (row.chain.chain_id[-_NUMBER_DIGITS:], row.successor.index)
        by_policy.setdefault(row.chain.policy or BASELINE, {})[pair] = _build_handover(row)
    baseline = by_policy.get(BASELINE, {})
    return {
        name: _compute_outcome(
            [handovers[p] for p in sorted(handovers.keys() & baseline.keys())],
            [baseline[p] for p in sorted(handovers.keys() & baseline.keys())],
            overlap_price,
        )
        for name, handovers in by_policy.items()
        if handovers.keys() & baseline.keys()
    }


def compute_mean_outcomes(
    rows: Sequence[HandoverRow], overlap_price: float
) -> dict[str, PolicyOutcome]:
    """Return the means by policy over all of these hand-overs, whichever chains they are of.

    There is none if the baseline has no hand-over.
    """
    by_policy: dict[str, list[Handover]] = {}
    for row in rows:
        by_policy.setdefault(row.chain.policy or BASELINE, []).append(_build_handover(row))
    baseline = by_policy.get(BASELINE)
    if not baseline:
        return {}
    return {
        name: _compute_outcome(handovers, baseline, overlap_price)
        for name, handovers in by_policy.items()
    }


def _build_handover(row: HandoverRow) -> Handover:
    handover = LinkPair(row.predecessor, row.successor).over
    assert handover is not None  # noqa: S101 - a row is of a complete hand-over
    return handover


def _compute_outcome(
    handovers: list[Handover], baseline: list[Handover], overlap_price: float
) -> PolicyOutcome:
    cost = _compute_mean(h.compute_cost_h(overlap_price) for h in handovers)
    reactive = _compute_mean(h.compute_cost_h(overlap_price) for h in baseline)
    return PolicyOutcome(
        handovers=len(handovers),
        interruption_h=_compute_mean(h.interruption_h for h in handovers),
        overlap_h=_compute_mean(h.overlap_h for h in handovers),
        zero_interruption_pct=100.0 * _compute_mean(h.interruption_h == 0 for h in handovers),
        cost_h=cost,
        less_than_reactive_pct=100.0 * (1.0 - cost / reactive) if reactive > 0 else None,
    )


def _compute_mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


_NUMBER_DIGITS = 3


def _list_submissions(plan: ComparisonPlan, start: int) -> Iterator[tuple[int, str, int]]:
    """List (instant, policy, chain number), in the order of submission."""
    for number in range(plan.chains):
        for policy in plan.policies:
            yield start + number * plan.spread_s, policy, number


def _submit_chain(
    plan: ComparisonPlan, service: Service, cluster: SimulatedCluster, policy: str, number: int
) -> None:
    """Submit the first link and register the chain.

    A user's wrapped sbatch does the same.
    """
    name = "".join(c for c in policy if c.isalnum())
    chain_id = ChainId(f"demo{name}{number:0{_NUMBER_DIGITS}}")
    job_id = cluster.submit_chain(
        chain_id, links=plan.links, nodes=plan.nodes, time_limit_s=plan.time_limit_s
    )
    job = cluster.fetch_job_records([job_id])[0]
    assert job.uid is not None  # noqa: S101 - the simulated cluster knows its users
    registration = Registration(
        chain_id=chain_id,
        links=plan.links,
        job_id=job_id,
        policy=policy,
        # Policies are compared as over tables, where nothing but their price bounds the overlap.
        max_overlap_s=plan.time_limit_s,
    )
    with service.store.begin() as tx:
        chain_service.register_chain(
            tx,
            service.cluster_id,
            registration,
            uid=job.uid,
            user=job.user,
            now=cluster.read_clock(),
        )
