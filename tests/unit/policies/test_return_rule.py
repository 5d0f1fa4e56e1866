"""Keep or give back, by the cases that the links' own rule passes too, and for any numbers."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.policies.rules.release_cost import ReleaseCosts
from mirage.policies.rules.return_rule import (
    BACK_S,
    FLOOR_S,
    choose_first_lead,
    choose_return_lead,
    look_up_return_lead,
)
from tests.support.paths import DATA

SHARED = json.loads((DATA / "give-back-cases.json").read_text())
CASES, FIRST_LEADS = SHARED["cases"], SHARED["first_leads"]
LOOK_UPS = SHARED["look_ups"]
SECONDS = st.integers(min_value=-(10**7), max_value=10**7)
PRICES = st.floats(min_value=0.01, max_value=100.0)


@pytest.mark.parametrize("case", CASES, ids=[case["why"] for case in CASES])
def test_the_rule_decides_as_in_the_cases_that_links_pass_too(case: dict[str, float]) -> None:
    lead_s = choose_return_lead(
        int(case["left_s"]), int(case["waited_s"]), case["price"], int(case["back_s"])
    )
    assert lead_s == case["lead_s"]


@pytest.mark.parametrize("case", FIRST_LEADS, ids=[case["why"] for case in FIRST_LEADS])
def test_the_first_lead_is_as_in_the_cases_that_links_pass_too(case: dict[str, Any]) -> None:
    assert choose_first_lead(tuple(case["waits_s"]), case["price"]) == case["lead_s"]


@pytest.mark.parametrize("case", LOOK_UPS, ids=[case["why"] for case in LOOK_UPS])
def test_the_look_up_is_as_in_the_cases_that_links_pass_too(case: dict[str, Any]) -> None:
    lead_s = look_up_return_lead(case["points"], case["left_s"], case["price"], case["back_s"])
    assert lead_s == case["lead_s"]


@given(
    rows=st.lists(st.tuples(*[st.integers(0, 10**6)] * 3), max_size=12),
    left_s=SECONDS,
    price=PRICES,
    back_s=SECONDS,
)
def test_a_release_by_the_look_up_is_still_to_come_and_a_minute_before_the_end(
    rows: list[tuple[int, int, int]], left_s: int, price: float, back_s: int
) -> None:
    points = [(at_s, cost_s, min(lead_s, at_s)) for at_s, cost_s, lead_s in sorted(rows)]
    lead_s = look_up_return_lead(points, left_s, price, back_s)
    assert lead_s is None or 60 <= lead_s <= left_s - back_s


@given(
    waits_s=st.lists(st.integers(0, 10**6), min_size=19, max_size=19),
    left_s=st.integers(BACK_S + 60, 10**6),
    price=st.floats(0.1, 3.0),
)
def test_a_look_up_costs_little_more_than_the_whole_forecast_would(
    waits_s: list[int], left_s: int, price: float
) -> None:
    """Twelve points stand for it. The release is a minute before the end at the latest."""
    table = ReleaseCosts(waits_s, price, 2).compute_return_costs(10**6)
    points = list(zip(table.left_s, table.cost_s, table.lead_s, strict=True))
    again = ReleaseCosts(waits_s, price, 1)

    def compute_cost_s(lead_s: int | None) -> float:
        back_s = price * BACK_S
        return price * left_s if lead_s is None else back_s + again.compute_cost_s(lead_s)

    whole = again.choose_release(left_s - BACK_S).lead_s
    best_s = min(compute_cost_s(None), compute_cost_s(whole))
    assert compute_cost_s(look_up_return_lead(points, left_s, price)) <= 1.4 * best_s + 200


@given(waits_s=st.lists(st.integers(0, 10**6), min_size=1, max_size=20), price=st.integers(1, 100))
def test_a_link_that_may_give_back_is_released_no_later_than_one_that_holds(
    waits_s: list[int], price: int
) -> None:
    def compute_cost_of_holding(lead_s: int) -> int:
        return sum(max(w - lead_s, price * (lead_s - w)) for w in waits_s)

    held_s = min(sorted(waits_s), key=compute_cost_of_holding)
    assert choose_first_lead(tuple(waits_s), price) >= held_s


@given(left_s=SECONDS, waited_s=SECONDS, price=PRICES, back_s=SECONDS)
def test_a_new_release_lies_after_the_link_has_left_and_no_later_than_the_floor(
    left_s: int, waited_s: int, price: float, back_s: int
) -> None:
    lead_s = choose_return_lead(left_s, waited_s, price, back_s)
    assert lead_s is None or FLOOR_S <= lead_s <= left_s - back_s - 60


@given(left_s=SECONDS, waited_s=SECONDS, price=PRICES, more_s=st.integers(1, 10**6))
def test_with_more_time_left_a_link_that_would_give_back_still_does(
    left_s: int, waited_s: int, price: float, more_s: int
) -> None:
    if choose_return_lead(left_s, waited_s, price) is not None:
        assert choose_return_lead(left_s + more_s, waited_s, price) is not None


@given(left_s=SECONDS, waited_s=SECONDS, price=PRICES, dearer=PRICES)
def test_dearer_overlap_never_makes_the_next_lead_longer(
    left_s: int, waited_s: int, price: float, dearer: float
) -> None:
    cheap_s, dear_s = (choose_return_lead(left_s, waited_s, p) for p in sorted((price, dearer)))
    assert cheap_s is None or dear_s is None or cheap_s >= dear_s


@pytest.mark.parametrize("price", [0.0, -0.5, math.nan, math.inf, -math.inf])
def test_a_price_that_makes_no_sense_keeps_the_nodes(price: float) -> None:
    assert choose_return_lead(10**6, BACK_S, price) is None
