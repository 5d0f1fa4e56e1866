"""Many hand-overs asked about together, against one by one; and a large site's share of a core.

`python -m benchmarks.twin_groups ls6 [--every-h 40] [--share 0.1]`: 100 links of 10 shapes on
Lonestar6 at instants of the developers' training weeks, answered by group and one by one in the
same run: CPU seconds, pinball loss against what came, and decisions at price 0.5.

`python -m benchmarks.twin_groups site [--rounds 3]`: 5,000 nodes, 20,000 waiting jobs, 1,000 chains
of 40 shapes: the CPU seconds that new answers for all take, each ten minutes.
"""

import argparse
import json
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulator_workloads import (
    EPOCH,
    Table,
    build_whole_node_params,
    generate_whole_nodes,
)
from benchmarks.twin import SHARED, SINCE, UNTIL
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads.replay import load_workload
from mirage.lab.episodes.chains.world_memory import WorldMemory
from mirage.observation.handover_input import HandoverInput
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import SimJob, build_afterany
from mirage.twin.forecast import SHARE, Futures, Probe, Twin, group_probes
from mirage.twin.futures.submission_history import SubmissionHistory
from mirage.twin.twin_features import LEVELS, compute_late_probability

Floats = NDArray[np.float64]

_HOUR_S, _DAY_S = 3600, 86400
PRICE = 0.5
TURN = PRICE / (1.0 + PRICE)
"""P(late) at which releasing now costs no more than any later lead."""
SHAPES = [(nodes, hours * _HOUR_S) for nodes in (1, 2, 4, 8, 16) for hours in (24, 48)]
LINKS_A_SHAPE = 10
REFRESH_S = 600
SITE_NODES, SITE_WAITING, SITE_CHAINS = 5000, 20_000, 1000
SITE_SHAPES = [(n, hours * _HOUR_S) for n in range(1, 9) for hours in (24, 36, 48, 60, 72)]


def draw_links(now: int, rng: np.random.Generator) -> list[list[HandoverInput]]:
    """Draw ten links of each shape, at any point of their predecessors' runs."""
    return [
        [
            _build_link(nodes, limit_s, f"chain-{nodes}-{limit_s}-{i}", now, int(run_s))
            for i, run_s in enumerate(rng.integers(600, limit_s, LINKS_A_SHAPE))
        ]
        for nodes, limit_s in SHAPES
    ]


def _build_link(nodes: int, limit_s: int, user: str, now: int, run_s: int) -> HandoverInput:
    return HandoverInput(
        nodes=nodes,
        time_limit_s=limit_s,
        user=user,
        predecessor_submit=now - run_s,
        predecessor_start=now - run_s,
        predecessor_end=now - run_s + limit_s,
    )


def _ask_together(
    twin: Twin,
    simulator: Simulator,
    history: SubmissionHistory,
    groups: list[list[HandoverInput]],
    share: float,
) -> list[NDArray[np.int32]]:
    """Return the quantiles of each group."""
    now = simulator.now
    links = [link for group in groups for link in group]
    predecessors = {(link.user, link.predecessor_start) for link in links}
    probes = [
        Probe(link=group[0], stakes={(link.predecessor_end - now, TURN) for link in group})
        for group in groups
    ]
    futures = Futures(twin, simulator, history, predecessors, seed=now)
    answers: dict[int, NDArray[np.int32]] = {}
    for places in group_probes(probes, simulator.params, share):
        forecasts = futures.simulate_waits([probes[i] for i in places])
        answers |= {
            i: forecast.compute_quantiles() for i, forecast in zip(places, forecasts, strict=True)
        }
    return [answers[i] for i in range(len(groups))]


def measure_ls6(every_h: int, share: float) -> dict[str, Any]:
    params = load_cluster_params(SHARED / "clusters/ls6.toml")
    jobs = list(load_workload(SHARED / "traces/tacc-ls6-a100.parquet", params).jobs)
    first = min(job.submit for job in jobs) - 1
    main = Simulator(params, Workload.from_jobs(params, jobs), now=first)
    memory = WorldMemory({job.job_id: job for job in jobs}, first)
    rng, twin = np.random.default_rng(7), Twin()
    rows: list[tuple[int, float, list[Any], list[Any]]] = []
    """Of each shape: the instant, what came, both quantiles, both decisions."""
    cpu_s = np.zeros(2)
    for point in range(SINCE, UNTIL, every_h * _HOUR_S):
        memory.follow_world(main, point)
        groups = draw_links(point, rng)
        if not rows:
            _ask_together(twin, main, memory.history, groups, share)  # it compiles
        began_s = time.process_time()
        together = _ask_together(twin, main, memory.history, groups, share)
        together_until = time.process_time()
        forecasts_alone = [
            [twin.forecast_from_simulator(main, link, memory.history, seed=point) for link in group]
            for group in groups
        ]
        cpu_s += (together_until - began_s, time.process_time() - together_until)
        for group, answer, single_forecasts in zip(groups, together, forecasts_alone, strict=True):
            truth = main.fork()
            start = truth.run_until_started(truth.inject(group[0].build_successor(point)))
            assert start is not None  # noqa: S101 - the trace ends much later
            left_s = np.array([link.predecessor_end - point for link in group])
            single = np.array([forecast.compute_quantiles() for forecast in single_forecasts])
            odds = [compute_late_probability(q, left_s) for q in (answer, single)]
            rows.append((point, float(start - point), [answer, single[0]], odds))
    return _report_ls6(rows, cpu_s)


