"""Every error is a problem (RFC 9457), and every kind of it can be had."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest

from mirage.chains import lifecycle as chain_service
from mirage.database.schema.engine import Store
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.web.api.app import ApiContext
from mirage.web.shared.problems import KINDS
from tests.support.api.running import CHAIN, Client, Stage

CHAINS = "/api/v1/chains"
NEW = b'{"chain_id": "k3v9x2m7q1zt", "job_id": 101, "links": 8}'


def problem(answer: httpx.Response) -> Mapping[str, Any]:
    """The body of a problem, which is one in every respect."""
    assert answer.headers["content-type"] == "application/problem+json"
    shown: Mapping[str, Any] = answer.json()
    kind = KINDS[shown["type"].removeprefix("/problems/")]
    assert shown["status"] == answer.status_code
    assert shown["title"] == kind.title
    assert shown["detail"]
    assert shown["request_id"] == answer.headers["x-request-id"]
    return shown


def refusing(error: Exception) -> Any:
    def identify(credential: str, payload: str) -> NoReturn:
        raise error

    return identify


# One for each kind, and for each way to be wrong that a caller has.


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", "#"),
        (b"[]", "#"),
        (b"", "#"),
        (b"{}", "#/chain_id"),
        (NEW.replace(b"101", b"0"), "#/job_id"),
        (NEW.replace(b"8", b"0"), "#/links"),
        (NEW.replace(b"8", b"1001"), "#/links"),
        (NEW.replace(b"8", b'"many"'), "#/links"),
        (NEW.replace(b"k3v9x2m7q1zt", b"../etc"), "#/chain_id"),
        (NEW.replace(b"}", b', "uid": 0}'), "#/uid"),
        (NEW.replace(b"}", b', "policy": "clairvoyant"}'), "#/policy"),
        (NEW.replace(b"}", b', "overlap_price": -1}'), "#/overlap_price"),
        (NEW.replace(b"}", b', "a/b~c": 1}'), "#/a~1b~0c"),
    ],
)
def test_a_wrong_body_is_pointed_into(client: Client, body: bytes, pointer: str) -> None:
    answer = client.post(CHAINS, body, who="alice")
    assert answer.status_code == 422
    shown = problem(answer)
    assert shown["type"] == "/problems/invalid-input"
    assert pointer in {fault["pointer"] for fault in shown["errors"]}


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        (f"{CHAINS}?limit=0", "limit"),
        (f"{CHAINS}?limit=501", "limit"),
        (f"{CHAINS}?limit=ten", "limit"),
        (f"{CHAINS}?state=sleeping", "state"),
        (f"{CHAINS}?cursor=nosuchchain", "cursor"),
        (f"{CHAINS}/UPPER", "chain_id"),
        ("/api/v1/jobs?cursor=1", "cursor"),
        ("/api/v1/jobs?cursor=1-x", "cursor"),
        ("/api/v1/jobs?state=ASLEEP", "state"),
        ("/api/v1/decisions?cursor=-1", "cursor"),
        (f"/api/v1/decisions?cursor={'9' * 19}", "cursor"),
        ("/api/v1/forecasts?partition=gpu&nodes=0&time_limit_s=1", "nodes"),
        ("/api/v1/forecasts?partition=gpu&nodes=1", "time_limit_s"),
    ],
)
def test_a_wrong_parameter_is_named(client: Client, path: str, parameter: str) -> None:
    answer = client.raw("GET", path)
    assert answer.status_code == 422
    assert [fault["parameter"] for fault in problem(answer)["errors"]] == [parameter]


def test_a_body_that_is_no_text(client: Client) -> None:
    answer = client.post(CHAINS, b'"\xff"', who="alice")
    assert answer.status_code == 400
    assert problem(answer)["type"] == "/problems/http-error"


def test_all_faults_are_told_at_once(client: Client) -> None:
    answer = client.post(CHAINS, b'{"chain_id": "x", "links": 0}', who="alice")
    pointers = [fault["pointer"] for fault in problem(answer)["errors"]]
    assert pointers == ["#/chain_id", "#/job_id", "#/links"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer abc"},
        {"Authorization": "MUNGE"},
        {"Authorization": "MUNGE mallory:x"},
        {"Authorization": "MUNGE alice:POST /api/v1/kill 00"},
    ],
)
def test_a_write_needs_somebody_who_vouches(client: Client, headers: dict[str, str]) -> None:
    answer = client.post(CHAINS, NEW, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "MUNGE, SACK, Bearer")
    assert problem(answer)["type"] == "/problems/not-identified"
    assert client.get(CHAINS).json()["items"] == []


def test_a_service_that_knows_nobody_takes_no_writes(stage: Stage, context: ApiContext) -> None:
    with stage.serving(replace(context, identify=None)) as client:
        assert problem(client.post(CHAINS, NEW, who="root"))["status"] == 401


@pytest.mark.parametrize(
    "path", ["/nowhere", "/api/v1/nowhere", f"{CHAINS}/nosuchchain", "/problems/nosuchproblem"]
)
def test_what_is_not_there(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert problem(answer)["type"] == "/problems/not-found"


def test_a_method_that_is_not_there(client: Client) -> None:
    answer = client.raw("DELETE", f"{CHAINS}/{CHAIN}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert problem(answer)["type"] == "/problems/method-not-allowed"


def test_a_key_for_two_requests(client: Client) -> None:
    key = {"Idempotency-Key": "k"}
    client.post(CHAINS, NEW, who="alice", headers=key)
    answer = client.post(CHAINS, NEW + b" ", who="alice", headers=key)
    assert problem(answer)["type"] == "/problems/idempotency-key-reused"


@pytest.mark.usefixtures("chain_with_links")
def test_another_users_chain(client: Client) -> None:
    answer = client.post(f"{CHAINS}/{CHAIN}/pause", who="bob")
    assert problem(answer)["type"] == "/problems/not-allowed"


@pytest.mark.usefixtures("chain_with_links")
def test_a_move_there_is_not(client: Client) -> None:
    client.post(f"{CHAINS}/{CHAIN}/cancel", who="alice")
    answer = client.post(f"{CHAINS}/{CHAIN}/resume", who="alice")
    assert answer.status_code == 409
    assert problem(answer)["detail"] == f"chain {CHAIN} is cancelled: it cannot become active"


def test_more_chains_than_slurm_has_shown(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up ids fill no database; a chain known already, and other users, are not refused."""
    monkeypatch.setattr(chain_service, "MAX_UNSEEN_CHAINS", 3)
    made_up = [NEW.replace(b"k3v9x2m7q1zt", b"madeup%06d" % n) for n in range(4)]
    statuses = [client.post(CHAINS, body, who="alice").status_code for body in made_up]
    assert statuses == [201, 201, 201, 429]
    answer = client.post(CHAINS, made_up[3], who="alice")
    assert problem(answer)["type"] == "/problems/too-many"
    assert "have no job in Slurm yet" in answer.json()["detail"]
    assert client.post(CHAINS, made_up[0], who="alice").status_code == 201
    assert client.post(CHAINS, made_up[3], who="bob").status_code == 201


