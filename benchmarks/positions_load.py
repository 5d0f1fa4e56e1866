"""Chains among the log's jobs in a full replay: what they gain, and what others wait for it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.chain_replay import ChainReplay, ChainSlot
from benchmarks.positions_pairs import POLICIES
from benchmarks.positions_regimes import (
    DAY_S,
    HOUR_S,
    LIMIT_S,
    SINCE,
    UNTIL,
    Regime,
    Site,
    list_run_shares,
)
from mirage.domain.handover import Handover
from mirage.judging.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.simulator.packing.workload import Workload
from mirage.simulator.types import Params, SimJob

Floats = NDArray[np.float64]
SEED = 4
LOADS: dict[int, tuple[int, ...]] = {5: (1, 1, 1, 1), 20: (1, 1, 1, 8, 8)}
"""The widths of the chains that run at once, by their per cent of the machine's node-hours."""
CHAINS = {False: 6, True: 16}
"""The number of chains of each slot, by whether links end early: the same work for every policy."""
APART_S = 7 * HOUR_S
"""Seconds between the first submissions of two slots."""
SHIFTS_H = (0, 16, 32)
"""Hours by which the first submissions are shifted, one replay each: a single one could be luck."""


@dataclass(frozen=True, slots=True)
class Load:
    """A regime, the share of the machine that chains take, and a policy."""

    regime: Regime
    per_cent: int
    ends_early: bool
    """Links end as the log's jobs do, instead of at their limit."""
    policy: str

    @property
    def name(self) -> str:
        ends = "ends of the log" if self.ends_early else "ends at the limit"
        return f"{self.regime.name}, {self.per_cent} %, {ends}, {self.policy}"

    def measure(self) -> dict[str, Any]:
        site = Site.from_regime(self.regime)
        return {"replays": [self._replay(site, shift_h) for shift_h in SHIFTS_H]}

    def _replay(self, site: Site, shift_h: int) -> dict[str, Any]:
        widths = LOADS.get(self.per_cent, ())
        params = _enlarge_cluster(site.params, sum(widths))
        policy = next(p for p in POLICIES if p.name == self.policy)
        shares = list_run_shares(site.jobs) if self.ends_early else np.ones(1)
        replay = ChainReplay(
            params,
            Workload.from_jobs(params, [*site.jobs, *_build_account_holders(widths)]),
            tuple(_build_slots(widths, CHAINS[self.ends_early], SINCE + shift_h * HOUR_S)),
            policy,
            lambda *link: _draw_run_s(shares, link),
            UNTIL + 14 * DAY_S,
        )
        start = replay.run().start
        rows = _find_rows_of_weeks(site)
        wait_s = np.where(start[rows] >= 0, start[rows] - replay.workload.submit[rows], -1)
        return {
            "submit": replay.workload.submit[rows].tolist(),
            "wait_s": wait_s.tolist(),
            "handovers": _list_handovers(replay),
            "chains": _list_chains(replay),
        }


def _find_rows_of_weeks(site: Site) -> NDArray[np.int64]:
    submit = np.array([j.submit for j in site.jobs])
    return np.flatnonzero((submit >= SINCE) & (submit < UNTIL))


def _enlarge_cluster(params: Params, nodes: int) -> Params:
    """Add the nodes that the chains take, so that the log's jobs find the load that they had."""
    return replace(params, nodes=params.nodes + nodes)


def _build_job(nodes: int, user: str) -> SimJob:
    return SimJob(nodes=nodes, exclusive=True, time_limit_s=LIMIT_S, run_s=LIMIT_S, user=user)


def _build_slots(widths: tuple[int, ...], chains: int, first: int) -> list[ChainSlot]:
    return [
        ChainSlot(first=first + i * APART_S, job=_build_job(nodes, f"chain-{i}"), chains=chains)
        for i, nodes in enumerate(widths)
    ]


def _build_account_holders(widths: tuple[int, ...]) -> list[SimJob]:
    """Build jobs that never run, so that fair share knows the chains' users from the beginning."""
    return [
        replace(
            _build_job(1, f"chain-{i}"), job_id=10**8 + i, submit=UNTIL + 400 * DAY_S, cancel_at=1
        )
        for i in range(len(widths))
    ]


def _draw_run_s(shares: Floats, link: tuple[int, ...]) -> int:
    share = np.random.default_rng([SEED, *link]).choice(shares)
    return max(60, round(float(share) * LIMIT_S))


def _list_handovers(replay: ChainReplay) -> list[list[int]]:
    """List end, start, touches and nodes of each hand-over that is over."""
    ends = {run.job_id: run.end for run in replay.runs}
    handovers = []
    for run in replay.runs:
        end = ends[run.standby.predecessor] if run.standby else None
        if run.standby is not None and end is not None and run.start is not None:
            nodes = replay.slots[run.slot].job.nodes
            handovers.append([end, run.start, run.standby.touches, nodes])
    return handovers


