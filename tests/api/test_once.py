"""Idempotency-Key: whatever is posted twice under one key happens once."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mirage.api.context import ApiContext
from mirage.store import audit
from mirage.store.engine import Store
from tests.api.rows import add_chain, add_links
from tests.api.running import CHAIN, Client

API = "/api/v1"
NEW = json.dumps({"chain_id": "anotherchain", "job_id": 101, "links": 8}).encode()
POSTS = [
    ("/chains", NEW, "alice", 201),
    (f"/chains/{CHAIN}/pause", b"", "alice", 200),
    (f"/chains/{CHAIN}/cancel", b"", "alice", 200),
    ("/kill", b"", "root", 200),
    ("/completions", b'{"job_id": 103}', "root", 202),
]


@pytest.fixture
def context(context: ApiContext) -> ApiContext:
    return replace(context, pushers=("root",))


@pytest.fixture(autouse=True)
def chain(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)


def entries(store: Store) -> int:
    with store.read() as tx:
        return len(audit.page(tx))


@pytest.mark.parametrize(("path", "body", "who", "status"), POSTS, ids=lambda x: str(x)[:24])
def test_a_repeat_gets_the_first_answer_and_does_nothing(
    client: Client, store: Store, path: str, body: bytes, who: str, status: int
) -> None:
    def ask() -> Any:
        return client.post(API + path, body, who=who, headers={"Idempotency-Key": "k"})

    first = ask()
    before = entries(store)
    again = ask()
    assert (first.status_code, again.status_code) == (status, status), first.text
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert entries(store) == before


def test_without_a_key_the_second_is_a_request_of_its_own(client: Client) -> None:
    answers = [client.post(f"{API}/chains/{CHAIN}/pause", who="alice") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 409]


def test_what_was_refused_may_be_asked_again_under_its_key(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    resume = f"{API}/chains/{CHAIN}/resume"
    assert client.post(resume, who="alice", headers=key).status_code == 409
    client.post(f"{API}/chains/{CHAIN}/pause", who="alice")
    assert client.post(resume, who="alice", headers=key).status_code == 200


def test_a_key_is_its_callers_and_its_requests(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    assert client.post(f"{API}/kill", who="root", headers=key).status_code == 200
    other = client.post(f"{API}/chains/{CHAIN}/pause", who="root", headers=key)
    assert other.json()["type"] == "/problems/idempotency-key-reused"
    assert client.post(f"{API}/chains/{CHAIN}/pause", who="alice", headers=key).status_code == 200