def test_more_chains_than_one_user_may_have(client: Client) -> None:
    client.put("/api/v1/limits/max_chains_per_user", b'{"value": 2}', who="root")
    new = [NEW.replace(b"k3v9x2m7q1zt", b"madeup%06d" % n) for n in range(3)]
    statuses = [client.post(CHAINS, body, who="alice").status_code for body in new]
    assert statuses == [201, 201, 429]
    refused = problem(client.post(CHAINS, new[2], who="alice"))
    assert refused["type"] == "/problems/too-many"
    assert refused["detail"].startswith("you have 2 chains that have not ended")
    # The wrapped sbatch tells 200 characters of it.
    assert len(refused["detail"]) < 200
    assert client.post(CHAINS, new[0], who="alice").status_code == 201, "it is one of them"
    assert client.post(CHAINS, new[2], who="bob").status_code == 201
    client.post(f"{CHAINS}/madeup000000/cancel", who="alice")
    more = NEW.replace(b"k3v9x2m7q1zt", b"madeup000009")
    assert client.post(CHAINS, more, who="alice").status_code == 201


@pytest.mark.usefixtures("chain_with_links")
def test_chains_that_slurm_has_shown_do_not_count(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_service, "MAX_UNSEEN_CHAINS", 1)
    new = NEW.replace(b"k3v9x2m7q1zt", b"another00001")
    assert client.post(CHAINS, new, who="alice").status_code == 201


