"""What an agent looks back on is the same in training and in service."""

import numpy as np
import pytest
import torch

from mirage.errors import InputError
from mirage.lab.training.agents.trajectories import WINDOW, Trajectories, split_windows
from mirage.lab.training.dataset import Rows
from mirage.observation import spec
from mirage.policies.models.agent_model import pad_window
from mirage.twin import twin_features
from tests.support.training import queue_tables
from tests.support.training.queue_tables import queue_table

TABLE = queue_table(8)


def test_decisions_and_ends_are_seen_at_their_instants() -> None:
    made = Trajectories.from_tables([TABLE], 6)
    sight = made.build_input(0)
    assert made.decision_instants.tolist() == [0, 6, 12, 18, 24]
    np.testing.assert_array_equal(
        sight.now.numpy(), TABLE.observations[:, ::6].reshape(len(sight), -1)
    )
    assert (sight.past.shape[1], sight.mask.shape[1]) == (0, 0)
    np.testing.assert_array_equal(made.rows.flat, Rows.from_tables([TABLE], 6).flat)


def test_tables_are_put_in_the_order_of_their_start_points() -> None:
    later, earlier = TABLE, queue_table(8, first=int(TABLE.start_point[0]) - 86400 * 30)
    made = Trajectories.from_tables([later, earlier], 6)
    np.testing.assert_array_equal(made.observations[:8], earlier.observations)
    np.testing.assert_array_equal(made.rows.observations[:, 0], made.observations[:, 0])


def test_what_the_twin_foretold_is_known_of_the_present_alone() -> None:
    later = queue_table(8, seed=1, first=int(TABLE.start_point[-1]) + 86400)
    tables = [queue_tables.add_forecasts(made) for made in (later, TABLE)]
    made = Trajectories.from_tables(tables, 6, twin=True)
    plain, told = len(spec.FEATURE_NAMES), len(twin_features.FEATURE_NAMES)
    sight = made.build_input(12)
    now = sight.now.numpy().reshape(16, 5, plain + told)
    assert sight.past.shape[2] == plain
    np.testing.assert_array_equal(now[:, :-1], made.rows.observations)
    np.testing.assert_array_equal(made.rows.flat, Rows.from_tables(tables, 6, twin=True).flat)
    # At the end nothing is left of the run.
    twins = tables[1].twins
    assert twins is not None
    last = twin_features.compute_twin_features(twins.quantile_s[:, -1], np.zeros(8))
    np.testing.assert_array_equal(now[:8, -1, plain:], last)
    few = made.select_episodes(np.array([3, 9]))
    np.testing.assert_array_equal(few.build_input(0).now.numpy().reshape(2, 5, -1), now[[3, 9]])


def test_a_table_that_the_twin_was_not_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match="lacks the twin's forecasts"):
        Trajectories.from_tables(
            [queue_tables.add_forecasts(TABLE), queue_table(8, seed=1)], 6, twin=True
        )


@pytest.mark.parametrize("part", [6, 12, 48])
def test_a_window_as_served_gives_the_parts_that_were_learned_from(part: int) -> None:
    made = Trajectories.from_tables([TABLE], 6)
    sight = made.build_input(part)
    pairs = [
        pad_window(run[: k + 1], WINDOW)
        for run in made.observations
        for k in made.decision_instants
    ]
    windows, known = (torch.from_numpy(np.array(column)) for column in zip(*pairs, strict=True))
    past, there = split_windows(windows, known, part)
    np.testing.assert_allclose(past, sight.past, atol=1e-5)
    np.testing.assert_array_equal(there, sight.mask)
    assert there[0].tolist() == [0.0] * (WINDOW // part - 1) + [1.0]


def test_nothing_later_than_the_decision_is_looked_back_on() -> None:
    changed = TABLE.observations.copy()
    changed[:, 13:] = 9.0
    made = Trajectories.from_tables([TABLE], 6)
    other = Trajectories(made.rows, made.decision_instants, changed)
    decisions = len(made.decision_instants)
    for told, wanted in zip(_columns(other), _columns(made), strict=True):
        by_run, as_was = (c.reshape(8, decisions, -1) for c in (told, wanted))
        np.testing.assert_array_equal(by_run[:, :3], as_was[:, :3])
        assert (by_run[:, 3:] != as_was[:, 3:]).any()


def _columns(made: Trajectories) -> tuple[torch.Tensor, torch.Tensor]:
    sight = made.build_input(6)
    return sight.now, sight.past


def test_a_long_run_is_cut_to_its_last_day() -> None:
    rows = np.arange(200, dtype=np.float32)[:, None]
    window, known = pad_window(rows, WINDOW)
    assert window[:, 0].tolist() == list(range(200 - WINDOW, 200))
    assert known.tolist() == [1.0] * WINDOW
