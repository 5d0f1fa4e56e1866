"""The boundary of stopping is where whole hand-overs cost least, no further out than is clear."""

import numpy as np

from mirage.learn.dataset import Rows
from mirage.learn.trees import stopping
from mirage.learn.trees.tree_training import find_best_constant
from tests.support.learn.queue_tables import queue_table

ROWS = Rows.from_tables([queue_table(120)], every=1)
PRICES = (0.15, 0.5, 1.5)


def test_costs_are_interruption_and_priced_overlap() -> None:
    found = stopping.compute_costs(np.array([2.0, -4.0]), (0.5, 1.0))
    np.testing.assert_allclose(found, [[2.0, 2.0], [2.0, 4.0]])


def test_the_first_instant_that_frees_decides() -> None:
    frees = np.array([[False, True, True], [False, False, False]])
    assert stopping.find_first_free(frees).tolist() == [1, 3]


def test_right_probabilities_keep_the_newsvendors_boundary() -> None:
    # The outcome itself as a forecast: every boundary between 0 and 1 frees at the same instant.
    sure = stopping.label_late(ROWS).reshape(len(ROWS), -1)
    assert stopping.choose_factor(ROWS, sure, PRICES) == 1.0


def test_a_forecast_that_is_too_timid_moves_the_boundary() -> None:
    timid = stopping.label_late(ROWS).reshape(len(ROWS), -1) * 0.1
    assert stopping.choose_factor(ROWS, timid, PRICES) < 1.0


def test_weeks_without_load_teach_nothing() -> None:
    idle = Rows.from_tables([queue_table(120, load_until=0.0)])
    never = np.zeros((len(idle), len(idle.left_h)))
    assert stopping.choose_factor(idle, never, PRICES) == 1.0
    assert find_best_constant(idle, 0.5) == len(idle.left_h)
