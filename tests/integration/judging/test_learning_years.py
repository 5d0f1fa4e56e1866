"""Two hundred years of challengers that are no better, and how soon others are noticed."""

import pytest

from benchmarks.learning_years import Noise, play_challengers, play_champion

YEARS = 200
MOST = 0.05
"""The criterion of docs/decisions/0041-models-of-the-site.md."""


@pytest.mark.parametrize("span_days", [1, 3])
def test_years_of_challengers_that_are_no_better_promote_hardly_any(span_days: int) -> None:
    noise = Noise(span_days=span_days)
    days = [play_challengers(seed, gain_h=0.0, noise=noise) for seed in range(YEARS)]
    assert sum(day is not None for day in days) <= MOST * YEARS


def test_one_that_is_dearer_is_never_promoted() -> None:
    days = [play_challengers(seed, gain_h=-0.5, noise=Noise()) for seed in range(40)]
    assert days == [None] * 40


def test_one_that_is_better_by_a_days_deviation_is_promoted_within_the_year() -> None:
    days = [play_challengers(seed, gain_h=1.0, noise=Noise()) for seed in range(40)]
    assert sum(day is not None for day in days) >= 36


def test_a_champion_made_worse_is_taken_back_within_three_weeks() -> None:
    days = [play_champion(seed, loss_h=4.0, noise=Noise()) for seed in range(40)]
    assert sum(day is not None and day <= 21 for day in days) >= 36


def test_a_champion_that_is_better_than_the_rule_stays() -> None:
    days = [play_champion(seed, loss_h=-0.5, noise=Noise()) for seed in range(20)]
    assert sum(day is not None for day in days) <= 1
