"""What holds for every operation: parameters, numbers, methods, ETags, If-Match, credentials."""

import json
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.schema.engine import Store
from mirage.web.api.schemas.admin_schemas import NewLimit, Release
from mirage.web.api.schemas.registration_schemas import NewChain
from mirage.web.shared.context import ApiContext
from mirage.web.shared.middleware.etag import build_tag
from tests.support.api.openapi_document import build_document
from tests.support.api.rows import look, read_running_job
from tests.support.api.running import CHAIN, NOW, Client, Stage

pytestmark = pytest.mark.usefixtures("chain_with_links")

API = "/api/v1"
DOCUMENT = build_document()
CHAIN_PATH = f"{API}/chains/{CHAIN}"
FILLED = {
    "{chain_id}": CHAIN,
    "{name}": "max_touches",
    "{version}": "1",
    "{job_id}": "7",
    "{partition}": "gpu",
}


def fill(path: str) -> str:
    for name, value in FILLED.items():
        path = path.replace(name, value)
    assert "{" not in path, path
    return path


def list_operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if path.startswith(API)
    ]


@pytest.mark.parametrize(("method", "path", "operation"), list_operations())
def test_no_operation_takes_a_parameter_that_it_does_not_have(
    client: Client, method: str, path: str, operation: dict[str, Any]
) -> None:
    at = f"{fill(path)}?no_such_word=1"
    body = b"{}" if "requestBody" in operation else b""
    refused = (client.get(at, who="root") if method == "GET" else None) or (
        client.put(at, body, who="root") if method == "PUT" else client.post(at, body, who="root")
    )
    assert refused.status_code == 422, refused.text
    assert "no_such_word: there is no such parameter" in refused.json()["detail"]


def test_the_nearest_parameter_is_named(client: Client) -> None:
    refused = client.get(f"{API}/chains?usr=alice&limit=5")
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault == {
        "detail": "there is no such parameter: did you mean user?",
        "parameter": "usr",
    }
    assert client.get(f"{API}/chains?user=alice&limit=5").status_code == 200


def test_a_parameter_that_is_there_twice_is_refused(client: Client) -> None:
    refused = client.get(f"{API}/chains?user=alice&limit=5&user=bob")
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["parameter"] == "user"


NEW = {"chain_id": "anotherchain", "job_id": 101, "links": 8}


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("chains", NEW | {"job_id": True}, "#/job_id"),
        ("chains", NEW | {"links": "8"}, "#/links"),
        ("chains", NEW | {"overlap_price": "0.5"}, "#/overlap_price"),
        ("chains", NEW | {"overlap_price": True}, "#/overlap_price"),
        ("chains", NEW | {"total_s": "3600"}, "#/total_s"),
        ("limits/max_touches", {"value": True}, "#/value"),
        ("limits/max_touches", {"value": "4"}, "#/value"),
        ("kill/release", {"act_again": "no"}, "#/act_again"),
        ("kill/release", {"act_again": 1}, "#/act_again"),
    ],
)
def test_a_value_of_another_type_of_json_is_refused(
    client: Client, path: str, body: dict[str, Any], pointer: str
) -> None:
    ask = client.put if path.startswith("limits") else client.post
    refused = ask(f"{API}/{path}", json.dumps(body).encode(), who="root")
    assert refused.status_code == 422, refused.text
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


def test_numbers_and_nulls_are_taken_as_before() -> None:
    new = NewChain.model_validate(NEW | {"overlap_price": 1, "total_s": None})
    assert (new.overlap_price, new.total_s, new.links) == (1.0, None, 8)
    assert NewLimit.model_validate({"value": None}).value is None
    assert Release.model_validate({"act_again": True}).act_again


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/chains", "GET, HEAD, POST"),
        ("PATCH", f"/chains/{CHAIN}", "GET, HEAD"),
        ("GET", f"/chains/{CHAIN}/pause", "POST"),
        ("DELETE", "/mode", "GET, HEAD, PUT"),
    ],
)
def test_a_method_that_is_not_taken_is_told_all_that_are(
    client: Client, method: str, path: str, allowed: str
) -> None:
    refused = client.raw(method, API + path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)


def test_a_new_look_at_the_same_queue_changes_no_etag(
    stage: Stage, context: ApiContext, store: Store
) -> None:
    tags = []
    for n in range(2):
        look(store, context.cluster_id, read_running_job(103), at=NOW + 60 * n)
        with stage.serving(replace(context, clock=lambda: NOW + 60)) as client:
            answers = [client.get(path, who="root") for path in (CHAIN_PATH, f"{API}/chains")]
        tags.append([answer.headers["etag"] for answer in answers])
    assert answers[0].json()["as_of"]
    assert tags[0] == tags[1]


