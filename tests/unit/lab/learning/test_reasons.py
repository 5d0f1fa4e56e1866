"""Whether there is something to learn today."""

from dataclasses import replace

from mirage.lab.learning.reasons import LearningPast, find_reason
from tests.support.episodes.tables import DAY_S, MONDAY

PAST = LearningPast(trained_at=MONDAY, has_model=True)


def given(past: LearningPast, days: int = 1, *, forced: bool = False) -> bool:
    now = MONDAY + days * DAY_S
    return find_reason(past, forced=forced, every_days=7, now=now).is_due


def test_nothing_was_trained_yet() -> None:
    assert given(replace(PAST, trained_at=None))


def test_a_week_has_passed_and_not_before() -> None:
    assert given(PAST, 7)
    assert not given(PAST, 6)


def test_while_a_model_stands_for_promotion_nothing_is_trained() -> None:
    standing = replace(PAST, challenger="models/site-a/1", proposed_at=MONDAY)
    assert not given(standing, 30)
    assert given(standing, 30, forced=True)


def test_an_interrupted_run_goes_on() -> None:
    past = replace(PAST, challenger="models/site-a/1", interrupted_at=MONDAY)
    assert given(past)
