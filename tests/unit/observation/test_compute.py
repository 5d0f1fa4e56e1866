"""The compiled arithmetic against the same by hand, and the cases that are easily got wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.domain.arrays import Ints
from mirage.observation import spec
from mirage.observation.compute import (
    PendingColumns,
    RecentPast,
    RunningColumns,
    ScalarInputs,
    compute_numbers,
)
from mirage.observation.feature_vector import TABLE
from tests.support.observation.groups import get_group_slice
from tests.unit.observation import by_hand

NOW = 1_675_000_000


def _past(rng: np.random.Generator, users: int) -> RecentPast:
    n, m = int(rng.integers(0, 200)), int(rng.integers(0, 200))
    arrivals = np.stack([np.sort(NOW - rng.integers(0, 86400, n)), *_sizes(rng, n)], axis=1)
    starts = np.stack(
        [np.sort(NOW - rng.integers(0, 86400, m)), rng.integers(0, 10**5, m), *_sizes(rng, m)],
        axis=1,
    )
    counts = rng.integers(0, 20, users) * rng.random(users)
    runs = np.stack([counts * rng.random(users), counts], axis=1)
    return RecentPast(arrivals, starts, runs, np.array([3.0, 10.0]))


def _sizes(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
    """Nodes and time limits."""
    return rng.integers(1, 9, n), rng.integers(60, 172801, n)


def _case(seed: int) -> tuple[ScalarInputs, PendingColumns, RunningColumns, Ints, RecentPast]:
    rng = np.random.default_rng(seed)
    n, m, users = (int(rng.integers(*of)) for of in ((0, 60), (0, 60), (1, 12)))
    pending = PendingColumns(
        *_sizes(rng, n),
        rng.integers(0, 10**5, n),
        rng.integers(0, users, n),
        rng.integers(0, 7000, n),
    )
    running = RunningColumns(
        *_sizes(rng, m),
        rng.integers(0, 180000, m),
        rng.integers(0, 10**5, m),
        rng.integers(0, users, m),
    )
    start = NOW - int(rng.integers(0, 172800))
    standing = ScalarInputs(
        now=NOW,
        utc_offset_s=int(rng.integers(-12, 13)) * 3600,
        nodes=int(rng.integers(1, 9)),
        time_limit_s=172800,
        user=int(rng.integers(0, users + 2)),
        priority=int(rng.integers(0, 7000)),
        predecessor_nodes=2,
        predecessor_submit=start - int(rng.integers(0, 9999)),
        predecessor_start=start,
        predecessor_end=start + 172800,
        nodes_all=76,
        nodes_up=int(rng.integers(0, 77)),
        nodes_free=int(rng.integers(0, 9)),
        cpus_free_share=float(rng.random()),
        gpus_free_share=float(rng.random()),
        max_jobs_pu=int(rng.integers(0, 9)),
        plan=-1 if rng.random() < 0.3 else NOW + int(rng.integers(0, 172800)),
        usual_plan=-1 if rng.random() < 0.3 else NOW + int(rng.integers(0, 172800)),
        horizon_s=172800,
    )
    everywhere = np.concatenate([running.user, rng.integers(0, users, 5)])
    return standing, pending, running, everywhere, _past(rng, users)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_the_numbers_are_those_worked_out_by_hand(seed: int) -> None:
    case = _case(seed)
    told = dict(zip(spec.FEATURE_NAMES, compute_numbers(*case, TABLE), strict=True))
    expected = by_hand.numbers(*case)
    assert set(told) == set(expected)
    wrong = {n: (told[n], expected[n]) for n in told if not _close(told[n], expected[n])}
    assert not wrong


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


def test_an_empty_cluster_gives_finite_numbers() -> None:
    standing = _case(1)[0]
    past = RecentPast(
        np.zeros((0, 3), np.int64), np.zeros((0, 4), np.int64), np.zeros((0, 2)), np.ones(2)
    )
    pending = PendingColumns(*[_none()] * 5)
    running = RunningColumns(*[_none()] * 5)
    out = compute_numbers(
        standing._replace(nodes_up=0, nodes_free=0), pending, running, _none(), past, TABLE
    )
    assert np.isfinite(out).all()


def test_a_monday_begins_the_week_in_local_time() -> None:
    """2023-01-30 was a Monday; 06:00 UTC is midnight six hours to the west."""
    standing, pending, running, everywhere, past = _case(2)
    standing = standing._replace(now=1675058400, utc_offset_s=-6 * 3600)
    out = compute_numbers(standing, pending, running, everywhere, past, TABLE)
    assert out[get_group_slice("clock")] == pytest.approx([0, 1, 0, 1], abs=1e-9)