def _report_ls6(
    rows: list[tuple[int, float, list[Any], list[Any]]], cpu_s: Floats
) -> dict[str, Any]:
    loss = np.array([[_pinball_h(truth, q) for q in quantiles] for _, truth, quantiles, _ in rows])
    decisions = np.array([odds for *_, odds in rows]) >= TURN
    is_same = decisions[:, 0] == decisions[:, 1]
    odds = np.array([odds for *_, odds in rows])
    is_unsure = (odds[:, 1] > 0.05) & (odds[:, 1] < 0.95)
    week = np.array([(point - SINCE) // (7 * _DAY_S) for point, *_ in rows])
    sums = np.array([loss[week == w].sum(axis=0) for w in np.unique(week)])
    counts = np.array([(week == w).sum() for w in np.unique(week)])
    drawn_weeks = np.random.default_rng(4).integers(0, len(sums), (2000, len(sums)))
    means = sums[drawn_weeks].sum(axis=1) / counts[drawn_weeks].sum(axis=1)[:, None]
    return {
        "asked": int(decisions[:, 0].size),
        "cpu_s": cpu_s.tolist(),
        "times_fewer_cpu_s": float(cpu_s[1] / cpu_s[0]),
        "pinball_h": loss.mean(axis=0).tolist(),
        "pinball_difference_h": float((loss[:, 0] - loss[:, 1]).mean()),
        "interval_h": np.quantile(means[:, 0] - means[:, 1], (0.025, 0.975)).tolist(),
        "same_decisions_pct": 100.0 * float(is_same.mean()),
        "unsure_ones": int(is_unsure.sum()),
        "same_of_unsure_pct": 100.0 * float(is_same[is_unsure].mean()),
        "largest_difference_of_odds": float(np.abs(odds[:, 0] - odds[:, 1]).max()),
    }


def _pinball_h(truth_s: float, quantile_s: NDArray[np.int32]) -> float:
    levels, over = np.array(LEVELS), truth_s - quantile_s
    return float(np.maximum(levels * over, (levels - 1.0) * over).mean()) / _HOUR_S


class Site:
    """A full machine, its queue and eight days of its past.

    Waiting jobs have all priorities, and each shape of chain one of them, as of its QOS.
    """

    def __init__(self, seed: int = 5) -> None:
        self._rng = np.random.default_rng(seed)
        self._now = EPOCH + 8 * _DAY_S
        self.history = self._build_history(
            generate_whole_nodes(60_000, 1.0, seed=seed, nodes=SITE_NODES)
        )
        self.groups: list[list[HandoverInput]] = [[] for _ in SITE_SHAPES]
        """The hand-overs of each shape."""
        self.priority = (
            self._rng.permutation(len(SITE_SHAPES)) * 10_000 // len(SITE_SHAPES)
        ).tolist()
        running, pending = self._build_chains()
        other_table = generate_whole_nodes(
            SITE_WAITING + SITE_NODES, 1.0, seed=seed + 1, nodes=SITE_NODES
        )
        other_jobs = [_build_job(*row) for _, *row in zip(*_list_columns(other_table), strict=True)]
        used_nodes = sum(job.nodes for job, *_ in running)
        while other_jobs and used_nodes + other_jobs[-1].nodes <= SITE_NODES:
            job = replace(other_jobs.pop(), job_id=200_000 + used_nodes)
            since = self._now - int(self._rng.integers(0, job.time_limit_s))
            running.append((job, since, range(used_nodes, used_nodes + job.nodes)))
            used_nodes += job.nodes
        for i, job in enumerate(other_jobs[: SITE_WAITING - SITE_CHAINS]):
            priority = int(self._rng.integers(0, 10_000))
            waiting_job = replace(job, job_id=i + 1, submit=self._now, priority=priority)
            pending.append((waiting_job, self._now))
        self.simulator = Simulator.from_queue(
            build_whole_node_params(SITE_NODES), now=self._now, running=running, pending=pending
        )

    def _build_history(self, past: Table) -> SubmissionHistory:
        """Each past job has waited for some hours."""
        history = SubmissionHistory(EPOCH)
        events: list[tuple[int, int, bool]] = []
        for i, (at, *row) in enumerate(zip(*_list_columns(past), strict=True)):
            if at <= self._now:
                job = _build_job(*row)
                history.record_submit(at, i, job)
                start = at + int(self._rng.exponential(4 * _HOUR_S))
                events += [(start, i, True), (start + job.run_s, i, False)]
        for at, i, starts in sorted(events):
            if at <= self._now:
                (history.record_start if starts else history.record_end)(at, i)
        return history

    def _build_chains(
        self,
    ) -> tuple[list[tuple[SimJob, int, range]], list[tuple[SimJob, int | None]]]:
        """Return the running predecessors, and the successors behind them. Narrow ones are more."""
        weight = np.array([1.0 / nodes for nodes, _ in SITE_SHAPES])
        shapes = self._rng.choice(len(SITE_SHAPES), SITE_CHAINS, p=weight / weight.sum())
        running: list[tuple[SimJob, int, range]] = []
        pending: list[tuple[SimJob, int | None]] = []
        used_nodes = 0
        for i, shape in enumerate(shapes.tolist()):
            nodes, limit_s = SITE_SHAPES[shape]
            predecessor = SimJob(
                job_id=100_001 + i,
                nodes=nodes,
                time_limit_s=limit_s,
                run_s=limit_s,
                user=f"chain-{i}",
            )
            run_s = int(self._rng.integers(1, limit_s))
            running.append((predecessor, self._now - run_s, range(used_nodes, used_nodes + nodes)))
            used_nodes += nodes
            dependencies = build_afterany(predecessor.job_id)
            standby = replace(predecessor, job_id=300_001 + i, dependencies=dependencies)
            pending.append((replace(standby, submit=self._now - run_s), None))
            link = _build_link(nodes, limit_s, predecessor.user, self._now, run_s)
            self.groups[shape].append(replace(link, job_id=standby.job_id))
        return running, pending

    def list_probes(self) -> list[Probe]:
        """List one question a shape, for the hand-overs that are still open."""
        now = self.simulator.now
        waiting = {job.job_id for job in self.simulator.list_pending()}
        open_groups = [[link for link in group if link.job_id in waiting] for group in self.groups]
        return [
            Probe(
                link=group[0],
                priority=priority,
                stakes={(link.predecessor_end - now, TURN) for link in group},
            )
            for group, priority in zip(open_groups, self.priority, strict=True)
            if group
        ]


def _list_columns(table: Table) -> tuple[list[int], ...]:
    return tuple(
        c.tolist() for c in (table.submit, table.nodes, table.limit_s, table.run_s, table.user)
    )


def _build_job(nodes: int, limit_s: int, run_s: int, user: int) -> SimJob:
    return SimJob(nodes=nodes, time_limit_s=limit_s, run_s=run_s, user=f"u{user:03}")


def measure_site(rounds: int, samples: int) -> dict[str, Any]:
    site, rows = Site(), list[dict[str, float]]()
    simulator = site.simulator
    predecessors = {(link.user, link.predecessor_start) for group in site.groups for link in group}
    for k in range(rounds + 1):
        probes = site.list_probes()
        twin = Twin(samples=samples if k else 2)  # the first round compiles
        began_s = time.process_time()
        futures = Futures(twin, simulator, site.history, predecessors, seed=simulator.now)
        probe_groups = group_probes(probes, simulator.params)
        answers = [
            row for p in probe_groups for row in futures.simulate_waits([probes[i] for i in p])
        ]
        cpu_s = time.process_time() - began_s
        rows.append(
            {
                "hand_overs": sum(len(probe.stakes) for probe in probes),
                "groups": len(probes),
                "asked_apart": len(probe_groups),
                "futures": float(np.mean([len(row.wait_s) for row in answers])),
                "median_wait_h": float(np.median(np.concatenate([row.wait_s for row in answers])))
                / _HOUR_S,
                "cpu_s": cpu_s,
                "share_of_a_core": cpu_s / REFRESH_S,
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if k:
            simulator.advance(simulator.now + REFRESH_S)
    share = float(np.mean([row["share_of_a_core"] for row in rows[1:]]))
    return {"rounds": rows[1:], "share_of_a_core": share}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=("ls6", "site"))
    parser.add_argument("--every-h", type=int, default=40)
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=100)
    options = parser.parse_args()
    if options.part == "ls6" and not SHARED.is_dir():
        sys.exit(f"twin_groups: the traces are not there: {SHARED}")
    result = (
        measure_ls6(options.every_h, options.share)
        if options.part == "ls6"
        else measure_site(options.rounds, options.samples)
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