@pytest.mark.parametrize("path", [CHAINS, f"{CHAINS}/{CHAIN}/pause"])
def test_a_body_too_large(client: Client, path: str) -> None:
    def parts() -> Iterator[bytes]:
        yield from [b" " * 40_000] * 2

    for content in (b" " * 80_000, parts()):  # with its length told, and without
        answer = client.raw("POST", path, content=content, headers={"Authorization": "MUNGE a:b"})
        assert answer.status_code == 413
        assert problem(answer)["type"] == "/problems/too-large"


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ClusterUnavailable("munged does not answer"), 503, "cluster-unavailable"),
        (ClusterRefused("not on this cluster"), 409, "refused-by-slurm"),
    ],
)
def test_a_cluster_in_trouble(
    stage: Stage, context: ApiContext, error: Exception, status: int, kind: str
) -> None:
    with stage.serving(replace(context, identify=refusing(error))) as client:
        answer = client.post(CHAINS, NEW, who="alice")
    assert answer.status_code == status
    assert problem(answer)["type"] == f"/problems/{kind}"


def test_a_mistake_of_ours_tells_nothing_of_our_insides(stage: Stage, context: ApiContext) -> None:
    broken = refusing(RuntimeError("secret"))
    with stage.serving(replace(context, identify=broken)) as client:
        answer = client.post(CHAINS, NEW, who="alice")
    assert answer.status_code == 500
    assert problem(answer)["type"] == "/problems/internal-error"
    assert "secret" not in answer.text


def test_a_database_that_is_gone(client: Client, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mirage.db")) as database:
        database.execute("DROP TABLE snapshots")
    for path in (CHAINS, "/api/v1/cluster", "/readyz"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert problem(answer)["type"] == "/problems/database-unavailable"


def test_a_schema_that_is_newer(client: Client, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mirage.db")) as database, database:
        database.execute("UPDATE schema_version SET version_num = '9999'")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "newer than" in problem(answer)["detail"]


def test_a_commit_that_fails_is_told(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int, tmp_path: Path
) -> None:
    """The transaction ends before the answer begins: nobody is told of what was not kept."""
    with closing(sqlite3.connect(tmp_path / "mirage.db")) as database:
        database.execute(
            "CREATE TABLE late (at INTEGER REFERENCES snapshots (id) DEFERRABLE INITIALLY DEFERRED)"
        )
        database.execute(
            "CREATE TRIGGER fails AFTER INSERT ON chains BEGIN INSERT INTO late VALUES (1); END"
        )
    with stage.serving(context) as client:
        answer = client.post(CHAINS, NEW, who="alice")
        assert answer.status_code == 503
        assert problem(answer)["type"] == "/problems/database-unavailable"
        assert client.get(CHAINS).json()["items"] == []


@pytest.mark.parametrize("name", KINDS)
def test_each_problem_is_explained_where_its_type_points(client: Client, name: str) -> None:
    answer = client.get(f"/problems/{name}")
    assert answer.status_code == 200
    assert answer.text.startswith(f"{KINDS[name].title} ({KINDS[name].status})")
