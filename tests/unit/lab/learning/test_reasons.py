"""Whether there is something to learn today."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.lab.learning.reasons import (
    BAND_DAYS,
    WORSE_DAYS,
    DayLosses,
    LearningPast,
    LearningReason,
    find_reason,
)
from tests.support.episodes.tables import DAY_S, MONDAY

PAST = LearningPast(trained_at=MONDAY, has_model=True)


def look(
    past: LearningPast, days: float = 1, *, forced: bool = False, every_days: int = 7
) -> LearningReason:
    """Look for a reason so many days after the training."""
    now = MONDAY + round(days * DAY_S)
    return find_reason(past, forced=forced, every_days=every_days, now=now)


def losses(worse: int, days: int = BAND_DAYS, measured_day: int = 2) -> DayLosses:
    """Of `days` days the champion is worse on the last `worse`; it was measured so many days after
    the training."""
    champion = np.where(np.arange(days) >= days - worse, 2.0, 0.5)
    return DayLosses(
        day=np.arange(days),
        champion=champion,
        quantile=np.ones(days),
        measured_at=MONDAY + measured_day * DAY_S,
    )


def test_nothing_was_trained_yet() -> None:
    assert look(replace(PAST, trained_at=None, has_model=False)).text == "no model"
    assert look(replace(PAST, trained_at=None)).text == "no training is on record"


def test_training_that_brought_no_model_is_not_repeated_each_night() -> None:
    assert not look(replace(PAST, has_model=False)).is_due


def test_a_week_has_passed_and_not_before() -> None:
    assert look(PAST, 7) == LearningReason(True, "a week passed")
    assert not look(PAST, 6.9).is_due
    assert not look(PAST, 7, every_days=10).is_due
    assert look(PAST, 10, every_days=10) == LearningReason(True, "10 days passed")


def test_while_a_model_stands_for_promotion_nothing_is_trained() -> None:
    standing = replace(PAST, challenger="models/site-a/1", proposed_at=MONDAY)
    assert not look(standing, 30).is_due
    assert look(standing, 30, forced=True).is_due


def test_an_interrupted_run_goes_on() -> None:
    past = replace(PAST, challenger="models/site-a/1", interrupted_at=MONDAY)
    assert look(past).is_due


def test_forecasts_that_have_become_worse_than_the_rule_are_reason() -> None:
    assert not look(replace(PAST, losses=losses(WORSE_DAYS - 1)), 3).is_due
    reason = look(replace(PAST, losses=losses(WORSE_DAYS)), 3)
    assert reason.is_due
    assert reason.text == ("pinball left its band: worse than quantile on 11 of the newest 14 days")


def test_the_same_bad_forecasts_are_a_reason_once() -> None:
    """The look that measures them trains at once, and nights later nothing new is known."""
    assert not look(replace(PAST, losses=losses(14, measured_day=0)), 3).is_due


def test_old_days_are_forgotten() -> None:
    of = DayLosses(
        day=np.arange(40),
        champion=np.where(np.arange(40) < 26, 9.0, 0.5),
        quantile=np.ones(40),
    )
    assert of.worse_days == 0


def test_few_days_are_no_reason() -> None:
    assert not look(replace(PAST, losses=losses(worse=8, days=8)), 3).is_due


@pytest.mark.parametrize("bad_loss_h", [3.0, 1e9])
def test_days_are_counted_and_not_rows(bad_loss_h: float) -> None:
    """A thousand forecasts of one day, however wrong, are one day; of one owner, one vote."""
    at = np.concatenate([np.arange(14) * DAY_S, np.full(1000, 5 * DAY_S)])
    champion = np.concatenate([np.full(14, 0.5), np.full(1000, bad_loss_h)])
    of = DayLosses.from_forecasts(
        start_point=at,
        owner=np.zeros(len(at), dtype=np.int64),
        champion=champion,
        quantile=np.ones(len(at)),
    )
    assert of.worse_days == 1


def test_forecasts_without_a_loss_are_left_out() -> None:
    nothing = np.full(3, np.nan)
    of = DayLosses.from_forecasts(
        start_point=np.arange(3) * DAY_S, owner=np.arange(3), champion=nothing, quantile=nothing
    )
    assert (len(of.day), of.worse_days) == (0, 0)
