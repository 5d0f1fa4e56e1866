"""One query at a time, alike ones shared, and pauses for a daemon in trouble."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.query_gate import Backoff, BackoffSettings, QueryGate
from tests.support.patient import PATIENCE_S, wait_until

PATIENCE = BackoffSettings(slow_s=2.0, first_pause_s=5.0, longest_pause_s=600.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def _pause_s(backoff: Backoff, clock: Clock) -> float:
    """How long from now until the daemon may be asked."""
    began, step = clock.now, 0.5
    while True:
        try:
            backoff.check_pause()
        except ClusterUnavailable:
            clock.now += step
        else:
            return clock.now - began


def test_each_failure_in_a_row_doubles_the_pause_up_to_ten_minutes() -> None:
    clock = Clock()
    backoff = Backoff(PATIENCE, clock)
    pauses = []
    for _ in range(10):
        backoff.record_failure("connect failure")
        pauses.append(_pause_s(backoff, clock))
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]


def test_slow_answers_count_like_failures() -> None:
    clock = Clock()
    backoff = Backoff(PATIENCE, clock)
    backoff.record_answer(2.5)
    assert _pause_s(backoff, clock) == 5
    backoff.record_answer(30)
    assert _pause_s(backoff, clock) == 10


def test_a_quick_answer_ends_the_pauses() -> None:
    clock = Clock()
    backoff = Backoff(PATIENCE, clock)
    for _ in range(5):
        backoff.record_failure("down")
    backoff.record_answer(0.1)
    backoff.check_pause()
    backoff.record_failure("down again")
    assert _pause_s(backoff, clock) == 5


@given(st.lists(st.one_of(st.just(-1.0), st.floats(min_value=0, max_value=100)), max_size=30))
def test_no_pause_is_ever_longer_than_allowed(answers: list[float]) -> None:
    clock = Clock()
    backoff = Backoff(PATIENCE, clock)
    for seconds in answers:
        if seconds < 0:
            backoff.record_failure("down")
        else:
            backoff.record_answer(seconds)
        clock.now += PATIENCE.longest_pause_s
        backoff.check_pause()


def test_while_it_backs_off_it_says_for_how_long_and_why() -> None:
    clock = Clock()
    backoff = Backoff(PATIENCE, clock)
    backoff.record_failure("Unable to contact slurm controller")
    clock.now += 2
    with pytest.raises(ClusterUnavailable, match=r"another 3 s: .*Unable to contact"):
        backoff.check_pause()


def _failing(error: Exception) -> Callable[[], int]:
    def query() -> int:
        raise error

    return query


def test_nothing_is_asked_during_a_pause() -> None:
    clock = Clock()
    lane = QueryGate(PATIENCE, clock)
    with pytest.raises(ClusterUnavailable, match="down"):
        lane.ask("queue", _failing(ClusterUnavailable("down")))
    asked = []
    with pytest.raises(ClusterUnavailable, match="not asked for another 5 s"):
        lane.ask("nodes", lambda: asked.append(1))
    assert asked == []
    clock.now += 5
    assert lane.ask("nodes", lambda: 3) == 3


def test_a_refusal_is_an_answer_and_brings_no_pause() -> None:
    lane = QueryGate(PATIENCE, Clock())
    with pytest.raises(ClusterRefused):
        lane.ask("history", _failing(ClusterRefused("accounting is off")))
    assert lane.ask("queue", lambda: 1) == 1


class Gate:
    """A query that waits until it is let go, and counts how often it runs at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.runs = 0
        self.most_at_once = 0
        self._inside = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            self.runs += 1
            self._inside += 1
            self.most_at_once = max(self.most_at_once, self._inside)
        self.entered.release()
        assert self.go.wait(timeout=PATIENCE_S)
        with self._lock:
            self._inside -= 1
        return self.runs


def _count_waiting() -> int:
    """Count the threads that wait in `ask` for another's answer."""
    waiting = Future.result.__code__
    callers = [f.f_back for f in sys._current_frames().values()]
    return sum(f is not None and f.f_code is waiting for f in callers)


def _ask_while_under_way(
    lane: QueryGate, gate: Gate, query: Callable[[], int]
) -> list[Future[int]]:
    """One asks; seven more ask the same before it has its answer."""
    ready = threading.Barrier(8)

    def ask_too() -> int:
        ready.wait(timeout=PATIENCE_S)
        return lane.ask("queue", query)

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(lane.ask, "queue", query)
        assert gate.entered.acquire(timeout=PATIENCE_S)
        others = [pool.submit(ask_too) for _ in range(7)]
        ready.wait(timeout=PATIENCE_S)
        wait_until(lambda: _count_waiting() == 7)
        gate.go.set()
        return [first, *others]


def test_alike_queries_share_one_answer() -> None:
    lane, gate = QueryGate(PATIENCE), Gate()
    futures = _ask_while_under_way(lane, gate, gate)
    assert [future.result() for future in futures] == [1] * 8
    assert gate.runs == 1


def test_alike_queries_share_one_failure() -> None:
    lane, gate = QueryGate(PATIENCE), Gate()

    def query() -> int:
        gate()
        raise ClusterUnavailable("down")

    for future in _ask_while_under_way(lane, gate, query):
        with pytest.raises(ClusterUnavailable, match="down"):
            future.result()
    assert gate.runs == 1


def test_different_queries_wait_for_each_other() -> None:
    lane, gate = QueryGate(PATIENCE), Gate()
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(lane.ask, f"window {i}", gate) for i in range(4)]
        assert gate.entered.acquire(timeout=PATIENCE_S)
        gate.go.set()
        for future in futures:
            future.result(timeout=PATIENCE_S)
    assert gate.runs == 4
    assert gate.most_at_once == 1


def test_a_later_query_is_asked_anew() -> None:
    lane = QueryGate(PATIENCE)
    assert lane.ask("queue", lambda: 1) == 1
    assert lane.ask("queue", lambda: 2) == 2
