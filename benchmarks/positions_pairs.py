"""Pairs in every regime: positions against one move, on the same start points."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.positions_regimes import HOUR_S, LIMIT_S, SINCE, UNTIL, Regime, Site, started_by
from mirage.domain.handover import OVERLAP_PRICE
from mirage.episodes.bootstrap import day_counts, interval, means
from mirage.episodes.settings import Settings
from mirage.episodes.standby import Standby, hand_over
from mirage.episodes.table import STEP_S
from mirage.episodes.world import World
from mirage.episodes.worlds import Worlds
from mirage.policy.positions import Pin, PinThenFree
from mirage.policy.rules import Average, Reactive

Floats = NDArray[np.float64]
POLICIES = (Reactive(), Average(), Pin(), PinThenFree())
ONE_MOVE = ("reactive", "average", "best lead")
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
        settings = Settings(
            nodes=self.nodes,
            time_limit_s=LIMIT_S,
            every_s=self.every_h * HOUR_S,
            since=SINCE,
            until=UNTIL,
            user=site.user,
        )
        worlds = Worlds(site.params, site.jobs, settings)
        if self.regime.gpus:
            worlds.link = replace(worlds.link, exclusive=False, cpus=1, gpus=self.regime.gpus)
        waits = started_by(site.params, site.jobs)
        points: list[int] = []
        table: list[Floats] = []
        moved: dict[str, list[tuple[float, int]]] = {p.name: [] for p in POLICIES}
        for point, world in _worlds(worlds, settings):
            points.append(point)
            for policy in POLICIES:
                standby = _standby(world, worlds)
                done = hand_over(
                    world.sim.fork(),
                    standby,
                    policy,
                    waits,
                    step_s=STEP_S,
                    at_most=world.at_most,
                )
                moved[policy.name].append((done.outcome_s / HOUR_S, done.touches))
            instants = np.append(settings.instant_s[:-1:EVERY], settings.instant_s[-1])
            table.append(world.outcomes(world.start + instants.astype(np.int64)) / HOUR_S)
        return {
            "points": points,
            "policies": {n: list(zip(*v, strict=True)) for n, v in moved.items()},
        } | _afterwards(np.array(table))


def _worlds(worlds: Worlds, settings: Settings) -> Iterator[tuple[int, World]]:
    for point in settings.start_points:
        world = worlds.bare_at(point)
        if world is None:
            continue
        twin = replace(world, sim=world.sim.fork())
        twin.sim.advance(world.end)
        if twin.ran_to_the_limit():
            yield point, world


def _standby(world: World, worlds: Worlds) -> Standby:
    predecessor = world.sim.find(world.predecessor)
    return Standby(
        predecessor=world.predecessor,
        job_id=world.standby,
        job=worlds.link,
        node_list=() if predecessor is None else predecessor.allocated,
        end=world.end,
    )


def _afterwards(table: Floats) -> dict[str, Any]:
    """What one move could have done: at best each time, and with the one best constant lead."""
    cost = _cost(table)
    best = table[np.arange(len(table)), table.shape[1] - 1 - cost[:, ::-1].argmin(axis=1)]
    lead = int(cost.mean(axis=0).argmin())
    touched = float(lead < table.shape[1] - 1)
    return {
        "best lead": [table[:, lead].tolist(), [touched] * len(table)],
        "oracle": [best.tolist(), [1.0] * len(table)],
        "lead_h": float((table.shape[1] - 1 - lead) * EVERY * STEP_S / HOUR_S),
    }


def _cost(outcome_h: Floats) -> Floats:
    found: Floats = np.maximum(outcome_h, 0.0) + OVERLAP_PRICE * np.maximum(-outcome_h, 0.0)
    return found


def figures(measured: dict[str, Any]) -> dict[str, Any]:
    """Per policy: means, and its cost less that of reactive and of the best one-move rule."""
    rows = {n: np.array(v) for n, v in measured["policies"].items()}
    rows |= {n: np.array(measured[n]) for n in ("best lead", "oracle")}
    costs = {name: _cost(row[0]) for name, row in rows.items()}
    one_move = min(ONE_MOVE, key=lambda name: float(costs[name].mean()))
    counts = day_counts(np.array(measured["points"]))
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
    found = interval(means(counts, values))
    return [float(values.mean()), *(found or (np.nan, np.nan))]
