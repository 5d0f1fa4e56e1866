"""Many hand-overs at once do what each would do alone, and Stable-Baselines3 trains on them."""

from pathlib import Path

import gymnasium.wrappers.vector
import numpy as np
import pytest
import stable_baselines3
from gymnasium.vector import SyncVectorEnv
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

from mirage.domain.arrays import Observations
from mirage.errors import InputError
from mirage.lab.training.environment.chain_env import ChainEnv
from mirage.lab.training.environment.sb3_vec_env import ChainVecEnv
from mirage.lab.training.environment.table_library import PositionAction
from tests.integration.lab.training.random_tables import FEATURES, random_library

K = 6
PRICES = (0.1, 2.0)
UNIT_H = 3.0


@pytest.mark.parametrize("seed", range(5))
def test_each_hand_over_goes_as_it_would_alone(seed: int) -> None:
    library = random_library(seed=seed)
    envs = ChainVecEnv(library, K, PRICES, UNIT_H)
    alone = [ChainEnv(library) for _ in range(K)]

    def begin(i: int) -> Observations:
        alone[i].overlap_price = envs.overlap_price[i]
        return alone[i].reset(options={"handover": envs.episode[i]})[0]

    envs.seed(seed)
    seen = envs.reset()
    np.testing.assert_array_equal(seen[:, :-1], np.stack([begin(i) for i in range(K)]))
    actions = np.random.default_rng(seed).integers(2, size=(40, K))
    for row in actions:
        envs.step_async(row)
        seen, reward, ended, infos = envs.step_wait()
        for i, env in enumerate(alone):
            last, alone_reward, alone_ended, _, told = env.step(row[i])
            assert (reward[i], ended[i]) == (np.float32(float(alone_reward) / UNIT_H), alone_ended)
            assert bool(infos[i]) == alone_ended
            if alone_ended:
                np.testing.assert_array_equal(infos[i]["terminal_observation"][:-1], last)
                assert infos[i]["TimeLimit.truncated"] is False
                assert {k: infos[i][k] for k in ("handover", "outcome_h")} == {
                    k: told[k] for k in ("handover", "outcome_h")
                }
                last = begin(i)
            np.testing.assert_array_equal(seen[i, :-1], last)


def test_each_episode_has_its_price_tells_it_and_is_paid_at_it() -> None:
    envs = ChainVecEnv(random_library(), K, PRICES)
    envs.seed(2)
    seen = envs.reset()
    told, drawn = seen[:, -1], [*seen[:, -1]]
    for row in np.random.default_rng(0).integers(2, size=(60, K)):
        envs.step_async(row)
        seen, reward, ended, infos = envs.step_wait()
        np.testing.assert_array_equal(seen[~ended, -1], told[~ended])
        for i in np.flatnonzero(ended):
            assert infos[i]["terminal_observation"][-1] == told[i]
            x = infos[i]["outcome_h"]
            assert reward[i] == pytest.approx(-x if x > 0 else told[i] * x, rel=1e-6)
            drawn.append(seen[i, -1])
        told = seen[:, -1]
    assert len(drawn) > 100
    assert 0.1 <= min(drawn) < 0.15
    assert 1.5 < max(drawn) <= 2.0
    assert np.median(drawn) == pytest.approx(0.2**0.5, rel=0.25)


def test_one_stream_draws_first_the_episodes_and_then_the_prices() -> None:
    """In another order the same seed would train another agent."""
    envs = ChainVecEnv(random_library(), K, PRICES)
    envs.seed(5)
    rng = np.random.default_rng(5)
    for begin in (envs.reset, envs.reset, lambda: envs.step(np.ones(K, dtype=np.int64))):
        begin()
        np.testing.assert_array_equal(envs.episode, rng.integers(7, size=K))
        drawn = np.exp(rng.uniform(np.log(0.1), np.log(2.0), K))
        np.testing.assert_array_equal(envs.overlap_price, drawn)


def test_spaces_are_declared() -> None:
    envs = ChainVecEnv(random_library(), K, PRICES)
    assert envs.observation_space.shape == (FEATURES + 1,)
    assert all(row in envs.observation_space for row in envs.reset())
    assert envs.action_space.n == len(PositionAction)  # type: ignore[attr-defined]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        ChainVecEnv(random_library(), 0, PRICES)
    envs = ChainVecEnv(random_library(), K, PRICES)
    with pytest.raises(InputError, match="reset first"):
        envs.step(np.zeros(K, dtype=np.int64))
    envs.reset()
    with pytest.raises(InputError, match="Actions"):
        envs.step(np.full(K, 2))
    with pytest.raises(InputError, match="Actions"):
        envs.step(np.zeros(K + 1, dtype=np.int64))


def test_what_was_returned_is_not_written_to_later() -> None:
    envs = ChainVecEnv(random_library(), K, PRICES)
    first = envs.reset()
    _, _, ended, infos = envs.step(np.ones(K, dtype=np.int64))
    assert ended.all()
    kept = [first, *(told["terminal_observation"] for told in infos)]
    copied = [array.copy() for array in kept]
    for _ in range(5):
        envs.step(np.ones(K, dtype=np.int64))
    for array, copy in zip(kept, copied, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_attributes_are_those_of_all() -> None:
    envs = ChainVecEnv(random_library(), K, PRICES)
    assert envs.get_attr("num_envs", [0, 1]) == [K, K]
    with pytest.raises(AttributeError):
        envs.env_method("render")
    envs.close()


def test_stable_baselines_trains_on_it(tmp_path: Path) -> None:
    monitored = VecMonitor(ChainVecEnv(random_library(), K, PRICES))
    agent = stable_baselines3.DQN("MlpPolicy", monitored, learning_starts=60, seed=0)
    agent.set_logger(configure(str(tmp_path), []))
    agent.learn(240)
    assert agent.num_timesteps == 240
    assert len(agent.ep_info_buffer or []) > 0
    assert agent.observation_space.shape == (FEATURES + 1,)


def test_gymnasium_vectorises_one_of_many() -> None:
    library = random_library()
    envs = SyncVectorEnv([lambda: ChainEnv(library)] * K)
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    _, reward, ended, _, _ = counted.step(np.ones(K, dtype=np.int64))
    assert ended.all()
    assert list(counted.return_queue) == pytest.approx(list(reward))


def test_stable_baselines_vectorises_one_of_many() -> None:
    library = random_library()
    envs = DummyVecEnv([lambda: ChainEnv(library)] * K)
    envs.reset()
    _, reward, ended, infos = envs.step(np.ones(K, dtype=np.int64))
    assert ended.all()
    for paid, told in zip(reward, infos, strict=True):
        outcome_h = told["outcome_h"]
        assert paid == pytest.approx(-outcome_h if outcome_h > 0 else 0.5 * outcome_h)
