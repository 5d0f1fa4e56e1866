"""ChainVectorEnv as Stable-Baselines3 wants it: its own VecEnv interface."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from mirage.domain.arrays import Flags, Ints, Observations
from mirage.learn.environment.chain_env import ChainVectorEnv

Indices = None | int | Iterable[int]


class ChainVecEnv(VecEnv):
    """Nothing of its own: rewards become float32, ends carry `terminal_observation`."""

    def __init__(self, envs: ChainVectorEnv, unit_h: float = 1.0) -> None:
        """Rewards are in units of `unit_h` hours."""
        self.envs = envs
        self._unit_h = unit_h
        self._actions: Ints = np.zeros(envs.num_envs, dtype=np.int64)
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> Observations:
        """All anew. One stream draws for all: of the seeds set by `seed`, the first counts."""
        observations, _ = self.envs.reset(seed=self._seeds[0])
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: Ints) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Observations, NDArray[np.float32], Flags, list[dict[str, Any]]]:
        observations, reward, ended, _, told = self.envs.step(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended):
            last = told["final_info"]
            infos[i] = {
                "terminal_observation": told["final_obs"][i],
                "TimeLimit.truncated": False,
                "handover": int(last["handover"][i]),
                "outcome_h": float(last["outcome_h"][i]),
            }
        return observations, (reward / self._unit_h).astype(np.float32), ended, infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

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
