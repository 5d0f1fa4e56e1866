"""Start points as arrays of equal shape, which kernels copy and move on by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from mirage.domain.arrays import Ints
from mirage.learn.environment.handover_kernel import Machine, pack_handover
from mirage.learn.environment.start_states import StartState
from mirage.sim import moves
from mirage.sim.arrays import layout
from mirage.sim.arrays.layout import NONE
from mirage.sim.packing.allocation import ArraySizes, build_scratch, expand_state
from mirage.sim.simulator import Simulator

_NO_RESULTS: Ints = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class PackedStates:
    """E start points. Nothing in it is written to."""

    states: Ints
    """int64[E, S]."""
    hands: Ints
    """int64[E, H] (handover_kernel.py)."""
    room: ArraySizes
    machine: Machine
    any_sim: Simulator
    """One of the forks: it knows the settings and all names."""

    @classmethod
    def from_starts(cls, starts: Sequence[StartState]) -> Self:
        """The worlds of `starts`, which are forks of one simulator."""
        sims = [s.world.sim for s in starts]
        rooms = [sim.arena.room for sim in sims]
        room = replace(_combine_rooms(rooms), log=0)
        site = sims[0].arena.site
        states = [
            _copy_with_room(sim.arena.state, site, have, room)
            for sim, have in zip(sims, rooms, strict=True)
        ]
        hands = []
        for start, state in zip(starts, states, strict=True):
            world = start.world
            state[layout.LISTENING] = state[layout.LOGGED] = 0
            state[layout.WATCHED], state[layout.WATCHED_START] = world.standby, NONE
            slot = int(moves.find_slot(state, world.standby))
            hands.append(pack_handover(world, slot, start.node_list))
        # Dependencies and node lists of arrivals are read from the trace's own extras.
        machine = (site, sims[0].workload.feed, sims[0].workload.extras, _NO_RESULTS)
        return cls(np.stack(states), np.array(hands, dtype=np.int64), room, machine, sims[0])

    def create_scratch(self) -> Ints:
        """Room for the passes over one of these states at a time."""
        sim = self.any_sim
        return build_scratch(sim.params, self.machine[0], sim.arena.names, self.room)

    def expand_room(self, short: int) -> Self:
        """Return the states with twice the room of the part that was short.

        `short`: a ROOM_ constant of layout.py.
        """
        room = self.room.with_doubled_room(short)
        return replace(self, states=self.expand_states(self.states, room), room=room)

    def expand_states(self, states: Ints, room: ArraySizes) -> Ints:
        """States with this room, with more."""
        return np.stack([expand_state(s, self.machine[0], self.room, room) for s in states])


def _combine_rooms(rooms: Sequence[ArraySizes]) -> ArraySizes:
    fields = ArraySizes.__dataclass_fields__
    return ArraySizes(**{name: max(getattr(r, name) for r in rooms) for name in fields})


def _copy_with_room(state: Ints, site: Ints, have: ArraySizes, room: ArraySizes) -> Ints:
    """A state without a log and with `room`. The log is its last part, and read: it is empty."""
    end = int(state[layout.LOG])
    silent = state[:end].copy()
    silent[layout.END_OF_STATE] = end
    return expand_state(silent, site, replace(have, log=0), room)
