"""Answers kept under a caller's key."""

from mirage.store import idempotency
from mirage.store.engine import Store
from mirage.store.idempotency import KEEP_S, Answer

ANSWER = Answer(fingerprint="sha256:abc", status=201, body='{"chain_id": "abcdefgh"}')


def test_repeat_gets_the_first_answer(store: Store) -> None:
    with store.begin() as tx:
        assert idempotency.find(tx, 1000, "key", now=5) is None
        assert idempotency.remember(tx, 1000, "key", answer=ANSWER, now=5)
        assert idempotency.find(tx, 1000, "key", now=6) == ANSWER


def test_keys_are_each_callers_own(store: Store) -> None:
    with store.begin() as tx:
        idempotency.remember(tx, 1000, "key", answer=ANSWER, now=5)
        assert idempotency.find(tx, 1001, "key", now=5) is None


def test_second_answer_to_a_key_is_not_kept(store: Store) -> None:
    other = Answer(fingerprint="sha256:def", status=200, body="")
    with store.begin() as tx:
        idempotency.remember(tx, 1000, "key", answer=ANSWER, now=5)
        assert not idempotency.remember(tx, 1000, "key", answer=other, now=6)
        assert idempotency.find(tx, 1000, "key", now=6) == ANSWER


def test_answer_is_forgotten_after_a_day(store: Store) -> None:
    with store.begin() as tx:
        idempotency.remember(tx, 1000, "key", answer=ANSWER, now=0)
        assert idempotency.find(tx, 1000, "key", now=KEEP_S - 1) == ANSWER
        assert idempotency.find(tx, 1000, "key", now=KEEP_S) is None
        assert idempotency.remember(tx, 1000, "key", answer=ANSWER, now=KEEP_S)
