"""What a hand-over costs, and which instant decides."""

import numpy as np

from mirage.lab.training.dataset import Rows
from mirage.lab.training.metrics.handover_costs import compute_costs, find_first_free
from mirage.lab.training.trees.tree_training import find_best_constant
from tests.support.training.queue_tables import queue_table


def test_costs_are_interruption_and_priced_overlap() -> None:
    costs = compute_costs(np.array([2.0, -4.0]), (0.5, 1.0))
    np.testing.assert_allclose(costs, [[2.0, 2.0], [2.0, 4.0]])


def test_the_first_instant_that_frees_decides() -> None:
    frees = np.array([[False, True, True], [False, False, False]])
    assert find_first_free(frees).tolist() == [1, 3]


def test_weeks_without_load_teach_nothing() -> None:
    idle = Rows.from_tables([queue_table(120, load_until=0.0)])
    assert find_best_constant(idle, 0.5) == len(idle.left_h)
