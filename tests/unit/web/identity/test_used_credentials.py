"""The memory of used credentials: until they expire, and within a bound for each user."""

import math
from dataclasses import dataclass

import pytest

from mirage.domain.callers.caller import Caller
from mirage.errors import TooMany
from mirage.web.identity.credential_use import UsedCredentials


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def caller(uid: int, *, counts_alone: bool = True) -> Caller:
    return Caller(uid, f"u{uid}", via="sack", counts_alone=counts_alone)


def test_a_credential_is_remembered_until_its_last_good_second_is_over() -> None:
    clock = Clock()
    used = UsedCredentials(clock)
    assert used.claim_use(caller(1), "a", 1060)
    clock.now = 1060.9
    assert not used.claim_use(caller(1), "a", 1060)
    assert not used.claim_use(caller(2), "a", 1060)
    clock.now = 1061.0
    assert used.claim_use(caller(1), "b", 1121)
    assert len(used) == 1


def test_a_user_who_has_too_many_is_refused_and_nobody_else() -> None:
    clock = Clock()
    used = UsedCredentials(clock, of_user=3)
    for number in range(3):
        assert used.claim_use(caller(1), f"a{number}", 1060)
    with pytest.raises(TooMany) as refused:
        used.claim_use(caller(1), "a3", 1060)
    assert refused.value.after_s == 60
    assert used.claim_use(caller(2), "b", 1060)
    clock.now = 1061
    assert used.claim_use(caller(1), "a3", 1121), "it was not used up by the refusal"


def test_uids_without_an_account_are_one_user() -> None:
    used = UsedCredentials(Clock(), of_user=3)
    for uid in range(3):
        assert used.claim_use(caller(100000 + uid, counts_alone=False), f"{uid}", 1060)
    with pytest.raises(TooMany):
        used.claim_use(caller(200000, counts_alone=False), "x", 1060)


def test_the_memory_has_a_bound_and_a_quiet_user_is_still_served() -> None:
    used = UsedCredentials(Clock(), of_user=50, in_all=100)

    def flood(uid: int) -> int:
        number = 0
        try:
            while used.claim_use(caller(uid), f"{uid}.{number}", 1060):
                number += 1
        except TooMany:
            return number
        raise AssertionError("a credential was used before")

    accepted = [flood(uid) for uid in range(10)]
    assert accepted[:2] == [50, 50]
    assert all(accepted)
    assert len(used) == sum(accepted) <= 100 * (1 + math.log(10))
