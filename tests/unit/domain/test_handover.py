"""Interruption, overlap, and what they cost."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.chain import ChainId, Link, LinkState
from mirage.domain.handover import Handover, list_handovers
from mirage.domain.job import JobId

_INSTANTS = st.integers(min_value=0, max_value=2**40)
HANDOVERS = st.builds(Handover, _INSTANTS, _INSTANTS)


@given(HANDOVERS)
def test_a_handover_has_at_most_one_of_interruption_and_overlap(handover: Handover) -> None:
    assert min(handover.interruption_h, handover.overlap_h) == 0
    assert handover.interruption_h >= 0
    assert handover.overlap_h >= 0


@given(HANDOVERS)
def test_their_difference_is_the_time_between_end_and_start(handover: Handover) -> None:
    hours = (handover.successor_start - handover.predecessor_end) / 3600
    assert handover.interruption_h - handover.overlap_h == pytest.approx(hours)


@given(HANDOVERS, st.floats(min_value=0, max_value=10))
def test_an_interruption_costs_its_hours_whatever_overlap_costs(
    handover: Handover, price: float
) -> None:
    expected = handover.interruption_h + price * handover.overlap_h
    assert handover.compute_cost_h(price) == pytest.approx(expected)


def test_an_hour_of_overlap_costs_half_an_hour_of_interruption() -> None:
    late, early = Handover(0, 3600), Handover(3600, 0)
    assert late.compute_cost_h() == 1.0
    assert early.compute_cost_h() == 0.5


def test_a_seamless_handover_costs_nothing() -> None:
    assert Handover(5, 5).compute_cost_h() == 0


def make_link(index: int, state: LinkState, start: int | None = None) -> Link:
    end = 90 if state is LinkState.ENDED else None
    link = Link(chain_id=ChainId("chain0001"), index=index, job_id=JobId(index), submit=0)
    return replace(link, state=state, start=start, end=end)


def test_a_link_that_was_cancelled_while_it_waited_neither_hands_over_nor_takes_over() -> None:
    ran, gone = make_link(1, LinkState.ENDED, 10), make_link(2, LinkState.ENDED)
    third, fourth = make_link(3, LinkState.PENDING), make_link(5, LinkState.PENDING)
    assert list_handovers([ran, gone, third, fourth]) == [(ran, third), (third, fourth)]
    began = make_link(5, LinkState.RUNNING, 20)
    assert list_handovers([ran, gone, third, began])[-1] == (ran, began), "link 3 still waits"


def test_what_the_successor_held_and_gave_back_is_overlap_too() -> None:
    late, early = Handover(0, 3600, returned_s=360), Handover(3600, 0, returned_s=360)
    assert (late.interruption_h, late.overlap_h) == (1.0, 0.1)
    assert (early.interruption_h, early.overlap_h) == (0.0, 1.1)
    assert late.compute_cost_h() == 1.05
