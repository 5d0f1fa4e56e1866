"""How complete a history is, and which weeks of it can be replayed."""

import numpy as np
import pytest

from mirage.domain.arrays import Ints
from mirage.lab.learning.history_facts import (
    HistoryFacts,
    Span,
    count_days,
    find_covered_until,
    list_weeks,
)
from tests.support.episodes.tables import DAY_S, HOUR_S, MONDAY

WEEK_S = 7 * DAY_S


def hourly(days: int, *, without: range = range(0)) -> Ints:
    submit = MONDAY + np.arange(0, days * DAY_S, HOUR_S)
    return submit[~np.isin((submit - MONDAY) // DAY_S, list(without))]


def facts(days: int, *, without: range = range(0)) -> HistoryFacts:
    submit = hourly(days, without=without)
    return HistoryFacts.from_columns(submit, submit + HOUR_S)


def test_a_gap_of_days_is_named() -> None:
    found = facts(40, without=range(10, 20))
    assert found.gaps == (Span(MONDAY + 10 * DAY_S, MONDAY + 20 * DAY_S),)
    assert "No job is stored of 2023-11-30 to 2023-12-09" in " ".join(found.list_sentences())


def test_a_quiet_weekend_is_no_gap() -> None:
    assert facts(40, without=range(5, 7)).gaps == ()


def test_days_whose_jobs_have_no_end_were_not_accounted_for() -> None:
    submit = hourly(60)
    day = (submit - MONDAY) // DAY_S
    end = np.where((day >= 10) & (day < 14), -1, submit + HOUR_S)
    found = HistoryFacts.from_columns(submit, end)
    assert found.unaccounted == (Span(MONDAY + 10 * DAY_S, MONDAY + 14 * DAY_S),)


def test_jobs_of_the_last_month_may_still_run() -> None:
    submit = hourly(60)
    end = np.where(submit > MONDAY + 50 * DAY_S, -1, submit + HOUR_S)
    assert HistoryFacts.from_columns(submit, end).unaccounted == ()


def test_a_site_without_accounting_has_no_day_that_counts() -> None:
    submit = hourly(12)
    found = HistoryFacts.from_columns(submit, np.full(len(submit), -1))
    assert found.unaccounted == (Span(MONDAY, MONDAY + 12 * DAY_S),)
    assert list_weeks(found, HOUR_S, 9) == []


def test_weeks_end_two_time_limits_before_the_log_and_begin_six_days_into_it() -> None:
    found = list_weeks(facts(30), 2 * DAY_S, 9)
    assert [week.name for week in found] == ["2023-W49", "2023-W48", "2023-W47+6"]
    assert found[0].until == MONDAY + 3 * WEEK_S
    assert found[-1].since == MONDAY + 6 * DAY_S
    assert count_days(found) == 15


def test_a_time_limit_later_there_is_a_week_less() -> None:
    assert len(list_weeks(facts(30), 5 * DAY_S, 9)) == 2


def test_only_the_newest_weeks_are_taken() -> None:
    assert [week.name for week in list_weeks(facts(60), DAY_S, 2)] == ["2024-W02", "2024-W01"]


@pytest.mark.parametrize("day", range(20, 31))
def test_no_week_touches_a_gap_or_the_days_that_a_replay_needs_beside_it(day: int) -> None:
    holes = range(day, day + 4)
    hole = Span(MONDAY + holes.start * DAY_S, MONDAY + holes.stop * DAY_S)
    for week in list_weeks(facts(70, without=holes), DAY_S, 20):
        assert not hole.overlaps(week.since - 6 * DAY_S, week.until + 2 * DAY_S)


def test_what_is_covered_ends_on_a_monday() -> None:
    assert find_covered_until(MONDAY + 16 * DAY_S, DAY_S) == MONDAY + 2 * WEEK_S
    assert find_covered_until(MONDAY + 16 * DAY_S - 1, DAY_S) == MONDAY + WEEK_S * 1