def test_an_etag_is_of_the_content_whatever_the_order_of_its_keys() -> None:
    assert build_tag(b'{"a": 1, "b": [1, 2]}') == build_tag(b'{"b":[1,2],"a":1,"as_of":"x"}')
    assert build_tag(b'{"a": [1, 2]}') != build_tag(b'{"a": [2, 1]}')
    assert build_tag(b'{"stale": true}') != build_tag(b'{"stale": false}')


def test_a_change_is_made_to_what_its_caller_has_seen_alone(client: Client) -> None:
    seen = client.get(CHAIN_PATH, who="alice").headers["etag"]

    def ask(word: str, tag: str, key: str = "") -> int:
        headers = {"If-Match": tag} | ({"Idempotency-Key": key} if key else {})
        return client.post(f"{CHAIN_PATH}/{word}", who="alice", headers=headers).status_code

    assert ask("pause", '"other"') == 412
    assert client.get(CHAIN_PATH, who="alice").headers["etag"] == seen
    assert ask("pause", seen, "k") == 200
    assert ask("pause", seen, "k") == 200  # a repeat is answered as the first
    assert ask("resume", seen) == 412
    assert ask("resume", client.get(CHAIN_PATH, who="alice").headers["etag"]) == 200
    hidden = client.post(f"{CHAIN_PATH}/pause", who="bob", headers={"If-Match": seen})
    assert hidden.status_code == 403


@pytest.mark.parametrize(
    ("read", "change", "body"),
    [
        ("/mode", "/mode", {"mode": "observe"}),
        ("/limits", "/limits/max_touches", {"value": 3}),
    ],
)
def test_an_admins_change_takes_if_match_too(
    client: Client, read: str, change: str, body: dict[str, Any]
) -> None:
    sent = json.dumps(body).encode()
    seen = client.get(API + read, who="root").headers["etag"]
    for tag, status in (('"other"', 412), (seen, 200), (seen, 412)):
        answer = client.put(API + change, sent, who="root", headers={"If-Match": tag})
        assert answer.status_code == status, answer.text


def test_the_kill_switch_is_pulled_as_its_caller_has_seen_it_alone(client: Client) -> None:
    seen = client.get(f"{API}/kill", who="root").headers["etag"]
    for tag, status in (('"other"', 412), (seen, 200), (seen, 412)):
        answer = client.post(f"{API}/kill", who="root", headers={"If-Match": tag})
        assert answer.status_code == status, answer.text
        assert client.get(f"{API}/kill", who="root").json()["pulled"] is (tag == seen)


def test_a_chain_is_registered_again_as_its_caller_has_seen_it_alone(client: Client) -> None:
    def register(tag: str, who: str = "alice") -> int:
        return client.post(f"{API}/chains", sent, who=who, headers={"If-Match": tag}).status_code

    path, sent = f"{API}/chains/{NEW['chain_id']}", json.dumps(NEW).encode()
    assert (register("*"), client.get(path, who="alice").status_code) == (412, 404)
    assert client.post(f"{API}/chains", sent, who="alice").status_code == 201
    seen = client.get(path, who="alice").headers["etag"]
    assert [register('"other"'), register(seen), register("*", "bob")] == [412, 201, 403]


def test_a_model_is_promoted_as_its_caller_has_seen_the_models_alone(client: Client) -> None:
    seen = client.get(f"{API}/models", who="root").headers["etag"]
    for tag, status in (('"other"', 412), (seen, 404)):
        path, body, headers = "/models/forest/promoted", b'{"version": "1"}', {"If-Match": tag}
        assert client.put(API + path, body, who="root", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("path", "body"),
    [("/completions", b'{"job_id": 103}'), ("/forecasts", b'{"partition": "gpu", "nodes": 1}')],
)
def test_a_change_without_an_answer_that_has_a_tag_takes_no_if_match(
    client: Client, path: str, body: bytes
) -> None:
    answer = client.post(API + path, body, who="root", headers={"If-Match": "*"})
    assert (answer.status_code, answer.json()["type"]) == (412, "/problems/changed-meanwhile")
    assert "leave it out" in answer.json()["detail"]


def test_the_document_says_by_which_credential_each_operation_is_called() -> None:
    schemes = set(DOCUMENT["components"]["securitySchemes"])
    assert schemes == {"token", "munge", "sack", "session"}
    for method, path, operation in list_operations():
        needs = [set(one) for one in operation["security"]]
        assert [{name} for name in ("token", "munge", "sack", "session")] == needs[:4], path
        assert (set() in needs) <= (method == "GET"), path
    assert set() in [set(one) for one in DOCUMENT["paths"][f"{API}/chains"]["get"]["security"]]
    assert DOCUMENT["paths"]["/healthz"]["get"]["security"] == []
