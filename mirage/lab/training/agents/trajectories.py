"""Runs of predecessors at every instant, for agents that look back on the run so far."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from mirage.domain.arrays import Flags, Ints, Observations
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.agents.networks import NetInput
from mirage.lab.training.dataset import (
    Rows,
    build_twin_features,
    list_decision_instants,
    order_episodes,
)

WINDOW = 144
"""The most observations that an agent may look back on: one day."""


@dataclass(frozen=True, slots=True)
class Trajectories:
    """E runs of T instants; the last instant is the predecessor's end."""

    rows: Rows
    """The rows of the decisions."""
    decision_instants: Ints
    """[D + 1]: the instants of the decisions, and the end."""
    observations: Observations
    """[E, T, F], without the twin's numbers."""
    twin_features: Observations | None = None
    """[E, D + 1, len(twin_features.FEATURE_NAMES)]: the twin's numbers, if agents learn from it."""

    @classmethod
    def from_tables(cls, tables: Sequence[EpisodeTable], every: int, *, twin: bool = False) -> Self:
        """Build the runs from tables, with one decision every `every` instants. `twin` and
        InputError as in `Rows.from_tables`."""
        rows = Rows.from_tables(tables, every, twin=twin)
        decision_instants = list_decision_instants(len(tables[0].instant_s), every)
        order = order_episodes(tables)
        observations = np.concatenate([t.observations for t in tables])[order]
        if not twin:
            return cls(rows, decision_instants, observations)
        twin_numbers = np.concatenate([build_twin_features(t, decision_instants) for t in tables])[
            order
        ]
        return cls(rows, decision_instants, observations, twin_numbers)

    def __len__(self) -> int:
        return len(self.rows)

    def select_episodes(self, episodes: Flags | Ints) -> Self:
        """Return the runs of some episodes only."""
        twin_numbers = None if self.twin_features is None else self.twin_features[episodes]
        return type(self)(
            self.rows.select_episodes(episodes),
            self.decision_instants,
            self.observations[episodes],
            twin_numbers,
        )

    def build_input(self, part: int) -> NetInput:
        """Build the network's input for the E x (D + 1) decisions, ends included.

        `part`: the number of instants in one part of the past day; 0: no past.
        """
        now = self.observations[:, self.decision_instants]
        if self.twin_features is not None:
            now = np.concatenate([now, self.twin_features], axis=2)
        now = now.reshape(-1, now.shape[2])
        past, mask = self._summarize_past(part)
        return NetInput(*(torch.from_numpy(a) for a in (now, past, mask)))

    def _summarize_past(self, part: int) -> tuple[Observations, Observations]:
        """Summarise the past as means over `part` instants: [N, K, F]. The last part ends with the
        decision's own instant."""
        episodes, _, features = self.observations.shape
        parts = WINDOW // part if part else 0
        ends = self.decision_instants[:, None] - part * np.arange(parts)[::-1]
        mask = np.tile((ends >= 0).astype(np.float32), (episodes, 1))
        past = np.zeros((episodes, *ends.shape, features), dtype=np.float32)
        sums = np.zeros((self.observations.shape[1] + 1, features))
        begins = np.maximum(ends - part + 1, 0)
        counts = np.maximum(ends + 1 - begins, 1)[..., None]
        for run, observations in zip(past, self.observations, strict=True):
            np.cumsum(observations, axis=0, dtype=np.float64, out=sums[1:])
            run[:] = (sums[np.maximum(ends + 1, 0)] - sums[begins]) / counts
        past *= (ends >= 0)[..., None]
        return past.reshape(len(mask), parts, features), mask


def split_windows(
    window: torch.Tensor, known_steps: torch.Tensor, part: int
) -> tuple[torch.Tensor, ...]:
    """Compute `NetInput.past` and `NetInput.mask` from windows [R, WINDOW, F] and [R, WINDOW]."""
    parts = window.shape[1] // part
    masks = known_steps.reshape(-1, parts, part)
    count = masks.sum(2)
    masked = window.reshape(-1, parts, part, window.shape[2]) * masks[..., None]
    return masked.sum(2) / count.clamp(min=1.0)[..., None], (count > 0.0).to(window.dtype)
