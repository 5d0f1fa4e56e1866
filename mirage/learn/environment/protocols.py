"""Hand-overs stepped many at a time: the interface that both forms of the environment have.

An action is the position that the standby should have until the next instant, ten minutes later.
Its numbers mean the same in both forms. A form that cannot pin knows the first two.
"""

from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from mirage.domain.arrays import Flags, Floats, Ints, Observations

BOUND = 1e9
"""The absolute value of every number of an observation is at most this. Spaces are bounded by
it."""


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
        """Advance all K by one instant, and return which of them ended there. None may have
        ended before."""

    def observe(self) -> Observations:
        """Return the observations float32[K, F] at each hand-over's instant, as a new array."""


class Library(Protocol):
    """Episodes to draw from."""

    features: tuple[str, ...]
    """Names of the F numbers of an observation."""
    positions: int
    """How many actions there are: 2, or 3 with PINNED."""

    def __len__(self) -> int: ...

    def create_batch(self, size: int) -> Batch:
        """Make a batch of `size` hand-overs. None is under way until `begin_episodes`."""

    def describe_episode(self, episode: int) -> dict[str, Any]:
        """Return the facts of an episode, besides its number, for an info dictionary."""


def compute_rewards(outcome_h: Floats, overlap_price: float | Floats) -> Floats:
    """-(interruption + price x overlap) of each outcome, hours."""
    return -(np.maximum(outcome_h, 0.0) + overlap_price * np.maximum(-outcome_h, 0.0))
