"""The recommendation: each verdict, and the edges between them."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.judging.evaluation import HandoverOutcomes
from mirage.reports.recommendation import (
    EARLY,
    LEAST_DAYS,
    LEAST_GAIN_H,
    OURS,
    REACTIVE,
    SHORT_H,
    LogWaits,
    Recommendation,
    RecommendationEvidence,
    ReportVerdict,
    choose_recommendation,
)
from tests.support.episodes.tables import DAY_S, MONDAY

PRICE = 0.5


def handovers(hours: float, *, days: int, noise: float = 0.0) -> HandoverOutcomes:
    """Four a day, alternately above and below the mean by `noise`, a day like the next."""
    count = 4 * days
    start_point = MONDAY + np.arange(count) * (DAY_S // 4)
    swing = np.where((np.arange(count) // 4) % 2 == 0, noise, -noise)
    return HandoverOutcomes(start_point=start_point, x_h=hours + swing, lead_h=np.zeros(count))


def advised(
    reactive: float, early: float, ours: float, *, days: int = 28, noise: float = 0.0
) -> Recommendation:
    """Signed hours of each: interruption above 0."""
    made = {
        REACTIVE: handovers(reactive, days=days),
        EARLY: handovers(early, days=days, noise=noise),
        OURS: handovers(ours, days=days, noise=noise),
    }
    return choose_recommendation(RecommendationEvidence.from_handovers(made, PRICE))


def test_it_would_save() -> None:
    told = advised(6.0, 5.0, -1.0)
    assert told.verdict is ReportVerdict.SAVES
    assert "save 6.00 [6.00, 6.00] h of interruption per hand-over, for 1.00 h of overlap" in (
        told.advice
    )
    # 6 h of interruption against 1 h of overlap at half the price.
    assert "-5.50 [-5.50, -5.50] h from it" in told.reason


def test_a_plain_early_dependency_is_as_good() -> None:
    told = advised(6.0, 0.1, 0.1)
    assert told.verdict is ReportVerdict.EARLY_DEPENDENCY
    assert "PriorityFlags=ACCRUE_ALWAYS" in told.advice
    assert "is as good here: you do not need Mirage" in told.advice
    assert "is better here: you do not need Mirage" in advised(6.0, 0.0, 1.0).advice


def between(low_h: float, high_h: float) -> Recommendation:
    """The flag helps much, and Mirage's cost differs from it by so much."""
    made = {n: handovers(h, days=28) for n, h in ((REACTIVE, 6.0), (EARLY, 0.1), (OURS, 0.1))}
    seen = RecommendationEvidence.from_handovers(made, PRICE)
    wide = replace(seen.on_early, mean_h=(low_h + high_h) / 2, interval_h=(low_h, high_h))
    return choose_recommendation(replace(seen, on_early=wide))


def test_as_good_is_said_within_a_margin_only() -> None:
    edge = LEAST_GAIN_H
    assert "is as good here" in between(-edge, edge).advice
    assert "is as good or better here" in between(-edge, 2.0).advice
    assert "is better here" in between(0.01, 2.0).advice


def test_a_wide_interval_is_undecided_and_says_what_would_do() -> None:
    told = between(-0.5, 0.5)
    assert told.verdict is ReportVerdict.UNDECIDED
    assert "cannot tell Mirage from a plain early dependency" in told.advice
    # Twice as wide as asked for: four times the 28 days and their 112 hand-overs, less these.
    assert "about 84 more days with 336 more hand-overs would be needed" in told.reason
    assert "close to the 0.25 h" in between(-0.26, -0.2).reason


def test_waits_are_too_short_to_matter() -> None:
    assert advised(SHORT_H - 0.01, 0.0, 0.0).verdict is ReportVerdict.SHORT_WAITS
    assert advised(SHORT_H, SHORT_H, 0.0).verdict is ReportVerdict.SAVES


def test_too_little_data_names_the_days() -> None:
    told = advised(6.0, 6.0, 0.0, days=LEAST_DAYS - 1)
    assert told.verdict is ReportVerdict.TOO_LITTLE
    assert "13 days with 52 hand-overs" in told.advice
    assert advised(6.0, 6.0, 0.0, days=LEAST_DAYS).verdict is ReportVerdict.SAVES


def test_many_days_with_few_hand_overs_are_too_little() -> None:
    seen = RecommendationEvidence.from_handovers(
        {n: handovers(6.0, days=28) for n in (REACTIVE, EARLY, OURS)}, PRICE
    )
    assert choose_recommendation(replace(seen, handovers=19)).verdict is ReportVerdict.TOO_LITTLE


@pytest.mark.parametrize(
    ("logged_h", "replayed_h", "agrees"),
    [
        (25.6, 0.0, False),
        (0.0, 25.6, False),
        (25.6, 12.9, True),
        (0.4, 0.0, True),
        (2.0, 0.9, False),
    ],
)
def test_a_replay_that_does_not_wait_as_the_log_did_gives_no_advice(
    logged_h: float, replayed_h: float, *, agrees: bool
) -> None:
    seen = RecommendationEvidence.from_handovers(
        {n: handovers(0.0, days=28) for n in (REACTIVE, EARLY, OURS)},
        PRICE,
        [
            LogWaits(partition="cpu", jobs=9000, logged_h=1.0, replayed_h=1.0),
            LogWaits(partition="gpu", jobs=9, logged_h=logged_h, replayed_h=replayed_h),
        ],
    )
    told = choose_recommendation(seen)
    wanted = ReportVerdict.SHORT_WAITS if agrees else ReportVerdict.UNLIKE_LOG
    assert told.verdict is wanted
    if not agrees:
        assert f"waited {logged_h:.2f} h on average in the log" in told.reason
        assert "do not need" not in told.advice


def test_no_gain_is_shown() -> None:
    assert advised(3.0, 3.0, 3.0).verdict is ReportVerdict.NO_GAIN
    # Overlap is bought dearly: 3 h of interruption for 8 h of overlap.
    assert advised(3.0, 3.0, -8.0).verdict is ReportVerdict.NO_GAIN


@pytest.mark.parametrize(
    ("gain", "verdict"),
    [
        (LEAST_GAIN_H - 0.01, ReportVerdict.EARLY_DEPENDENCY),
        (LEAST_GAIN_H + 0.01, ReportVerdict.SAVES),
    ],
)
def test_what_nobody_would_notice_is_no_gain_over_the_flag(
    gain: float, verdict: ReportVerdict
) -> None:
    assert advised(6.0, 2.0, 2.0 - gain).verdict is verdict


def test_luck_is_no_gain() -> None:
    """The mean gain is an hour, but days differ by far more."""
    assert advised(12.0, 12.0, 11.0, noise=10.0).verdict is ReportVerdict.NO_GAIN
    assert advised(12.0, 12.0, 11.0, noise=0.1).verdict is ReportVerdict.SAVES
