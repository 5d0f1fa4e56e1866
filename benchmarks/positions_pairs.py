"""Pairs in every regime: positions against one move, on the same start points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.positions_regimes import (
    HOUR_S,
    LIMIT_S,
    SINCE,
    UNTIL,
    Regime,
    Site,
    build_wait_reader,
)
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.decision import Action, PolicyView
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue
from mirage.judging.day_bootstrap import compute_interval, compute_means, draw_day_counts
from mirage.judging.table.metadata import STEP_S
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.episodes.chains.standby import NO_WAITS, Standby, run_handover
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.lab.episodes.generation.replay_fork import ReplayFork
from mirage.policies.rules.lead_rules import Average, FixedLead, Reactive
from mirage.policies.rules.pinning import Pin, PinThenFree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
POLICIES: tuple[Policy, ...] = (Reactive(), Average(), Pin(), PinThenFree())
AFTERWARDS = ("fixed-lead", "best lead", "oracle")
"""Policies whose outcomes are read from the table of one-move outcomes. The last two are known only
afterwards."""
ONE_MOVE = ("reactive", "average", "fixed-lead", "best lead")
EVERY = 3
"""The oracle and the constant lead know every third of the ten-minute instants."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A regime and a size of chain."""

    regime: Regime
    nodes: int
    every_h: int

    @property
    def name(self) -> str:
        return f"{self.regime.name}, {self.nodes} node{'s' * (self.nodes > 1)}"

    def measure(self) -> dict[str, Any]:
        """Measure outcome in hours and touches of each hand-over under every policy."""
        site = Site.from_regime(self.regime)
        settings = PairSettings(
            nodes=self.nodes,
            time_limit_s=LIMIT_S,
            every_s=self.every_h * HOUR_S,
            since=SINCE,
            until=UNTIL,
            user=site.user,
        )
        worlds = TraceReplay(site.params, site.jobs, settings)
        if self.regime.gpus:
            worlds.link = replace(worlds.link, exclusive=False, cpus=1, gpus=self.regime.gpus)
        waits = build_wait_reader(site.params, site.jobs)
        points: list[int] = []
        table: list[Floats] = []
        starts: list[int] = []
        outcomes_by_policy: dict[str, list[tuple[float, int]]] = {p.name: [] for p in POLICIES}
        instants = np.append(settings.instant_s[:-1:EVERY], settings.instant_s[-1])
        for point, world in _iter_worlds(worlds, settings):
            points.append(point)
            starts.append(world.start)
            for policy in POLICIES:
                standby = _build_standby(world, worlds)
                handover = run_handover(
                    world.sim.fork(),
                    standby,
                    policy,
                    waits,
                    step_s=STEP_S,
                    at_most=world.at_most,
                )
                outcomes_by_policy[policy.name].append(
                    (handover.outcome_s / HOUR_S, handover.touches)
                )
            table.append(world.compute_outcomes(world.start + instants.astype(np.int64)) / HOUR_S)
        return {
            "points": points,
            "policies": {
                name: list(zip(*pairs, strict=True)) for name, pairs in outcomes_by_policy.items()
            },
        } | _compute_one_move(np.array(table), np.array(starts), instants.astype(np.int64))


def _iter_worlds(worlds: TraceReplay, settings: PairSettings) -> Iterator[tuple[int, ReplayFork]]:
    for point in settings.start_points:
        world = worlds.fork_without_history(point)
        if world is None:
            continue
        copy = replace(world, sim=world.sim.fork())
        copy.sim.advance(world.end)
        if copy.has_run_to_limit():
            yield point, world


def _build_standby(world: ReplayFork, worlds: TraceReplay) -> Standby:
    predecessor = world.sim.find(world.predecessor)
    return Standby(
        predecessor=world.predecessor,
        job_id=world.standby,
        job=worlds.link,
        node_list=() if predecessor is None else predecessor.allocated,
        end=world.end,
    )


