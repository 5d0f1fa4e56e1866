"""Idempotency-Key: whatever is posted twice under one key happens once."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from mirage.database.events import audit
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import JOBS, USAGE, Role
from mirage.domain.chain import ChainState
from mirage.domain.chain_cause import build_user_cause
from mirage.web.shared.context import ApiContext
from tests.integration.web.api.test_identity import token
from tests.support.api.rows import add_chain
from tests.support.api.running import CHAIN, Client, Stage

pytestmark = pytest.mark.usefixtures("chain_with_links")

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


def entries(store: Store) -> int:
    with store.read() as tx:
        return len(audit.list_entries(tx, 1))


@pytest.mark.parametrize(("path", "body", "who", "status"), POSTS, ids=lambda x: str(x)[:24])
def test_a_repeat_does_nothing_and_is_answered(
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
    for verb in ("pause", "resume", "pause"):
        answer = client.post(f"{API}/chains/{CHAIN}/{verb}", who="alice")
        assert "idempotency-replayed" not in answer.headers
    assert answer.json()["state"] == "paused"


def test_a_repeat_is_told_how_it_is_now(client: Client) -> None:
    """And undoes nothing that came after the first."""
    key = {"Idempotency-Key": "k"}
    client.post(f"{API}/chains/{CHAIN}/pause", who="alice", headers=key)
    client.post(f"{API}/chains/{CHAIN}/resume", who="alice")
    again = client.post(f"{API}/chains/{CHAIN}/pause", who="alice", headers=key)
    assert (again.headers["idempotency-replayed"], again.json()["state"]) == ("true", "active")


@pytest.mark.parametrize("verb", ["", "/pause"])
def test_a_repeat_is_answered_only_to_who_may_see_it_still(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int, verb: str
) -> None:
    """Where chains are private and this one has turned out to be bob's, alice is told nothing of
    it: neither that it is there, nor what she was told of it before."""
    with stage.serving(replace(context, hidden=lambda: frozenset({JOBS, USAGE}))) as client:
        body = b"" if verb else NEW.replace(b"anotherchain", CHAIN.encode())
        path = f"{API}/chains/{CHAIN}{verb}" if verb else f"{API}/chains"

        def ask() -> httpx.Response:
            return client.post(path, body, who="alice", headers={"Idempotency-Key": "k"})

        assert ask().is_success
        with store.begin() as tx:
            add_chain(tx, cluster_id, user="bob", cause=build_user_cause("bobs-secret-friend"))
        again = ask()
        assert (again.status_code, again.json()["type"]) == (404, "/problems/not-found")
        assert again.json()["detail"] == f"there is no chain {CHAIN}"
        assert "bob" not in again.text


def test_a_repeat_by_who_steers_it_no_more_is_refused(
    client: Client, store: Store, cluster_id: int
) -> None:
    def ask() -> int:
        path = f"{API}/chains/{CHAIN}/pause"
        return client.post(path, who="alice", headers={"Idempotency-Key": "k"}).status_code

    assert ask() == 200
    with store.begin() as tx:
        add_chain(tx, cluster_id, user="bob")
    assert ask() == 403


def test_no_answer_is_kept(client: Client, store: Store) -> None:
    """The database keeps of a request what its hash is, whatever was answered to it."""
    answer = client.post(f"{API}/chains", NEW, who="alice", headers={"Idempotency-Key": "k"})
    assert answer.json()["user"] == "alice"
    with store.read() as tx:
        (row,) = tx.exec_driver_sql("SELECT * FROM idempotency_keys").mappings()
    assert "alice" not in str(dict(row))
    assert {len(str(value)) for name, value in row.items() if name == "fingerprint"} == {64}


def test_tokens_without_a_user_have_keys_of_their_own(
    client: Client, store: Store, cluster_id: int
) -> None:
    ask = [token(store, cluster_id, role=Role.ADMIN, user="", uid=-1) for _ in range(2)]
    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    answers = [
        client.raw("POST", f"{API}/kill", headers=headers | {"Authorization": f"Bearer {text}"})
        for text in (*ask, ask[0])
    ]
    assert [answer.status_code for answer in answers] == [200, 422, 200]
    assert answers[2].headers["idempotency-replayed"] == "true"


def test_what_was_refused_may_be_asked_again_under_its_key(
    client: Client, store: Store, cluster_id: int
) -> None:
    def ask() -> int:
        path = f"{API}/chains/{CHAIN}/pause"
        return client.post(path, who="alice", headers={"Idempotency-Key": "k"}).status_code

    with store.begin() as tx:
        add_chain(tx, cluster_id, state=ChainState.FAILED)
    assert ask() == 409
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    assert ask() == 200


def test_a_key_is_its_callers_and_its_requests(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    assert client.post(f"{API}/kill", who="root", headers=key).status_code == 200
    other = client.post(f"{API}/chains/{CHAIN}/pause", who="root", headers=key)
    assert other.json()["type"] == "/problems/idempotency-key-reused"
    assert client.post(f"{API}/chains/{CHAIN}/pause", who="alice", headers=key).status_code == 200
