"""Requests done once under a caller's key: a digest of each is kept, for a day, and few of one."""

from concurrent.futures import ThreadPoolExecutor

from mirage.database.access import idempotency
from mirage.database.access.idempotency import KEEP_S, MOST_KEYS_PER_USER
from mirage.database.schema.engine import Store, Transaction

DIGEST = "sha256:abc"


def claimed(tx: Transaction, key: str = "key", *, now: int, uid: int = 1000) -> bool:
    return idempotency.claim_key(tx, 1, uid, key, fingerprint=DIGEST, now=now)


def known(tx: Transaction, uid: int, *, now: int) -> int:
    """How many of a user's keys stand for something."""
    keys = ["key", *map(str, range(3 * MOST_KEYS_PER_USER))]
    return sum(idempotency.find_fingerprint(tx, 1, uid, key, now=now) is not None for key in keys)


def test_a_repeat_is_known(store: Store) -> None:
    with store.begin() as tx:
        assert idempotency.find_fingerprint(tx, 1, 1000, "key", now=5) is None
        assert claimed(tx, now=5)
        assert not idempotency.claim_key(tx, 1, 1000, "key", fingerprint="sha256:def", now=6)
        assert idempotency.find_fingerprint(tx, 1, 1000, "key", now=6) == DIGEST


def test_keys_are_each_callers_own(store: Store) -> None:
    with store.begin() as tx:
        claimed(tx, now=5)
        assert idempotency.find_fingerprint(tx, 1, 1001, "key", now=5) is None
        assert claimed(tx, uid=1001, now=5)


def test_it_is_forgotten_after_a_day(store: Store) -> None:
    with store.begin() as tx:
        claimed(tx, now=0)
        assert idempotency.find_fingerprint(tx, 1, 1000, "key", now=KEEP_S - 1) == DIGEST
        assert idempotency.find_fingerprint(tx, 1, 1000, "key", now=KEEP_S) is None
        assert claimed(tx, now=KEEP_S)


def test_of_one_user_the_newest_are_kept(store: Store) -> None:
    with store.begin() as tx:
        claimed(tx, uid=1001, now=0)
        for number in range(2 * MOST_KEYS_PER_USER):
            assert claimed(tx, str(number), now=number)
        assert known(tx, 1000, now=2 * MOST_KEYS_PER_USER) == MOST_KEYS_PER_USER
        assert (
            idempotency.find_fingerprint(
                tx, 1, 1000, str(2 * MOST_KEYS_PER_USER - 1), now=2 * MOST_KEYS_PER_USER
            )
            == DIGEST
        )
        assert (
            idempotency.find_fingerprint(tx, 1, 1001, "key", now=2 * MOST_KEYS_PER_USER) == DIGEST
        ), "no other loses any"


def test_a_repeat_of_the_oldest_takes_no_room(store: Store) -> None:
    with store.begin() as tx:
        for number in range(MOST_KEYS_PER_USER):
            claimed(tx, str(number), now=number)
        assert not claimed(tx, "0", now=MOST_KEYS_PER_USER)
        assert known(tx, 1000, now=MOST_KEYS_PER_USER) == MOST_KEYS_PER_USER


def test_those_that_are_over_go_in_the_hourly_tidying(store: Store) -> None:
    with store.begin() as tx:
        for uid in range(5):
            claimed(tx, uid=uid, now=uid)
        idempotency.forget_expired_keys(tx, KEEP_S + 2)
    with store.read() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM idempotency_keys").scalar() == 2


def test_many_at_once_of_one_user_are_no_circle(store: Store) -> None:
    """Each takes away the oldest for its own: nobody waits for another for ever."""
    with store.begin() as tx:
        for number in range(MOST_KEYS_PER_USER):
            claimed(tx, str(number), now=number)

    def claim(number: int) -> bool:
        with store.begin() as tx:
            return claimed(tx, str(number), now=number)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(claim, range(MOST_KEYS_PER_USER, 2 * MOST_KEYS_PER_USER)))
    with store.begin() as tx:
        claimed(tx, now=3 * MOST_KEYS_PER_USER)
        assert known(tx, 1000, now=3 * MOST_KEYS_PER_USER) == MOST_KEYS_PER_USER
