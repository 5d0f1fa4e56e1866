"""Keeps the past observations of each hand-over, for models that use several of them.

In training, observations lie ten minutes apart, and the last one is the present one. Here an
observation is kept if it comes ten minutes or more after the last one that was kept. The window is
empty after a start of the service, and after a hand-over was not observed for a while. The model
gets the length of the window.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from mirage.domain.arrays import Observation

STEP_S = 600
GAP_S = 2 * STEP_S
"""Seconds without an observation after which the earlier ones are dropped."""
LONGEST = 144
"""The most observations of a window: one day of them."""


@dataclass(slots=True)
class ObservationWindow:
    """The observations of each hand-over, with the instant of each."""

    _kept: dict[Hashable, list[tuple[int, Observation]]] = field(default_factory=dict)
    """By hand-over: the instant of each kept observation, and the observation, oldest first."""
    _tick: int = 0

    def update_window(self, handover: Hashable, now: int, observation: Observation) -> Observation:
        """Return float32[W, F]: the kept observations, and the present one [F] last."""
        if now != self._tick:
            self._forget_stale(now)
        kept_observations = self._kept.setdefault(handover, [])
        older = [earlier for at, earlier in kept_observations if at <= now - STEP_S]
        if len(older) == len(kept_observations):
            kept_observations.append((now, observation))
            del kept_observations[:-LONGEST]
        return np.stack([*older[1 - LONGEST :], observation])

    def _forget_stale(self, now: int) -> None:
        """Drop, once a tick, the hand-overs that were not observed lately."""
        self._tick = now
        self._kept = {
            handover: kept_observations
            for handover, kept_observations in self._kept.items()
            if now - kept_observations[-1][0] <= GAP_S
        }