def _compute_one_move(table: Floats, starts: Ints, instants: Ints) -> dict[str, Any]:
    """Compute the outcomes of one move: by the past's best lead, at the best instant each time, and
    with the one best constant lead. `table`: [E, T] outcomes in hours."""
    row_numbers, last = np.arange(len(table)), table.shape[1] - 1
    cost = _compute_costs(table)
    best_instants = last - cost[:, ::-1].argmin(axis=1)
    constant_instants = np.full(len(table), int(cost.mean(axis=0).argmin()))
    chosen = {
        "fixed-lead": _choose_fixed_leads(table, starts, instants),
        "best lead": constant_instants,
        "oracle": best_instants,
    }
    figures_by_name: dict[str, Any] = {
        name: [table[row_numbers, k].tolist(), (k < last).astype(float).tolist()]
        for name, k in chosen.items()
    }
    return figures_by_name | {
        "lead_h": float(instants[-1] - instants[constant_instants[0]]) / HOUR_S
    }


def _choose_fixed_leads(table: Floats, starts: Ints, instants: Ints) -> Ints:
    """Choose by the rule `fixed-lead`, all hand-overs at their own times: each knows those whose
    successor has started by then."""
    rule, last = FixedLead(), len(instants) - 1
    chosen = np.full(len(table), -1, dtype=np.int64)
    known_waits: list[tuple[int, int]] = []
    moments = sorted((s + t, i, k) for i, s in enumerate(starts) for k, t in enumerate(instants))
    for now, i, k in moments:
        if chosen[i] >= 0:
            continue
        past_waits = sorted(row for row in known_waits if row[0] <= now)
        waits = np.array([wait for _, wait in past_waits], dtype=np.int64)
        view = _build_bare_view(now, starts[i] + instants[-1], waits)
        if k == last or rule.decide(view).action is Action.FREE:
            chosen[i] = k
            start = int(starts[i] + instants[-1] + round(table[i, k] * HOUR_S))
            known_waits.append((start, start - now))
    return chosen


def _build_bare_view(now: int, end: int, waits: Ints) -> PolicyView:
    """Build a view with only the fields that this rule reads."""
    handovers = replace(NO_WAITS, wait_s=waits)
    return PolicyView(
        now=int(now),
        predecessor_end=int(end),
        partition="",
        nodes=1,
        time_limit_s=LIMIT_S,
        jobs=NO_WAITS,
        handovers=handovers,
        queue=Queue.from_jobs(int(now), ()),
        free_nodes=0,
    )


def _compute_costs(outcome_h: Floats) -> Floats:
    cost_h: Floats = np.maximum(outcome_h, 0.0) + OVERLAP_PRICE * np.maximum(-outcome_h, 0.0)
    return cost_h


def summarize_pairs(measurement: dict[str, Any]) -> dict[str, Any]:
    """Summarize each policy: means, and its cost less that of reactive and of the best rule."""
    rows = {name: np.array(values) for name, values in measurement["policies"].items()}
    rows |= {name: np.array(measurement[name]) for name in AFTERWARDS}
    costs = {name: _compute_costs(row[0]) for name, row in rows.items()}
    one_move = min(ONE_MOVE, key=lambda name: float(costs[name].mean()))
    counts = draw_day_counts(np.array(measurement["points"]))
    return {
        "handovers": len(measurement["points"]),
        "best_one_move": one_move,
        "best_lead_h": measurement["lead_h"],
        "policies": {
            name: {
                "cost_h": float(costs[name].mean()),
                "interruption_h": float(np.maximum(row[0], 0.0).mean()),
                "overlap_h": float(np.maximum(-row[0], 0.0).mean()),
                "zero_interruption_pct": float(100.0 * (row[0] <= 0.0).mean()),
                "touches": float(row[1].mean()),
                "less_reactive_h": _compute_mean_interval(counts, costs[name] - costs["reactive"]),
                "less_one_move_h": _compute_mean_interval(counts, costs[name] - costs[one_move]),
                "less_oracle_h": _compute_mean_interval(counts, costs[name] - costs["oracle"]),
            }
            for name, row in rows.items()
        },
    }


def _compute_mean_interval(counts: Floats, values: Floats) -> list[float]:
    """Return the mean, and the ends of its interval."""
    interval = compute_interval(compute_means(counts, values))
    return [float(values.mean()), *(interval or (np.nan, np.nan))]
