"""Live hand-overs stepped together by one compiled call, with the small observation."""

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.domain.time_units import HOUR_S
from mirage.learn.environment import compact_observation, handover_kernel
from mirage.learn.environment.handover_kernel import ENDS, STARTED, Machine
from mirage.learn.environment.packed_states import PackedStates
from mirage.sim.arrays.jit import kernel
from mirage.sim.arrays.layout import NONE, copy_into

_CODES = 8
"""More than there are ROOM_ constants."""


class StateBatch:
    """A simulator's state a hand-over, all in one array."""

    def __init__(self, packed: PackedStates, size: int, step_s: int) -> None:
        self._packed = packed
        self._scratch = packed.create_scratch()
        self._step_s = step_s
        self._states: Ints = np.zeros((size, packed.states.shape[1]), dtype=np.int64)
        self._hands: Ints = np.zeros((size, packed.hands.shape[1]), dtype=np.int64)
        self.instant: Ints = np.zeros(size, dtype=np.int64)
        self.outcome_h: Floats = np.zeros(size)

    def begin_episodes(self, which: Ints, episodes: Ints) -> None:
        packed = self._packed
        _begin_handovers(packed.states, packed.hands, self._states, self._hands, which, episodes)
        self.instant[which] = 0

    def step(self, actions: Ints) -> Flags:
        at = 0
        while at < len(actions):
            machine = self._packed.machine
            stopped = _step_handovers(
                self._states, self._hands, machine, self._scratch, actions, self._step_s, at
            )
            at, short = divmod(int(stopped), _CODES)
            if short:
                self._make_room(short)
        ended: Flags = self._hands[:, STARTED] != NONE
        self.outcome_h = (self._hands[:, STARTED] - self._hands[:, ENDS]) / HOUR_S
        self.instant += ~ended
        return ended

    def observe(self) -> Observations:
        out = np.empty((len(self._states), len(compact_observation.FEATURES)), dtype=np.float32)
        _observe_handovers(self._states, self._hands, self._packed.machine[0], out)
        return out

    def _make_room(self, short: int) -> None:
        roomier = self._packed.expand_room(short)
        self._states = self._packed.expand_states(self._states, roomier.room)
        self._packed = roomier
        self._scratch = roomier.create_scratch()


@kernel
def _begin_handovers(
    from_states: Ints, from_hands: Ints, states: Ints, hands: Ints, which: Ints, episodes: Ints
) -> None:
    for k in range(which.size):
        copy_into(from_states[episodes[k]], states[which[k]])
        copy_into(from_hands[episodes[k]], hands[which[k]])


@kernel
def _step_handovers(  # noqa: PLR0913, PLR0917 - a kernel
    states: Ints, hands: Ints, machine: Machine, work: Ints, actions: Ints, step_s: int, first: int
) -> int:
    """All from `first` on; where one is short of room: its number and what it lacks, in one."""
    for i in range(first, actions.size):
        short = handover_kernel.step_handover(
            states[i], machine, work, hands[i], actions[i], step_s
        )
        if short:
            return i * _CODES + short
    return actions.size * _CODES


@kernel
def _observe_handovers(states: Ints, hands: Ints, site: Ints, out: Observations) -> None:
    for i in range(states.shape[0]):
        compact_observation.fill_observation(states[i], site, hands[i], out[i])
