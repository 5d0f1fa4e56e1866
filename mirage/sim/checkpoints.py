"""Keeps the states of one replay, one simulated day apart."""

from mirage.domain.time_units import DAY_S
from mirage.sim.simulator import Simulator


class ReplayCheckpoints:
    """Gives the state of a replay at any instant, in any order, by replaying one day at most."""

    def __init__(self, simulator: Simulator, until: int, every_s: int = DAY_S) -> None:
        """Replay a fork of `simulator` from its `now` to `until`, epoch seconds.

        The memory grows with the number of days and with the live jobs of each, not with the trace.
        """
        moving = simulator.fork()
        self._first, self._every_s = moving.now, every_s
        self._kept = [moving.fork()]
        for at in range(moving.now + every_s, until + 1, every_s):
            moving.advance_quietly(at)
            self._kept.append(moving.fork())

    def __len__(self) -> int:
        return len(self._kept)

    def fork_at(self, instant: int) -> Simulator:
        """Return a simulator of its own at `instant`, epoch seconds. Raises ValueError before the
        first state."""
        if instant < self._first:
            raise ValueError(f"{instant} lies before the first snapshot, {self._first}")
        nearest = min((instant - self._first) // self._every_s, len(self._kept) - 1)
        found = self._kept[nearest].fork()
        found.advance_quietly(instant)
        return found
