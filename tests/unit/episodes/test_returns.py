"""Returns over a hand-made table: an early link gives its nodes back, and a later row counts."""

import numpy as np
import pytest

from mirage.episodes.judge import policy_runner
from mirage.episodes.judge.evaluation import (
    HandoverOutcomes,
    build_class_masks,
    evaluate_policies,
)
from tests.support.episodes.tables import table

INSTANTS = 37
"""A predecessor of six hours. The last instant is its end."""
AT_ONCE = [(k - INSTANTS + 1) / 6 for k in range(INSTANTS)]
"""The outcomes, in hours, of a successor that starts in the second of its release."""


def play(outcome_h: list[float], released: int, most: int, price: float = 0.5) -> tuple[int, int]:
    """The instant of the last release, and how often the link gave its nodes back."""
    chosen = np.array([released], dtype=np.int64)
    last, returns = policy_runner.play_returns(table([outcome_h]), chosen, price, most)
    return int(last[0]), int(returns[0])


def test_a_link_that_starts_hours_early_is_released_again_at_a_later_row() -> None:
    # It waited two hours and has four left: two hours before the end it is released again.
    assert play([-4.0, *AT_ONCE[1:]], released=0, most=1) == (24, 1)
    # It has waited for nothing, so the next wait is the floor of five minutes: the last row.
    assert play(AT_ONCE, released=0, most=1) == (36, 1)


def test_a_link_gives_its_nodes_back_no_more_often_than_allowed() -> None:
    # Released at the start it waits an hour, so it is released again an hour before the end. Then
    # it starts at once, and is released a third time five minutes before the end.
    outcomes = [-5.0, *AT_ONCE[1:]]
    assert play(outcomes, released=0, most=0) == (0, 0)
    assert play(outcomes, released=0, most=1) == (30, 1)
    assert play(outcomes, released=0, most=2) == (36, 2)
    assert play(outcomes, released=0, most=9) == (36, 2), "in time, nothing is given back"
    assert play(outcomes, released=35, most=9) == (35, 0), "nor for the sake of ten minutes"


def test_a_link_that_starts_in_time_or_late_gives_nothing_back() -> None:
    assert play([0.0] * INSTANTS, released=3, most=2) == (3, 0)
    assert play([1.0] * INSTANTS, released=3, most=2) == (3, 0)


def test_a_return_that_goes_wrong_is_charged_as_it_went() -> None:
    # Six hours early for the first release; for the second, at the end, three hours late.
    made = table([[-6.0] + [3.0] * (INSTANTS - 1)])
    first = np.zeros(1, dtype=np.int64)
    last, returns = policy_runner.play_returns(made, first, 0.5, 2)
    played = HandoverOutcomes.from_choices(made, last, returns=returns)
    assert returns.tolist() == [1]
    assert played.interruption_h.tolist() == [3.0]
    assert played.compute_cost_h(0.5).tolist() == [3.05]


def test_figures_count_returns_only_where_they_are_played() -> None:
    made = table([[-4.0] + [-0.1] * 36, [2.0] * INSTANTS])
    first = np.zeros(2, dtype=np.int64)
    last, returns = policy_runner.play_returns(made, first, 0.5, 2)
    played = {
        "reactive": HandoverOutcomes.from_choices(made, policy_runner.choose_reactive(made)),
        "oracle": HandoverOutcomes.from_choices(made, policy_runner.choose_oracle(made, 0.5)),
        "at-once": HandoverOutcomes.from_choices(made, last, returns=returns),
    }
    masks = build_class_masks(played["reactive"].interruption_h)
    told = evaluate_policies(played, masks, 0.5)
    assert told["at-once"]["all"]["returns"] == 0.5
    assert told["at-once"]["all"]["return_h"] == pytest.approx(0.05)
    # Six minutes of overlap and a return of six, at the price of 0.5, in one of two hand-overs.
    assert told["at-once"]["all"]["cost_h"] == pytest.approx((0.2 * 0.5 + 2.0) / 2)
    assert "returns" not in told["reactive"]["all"]
