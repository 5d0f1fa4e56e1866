"""Episode tables as a library of hand-overs: one move, held to free, by looking rows up."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable

BOUND = 1e9
"""The absolute value of every number of an observation is at most this. Spaces are bounded by
it."""
_T_AND_F = 2


class PositionAction(IntEnum):
    """The standby's position until the next instant, ten minutes later, as an action."""

    HELD = 0
    """Wait."""
    FREE = 1


class TableLibrary:
    """The rows of many episodes, one below the other, held in memory once for all batches."""

    def __init__(
        self,
        tables: Iterable[tuple[ArrayLike, ArrayLike]],
        features: tuple[str, ...] = (),
    ) -> None:
        """Build the library from pairs of observations[T, F] and outcome_h[T] (signed hours).

        A row is an instant of the predecessor's run, the last one its end; `features` names the
        columns, by default by number. Raises InputError for no table, one that has no rows, tables
        of unlike shape, and numbers that are not finite (observations: larger than BOUND).
        """
        pairs = [_check_episode(i, o, h) for i, (o, h) in enumerate(tables)]
        if not pairs:
            raise InputError("An environment needs at least one episode.")
        widths = {o.shape[1] for o, _ in pairs} | ({len(features)} if features else set())
        if len(widths) > 1:
            raise InputError(f"Episodes differ in their number of features: {sorted(widths)}.")
        self.features = features or tuple(str(i) for i in range(widths.pop()))
        self.observations = np.concatenate([o for o, _ in pairs])
        """float32[R, F]."""
        self.outcome_h = np.concatenate([h for _, h in pairs])
        """float64[R]."""
        lengths = np.array([len(h) for _, h in pairs], dtype=np.int64)
        self.last = np.cumsum(lengths) - 1
        """int64[E]: the row of each episode's last instant."""
        self.first = self.last - lengths + 1

    @classmethod
    def from_tables(cls, tables: Sequence[EpisodeTable], *, aged: bool = False) -> Self:
        """Build the library from all episodes of some tables. `aged`: the standby earns age from
        the predecessor's start.

        Raises InputError also if the tables' features differ.
        """
        if len({t.metadata.features_fingerprint for t in tables}) > 1:
            raise InputError("The tables were made with different features: make them again.")
        episodes = (episode for table in tables for episode in table)
        return cls(
            ((e.observations, e.outcome_aged_h if aged else e.outcome_h) for e in episodes),
            tables[0].metadata.features if tables else (),
        )

    def __len__(self) -> int:
        return len(self.first)

    def describe_episode(self, episode: int) -> dict[str, Any]:
        """Return the outcome in hours if the standby is never moved, as in plain Slurm."""
        return {"reactive_h": float(self.outcome_h[self.last[episode]])}


class TableBatch:
    """K hand-overs under way, each at an instant of its own episode: rows of a library's tables.

    A hand-over ends where it is freed, or at its last instant. There, at the predecessor's end, to
    wait and to free are the same: the outcome is the reactive one.
    """

    def __init__(self, library: TableLibrary, size: int) -> None:
        """None of the `size` hand-overs is under way until `begin_episodes`."""
        self._library = library
        self._row = np.zeros(size, dtype=np.int64)
        self._last = np.zeros(size, dtype=np.int64)
        self.instant = np.zeros(size, dtype=np.int64)
        """int64[K]: instants passed since the predecessor's start."""
        self.outcome_h: Floats = np.zeros(size)
        """float64[K]: start of the successor - end of the predecessor, hours; of ended ones."""

    def begin_episodes(self, indices: Ints, episodes: Ints) -> None:
        """Put the hand-overs `indices` (int64[m], each once) at the start of `episodes`."""
        self._row[indices] = self._library.first[episodes]
        self._last[indices] = self._library.last[episodes]
        self.instant[indices] = 0

    def step(self, actions: Ints) -> Flags:
        """Advance all K by one instant, and return which of them ended there. None may have
        ended before. Raises InputError for actions that are not K numbers of `PositionAction`."""
        positions = np.asarray(actions)
        is_valid = (positions >= 0) & (positions < len(PositionAction))
        if is_valid.shape != self._row.shape or not is_valid.all():
            raise InputError(
                f"Actions should be {len(self._row)} numbers from 0 to {len(PositionAction) - 1}."
            )
        ended: Flags = (positions == PositionAction.FREE) | (self._row == self._last)
        np.take(self._library.outcome_h, self._row, out=self.outcome_h)
        self._row += ~ended
        self.instant += ~ended
        return ended

    def observe(self) -> Observations:
        """Return the observations float32[K, F] at each hand-over's instant, as a new array."""
        rows: Observations = self._library.observations.take(self._row, axis=0)
        return rows


def _check_episode(
    number: int, observations: ArrayLike, outcome_h: ArrayLike
) -> tuple[Observations, Floats]:
    rows = np.asarray(observations, dtype=np.float32)
    outcomes = np.asarray(outcome_h, dtype=np.float64)
    if rows.ndim != _T_AND_F or outcomes.shape != rows.shape[:1] or not len(outcomes):
        raise InputError(
            f"Episode {number} has observations {rows.shape} and outcomes {outcomes.shape};"
            " they should be [T, F] and [T], T at least 1."
        )
    if not (np.isfinite(outcomes).all() and (np.abs(rows) <= BOUND).all()):
        raise InputError(
            f"Episode {number} holds numbers that are not finite, or beyond {BOUND:g}."
        )
    return rows, outcomes
