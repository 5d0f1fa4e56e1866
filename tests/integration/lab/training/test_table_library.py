"""Rows are looked up; the outcome is that of the row where the standby is freed."""

from copy import copy
from pathlib import Path

import gymnasium.utils.env_checker
import numpy as np
import pytest
import stable_baselines3.common.env_checker

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.environment.chain_env import ChainEnv
from mirage.lab.training.environment.table_library import BOUND, PositionAction, TableLibrary
from tests.integration.lab.training.random_tables import FEATURES, random_library, random_tables
from tests.support.episodes import tables as made

PRICE = 0.3


def cost_h(outcome_h: float) -> float:
    return outcome_h if outcome_h > 0 else -PRICE * outcome_h


def freed_at(env: ChainEnv, handover: int, instant: int) -> list[float]:
    """Rewards of waiting until `instant` and freeing there."""
    env.reset(options={"handover": handover})
    got: list[float] = []
    ended = False
    while not ended:
        free = len(got) >= instant
        _, reward, ended, truncated, _ = env.step(
            PositionAction.FREE if free else PositionAction.HELD
        )
        assert not truncated
        got.append(float(reward))
    return got


def test_gymnasium_finds_no_fault() -> None:
    gymnasium.utils.env_checker.check_env(ChainEnv(random_library()), skip_render_check=True)


def test_stable_baselines_finds_no_fault() -> None:
    stable_baselines3.common.env_checker.check_env(ChainEnv(random_library()))


def test_freeing_at_an_instant_costs_that_row_s_outcome() -> None:
    tables = random_tables()
    env = ChainEnv(TableLibrary(tables), PRICE)
    for handover, (_, outcome_h) in enumerate(tables):
        for instant, outcome in enumerate(outcome_h):
            assert freed_at(env, handover, instant) == [0.0] * instant + [-cost_h(outcome)]


def test_waiting_to_the_end_is_reactive() -> None:
    tables = random_tables()
    env = ChainEnv(TableLibrary(tables), PRICE)
    for handover, (_, outcome_h) in enumerate(tables):
        got = freed_at(env, handover, len(outcome_h) + 1)
        assert got == [0.0] * (len(outcome_h) - 1) + [-cost_h(outcome_h[-1])]


def test_observations_and_infos_are_those_of_the_rows() -> None:
    tables = random_tables(seed=3)
    handover = int(np.argmax([len(h) for _, h in tables]))
    rows, outcome_h = tables[handover]
    env = ChainEnv(TableLibrary(tables))
    seen, info = env.reset(options={"handover": handover})
    assert info == {"handover": handover, "instant": 0, "reactive_h": outcome_h[-1]}
    np.testing.assert_array_equal(seen, rows[0])
    for instant in range(1, len(rows)):
        seen, _, _, _, info = env.step(PositionAction.HELD)
        assert info == {"handover": handover, "instant": instant}
        np.testing.assert_array_equal(seen, rows[instant])
    seen, _, _, _, info = env.step(PositionAction.HELD)
    assert info["outcome_h"] == outcome_h[-1]
    np.testing.assert_array_equal(seen, rows[-1])


def test_a_seed_gives_the_same_episodes_and_they_are_all_drawn() -> None:
    def drawn(seed: int) -> list[int]:
        env = ChainEnv(random_library())
        first = env.reset(seed=seed)[1]["handover"]
        return [first, *(env.reset()[1]["handover"] for _ in range(60))]

    assert drawn(1) == drawn(1) != drawn(2)
    assert set(drawn(1)) == set(range(7))


def test_a_file_s_episodes_are_taken_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    outcome_s = rng.integers(-9000, 9000, (4, 5)).astype(np.int32)
    aged_s = outcome_s + np.int32(600)
    seen = rng.normal(size=(4, 5, 2)).astype(np.float32)
    made.table(
        (outcome_s / 3600).tolist(), outcome_s=outcome_s, outcome_aged_s=aged_s, observations=seen
    ).save(tmp_path / "e.npz")
    read = EpisodeTable.load(tmp_path / "e.npz")
    library = TableLibrary.from_tables([read, read])
    assert library.features == ("time_left_s", "index")
    np.testing.assert_array_equal(library.outcome_h, np.tile(outcome_s.ravel(), 2) / 3600)
    np.testing.assert_array_equal(library.observations, np.tile(seen.reshape(20, 2), (2, 1)))
    assert list(library.last - library.first) == [4] * 8
    aged = TableLibrary.from_tables([read], aged=True)
    np.testing.assert_array_equal(aged.outcome_h, aged_s.ravel() / 3600)


def test_files_of_other_features_do_not_go_together() -> None:
    one = made.table([[1.0]])
    other = copy(one)
    other.metadata = made.build_metadata(features_fingerprint="other")
    with pytest.raises(InputError, match="different features"):
        TableLibrary.from_tables([one, other])
    with pytest.raises(InputError, match="at least one"):
        TableLibrary.from_tables([])


def test_the_columns_names_are_kept() -> None:
    names = tuple("abcde")
    assert TableLibrary(random_tables(), names).features == names
    assert len(random_library().features) == FEATURES


ROW = np.zeros((1, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([], "at least one episode"),
        ([(np.zeros((0, 2)), np.zeros(0))], "T at least 1"),
        ([(ROW, np.zeros(2))], "should be"),
        ([(np.zeros(2), np.zeros(2))], "should be"),
        ([(ROW, np.array([np.nan]))], "not finite"),
        ([(ROW + np.float32(np.nan), np.zeros(1))], "not finite"),
        ([(ROW + np.float32(10 * BOUND), np.zeros(1))], "beyond"),
        ([(ROW, np.zeros(1)), (np.zeros((1, 3)), np.zeros(1))], "features"),
    ],
)
def test_tables_that_do_not_fit_are_refused(tables: list[tuple[object, object]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TableLibrary(tables)  # type: ignore[arg-type]


def test_names_must_be_as_many_as_columns() -> None:
    with pytest.raises(InputError, match="features"):
        TableLibrary(random_tables(), ("one",))


def test_steps_out_of_turn_and_unknown_actions_are_refused() -> None:
    env = ChainEnv(random_library())
    with pytest.raises(InputError, match="reset first"):
        env.step(PositionAction.HELD)
    env.reset()
    with pytest.raises(InputError, match="from 0 to 1"):
        env.step(2)
    env.step(PositionAction.FREE)
    with pytest.raises(InputError, match="reset first"):
        env.step(PositionAction.HELD)
    with pytest.raises(InputError, match="from 0 to 6"):
        env.reset(options={"handover": 7})
