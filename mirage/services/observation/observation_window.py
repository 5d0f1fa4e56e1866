"""Keeps what was observed of each hand-over so far: the window of models that look back.

In training, observations lie ten minutes apart, and the last one is the present one. Here an
observation is kept if it comes ten minutes or more after the one kept before. A service that starts
anew begins with an empty window, and so does a hand-over that was not observed for a while. The
model is told how far back is known.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from mirage.domain.arrays import Observation

STEP_S = 600
GAP_S = 2 * STEP_S
"""Without an observation for longer, those before are forgotten."""
LONGEST = 144
"""Observations: a day."""


@dataclass(slots=True)
class ObservationWindow:
    """The observations of each hand-over, with the instant of each."""

    _kept: dict[Hashable, list[tuple[int, Observation]]] = field(default_factory=dict)
    _tick: int = 0

    def update_window(self, handover: Hashable, now: int, observation: Observation) -> Observation:
        """float32[W, F]: what is kept of it, and the present observation [F] last."""
        if now != self._tick:
            self._forget_stale(now)
        kept = self._kept.setdefault(handover, [])
        older = [seen for at, seen in kept if at <= now - STEP_S]
        if len(older) == len(kept):
            kept.append((now, observation))
            del kept[:-LONGEST]
        return np.stack([*older[1 - LONGEST :], observation])

    def _forget_stale(self, now: int) -> None:
        """Once a tick: who was not observed lately begins anew, or has handed over."""
        self._tick = now
        self._kept = {k: v for k, v in self._kept.items() if now - v[-1][0] <= GAP_S}
