"""What a release is expected to cost, against the formulas of decision 0039 written out."""

import numpy as np
import pytest

from mirage.domain.decision import Action, Forecast
from mirage.policies.rules.release_cost import ReleaseCosts, decide_by_cost
from tests.support.policies.views import view

HOUR = 3600
BACK_S = 360
WAITS = {
    "short": [0, 0, 60, 300, 900],
    "spread": [1800, 3600, 2 * HOUR, 5 * HOUR, 12 * HOUR, 30 * HOUR],
    "alike": [4 * HOUR] * 9,
}


def compute_cost(
    left_s: float, waits: list[int], leads: list[float], price: float, n: int
) -> float:
    """C of decision 0039; `leads` are those that a later release may have."""
    total = 0.0
    for wait in waits:
        early = left_s - wait
        held = price * early
        if n and early - BACK_S >= 0:
            again = [lead for lead in leads if lead <= early - BACK_S]
            best = min(compute_cost(lead, waits, leads, price, n - 1) for lead in again)
            held = min(held, price * BACK_S + best)
        total += held if early > 0 else -early
    return total / len(waits)


@pytest.mark.parametrize("returns", [0, 1, 2])
@pytest.mark.parametrize("price", [0.15, 0.5, 1.5])
@pytest.mark.parametrize("kind", WAITS)
def test_a_release_costs_what_the_formulas_say(kind: str, price: float, returns: int) -> None:
    waits = WAITS[kind]
    costs = ReleaseCosts(waits, price, returns)
    for left_s in (0, 600, 3 * HOUR, 13 * HOUR, 40 * HOUR):
        told = compute_cost(left_s, waits, costs.leads_s.tolist(), price, returns)
        assert costs.compute_cost_s(left_s) == pytest.approx(told)


@pytest.mark.parametrize("price", [0.11, 0.5, 1.5])
def test_without_returns_the_best_lead_is_the_newsvendors(price: float) -> None:
    waits = np.arange(1, 20) * HOUR
    fractile = float(np.quantile(waits, 1 / (1 + price), method="inverted_cdf"))
    assert ReleaseCosts(waits, price, 0).choose_release(100 * HOUR).lead_s == fractile


def test_a_wait_that_is_certain_is_the_lead_and_costs_nothing() -> None:
    best = ReleaseCosts([2 * HOUR] * 19, 0.5, 2).choose_release(20 * HOUR)
    assert (best.lead_s, best.cost_s) == (2 * HOUR, 0.0)


def test_where_nothing_waits_it_is_released_at_the_end() -> None:
    assert ReleaseCosts([0] * 19, 0.5, 2).choose_release(20 * HOUR).lead_s == 0


def test_what_is_late_already_is_released_now() -> None:
    assert ReleaseCosts([9 * HOUR] * 19, 0.5, 0).choose_release(HOUR).lead_s == HOUR


def test_a_return_that_is_left_makes_an_earlier_release_worth_it() -> None:
    waits = WAITS["spread"]
    leads = [ReleaseCosts(waits, 0.5, n).choose_release(99 * HOUR).lead_s for n in (0, 1, 2)]
    costs = [ReleaseCosts(waits, 0.5, n).choose_release(99 * HOUR).cost_s for n in (0, 1, 2)]
    assert leads == sorted(leads)
    assert leads[0] < leads[2]
    assert costs == sorted(costs, reverse=True)


def test_a_link_that_gives_back_is_told_what_its_next_release_costs() -> None:
    waits = WAITS["spread"]
    told = ReleaseCosts(waits, 0.5, 2).compute_return_costs(20 * HOUR)
    again = ReleaseCosts(waits, 0.5, 1)
    assert list(told.left_s) == sorted(set(told.left_s))
    assert told.left_s[0] == 0
    assert told.left_s[-1] <= 20 * HOUR
    for left_s, cost_s, lead_s in zip(told.left_s, told.cost_s, told.lead_s, strict=True):
        best = again.choose_release(left_s)
        assert cost_s == round(best.cost_s)
        assert lead_s <= left_s
        assert again.compute_cost_s(lead_s) == pytest.approx(cost_s, abs=1)


def test_with_no_return_left_there_is_nothing_to_tell() -> None:
    assert ReleaseCosts([HOUR], 0.5, 0).compute_return_costs(HOUR).left_s == ()
    assert ReleaseCosts([HOUR], 0.5, 1).compute_return_costs(0).left_s == ()


def test_a_decision_says_what_now_and_later_cost() -> None:
    forecast = Forecast(p50_s=2 * HOUR, waits_s=(2 * HOUR,) * 19)
    early = decide_by_cost(view(4 * HOUR, overlap_price=0.5), forecast, "twin")
    assert early.action is Action.WAIT
    assert early.release_at == view(4 * HOUR).predecessor_end - 2 * HOUR
    assert early.reason == ("a release now is expected to cost 1.00 h, and one in 120 min 0.00 h")
    late = decide_by_cost(view(HOUR, overlap_price=0.5), forecast, "twin")
    assert late.action is Action.FREE
    assert late.reason == "a release now is expected to cost 1.00 h, and a later one no less"
    assert (late.policy, late.forecast) == ("twin", forecast)