def _list_chains(replay: ChainReplay) -> list[list[float]]:
    """List the hours in all, covered and run, and the nodes of chains whose links have all run."""
    figures = []
    for slot, chain in sorted({(r.slot, r.chain) for r in replay.runs}):
        runs = [r for r in replay.runs if (r.slot, r.chain) == (slot, chain)]
        spans = [(r.start, r.end) for r in runs if r.start is not None and r.end is not None]
        if len(spans) == replay.links:
            figures.append([*_compute_coverage(spans), float(replay.slots[slot].job.nodes)])
    return figures


def _compute_coverage(spans: list[tuple[int, int]]) -> tuple[float, float, float]:
    covered_s, reached_at = 0, spans[0][0]
    for start, end in sorted(spans):
        covered_s += max(0, end - max(start, reached_at))
        reached_at = max(reached_at, end)
    run_s = sum(end - start for start, end in spans)
    return (reached_at - spans[0][0]) / HOUR_S, covered_s / HOUR_S, run_s / HOUR_S


def summarize_others(
    measurement: dict[str, Any], reactive: dict[str, Any] | None
) -> dict[str, Any]:
    """Summarize the waits of the log's jobs, hours; `reactive`: the same replays under reactive."""
    wait_h = _read_waits_h(measurement)
    started = wait_h >= 0
    figures: dict[str, Any] = {
        "wait_mean_h": float(wait_h[started].mean()),
        "wait_p90_h": float(np.quantile(wait_h[started], 0.9)),
    }
    if reactive is not None:
        reactive_wait_h = _read_waits_h(reactive)
        has_both = started & (reactive_wait_h >= 0)
        extra_wait_h = wait_h[has_both] - reactive_wait_h[has_both]
        submit = np.concatenate([r["submit"] for r in measurement["replays"]])
        low, high = compute_interval(
            compute_means(draw_day_counts(submit[has_both]), extra_wait_h)
        ) or (
            np.nan,
            np.nan,
        )
        figures["more_than_reactive_h"] = [float(extra_wait_h.mean()), low, high]
        figures["p90_more_h"] = figures["wait_p90_h"] - float(
            np.quantile(reactive_wait_h[reactive_wait_h >= 0], 0.9)
        )
    return figures


def _read_waits_h(measurement: dict[str, Any]) -> Floats:
    """Return the waits of all replays, hours; negative: never started."""
    return np.concatenate([np.array(r["wait_s"]) / HOUR_S for r in measurement["replays"]])


def summarize_chains(
    measurement: dict[str, Any], reactive: dict[str, Any] | None
) -> dict[str, Any]:
    """Summarize the chains: means of the hand-overs, and the share of the time that links cover."""
    handovers = _read_rows(measurement, "handovers")
    if not len(handovers):
        return {}
    cost = _compute_costs(handovers)
    outcome_h = (handovers[:, 1] - handovers[:, 0]) / HOUR_S
    figures: dict[str, Any] = {
        "handovers": len(handovers),
        "cost_h": float(cost.mean()),
        "interruption_h": float(np.maximum(outcome_h, 0.0).mean()),
        "overlap_h": float(np.maximum(-outcome_h, 0.0).mean()),
        "touches": float(handovers[:, 2].mean()),
        "most_touches": int(handovers[:, 2].max()),
    }
    if reactive is not None:
        figures["less_reactive_h"] = _compute_difference(
            handovers, _read_rows(reactive, "handovers")
        )
    span_h, covered_h, run_h, nodes = _read_rows(measurement, "chains").T
    return figures | {
        "chains": len(span_h),
        "covered_pct": float(100.0 * covered_h.sum() / span_h.sum()),
        "node_h": float((run_h * nodes).sum()) / len(SHIFTS_H),
        "twice_node_h": float(((run_h - covered_h) * nodes).sum()) / len(SHIFTS_H),
    }


def _read_rows(measurement: dict[str, Any], name: str) -> Floats:
    rows = [row for replay in measurement["replays"] for row in replay[name]]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _compute_costs(handovers: Floats) -> Floats:
    pairs = [Handover(int(end), int(start)) for end, start in handovers[:, :2]]
    return np.array([p.compute_cost_h() for p in pairs])


def _compute_difference(own_rows: Floats, reactive_rows: Floats) -> list[float]:
    """Compute the difference of mean costs. The replays differ, so hand-overs are not paired one by
    one: days of the predecessors' ends are drawn, of both."""
    ends = np.concatenate([own_rows[:, 0], reactive_rows[:, 0]])
    counts = draw_day_counts(ends.astype(np.int64))
    own_costs, reactive_costs = _compute_costs(own_rows), _compute_costs(reactive_rows)
    differences = compute_means(counts[:, : len(own_rows)], own_costs) - compute_means(
        counts[:, len(own_rows) :], reactive_costs
    )
    low, high = compute_interval(differences) or (np.nan, np.nan)
    return [float(own_costs.mean() - reactive_costs.mean()), low, high]
