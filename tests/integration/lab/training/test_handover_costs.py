"""What a hand-over costs, and which instant decides."""

import numpy as np

from mirage.lab.training.metrics.handover_costs import compute_costs, find_first_free


def test_costs_are_interruption_and_priced_overlap() -> None:
    costs = compute_costs(np.array([2.0, -4.0]), (0.5, 1.0))
    np.testing.assert_allclose(costs, [[2.0, 2.0], [2.0, 4.0]])


def test_the_first_instant_that_frees_decides() -> None:
    frees = np.array([[False, True, True], [False, False, False]])
    assert find_first_free(frees).tolist() == [1, 3]
