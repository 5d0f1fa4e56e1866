"""The live form: each hand-over is a fork of a simulated world, moved on ten minutes a step.

At an instant the standby is put where the action says, then the world advances to the next one.
The hand-over ends when the standby has started. At the predecessor's end every action leaves the
standby eligible anywhere, and the world runs until it starts.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.domain.time_units import HOUR_S
from mirage.features.observation import feature_vector, spec
from mirage.learn.environment.compact_observation import FEATURES
from mirage.learn.environment.packed_states import PackedStates
from mirage.learn.environment.protocols import Batch, PositionAction
from mirage.learn.environment.start_states import StartState, StartStates, simulate_start
from mirage.learn.environment.state_batch import StateBatch
from mirage.sim.types import build_afterany


class ObservationKind(StrEnum):
    """The kinds of observation that an agent sees of a live hand-over."""

    SMALL = "small"
    """`compact_observation.FEATURES`: many times faster, the standby's position among them."""
    FULL = "full"
    """`features.observation.spec.NAMES`: the very numbers of the tables, which know no position."""


class LiveLibrary:
    """Start points to fork from."""

    positions = len(PositionAction)

    def __init__(
        self, starts: StartStates, observed: ObservationKind = ObservationKind.SMALL
    ) -> None:
        self.starts = starts.found
        self.step_s = starts.step_s
        self.observed = observed
        self.features = FEATURES if observed is ObservationKind.SMALL else spec.NAMES
        self._packed = (
            PackedStates.from_starts(self.starts) if observed is ObservationKind.SMALL else None
        )

    def __len__(self) -> int:
        return len(self.starts)

    def create_batch(self, size: int) -> Batch:
        if self._packed is None:
            return ForkBatch(self.starts, self.step_s, size)
        return StateBatch(self._packed, size, self.step_s)

    def describe_episode(self, episode: int) -> dict[str, Any]:
        """The outcome without a move: what plain Slurm gives."""
        start = self.starts[episode]
        return {"reactive_h": (start.reactive_start - start.world.end) / HOUR_S}


class ForkBatch:
    """One simulator a hand-over, stepped one after the other, with the full observation."""

    def __init__(self, starts: Sequence[StartState], step_s: int, size: int) -> None:
        self._starts = starts
        self._step_s = step_s
        self._forks: list[_Fork | None] = [None] * size
        self.instant: Ints = np.zeros(size, dtype=np.int64)
        self.outcome_h: Floats = np.zeros(size)

    def begin_episodes(self, which: Ints, episodes: Ints) -> None:
        for i, episode in zip(which, episodes, strict=True):
            self._forks[i] = _Fork(self._starts[episode], self._step_s)
        self.instant[which] = 0

    def step(self, actions: Ints) -> Flags:
        ended: Flags = np.zeros(len(actions), dtype=np.bool_)
        for i, fork in enumerate(self._list_forks()):
            start = fork.step_to_next_instant(PositionAction(actions[i]))
            if start is not None:
                ended[i] = True
                self.outcome_h[i] = (start - fork.world.end) / HOUR_S
        self.instant += ~ended
        return ended

    def observe(self) -> Observations:
        return np.stack([f.observe_fully() for f in self._list_forks()])

    def _list_forks(self) -> list["_Fork"]:
        return [f for f in self._forks if f is not None]


class _Fork:
    """One hand-over under way."""

    def __init__(self, start: StartState, step_s: int) -> None:
        self.world = start.world
        self._start = start
        self._step_s = step_s
        self._sim = start.world.sim.fork()
        self._past = start.past.fork()
        self._position = PositionAction.HELD

    def step_to_next_instant(self, position: PositionAction) -> int | None:
        """To the next instant, or to the standby's start; that, where it has started."""
        world, sim = self.world, self._sim
        if sim.now >= world.end:
            self._move_standby(PositionAction.FREE)
            start = sim.run_until_started(world.standby, world.at_most)
            # Not to start at all counts as starting then: no reward is left open.
            return world.at_most if start is None else start
        self._move_standby(position)
        until = min(sim.now + self._step_s, world.end)
        start = simulate_start(sim.fork(), world.standby, until)
        self._past.follow_world(sim, until if start is None else start)
        return start

    def observe_fully(self) -> Observations:
        """float32[F]."""
        return feature_vector.observe_simulator(self._sim, self._start.link, self._past.memory)

    def _move_standby(self, position: PositionAction) -> None:
        before, standby = self._position, self.world.standby
        if position is before:
            return
        if PositionAction.PINNED in (position, before):
            nodes = self._start.node_list if position is PositionAction.PINNED else ()
            self._sim.set_node_list(standby, nodes)
        if PositionAction.HELD in (position, before):
            held = position is PositionAction.HELD
            self._sim.set_dependencies(
                standby, build_afterany(self.world.predecessor) if held else ()
            )
        self._position = position
