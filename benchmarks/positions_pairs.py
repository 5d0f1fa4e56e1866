"""Pairs in every regime: positions against one move, on the same start points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.positions_regimes import HOUR_S, LIMIT_S, SINCE, UNTIL, Regime, Site, started_by
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
"""Read off the table of one-move outcomes; the last two are known only afterwards."""
ONE_MOVE = ("reactive", "average", "fixed-lead", "best lead")
EVERY = 3
"""The oracle and the constant lead know every third of the ten-minute instants."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """One regime, one size."""

    regime: Regime
    nodes: int
    every_h: int

    @property
    def name(self) -> str:
        return f"{self.regime.name}, {self.nodes} node{'s' * (self.nodes > 1)}"

    def measured(self) -> dict[str, Any]:
        """Of every policy: outcome in hours and touches of each hand-over, by start point."""
        site = Site.of(self.regime)
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
        waits = started_by(site.params, site.jobs)
        points: list[int] = []
        table: list[Floats] = []
        starts: list[int] = []
        moved: dict[str, list[tuple[float, int]]] = {p.name: [] for p in POLICIES}
        instants = np.append(settings.instant_s[:-1:EVERY], settings.instant_s[-1])
        for point, world in _worlds(worlds, settings):
            points.append(point)
            starts.append(world.start)
            for policy in POLICIES:
                standby = _standby(world, worlds)
                handover = run_handover(
                    world.sim.fork(),
                    standby,
                    policy,
                    waits,
                    step_s=STEP_S,
                    at_most=world.at_most,
                )
                moved[policy.name].append((handover.outcome_s / HOUR_S, handover.touches))
            table.append(world.compute_outcomes(world.start + instants.astype(np.int64)) / HOUR_S)
        return {
            "points": points,
            "policies": {n: list(zip(*v, strict=True)) for n, v in moved.items()},
        } | _of_one_move(np.array(table), np.array(starts), instants.astype(np.int64))


def _worlds(worlds: TraceReplay, settings: PairSettings) -> Iterator[tuple[int, ReplayFork]]:
    for point in settings.start_points:
        world = worlds.fork_without_history(point)
        if world is None:
            continue
        twin = replace(world, sim=world.sim.fork())
        twin.sim.advance(world.end)
        if twin.has_run_to_limit():
            yield point, world


def _standby(world: ReplayFork, worlds: TraceReplay) -> Standby:
    predecessor = world.sim.find(world.predecessor)
    return Standby(
        predecessor=world.predecessor,
        job_id=world.standby,
        job=worlds.link,
        node_list=() if predecessor is None else predecessor.allocated,
        end=world.end,
    )


def _of_one_move(table: Floats, starts: Ints, instants: Ints) -> dict[str, Any]:
    """What one move does by the past's best lead, and could have done: at best each time, and with
    the one best constant lead. `table`: [E, T] outcomes in hours."""
    rows, last = np.arange(len(table)), table.shape[1] - 1
    cost = _cost(table)
    best = last - cost[:, ::-1].argmin(axis=1)
    constant = np.full(len(table), int(cost.mean(axis=0).argmin()))
    chosen = {
        "fixed-lead": _fixed_lead(table, starts, instants),
        "best lead": constant,
        "oracle": best,
    }
    figures_by_name: dict[str, Any] = {
        name: [table[rows, k].tolist(), (k < last).astype(float).tolist()]
        for name, k in chosen.items()
    }
    return figures_by_name | {"lead_h": float(instants[-1] - instants[constant[0]]) / HOUR_S}


def _fixed_lead(table: Floats, starts: Ints, instants: Ints) -> Ints:
    """The rule that ships, all hand-overs beside each other in time: each knows those whose
    successor has started by then."""
    rule, last = FixedLead(), len(instants) - 1
    chosen = np.full(len(table), -1, dtype=np.int64)
    known: list[tuple[int, int]] = []
    moments = sorted((s + t, i, k) for i, s in enumerate(starts) for k, t in enumerate(instants))
    for now, i, k in moments:
        if chosen[i] >= 0:
            continue
        past = sorted(row for row in known if row[0] <= now)
        waits = np.array([wait for _, wait in past], dtype=np.int64)
        view = _bare_view(now, starts[i] + instants[-1], waits)
        if k == last or rule.decide(view).action is Action.FREE:
            chosen[i] = k
            start = int(starts[i] + instants[-1] + round(table[i, k] * HOUR_S))
            known.append((start, start - now))
    return chosen


def _bare_view(now: int, end: int, waits: Ints) -> PolicyView:
    """As much of it as this rule reads."""
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


def _cost(outcome_h: Floats) -> Floats:
    cost_h: Floats = np.maximum(outcome_h, 0.0) + OVERLAP_PRICE * np.maximum(-outcome_h, 0.0)
    return cost_h


def figures(measured: dict[str, Any]) -> dict[str, Any]:
    """Per policy: means, and its cost less that of reactive and of the best one-move rule."""
    rows = {n: np.array(v) for n, v in measured["policies"].items()}
    rows |= {n: np.array(measured[n]) for n in AFTERWARDS}
    costs = {name: _cost(row[0]) for name, row in rows.items()}
    one_move = min(ONE_MOVE, key=lambda name: float(costs[name].mean()))
    counts = draw_day_counts(np.array(measured["points"]))
    return {
        "handovers": len(measured["points"]),
        "best_one_move": one_move,
        "best_lead_h": measured["lead_h"],
        "policies": {
            name: {
                "cost_h": float(costs[name].mean()),
                "interruption_h": float(np.maximum(row[0], 0.0).mean()),
                "overlap_h": float(np.maximum(-row[0], 0.0).mean()),
                "zero_interruption_pct": float(100.0 * (row[0] <= 0.0).mean()),
                "touches": float(row[1].mean()),
                "less_reactive_h": _difference(counts, costs[name] - costs["reactive"]),
                "less_one_move_h": _difference(counts, costs[name] - costs[one_move]),
                "less_oracle_h": _difference(counts, costs[name] - costs["oracle"]),
            }
            for name, row in rows.items()
        },
    }


def _difference(counts: Floats, values: Floats) -> list[float]:
    """The mean, and the ends of its interval."""
    interval = compute_interval(compute_means(counts, values))
    return [float(values.mean()), *(interval or (np.nan, np.nan))]
