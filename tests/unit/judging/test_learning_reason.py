"""When there is reason to learn anew."""

import numpy as np
import pytest

from mirage.judging.learning_reason import BAND_DAYS, WORSE_DAYS, DayLosses, find_reason_to_learn

DAY_S = 86400
NOW = 1_800_000_000


def losses(worse: int, days: int = BAND_DAYS) -> DayLosses:
    """Of `days` days the champion is worse on the last `worse`."""
    champion = np.where(np.arange(days) >= days - worse, 2.0, 0.5)
    return DayLosses(day=np.arange(days), champion=champion, quantile=np.ones(days))


def reason(
    *,
    has_model: bool = True,
    trained_days_ago: float | None = 3,
    of: DayLosses | None = None,
    every_days: int = 7,
) -> str | None:
    return find_reason_to_learn(
        has_model=has_model,
        last_trained_at=None if trained_days_ago is None else NOW - round(trained_days_ago * DAY_S),
        losses=of,
        every_days=every_days,
        now=NOW,
    )


def test_without_a_model_there_is_reason() -> None:
    assert reason(has_model=False, trained_days_ago=None) == "no model"


def test_a_week_is_reason_and_less_is_none() -> None:
    assert reason(trained_days_ago=6.9) is None
    assert reason(trained_days_ago=7) == "a week passed"
    assert reason(trained_days_ago=7, every_days=10) is None
    assert reason(trained_days_ago=10, every_days=10) == "10 days passed"


def test_training_that_brought_no_model_is_not_repeated_each_night() -> None:
    assert reason(has_model=False, trained_days_ago=1) is None


def test_forecasts_that_have_become_worse_than_the_rule_are_reason() -> None:
    assert reason(of=losses(WORSE_DAYS - 1)) is None
    told = reason(of=losses(WORSE_DAYS))
    assert told is not None
    assert told.startswith("pinball left its band: worse than quantile on 11 of the newest 14")
    assert reason(of=losses(14), trained_days_ago=0.5) is None


def test_old_days_are_forgotten() -> None:
    of = DayLosses(
        day=np.arange(40),
        champion=np.where(np.arange(40) < 26, 9.0, 0.5),
        quantile=np.ones(40),
    )
    assert (of.worse_days, reason(of=of)) == (0, None)


def test_few_days_are_no_reason() -> None:
    assert reason(of=losses(worse=8, days=8)) is None


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
    assert reason(of=of) is None


def test_forecasts_without_a_loss_are_left_out() -> None:
    nothing = np.full(3, np.nan)
    of = DayLosses.from_forecasts(
        start_point=np.arange(3) * DAY_S, owner=np.arange(3), champion=nothing, quantile=nothing
    )
    assert (len(of.day), of.worse_days) == (0, 0)
