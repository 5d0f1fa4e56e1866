"""Many hand-overs at once do what each would do alone; both adapters keep their contracts."""

from pathlib import Path

import gymnasium.wrappers.vector
import numpy as np
import pytest
import stable_baselines3
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import VecMonitor

from mirage.errors import InputError
from mirage.learn.environment.chain_env import ChainEnv, ChainVectorEnv
from mirage.learn.environment.sb3_vec_env import ChainVecEnv
from mirage.learn.environment.table_library import PositionAction
from tests.integration.learn.random_tables import FEATURES, random_library

K = 6


@pytest.mark.parametrize("seed", range(5))
def test_each_hand_over_goes_as_it_would_alone(seed: int) -> None:
    library = random_library(seed=seed)
    envs = ChainVectorEnv(library, K)
    alone = [ChainEnv(library) for _ in range(K)]
    seen, info = envs.reset(seed=seed)
    firsts = [
        e.reset(options={"handover": h}) for e, h in zip(alone, info["handover"], strict=True)
    ]
    np.testing.assert_array_equal(seen, np.stack([first for first, _ in firsts]))
    actions = np.random.default_rng(seed).integers(2, size=(40, K))
    for row in actions:
        seen, reward, ended, truncated, info = envs.step(row)
        assert not truncated.any()
        for i, env in enumerate(alone):
            last, alone_reward, alone_ended, _, told = env.step(row[i])
            assert (reward[i], ended[i]) == (alone_reward, alone_ended)
            if ended[i]:
                np.testing.assert_array_equal(info["final_obs"][i], last)
                assert {k: info["final_info"][k][i] for k in told} == told
                last, _ = env.reset(options={"handover": envs.episode[i]})
            np.testing.assert_array_equal(seen[i], last)
        if ended.any():
            np.testing.assert_array_equal(info["_final_obs"], ended)


def test_each_episode_has_its_price_tells_it_and_is_paid_at_it() -> None:
    envs = ChainVectorEnv(random_library(), K, prices=(0.1, 2.0))
    assert envs.single_observation_space.shape == (FEATURES + 1,)
    seen, _ = envs.reset(seed=2)
    told, drawn = seen[:, -1], [*seen[:, -1]]
    assert envs.observation_space.contains(seen)
    for row in np.random.default_rng(0).integers(2, size=(60, K)):
        seen, reward, ended, _, info = envs.step(row)
        np.testing.assert_array_equal(seen[~ended, -1], told[~ended])
        for i in np.flatnonzero(ended):
            assert info["final_obs"][i][-1] == told[i]
            x = info["final_info"]["outcome_h"][i]
            assert reward[i] == pytest.approx(-x if x > 0 else told[i] * x, rel=1e-6)
            drawn.append(seen[i, -1])
        told = seen[:, -1]
    assert len(drawn) > 100
    assert 0.1 <= min(drawn) < 0.15
    assert 1.5 < max(drawn) <= 2.0
    assert np.median(drawn) == pytest.approx(0.2**0.5, rel=0.25)


def test_alone_and_one_of_one_draw_the_same_episodes() -> None:
    library = random_library()
    env, envs = ChainEnv(library), ChainVectorEnv(library, 1)
    drawn = [env.reset(seed=5)[1]["handover"]]
    drawn += [env.reset()[1]["handover"] for _ in range(20)]
    envs.reset(seed=5)
    vectored = [int(envs.episode[0])]
    for _ in range(20):
        envs.step(np.array([PositionAction.FREE]))
        vectored.append(int(envs.episode[0]))
    assert vectored == drawn


def test_spaces_and_mode_are_declared() -> None:
    envs = ChainVectorEnv(random_library(), K)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    seen, _ = envs.reset(seed=0)
    assert seen in envs.observation_space
    assert envs.action_space.sample().shape == (K,)


def test_some_may_be_begun_anew() -> None:
    envs = ChainVectorEnv(random_library(), K)
    envs.reset(seed=0)
    before = envs.episode.copy()
    mask = np.arange(K) == 2
    wanted = (before + 1) % 7
    _, info = envs.reset(options={"reset_mask": mask, "handover": wanted})
    np.testing.assert_array_equal(info["handover"], np.where(mask, wanted, before))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        ChainVectorEnv(random_library(), 0)
    envs = ChainVectorEnv(random_library(), K)
    with pytest.raises(InputError, match="reset first"):
        envs.step(np.zeros(K, dtype=np.int64))
    with pytest.raises(InputError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.zeros(K, dtype=np.bool_)})
    with pytest.raises(InputError, match="from 0 to 6"):
        envs.reset(options={"handover": -1})
    envs.reset()
    with pytest.raises(InputError, match="Actions"):
        envs.step(np.full(K, 2))
    with pytest.raises(InputError, match="Actions"):
        envs.step(np.zeros(K + 1, dtype=np.int64))


def test_what_was_returned_is_not_written_to_later() -> None:
    envs = ChainVectorEnv(random_library(), K)
    kept, info = envs.reset(seed=1)
    copied, drawn = kept.copy(), info["handover"].copy()
    envs.step(np.ones(K, dtype=np.int64))
    np.testing.assert_array_equal(kept, copied)
    np.testing.assert_array_equal(info["handover"], drawn)


def test_gymnasium_counts_returns_and_lengths() -> None:
    envs = ChainVectorEnv(random_library(), K)
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    counted.reset(seed=0)
    _, reward, ended, _, _ = counted.step(np.ones(K, dtype=np.int64))
    assert ended.all()
    assert list(counted.return_queue) == pytest.approx(list(reward))


def test_stable_baselines_sees_the_same_numbers() -> None:
    library = random_library(seed=2)
    envs, adapted = ChainVectorEnv(library, K), ChainVecEnv(ChainVectorEnv(library, K))
    adapted.seed(4)
    np.testing.assert_array_equal(envs.reset(seed=4)[0], adapted.reset())
    for row in np.random.default_rng(0).integers(2, size=(30, K)):
        seen, reward, ended, _, info = envs.step(row)
        theirs, their_reward, done, infos = adapted.step(row)
        np.testing.assert_array_equal(seen, theirs)
        np.testing.assert_array_equal(reward.astype(np.float32), their_reward)
        np.testing.assert_array_equal(ended, done)
        for i in np.flatnonzero(ended):
            np.testing.assert_array_equal(infos[i]["terminal_observation"], info["final_obs"][i])
            assert infos[i]["outcome_h"] == info["final_info"]["outcome_h"][i]
    assert adapted.get_attr("num_envs", [0, 1]) == [K, K]
    with pytest.raises(AttributeError):
        adapted.env_method("render")
    adapted.close()


def test_stable_baselines_trains_on_it(tmp_path: Path) -> None:
    monitored = VecMonitor(ChainVecEnv(ChainVectorEnv(random_library(), K)))
    agent = stable_baselines3.DQN("MlpPolicy", monitored, learning_starts=60, seed=0)
    agent.set_logger(configure(str(tmp_path), []))
    agent.learn(240)
    assert agent.num_timesteps == 240
    assert len(agent.ep_info_buffer or []) > 0
    assert agent.observation_space.shape == (FEATURES,)
