"""The twin as a policy, and what it foretells as a model's input."""

import numpy as np
import pytest

from mirage.domain.decision import Action
from mirage.policies.twin_policy import TwinPolicy
from mirage.twin import twin_features
from tests.support.policies.views import view, waits

HOUR = 3600
ANSWER = np.arange(1, 20, dtype=np.int32) * HOUR
"""Nineteen quantiles: 1 h to 19 h."""


@pytest.mark.parametrize(
    ("left_h", "share"), [(0.5, 19.5 / 20), (9.5, 10.5 / 20), (19.0, 0.5 / 20), (40.0, 0.5 / 20)]
)
def test_late_is_the_share_of_quantiles_beyond_the_time_left(left_h: float, share: float) -> None:
    assert twin_features.compute_late_probability(ANSWER, np.array(left_h * HOUR)) == pytest.approx(
        share
    )


def test_numbers_say_how_long_and_how_late() -> None:
    left_s = np.array([4, 30]) * HOUR
    told = dict(
        zip(
            twin_features.FEATURE_NAMES,
            twin_features.compute_twin_features(np.stack([ANSWER] * 2), left_s).T,
            strict=True,
        )
    )
    assert np.expm1(told["twin_wait_p50"]) == pytest.approx([10, 10])
    assert np.expm1(told["twin_wait_p90"]) == pytest.approx([18, 18])
    assert told["twin_late_p50"] == pytest.approx([np.log(7), -np.log(21)])
    assert told["twin_late"] == pytest.approx([15.5 / 20, 0.5 / 20])


@pytest.mark.parametrize(
    ("price", "returns", "lead_h"), [(0.5, 0, 13), (4.0, 0, 4), (0.5, 2, 17), (4.0, 2, 13)]
)
def test_it_frees_at_the_lead_that_the_price_and_the_returns_make_cheapest(
    price: float, returns: int, lead_h: int
) -> None:
    at = [
        view(h * HOUR, twin_s=ANSWER, overlap_price=price, returns=returns)
        for h in (lead_h, lead_h + 1)
    ]
    assert [TwinPolicy().decide(v).action for v in at] == [Action.FREE, Action.WAIT]


def test_it_tells_its_forecast_and_its_reason() -> None:
    decision = TwinPolicy().decide(view(15 * HOUR, twin_s=ANSWER))
    assert decision.forecast is not None
    assert (decision.forecast.p10_s, decision.forecast.p50_s) == (2 * HOUR, 10 * HOUR)
    assert decision.forecast.waits_s == tuple(ANSWER.tolist())
    assert decision.reason == (
        "a release now is expected to cost 3.29 h, and one in 120 min 3.16 h"
    )


def test_where_it_was_not_asked_a_rule_decides_and_says_so() -> None:
    shown = view(HOUR, jobs=waits([2 * HOUR] * 30))
    decision = TwinPolicy().decide(shown)
    assert decision.action is Action.FREE
    assert decision.policy == "twin"
    assert "the twin was not asked" in decision.reason
    assert "quantile decides" in decision.reason
