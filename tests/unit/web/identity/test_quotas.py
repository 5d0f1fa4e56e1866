"""Buckets and slots, by a clock that only a test moves."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from mirage.errors import TooMany
from mirage.web.identity import quotas
from mirage.web.identity.quotas import QuotaHolder, RateLimiter, Slots

ALICE, BOB = QuotaHolder("uid 1001", is_known=True), QuotaHolder("uid 1002", is_known=True)
HERE, THERE = QuotaHolder("10.0.0.1", is_known=False), QuotaHolder("10.0.0.2", is_known=False)


class Stopwatch:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.at = 5000.0

    def __call__(self) -> float:
        return self.at


def taken(rates: RateLimiter, name: str, most: int = 100) -> int:
    """How many are let through before the first that is not."""
    return next((n for n in range(most) if rates.acquire_or_wait_s(name)), most)


def test_a_burst_and_then_so_many_a_minute() -> None:
    clock = Stopwatch()
    rates = RateLimiter(5, 20, clock)
    assert taken(rates, "alice") == 5
    assert rates.acquire_or_wait_s("alice") == pytest.approx(3)
    clock.at += 9
    assert taken(rates, "alice") == 3
    clock.at += 3600
    assert taken(rates, "alice") == 5, "what was not used is not saved up beyond the burst"


def test_a_burst_is_whole_at_any_instant() -> None:
    """Seconds since the machine's start have fractions, and sums of them are rounded."""
    clock = Stopwatch()
    for instant in range(100):
        clock.at = instant / 7
        assert taken(RateLimiter(5, 5, clock), "alice") == 5


def test_nobody_uses_up_anothers() -> None:
    rates = RateLimiter(5, 20, Stopwatch())
    assert taken(rates, "alice") == 5
    assert taken(rates, "bob") == 5


def test_who_asks_while_it_is_too_early_is_not_put_off_further() -> None:
    clock = Stopwatch()
    rates = RateLimiter(1, 60, clock)
    rates.acquire_or_wait_s("alice")
    waits = [rates.acquire_or_wait_s("alice") for _ in range(50)]
    assert waits == [waits[0]] * 50
    clock.at += waits[0]
    assert rates.acquire_or_wait_s("alice") == 0


def test_it_is_told_when_to_ask_again() -> None:
    rates = RateLimiter(1, 8, Stopwatch())
    rates.check_rate("alice", "one change a time")
    with pytest.raises(TooMany, match="one change a time: ask again in 8 s") as caught:
        rates.check_rate("alice", "one change a time")
    assert caught.value.after_s == 8, "7.5 s, and never sooner"


def test_it_remembers_no_more_callers_than_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_KEYS", 50)
    rates = RateLimiter(1, 1, Stopwatch())
    for number in range(1000):
        assert rates.acquire_or_wait_s(f"10.0.0.{number}") == 0
    assert rates.acquire_or_wait_s("10.0.0.999") > 0
    assert len(rates._full_at) == 50


def test_many_threads_get_no_more_than_one_would() -> None:
    rates = RateLimiter(50, 1, Stopwatch())
    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(lambda _: rates.acquire_or_wait_s("alice"), range(400)))
    assert waits.count(0) == 50


def takes(slots: Slots) -> Callable[[ExitStack, QuotaHolder], bool]:
    def take(held: ExitStack, who: QuotaHolder) -> bool:
        try:
            held.enter_context(slots.acquire_slot(who))
        except TooMany:
            return False
        return True

    return take


def test_one_user_has_half_of_the_slots_at_most() -> None:
    slots = Slots(4, "too many files", 10)
    take = takes(slots)
    with ExitStack() as held:
        assert [take(held, ALICE) for _ in range(4)] == [True, True, False, False]
        assert [take(held, BOB) for _ in range(3)] == [True, True, False]
        assert slots.free == 0
    assert slots.free == 4
    with ExitStack() as held:
        assert take(held, ALICE), "what was given back can be had again"


def test_who_finds_no_slot_is_told_when_to_ask_again() -> None:
    slots = Slots(2, "too many files", 10)
    with pytest.raises(TooMany, match="too many files") as caught, slots.acquire_slot(ALICE):
        slots.acquire_slot(ALICE).__enter__()
    assert caught.value.after_s == 10


def test_all_unknown_together_have_half_of_the_slots_at_most() -> None:
    take = takes(Slots(4, "too many files", 10))
    with ExitStack() as held:
        assert [take(held, who) for who in (HERE, THERE, HERE)] == [True, True, False]
        assert [take(held, who) for who in (ALICE, BOB)] == [True, True]


def test_a_slot_is_given_back_when_what_it_was_for_fails() -> None:
    slots = Slots(2, "too many files", 10)
    with pytest.raises(RuntimeError), slots.acquire_slot(ALICE):
        raise RuntimeError
    assert slots.free == 2
