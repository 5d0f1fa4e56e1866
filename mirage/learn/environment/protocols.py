"""Hand-overs stepped many at once: what an environment's two forms have in common.

An action is the position the standby should have until the next instant, ten minutes on. Its
numbers mean the same in both forms; a form that cannot pin knows the first two.
"""

from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints, Observations

BOUND = 1e9
"""No number of an observation is larger, of either sign: spaces are bounded by it."""


class PositionAction(IntEnum):
    """The standby's three positions, as actions."""

    HELD = 0
    """Over tables: wait."""
    FREE = 1
    PINNED = 2
    """Eligible on the predecessor's own nodes only."""


class Batch(Protocol):
    """K hand-overs under way, each at an instant of its own episode."""

    instant: Ints
    """int64[K]: instants passed since the predecessor's start."""
    outcome_h: Floats
    """float64[K]: start of the successor - end of the predecessor, hours; of ended ones."""

    def begin_episodes(self, which: Ints, episodes: Ints) -> None:
        """Put the hand-overs `which` (int64[m], each once) at the start of `episodes`."""

    def step(self, actions: Ints) -> Flags:
        """Move all K on by one instant; which of them ended there. None may have ended before."""

    def observe(self) -> Observations:
        """float32[K, F], a new array: what is known at each one's instant."""


class Library(Protocol):
    """Episodes to draw from."""

    features: tuple[str, ...]
    """Names of the F numbers of an observation."""
    positions: int
    """How many actions there are: 2, or 3 with PINNED."""

    def __len__(self) -> int: ...

    def create_batch(self, size: int) -> Batch:
        """`size` hand-overs; none is under way until `begin_episodes`."""

    def describe_episode(self, episode: int) -> dict[str, Any]:
        """Return the facts of an episode, besides its number, for an info dictionary."""


def compute_rewards(outcome_h: Floats, overlap_price: float | Floats) -> Floats:
    """-(interruption + price x overlap) of each outcome, hours."""
    return -(np.maximum(outcome_h, 0.0) + overlap_price * np.maximum(-outcome_h, 0.0))
