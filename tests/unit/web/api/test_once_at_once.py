"""Idempotency-Key: repeats that come while the first is being answered, on both databases."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mirage.database.events import audit
from mirage.database.schema.engine import Store
from tests.support.api.running import CHAIN, Client
from tests.support.fixtures.store import store

__all__ = ["store"]

pytestmark = pytest.mark.usefixtures("chain_with_links")

API = "/api/v1"


def test_many_at_once_are_one(client: Client, store: Store) -> None:
    def ask(_: int) -> tuple[int, str]:
        answer = client.post(
            f"{API}/chains/{CHAIN}/pause", who="alice", headers={"Idempotency-Key": "k"}
        )
        return answer.status_code, answer.text

    with ThreadPoolExecutor(4) as pool:
        answers = set(pool.map(ask, range(12)))
    assert len(answers) == 1
    assert answers.pop()[0] == 200
    with store.read() as tx:
        assert len(audit.list_entries(tx, 1)) == 1


def test_another_request_under_the_key_of_one_that_is_under_way(
    client: Client, store: Store
) -> None:
    """One of them is answered, and the other is told so."""

    def ask(what: str) -> int:
        path = f"{API}/chains/{CHAIN}/{what}"
        return client.post(path, who="alice", headers={"Idempotency-Key": "k"}).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(ask, ("pause", "cancel"))) == [200, 422]
