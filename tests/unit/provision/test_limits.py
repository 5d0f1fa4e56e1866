"""Budgets and bounds, as arithmetic."""

import pytest

from mirage.domain.chain import Link
from mirage.provision.control.limits import compute_overlap
from tests.support.chains import make_link

HOUR = 3600


def make_ten_hour_link(start: int | None, end: int | None = None, nodes: int = 1) -> Link:
    return make_link("abcd1234", start=start, end=end, nodes=nodes, time_limit_s=10 * HOUR)


@pytest.mark.parametrize(
    ("predecessor", "successor", "node_h"),
    [
        (make_ten_hour_link(0, 4 * HOUR), make_ten_hour_link(2 * HOUR, nodes=3), 6.0),
        (make_ten_hour_link(0, 4 * HOUR), make_ten_hour_link(5 * HOUR), 0.0),
        (make_ten_hour_link(0), make_ten_hour_link(2 * HOUR), 8.0),
        (make_ten_hour_link(0), make_ten_hour_link(None), 9.0),
    ],
    ids=["over", "none", "both run: to the limit", "freed, not started: from now"],
)
def test_overlap_is_what_ran_and_at_worst_what_may_come(
    predecessor: Link, successor: Link, node_h: float
) -> None:
    assert compute_overlap(predecessor, successor, now=HOUR) == node_h
