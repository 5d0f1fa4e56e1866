"""What is remembered of the recent past."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import Job, JobState
from mirage.observation.compute import compute_usual_share
from mirage.observation.running_stats import KEPT_S, STARTS_KEPT, RunningStats, UserNumbers
from tests.support.jobs import make_job

NOW = 10_000_000


def test_a_user_keeps_the_number_it_was_given_first() -> None:
    users = UserNumbers()
    assert [users.assign_number(name) for name in ("ann", "bob", "ann")] == [0, 1, 0]
    assert len(users) == 2


def _arrive(memory: RunningStats, at: int, nodes: int = 1) -> None:
    memory.record_submit(at, nodes=nodes, time_limit_s=3600, user="ann")


def test_what_is_older_than_a_day_is_out_of_sight() -> None:
    memory = RunningStats()
    for at in (NOW - KEPT_S, NOW - KEPT_S + 1, NOW - 1, NOW):
        _arrive(memory, at)
    assert memory.get_past(NOW).arrivals[:, 0].tolist() == [NOW - KEPT_S + 1, NOW - 1, NOW]


def test_what_is_later_than_the_instant_is_out_of_sight() -> None:
    memory = RunningStats()
    for at in (NOW, NOW + 1):
        _arrive(memory, at)
        memory.record_start(at, wait_s=60, nodes=1, time_limit_s=3600)
    past = memory.get_past(NOW)
    assert past.arrivals[:, 0].tolist() == past.starts[:, 0].tolist() == [NOW]


@given(st.lists(st.integers(0, 3 * KEPT_S), min_size=1, max_size=400))
def test_nothing_of_the_last_day_is_ever_forgotten(ago: list[int]) -> None:
    """In order of time, with the log growing and dropping what is old on the way."""
    instants = sorted(NOW - a for a in ago)
    memory = RunningStats()
    for at in instants:
        _arrive(memory, at)
    last = instants[-1]
    expected = [at for at in instants if at > last - KEPT_S]
    assert memory.get_past(last).arrivals[:, 0].tolist() == expected


@given(st.permutations(range(20)))
def test_what_is_told_late_takes_its_place_in_time(order: list[int]) -> None:
    memory = RunningStats()
    for i in order:
        _arrive(memory, NOW + i, nodes=i)
    arrivals = memory.get_past(NOW + 20).arrivals
    assert arrivals[:, 0].tolist() == [NOW + i for i in range(20)]
    assert arrivals[:, 1].tolist() == list(range(20))


def test_only_the_latest_starts_tell_of_waits() -> None:
    memory = RunningStats()
    for i in range(STARTS_KEPT + 10):
        memory.record_start(NOW + i, wait_s=i, nodes=1, time_limit_s=3600)
    waits = memory.get_past(NOW + STARTS_KEPT + 10).starts[:, 1]
    assert waits.tolist() == list(range(10, STARTS_KEPT + 10))


def _share(memory: RunningStats, user: str) -> float:
    return compute_usual_share(memory.get_past(NOW), memory.users.assign_number(user))


def test_before_anything_has_ended_half_the_limit_is_expected() -> None:
    assert _share(RunningStats(), "ann") == 0.5


def test_what_is_usual_for_a_user_is_learned_from_its_runs() -> None:
    memory = RunningStats()
    for _ in range(100):
        memory.record_end(run_s=3600, time_limit_s=3600, user="ann")
        memory.record_end(run_s=36, time_limit_s=3600, user="bob")
    assert _share(memory, "ann") > 0.9
    assert _share(memory, "bob") < 0.1
    assert _share(memory, "a newcomer") == pytest.approx(0.5, abs=0.02)


def test_a_run_beyond_its_limit_counts_as_one_to_the_limit() -> None:
    long, full = RunningStats(), RunningStats()
    long.record_end(run_s=9000, time_limit_s=3600, user="ann")
    full.record_end(run_s=3600, time_limit_s=3600, user="ann")
    assert _share(long, "ann") == _share(full, "ann")


def test_a_user_whose_ways_change_is_learned_anew() -> None:
    memory = RunningStats()
    for run_s in [3600] * 200 + [36] * 60:
        memory.record_end(run_s=run_s, time_limit_s=3600, user="ann")
    assert _share(memory, "ann") < 0.2


def test_more_users_than_there_was_room_for_are_all_kept() -> None:
    memory = RunningStats()
    for i in range(300):
        memory.record_end(run_s=i, time_limit_s=300, user=f"user-{i}")
    assert _share(memory, "user-0") < _share(memory, "user-299")


def test_a_fork_and_its_original_go_their_own_ways() -> None:
    memory = RunningStats(utc_offset_s=-21600)
    _fill(memory, 100)
    twin = memory.fork()
    _same(memory, twin)
    before = [column.copy() for column in twin.get_past(NOW + 10**4)]
    _fill(memory, 300)
    assert all(map(np.array_equal, before, twin.get_past(NOW + 10**4)))
    assert twin.utc_offset_s == -21600
    _fill(twin, 300)
    _same(memory, twin)


def _fill(memory: RunningStats, n: int) -> None:
    for i in range(n):
        _arrive(memory, NOW + i)
        memory.record_start(NOW + i, wait_s=i, nodes=1, time_limit_s=3600)
        memory.record_end(run_s=i, time_limit_s=3600, user=f"user-{i % 7}")


def _same(a: RunningStats, b: RunningStats) -> None:
    assert all(map(np.array_equal, a.get_past(NOW + 10**4), b.get_past(NOW + 10**4)))


_job = partial(make_job, user="ann", time_limit_s=3600)


HISTORY = [
    _job(1, JobState.COMPLETED, submit=NOW, eligible=NOW, start=NOW + 60, end=NOW + 1860),
    _job(2, JobState.TIMEOUT, submit=NOW + 10, eligible=NOW + 40, start=NOW + 70, end=NOW + 3670),
    _job(3, JobState.RUNNING, submit=NOW + 20, eligible=NOW + 20, start=NOW + 1860, end=NOW + 9999),
    _job(4, JobState.CANCELLED, submit=NOW + 30, end=NOW + 100),
    _job(5, JobState.PENDING, submit=NOW + 50, start=NOW + 400),
]


def test_history_is_remembered_as_it_would_have_been_seen() -> None:
    live = RunningStats()
    for at in (0, 10, 20, 30, 50):
        live.record_submit(NOW + at, nodes=1, time_limit_s=3600, user="ann")
    live.record_start(NOW + 60, wait_s=60, nodes=1, time_limit_s=3600)
    live.record_start(NOW + 70, wait_s=30, nodes=1, time_limit_s=3600)
    live.record_end(run_s=1800, time_limit_s=3600, user="ann")
    live.record_start(NOW + 1860, wait_s=1840, nodes=1, time_limit_s=3600)
    live.record_end(run_s=3600, time_limit_s=3600, user="ann")
    _same(RunningStats.from_accounting(HISTORY, NOW + 9000), live)


@pytest.mark.parametrize("after", range(0, 4000, 50))
def test_history_tells_nothing_of_what_comes_after_the_instant(after: int) -> None:
    now = NOW + after
    known = [_as_of(job, now) for job in HISTORY if job.submit <= now]
    _same(RunningStats.from_accounting(HISTORY, now), RunningStats.from_accounting(known, now))


def _as_of(job: Job, now: int) -> Job:
    """The job as accounting showed it at `now`."""
    started = job.start is not None and job.start <= now and job.state is not JobState.PENDING
    ended = job.end is not None and job.end <= now and job.state.has_ended
    if ended:
        return job
    if started:
        return replace(job, state=JobState.RUNNING, end=None)
    return replace(job, state=JobState.PENDING, start=None, end=None)
