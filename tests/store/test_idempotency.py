"""Answers kept under a caller's key."""

from mirage.store import idempotency
from mirage.store.engine import Store, Transaction
from mirage.store.idempotency import KEEP_S, Answer

ANSWER = Answer(fingerprint="sha256:abc", status=201, body='{"chain_id": "abcdefgh"}')


def answered(tx: Transaction, *, now: int) -> bool:
    """Under the key of 1000, unless it was answered before."""
    claimed = idempotency.claim(tx, 1000, "key", fingerprint=ANSWER.fingerprint, now=now)
    if claimed:
        idempotency.keep(tx, 1000, "key", ANSWER)
    return claimed


def test_repeat_gets_the_first_answer(store: Store) -> None:
    with store.begin() as tx:
        assert idempotency.find(tx, 1000, "key", now=5) is None
        assert answered(tx, now=5)
        assert idempotency.find(tx, 1000, "key", now=6) == ANSWER


def test_keys_are_each_callers_own(store: Store) -> None:
    with store.begin() as tx:
        answered(tx, now=5)
        assert idempotency.find(tx, 1001, "key", now=5) is None
        assert idempotency.claim(tx, 1001, "key", fingerprint="sha256:def", now=5)


def test_second_answer_to_a_key_is_not_kept(store: Store) -> None:
    with store.begin() as tx:
        answered(tx, now=5)
        assert not idempotency.claim(tx, 1000, "key", fingerprint="sha256:def", now=6)
        assert idempotency.find(tx, 1000, "key", now=6) == ANSWER


def test_answer_is_forgotten_after_a_day(store: Store) -> None:
    with store.begin() as tx:
        answered(tx, now=0)
        assert idempotency.find(tx, 1000, "key", now=KEEP_S - 1) == ANSWER
        assert idempotency.find(tx, 1000, "key", now=KEEP_S) is None
        assert answered(tx, now=KEEP_S)
