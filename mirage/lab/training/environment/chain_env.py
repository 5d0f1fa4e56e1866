"""ChainEnv: a hand-over as a Gymnasium environment.

An episode is one hand-over. At each instant of the predecessor's run, every ten minutes and at its
end, the action is the standby's position (`PositionAction`). The reward is 0 until the outcome is
known, then -(interruption + price x overlap) in hours, and the episode is terminated; none is
truncated. The episodes are those of a `TableLibrary`.
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from mirage.domain.arrays import Floats, Observations
from mirage.domain.chain import OVERLAP_PRICE
from mirage.errors import InputError
from mirage.lab.training.environment.table_library import (
    BOUND,
    PositionAction,
    TableBatch,
    TableLibrary,
)


def build_observation_space(
    library: TableLibrary, *, priced: bool = False
) -> spaces.Space[Observations]:
    """Build the space of observations: F numbers of float32, named `library.features`.

    `priced`: with one number more, the price.
    """
    shape = (len(library.features) + priced,)
    box: spaces.Space[Any] = spaces.Box(-BOUND, BOUND, shape, np.float32)
    return box


class ChainEnv(gymnasium.Env[Observations, np.int64]):
    """One hand-over at a time. Nothing to render.

    `reset(options={"handover": number})` chooses the episode; without, `np_random` draws one.
    Infos: `handover` (its number), `instant`; at reset what the library tells of it; at the end
    `outcome_h`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium's declaration

    def __init__(self, library: TableLibrary, overlap_price: float = OVERLAP_PRICE) -> None:
        self.library = library
        self.overlap_price = overlap_price
        self.render_mode = None
        self.observation_space = build_observation_space(library)
        self.action_space = spaces.Discrete(len(PositionAction))
        self._batch = TableBatch(library, 1)
        self._episode: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode. Raises InputError for one that the library does not have."""
        super().reset(seed=seed)
        if options and "handover" in options:
            episode = int(options["handover"])
            if not 0 <= episode < len(self.library):
                raise InputError(
                    f"Episodes go from 0 to {len(self.library) - 1}; asked for {episode}."
                )
        else:
            episode = int(self.np_random.integers(len(self.library)))
        self._batch.begin_episodes(np.array([0]), np.array([episode]))
        self._episode = episode
        info = {"handover": self._episode, "instant": 0}
        return self._batch.observe()[0], info | self.library.describe_episode(self._episode)

    def step(
        self, action: np.int64 | int
    ) -> tuple[Observations, SupportsFloat, bool, bool, dict[str, Any]]:
        """Raises InputError before the first `reset`, after the end, and for an unknown action."""
        if self._episode is None:
            raise InputError("The episode has ended, or none has begun: reset first.")
        ended = bool(self._batch.step(np.array([action]))[0])
        info: dict[str, Any] = {"handover": self._episode, "instant": int(self._batch.instant[0])}
        reward = 0.0
        if ended:
            info["outcome_h"] = float(self._batch.outcome_h[0])
            reward = float(compute_rewards(self._batch.outcome_h, self.overlap_price)[0])
            self._episode = None
        return self._batch.observe()[0], reward, ended, False, info


def compute_rewards(outcome_h: Floats, overlap_price: float | Floats) -> Floats:
    """Compute -(interruption + price x overlap) of each outcome, hours."""
    return -(np.maximum(outcome_h, 0.0) + overlap_price * np.maximum(-outcome_h, 0.0))
