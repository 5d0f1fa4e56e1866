"""ChainEnv: a hand-over as a Gymnasium environment, one or many at once.

An episode is one hand-over. At each instant of the predecessor's run, every ten minutes and at its
end, the action is the standby's position (`PositionAction`). The reward is 0 until the outcome is
known, then -(interruption + price x overlap) in hours, and the episode is terminated; none is
truncated. The episodes are those of a `TableLibrary`.
"""

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mirage.domain.arrays import Flags, Floats, Ints, Observations
from mirage.domain.chain import OVERLAP_PRICE
from mirage.errors import InputError
from mirage.learn.environment.table_library import BOUND, PositionAction, TableLibrary


def build_observation_space(
    library: TableLibrary, *, priced: bool = False
) -> spaces.Space[Observations]:
    """F numbers of float32; their names are `library.features`. `priced`: one more, the price."""
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
        self._batch = library.create_batch(1)
        self._episode: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode. Raises InputError for one that the library does not have."""
        super().reset(seed=seed)
        if options and "handover" in options:
            chosen = _check_episodes(self.library, np.array([options["handover"]], dtype=np.int64))
        else:
            chosen = self.np_random.integers(len(self.library), size=1)
        self._batch.begin_episodes(np.zeros(1, dtype=np.int64), chosen)
        self._episode = int(chosen[0])
        told = {"handover": self._episode, "instant": 0}
        return self._batch.observe()[0], told | self.library.describe_episode(self._episode)

    def step(
        self, action: np.int64 | int
    ) -> tuple[Observations, SupportsFloat, bool, bool, dict[str, Any]]:
        """Raises InputError before the first `reset`, after the end, and for an unknown action."""
        if self._episode is None:
            raise InputError("The episode has ended, or none has begun: reset first.")
        actions = _check_actions(np.array([action]), 1)
        ended = bool(self._batch.step(actions)[0])
        info: dict[str, Any] = {"handover": self._episode, "instant": int(self._batch.instant[0])}
        reward = 0.0
        if ended:
            info["outcome_h"] = float(self._batch.outcome_h[0])
            reward = float(compute_rewards(self._batch.outcome_h, self.overlap_price)[0])
            self._episode = None
        return self._batch.observe()[0], reward, ended, False, info


class ChainVectorEnv(VectorEnv[Observations, Ints, Any]):
    """`num_envs` hand-overs stepped by one call, with one random stream for all.

    Autoreset in the same step (AutoresetMode.SAME_STEP): where an episode ends, the observation
    returned is the next one's first, and the info holds `final_obs` and `final_info` as Gymnasium
    says.
    With one environment the same seed draws the same episodes as ChainEnv.

    With `prices` each episode has an overlap price of its own, drawn evenly in its logarithm
    between the two, and told as one more number at the end of the observation.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - gymnasium's declaration
        "render_modes": [],
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        library: TableLibrary,
        num_envs: int,
        overlap_price: float = OVERLAP_PRICE,
        *,
        prices: tuple[float, float] | None = None,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"An environment steps at least one hand-over, not {num_envs}.")
        self.library = library
        self.overlap_price: Floats = np.full(num_envs, overlap_price)
        """float64[K]: of the episode each is in."""
        self._prices = prices
        self.num_envs = num_envs
        self.render_mode = None
        self.single_observation_space = build_observation_space(library, priced=prices is not None)
        self.single_action_space = spaces.Discrete(len(PositionAction))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._batch = library.create_batch(num_envs)
        self.episode: Ints = np.full(num_envs, -1, dtype=np.int64)
        """int64[K]: the episode each is in; -1 before the first reset."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin all, or those of `options["reset_mask"]` (bool[K]), anew.

        `options["handover"]` (int64[K]) chooses their episodes. Raises InputError for options that
        do not fit.
        """
        super().reset(seed=seed)
        options = options or {}
        which = np.flatnonzero(self._read_reset_mask(options.get("reset_mask")))
        episodes = None
        if "handover" in options:
            given = np.broadcast_to(np.asarray(options["handover"], dtype=np.int64), self.num_envs)
            episodes = _check_episodes(self.library, given[which])
        self._begin_episodes(which, episodes)
        everyone = np.ones(self.num_envs, dtype=np.bool_)
        return self._observe_with_prices(), {"handover": self.episode.copy(), "_handover": everyone}

    def step(self, actions: Ints) -> tuple[Observations, Floats, Flags, Flags, dict[str, Any]]:
        """Raises InputError before the first `reset` and for actions that do not fit."""
        if self.episode.min() < 0:
            raise InputError("No episode has begun: reset first.")
        ended = self._batch.step(_check_actions(actions, self.num_envs))
        observations = self._observe_with_prices()
        reward = np.zeros(self.num_envs)
        info: dict[str, Any] = {}
        over = np.flatnonzero(ended)
        if len(over):
            reward[over] = compute_rewards(self._batch.outcome_h[over], self.overlap_price[over])
            info = self._build_final_info(observations, ended, over)
            self._begin_episodes(over, None)
            observations[over] = self._observe_with_prices()[over]
        return observations, reward, ended, np.zeros(self.num_envs, dtype=np.bool_), info

    def _begin_episodes(self, which: Ints, episodes: Ints | None) -> None:
        if episodes is None:
            episodes = self.np_random.integers(len(self.library), size=len(which))
        self._batch.begin_episodes(which, episodes)
        self.episode[which] = episodes
        if self._prices is not None:
            low, high = np.log(self._prices)
            self.overlap_price[which] = np.exp(self.np_random.uniform(low, high, len(which)))

    def _observe_with_prices(self) -> Observations:
        seen = self._batch.observe()
        if self._prices is None:
            return seen
        return np.column_stack([seen, self.overlap_price.astype(np.float32)])

    def _build_final_info(
        self, observations: Observations, ended: Flags, over: Ints
    ) -> dict[str, Any]:
        """Gymnasium's names and shapes: an object array of observations, masks with a `_`."""
        last = np.full(self.num_envs, None, dtype=object)
        rows = observations[over]
        for row, i in enumerate(over):
            last[i] = rows[row]
        told = {
            "handover": np.where(ended, self.episode, 0),
            "instant": np.where(ended, self._batch.instant, 0),
            "outcome_h": np.where(ended, self._batch.outcome_h, 0.0),
        }
        told |= {f"_{name}": ended.copy() for name in list(told)}
        return {
            "final_obs": last,
            "_final_obs": ended.copy(),
            "final_info": told,
            "_final_info": ended.copy(),
        }

    def _read_reset_mask(self, given: object) -> Flags:
        if given is None:
            return np.ones(self.num_envs, dtype=np.bool_)
        mask = np.asarray(given)
        if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
            raise InputError(f"reset_mask should be bool[{self.num_envs}] with at least one true.")
        return mask


def compute_rewards(outcome_h: Floats, overlap_price: float | Floats) -> Floats:
    """-(interruption + price x overlap) of each outcome, hours."""
    return -(np.maximum(outcome_h, 0.0) + overlap_price * np.maximum(-outcome_h, 0.0))


def _check_episodes(library: TableLibrary, episodes: Ints) -> Ints:
    if not ((episodes >= 0) & (episodes < len(library))).all():
        raise InputError(
            f"Episodes go from 0 to {len(library) - 1}; asked for {episodes.tolist()}."
        )
    return episodes


def _check_actions(actions: Any, size: int) -> Ints:
    known = np.asarray(actions)
    if known.shape != (size,) or not ((known >= 0) & (known < len(PositionAction))).all():
        raise InputError(f"Actions should be {size} numbers from 0 to {len(PositionAction) - 1}.")
    return known.astype(np.int64, copy=False)
