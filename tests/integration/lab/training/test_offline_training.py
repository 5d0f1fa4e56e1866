"""What is regressed on, and what is descended, are what a policy's hand-overs come to."""

from itertools import product

import numpy as np
import pytest
import torch

from mirage.lab.training.agents.offline_training import (
    compute_cost_of_waiting,
    compute_expected_cost,
)
from mirage.lab.training.agents.training_tensors import compute_cost

SPENT = torch.tensor([[4.0, 2.0, 3.0, 7.0], [1.0, 5.0, 6.0, 0.5]])


def test_waiting_comes_to_what_the_next_freeing_costs() -> None:
    frees = torch.tensor([[True, False, True, True], [False, False, False, False]])
    wanted = [[3.0, 3.0, 7.0, 7.0], [0.5, 0.5, 0.5, 0.5]]
    assert compute_cost_of_waiting(SPENT, frees).tolist() == wanted


def test_the_expected_cost_is_that_of_every_course_by_its_chance() -> None:
    preference = torch.tensor([[0.3, -1.0, 2.0, 9.0], [-0.5, 0.0, 1.0, -9.0]])
    chance = torch.sigmoid(preference)[:, :3].numpy()
    by_hand = []
    for e, spent in enumerate(SPENT.tolist()):
        total = 0.0
        for course in product((False, True), repeat=3):
            likely = np.prod([c if f else 1 - c for c, f in zip(chance[e], course, strict=True)])
            total += likely * spent[course.index(True) if True in course else 3]
        by_hand.append(total)
    assert float(compute_expected_cost(preference, SPENT)) == pytest.approx(
        np.mean(by_hand), rel=1e-5
    )


def test_descending_it_finds_the_cheapest_instant() -> None:
    preference = torch.zeros(2, 4, requires_grad=True)
    optimizer = torch.optim.Adam([preference], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        compute_expected_cost(preference, SPENT).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(compute_expected_cost(preference, SPENT).detach()) == pytest.approx(
        (2.0 + 0.5) / 2, abs=0.05
    )


def test_an_hour_of_overlap_costs_its_price() -> None:
    assert compute_cost(torch.tensor([2.0, 0.0, -4.0]), 0.25).tolist() == [2.0, 0.0, 1.0]
