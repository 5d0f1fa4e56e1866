"""Chains among the log's jobs in a full replay: what they gain, and what others wait for it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.positions_pairs import POLICIES
from benchmarks.positions_regimes import (
    DAY_S,
    HOUR_S,
    LIMIT_S,
    SINCE,
    UNTIL,
    Regime,
    Site,
    run_shares,
)
from mirage.domain.handover import Handover
from mirage.judging.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.lab.episodes.chains.chain_replay import ChainReplay, ChainSlot
from mirage.simulator.packing.workload import Workload
from mirage.simulator.types import Params, SimJob

Floats = NDArray[np.float64]
SEED = 4
LOADS: dict[int, tuple[int, ...]] = {5: (1, 1, 1, 1), 20: (1, 1, 1, 8, 8)}
"""Widths of the chains at once, by their share of the machine's node-hours in per cent."""
CHAINS = {False: 6, True: 16}
"""Of each slot, by whether links end early: the same work under every policy, done in the weeks."""
APART_S = 7 * HOUR_S
"""Between the first submissions of two slots."""
SHIFTS_H = (0, 16, 32)
"""Every replay is made with the first submissions shifted by so much: one could be luck."""


@dataclass(frozen=True, slots=True)
class Load:
    """One regime, so much of the machine in chains, one policy."""

    regime: Regime
    per_cent: int
    early: bool
    """Links end as the log's jobs do, instead of at their limit."""
    policy: str

    @property
    def name(self) -> str:
        ends = "ends of the log" if self.early else "ends at the limit"
        return f"{self.regime.name}, {self.per_cent} %, {ends}, {self.policy}"

    def measured(self) -> dict[str, Any]:
        site = Site.of(self.regime)
        return {"replays": [self._replayed(site, shift_h) for shift_h in SHIFTS_H]}

    def _replayed(self, site: Site, shift_h: int) -> dict[str, Any]:
        widths = LOADS.get(self.per_cent, ())
        params = _enlarged(site.params, sum(widths))
        policy = next(p for p in POLICIES if p.name == self.policy)
        shares = run_shares(site.jobs) if self.early else np.ones(1)
        replay = ChainReplay(
            params,
            Workload.from_jobs(params, [*site.jobs, *_account_holders(widths)]),
            tuple(_slots(widths, CHAINS[self.early], SINCE + shift_h * HOUR_S)),
            policy,
            lambda *link: _run_s(shares, link),
            UNTIL + 14 * DAY_S,
        )
        start = replay.run().start
        rows = _of_the_weeks(site)
        wait_s = np.where(start[rows] >= 0, start[rows] - replay.workload.submit[rows], -1)
        return {
            "submit": replay.workload.submit[rows].tolist(),
            "wait_s": wait_s.tolist(),
            "handovers": _handed(replay),
            "chains": _chains(replay),
        }


def _of_the_weeks(site: Site) -> NDArray[np.int64]:
    submit = np.array([j.submit for j in site.jobs])
    return np.flatnonzero((submit >= SINCE) & (submit < UNTIL))


def _enlarged(params: Params, nodes: int) -> Params:
    """The machine and the nodes that the chains take: the log's jobs find the load they had."""
    return replace(params, nodes=params.nodes + nodes)


def _job(nodes: int, user: str) -> SimJob:
    return SimJob(nodes=nodes, exclusive=True, time_limit_s=LIMIT_S, run_s=LIMIT_S, user=user)


def _slots(widths: tuple[int, ...], chains: int, first: int) -> list[ChainSlot]:
    return [
        ChainSlot(first=first + i * APART_S, job=_job(nodes, f"chain-{i}"), chains=chains)
        for i, nodes in enumerate(widths)
    ]


def _account_holders(widths: tuple[int, ...]) -> list[SimJob]:
    """Jobs that nobody lives to see: fair share knows the chains' users from the beginning."""
    return [
        replace(_job(1, f"chain-{i}"), job_id=10**8 + i, submit=UNTIL + 400 * DAY_S, cancel_at=1)
        for i in range(len(widths))
    ]


def _run_s(shares: Floats, link: tuple[int, ...]) -> int:
    share = np.random.default_rng([SEED, *link]).choice(shares)
    return max(60, round(float(share) * LIMIT_S))


def _handed(replay: ChainReplay) -> list[list[int]]:
    """Of each hand-over that is over: end, start, touches, nodes."""
    ends = {run.job_id: run.end for run in replay.runs}
    handovers = []
    for run in replay.runs:
        end = ends[run.standby.predecessor] if run.standby else None
        if run.standby is not None and end is not None and run.start is not None:
            nodes = replay.slots[run.slot].job.nodes
            handovers.append([end, run.start, run.standby.touches, nodes])
    return handovers


