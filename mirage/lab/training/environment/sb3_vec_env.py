"""Many hand-overs at once for Stable-Baselines3: its VecEnv over episode tables, with prices."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.errors import InputError
from mirage.lab.training.environment.chain_env import build_observation_space, compute_rewards
from mirage.lab.training.environment.table_library import PositionAction, TableBatch, TableLibrary

Indices = None | int | Iterable[int]


class ChainVecEnv(VecEnv):
    """`num_envs` hand-overs stepped by one call, with one random stream for all.

    Each episode has an overlap price of its own, the last number of its observations. When an
    episode ends, the next begins at once: the returned observation is the first of the next one.
    The info has the last observation of the ended one as `terminal_observation`, its `handover` and
    its `outcome_h`.
    """

    render_mode = None  # VecEnv asks for it while it is made.

    def __init__(
        self,
        library: TableLibrary,
        num_envs: int,
        prices: tuple[float, float],
        unit_h: float = 1.0,
    ) -> None:
        """Prices are drawn between the two, evenly in their logarithm; rewards are in units of
        `unit_h` hours. Raises InputError for less than one hand-over."""
        if num_envs < 1:
            raise InputError(f"An environment steps at least one hand-over, not {num_envs}.")
        self._library = library
        self._batch = TableBatch(library, num_envs)
        self._log_prices = np.log(prices)
        self._unit_h = unit_h
        self._random = np.random.default_rng()
        self._actions: Ints = np.zeros(num_envs, dtype=np.int64)
        self.episode: Ints = np.full(num_envs, -1, dtype=np.int64)
        """int64[K]: the number of each environment's episode; -1 before the first reset."""
        self.overlap_price: Floats = np.zeros(num_envs)
        """float64[K]: the overlap price of each environment's episode."""
        super().__init__(
            num_envs,
            build_observation_space(library, priced=True),
            spaces.Discrete(len(PositionAction)),
        )

    def reset(self) -> Observations:
        """Begin an episode in every environment. One stream draws for all, so only the first of the
        seeds set by `seed` counts."""
        if self._seeds[0] is not None:
            self._random = np.random.default_rng(self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        self._begin_episodes(np.arange(self.num_envs))
        return self._observe_with_prices()

    def step_async(self, actions: Ints) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Observations, NDArray[np.float32], Flags, list[dict[str, Any]]]:
        """Raises InputError before the first `reset` and for actions that do not fit."""
        if self.episode[0] < 0:
            raise InputError("No episode has begun: reset first.")
        ended = self._batch.step(self._actions)
        observations = self._observe_with_prices()
        reward = np.zeros(self.num_envs, dtype=np.float32)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended_indices = np.flatnonzero(ended)
        if len(ended_indices):
            outcome_h = self._batch.outcome_h[ended_indices]
            reward[ended_indices] = (
                compute_rewards(outcome_h, self.overlap_price[ended_indices]) / self._unit_h
            )
            for i in ended_indices:
                infos[i] = {
                    "terminal_observation": observations[i],
                    "TimeLimit.truncated": False,
                    "handover": int(self.episode[i]),
                    "outcome_h": float(self._batch.outcome_h[i]),
                }
            self._begin_episodes(ended_indices)
            observations = self._observe_with_prices()
        return observations, reward, ended, infos

    def close(self) -> None:
        """Nothing is held open."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:  # noqa: ARG002
        """Raises AttributeError: the hand-overs share their attributes."""
        raise AttributeError(f"{attr_name} cannot be set for single hand-overs")

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: Indices = None,  # noqa: ARG002
        **method_kwargs: Any,  # noqa: ARG002
    ) -> list[Any]:
        """Raises AttributeError: the hand-overs have no methods of their own."""
        raise AttributeError(f"{method_name}{method_args}: hand-overs have no methods of their own")

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],  # noqa: ARG002
        indices: Indices = None,
    ) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def _begin_episodes(self, indices: Ints) -> None:
        """Draw an episode and a price for each of `indices`, all episodes first."""
        episodes = self._random.integers(len(self._library), size=len(indices))
        self._batch.begin_episodes(indices, episodes)
        self.episode[indices] = episodes
        low, high = self._log_prices
        self.overlap_price[indices] = np.exp(self._random.uniform(low, high, len(indices)))

    def _observe_with_prices(self) -> Observations:
        return np.column_stack([self._batch.observe(), self.overlap_price.astype(np.float32)])