def _chains(replay: ChainReplay) -> list[list[float]]:
    """Of chains whose links have all run: hours from first start to last end, covered, run."""
    figures = []
    for slot, chain in sorted({(r.slot, r.chain) for r in replay.runs}):
        runs = [r for r in replay.runs if (r.slot, r.chain) == (slot, chain)]
        spans = [(r.start, r.end) for r in runs if r.start is not None and r.end is not None]
        if len(spans) == replay.links:
            figures.append([*_covered(spans), float(replay.slots[slot].job.nodes)])
    return figures


def _covered(spans: list[tuple[int, int]]) -> tuple[float, float, float]:
    covered, reached = 0, spans[0][0]
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    ran = sum(end - start for start, end in spans)
    return (reached - spans[0][0]) / HOUR_S, covered / HOUR_S, ran / HOUR_S


def others(measured: dict[str, Any], reactive: dict[str, Any] | None) -> dict[str, Any]:
    """Waits of the log's own jobs, hours; `reactive`: the same replays under reactive."""
    wait_h = _waits_h(measured)
    started = wait_h >= 0
    figures: dict[str, Any] = {
        "wait_mean_h": float(wait_h[started].mean()),
        "wait_p90_h": float(np.quantile(wait_h[started], 0.9)),
    }
    if reactive is not None:
        theirs = _waits_h(reactive)
        both = started & (theirs >= 0)
        more = wait_h[both] - theirs[both]
        submit = np.concatenate([r["submit"] for r in measured["replays"]])
        low, high = compute_interval(compute_means(draw_day_counts(submit[both]), more)) or (
            np.nan,
            np.nan,
        )
        figures["more_than_reactive_h"] = [float(more.mean()), low, high]
        figures["p90_more_h"] = figures["wait_p90_h"] - float(np.quantile(theirs[theirs >= 0], 0.9))
    return figures


def _waits_h(measured: dict[str, Any]) -> Floats:
    """Of all replays; negative: never started."""
    return np.concatenate([np.array(r["wait_s"]) / HOUR_S for r in measured["replays"]])


def chain_figures(measured: dict[str, Any], reactive: dict[str, Any] | None) -> dict[str, Any]:
    """Of the chains: means a hand-over, and the share of the time that 7 links cover."""
    handed = _rows(measured, "handovers")
    if not len(handed):
        return {}
    cost = _costs(handed)
    outcome_h = (handed[:, 1] - handed[:, 0]) / HOUR_S
    figures: dict[str, Any] = {
        "handovers": len(handed),
        "cost_h": float(cost.mean()),
        "interruption_h": float(np.maximum(outcome_h, 0.0).mean()),
        "overlap_h": float(np.maximum(-outcome_h, 0.0).mean()),
        "touches": float(handed[:, 2].mean()),
        "most_touches": int(handed[:, 2].max()),
    }
    if reactive is not None:
        figures["less_reactive_h"] = _less(handed, _rows(reactive, "handovers"))
    span, covered, ran, nodes = _rows(measured, "chains").T
    return figures | {
        "chains": len(span),
        "covered_pct": float(100.0 * covered.sum() / span.sum()),
        "node_h": float((ran * nodes).sum()) / len(SHIFTS_H),
        "twice_node_h": float(((ran - covered) * nodes).sum()) / len(SHIFTS_H),
    }


def _rows(measured: dict[str, Any], name: str) -> Floats:
    rows = [row for replay in measured["replays"] for row in replay[name]]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _costs(handed: Floats) -> Floats:
    pairs = [Handover(int(end), int(start)) for end, start in handed[:, :2]]
    return np.array([p.compute_cost_h() for p in pairs])


def _less(mine: Floats, theirs: Floats) -> list[float]:
    """The difference of mean costs. Replays run apart, so hand-overs are not paired one by one:
    days of the predecessors' ends are drawn, of both."""
    ends = np.concatenate([mine[:, 0], theirs[:, 0]])
    counts = draw_day_counts(ends.astype(np.int64))
    ours, others_ = _costs(mine), _costs(theirs)
    drawn = compute_means(counts[:, : len(mine)], ours) - compute_means(
        counts[:, len(mine) :], others_
    )
    low, high = compute_interval(drawn) or (np.nan, np.nan)
    return [float(ours.mean() - others_.mean()), low, high]
