"""Who is believed by the API, and that whoever is refused is written down."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from structlog.testing import capture_logs

from mirage.database.access import tokens
from mirage.database.access.tokens import Token
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Caller, Role
from mirage.domain.callers.request_signing import build_signed_text
from mirage.errors import NotIdentified
from mirage.web.api.app import ApiContext
from mirage.web.api.routes import chains, cluster, job_callbacks, system
from mirage.web.identity import tokens as token_service
from mirage.web.shared import denied_requests as ledger
from mirage.web.shared import dependencies
from tests.support.api.rows import add_chain
from tests.support.api.running import CHAIN, CLUSTER, NOW, USERS, Client, Stage
from tests.unit.web.identity.test_quotas import Stopwatch

CHAINS = "/api/v1/chains"
MODE = "/api/v1/mode"
ACT = b'{"mode": "act"}'
NEW = b'{"chain_id": "otherchain1", "job_id": 101, "links": 8}'
HEADER = "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"


def read_jwt(given: str) -> Caller:
    if given != HEADER:
        raise NotIdentified("the JSON web token has expired", "alice")
    return Caller(USERS["alice"], "alice", via="jwt")


@pytest.fixture
def context(context: ApiContext) -> ApiContext:
    return replace(context, read_jwt=read_jwt)


@pytest.fixture
def client(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    with stage.serving(context) as running:
        yield running


def token(store: Store, here: int, **fields: Any) -> str:
    values: dict[str, Any] = {
        "name": "t",
        "role": Role.USER,
        "user": "alice",
        "uid": USERS["alice"],
        "created_at": NOW,
        "created_by": "root",
        "expires_at": NOW + 60,
    }
    with store.begin() as tx:
        asked = Token(**values | fields)
        return token_service.create_token(tx, asked, cluster_id=here)[1]


def bearer(client: Client, method: str, path: str, text: str, body: bytes = b"") -> httpx.Response:
    headers = {"Authorization": f"Bearer {text}", "Content-Type": "application/json"}
    return client.raw(method, path, content=body, headers=headers)


def refusals(store: Store) -> list[AuditEntry]:
    """Newest first."""
    with store.read() as tx:
        return [entry for entry in audit.list_entries(tx, 1) if entry.event.startswith("refused")]


def test_a_token_acts_as_its_user(client: Client, store: Store, cluster_id: int) -> None:
    mine, bobs = token(store, cluster_id), token(store, cluster_id, user="bob", uid=USERS["bob"])
    path = f"{CHAINS}/{CHAIN}/pause"
    assert bearer(client, "POST", path, bobs).status_code == 403
    assert bearer(client, "POST", path, mine).status_code == 200
    assert bearer(client, "POST", CHAINS, mine, NEW).json()["user"] == "alice"


def test_the_audit_tells_by_which_credential(client: Client, store: Store, cluster_id: int) -> None:
    text = token(store, cluster_id)
    bearer(client, "POST", CHAINS, text, NEW)
    bearer(client, "POST", f"{CHAINS}/{CHAIN}/pause", text)
    bearer(client, "POST", f"{CHAINS}/{CHAIN}/resume", HEADER)
    client.put(MODE, ACT, who="root")
    with store.read() as tx:
        rows = {entry.event: entry.detail.get("via") for entry in audit.list_entries(tx, 1)}
    mine = f"token {text.split('_')[1]}"
    assert rows == {
        "token created": None,
        "registered": mine,
        "asked: paused": mine,
        "asked: resumed": "jwt",
        "mode set": "munge",
    }


def test_a_json_web_token_acts_as_its_user(client: Client) -> None:
    assert bearer(client, "POST", f"{CHAINS}/{CHAIN}/pause", HEADER).json()["state"] == "paused"


@pytest.mark.parametrize(
    ("fields", "statuses"),
    [
        ({"role": Role.VIEWER}, (200, 403, 403, 403)),
        ({"role": Role.USER, "read_only": True}, (200, 403, 403, 403)),
        ({"role": Role.USER}, (200, 200, 403, 403)),
        ({"role": Role.ADMIN, "user": "root", "uid": 0, "read_only": True}, (200, 403, 403, 200)),
        ({"role": Role.ADMIN, "user": "root", "uid": 0}, (200, 200, 200, 200)),
        # No more than its user may.
        ({"role": Role.ADMIN}, (200, 200, 403, 403)),
    ],
)
def test_a_token_allows_what_its_scope_says(
    client: Client,
    store: Store,
    cluster_id: int,
    fields: dict[str, Any],
    statuses: tuple[int, ...],
) -> None:
    text = token(store, cluster_id, **fields)
    asked = [("GET", CHAINS, b""), ("POST", f"{CHAINS}/{CHAIN}/pause", b"")]
    asked += [("PUT", MODE, ACT), ("GET", "/api/v1/audit", b"")]
    assert tuple(bearer(client, m, p, text, b).status_code for m, p, b in asked) == statuses


def test_a_token_without_a_user_owns_no_chain(
    client: Client, store: Store, cluster_id: int
) -> None:
    text = token(store, cluster_id, role=Role.ADMIN, user="", uid=-1)
    answer = bearer(client, "POST", CHAINS, text, NEW)
    assert (answer.status_code, "this token belongs to none" in answer.text) == (403, True)


def credential(which: str, store: Store, cluster_id: int) -> str:
    with store.begin() as tx:
        elsewhere = clusters.ensure_cluster(tx, "elsewhere")
    spent = token(store, cluster_id, expires_at=NOW, created_at=NOW - 60)
    return {
        "expired jwt": "Bearer a.b.c",
        "no token": "Bearer mirage_000000000000_" + "A" * 43,
        "spent": f"Bearer {spent}",
        "elsewhere": f"Bearer {token(store, cluster_id, cluster_id=elsewhere)}",
        "other request": f"MUNGE alice:{build_signed_text('POST', CHAINS, b'', 'lab')}",
        "other query": f"MUNGE alice:{build_signed_text('GET', f'{CHAINS}?limit=1', b'', 'lab')}",
        "no scheme": spent,
        "basic": "Basic cm9vdDpyb290",
    }[which]


REFUSED = {
    "expired jwt": ("alice", "bearer", "the JSON web token has expired"),
    "no token": ("nobody", "bearer", "there is no such token"),
    "spent": ("token", "bearer", "the token has expired"),
    "elsewhere": ("token", "bearer", "the token is for another cluster"),
    "other request": ("nobody", "munge", "nobody vouches for that"),
    "other query": ("nobody", "munge", "nobody vouches for that"),
    "no scheme": ("nobody", "unknown", "the request needs a credential"),
    "basic": ("nobody", "unknown", "the request needs a credential"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_who_is_not_believed_is_refused_and_audited(
    client: Client, store: Store, cluster_id: int, which: str
) -> None:
    shown = credential(which, store, cluster_id)
    answer = client.raw("GET", CHAINS, headers={"Authorization": shown})
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/not-identified")
    (entry,) = refusals(store)
    actor, via, why = REFUSED[which]
    assert entry.event == "refused: not identified"
    assert entry.actor.partition(" ")[0] == actor
    assert entry.detail["why"].startswith(why)
    expected = {"method": "GET", "path": CHAINS, "via": via, "from": "127.0.0.1"}
    assert {key: entry.detail[key] for key in expected} == expected
    secret = shown.rpartition(" ")[2].split("_", 2)[-1]
    assert secret not in str(entry)
    assert secret not in answer.text


def test_who_may_not_is_refused_and_audited(client: Client, store: Store) -> None:
    assert client.post(f"{CHAINS}/{CHAIN}/cancel", who="bob").status_code == 403
    (entry,) = refusals(store)
    assert (entry.event, entry.actor) == ("refused: not allowed", "bob")
    assert entry.detail["why"] == f"chain {CHAIN} is not bob's"
    assert entry.detail["path"] == f"{CHAINS}/{CHAIN}/cancel"


def test_who_shows_nothing_is_asked_and_not_written_down(client: Client, store: Store) -> None:
    assert client.post(CHAINS, NEW).status_code == 401
    assert refusals(store) == []


def test_a_hostile_path_is_one_line_in_the_audit(client: Client, store: Store) -> None:
    """Of an address that is none nobody is asked who they are: one that is, with a long query."""
    path = f"{CHAINS}?user=%0aroot%20did%20it%1b[2J"
    client.raw("GET", path, headers={"Authorization": "MUNGE a\tb"})
    (entry,) = refusals(store)
    assert all(str(value).isprintable() for value in entry.detail.values())


def test_a_flood_of_refusals_fills_no_database_and_hides_nobody_elses(
    stage: Stage, context: ApiContext, store: Store
) -> None:
    """As before: 120 of whoever comes first, and then of nobody, were a way to hide."""
    clock = Stopwatch()
    with store.begin() as tx:
        add_chain(tx, context.cluster_id)

    with stage.serving(replace(context, stopwatch=clock)) as client:

        def flood(times: int) -> None:
            for _ in range(times):
                client.raw("GET", CHAINS, headers={"Authorization": "Basic x"})

        flood(ledger.CALLER_BURST + 120)
        assert len(refusals(store)) == ledger.CALLER_BURST
        client.post(f"{CHAINS}/{CHAIN}/cancel", who="bob")
        assert refusals(store)[0].actor == "bob"
        clock.at += 60
        flood(3)
        more, *rest = refusals(store)[::-1][ledger.CALLER_BURST + 1 :]
        assert (more.event, more.detail["number"]) == ("refused: not written", 120)
        said = "120 more refusals of nobody from 127.0.0.1 were not recorded"
        assert more.detail["why"] == said
        assert [entry.event for entry in rest] == ["refused: not identified"]


def test_false_credentials_from_everywhere_leave_room_for_those_who_are_known() -> None:
    clock = Stopwatch()
    book = ledger.DenialLedger(clock)
    for number in range(5000):
        book.should_record(f"nobody from 10.0.{number // 256}.{number % 256}", is_known=False)
    assert [book.should_record("bob (uid 1002)", is_known=True) for _ in range(3)] == [True] * 3
    assert book.take_omitted() == []
    clock.at += 61
    told = [*book.take_omitted()]
    assert len(told) == ledger.TOTAL_BURST, "of as many callers too there is no flood of rows"
    for _ in range(3):
        clock.at += 3600
        told = [*told, *book.take_omitted()]
    assert sum(each.number for each in told) == 5000 - ledger.TOTAL_BURST, "and all are counted"
    assert max(told, key=lambda each: each.number).caller_name == "others"


def test_a_flood_of_refusals_does_not_fill_the_log(
    client: Client,
) -> None:
    with capture_logs() as lines:
        for _ in range(3 * ledger.CALLER_BURST):
            client.raw("GET", CHAINS, headers={"Authorization": "Basic x"})
    assert len([line for line in lines if line["event"] == "refused"]) <= ledger.CALLER_BURST + 2


def test_a_revoked_token_is_refused_at_once(client: Client, store: Store, cluster_id: int) -> None:
    text = token(store, cluster_id)
    assert bearer(client, "GET", CHAINS, text).status_code == 200
    with store.begin() as tx:
        tokens.revoke_token(tx, text.split("_")[1], now=NOW)
    assert bearer(client, "GET", CHAINS, text).status_code == 401


@pytest.mark.parametrize("header", [{}, {"X-Forwarded-For": "0"}, {"X-Peer-Uid": "0"}])
def test_no_header_makes_a_peer(client: Client, header: Mapping[str, str]) -> None:
    told = {"Content-Type": "application/json"} | dict(header)
    answer = client.raw("PUT", MODE, content=ACT, headers=told)
    assert answer.status_code == 401


def test_answers_are_taken_for_no_page(client: Client) -> None:
    for path in (CHAINS, "/problems/not-found", "/nowhere", "/metrics"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")


def test_on_a_unix_socket_the_kernel_says_who_calls(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    me = pwd.getpwuid(os.geteuid())
    with store.begin() as tx:
        add_chain(tx, cluster_id, user="root", uid=me.pw_uid)
    with stage.serving(context), stage.call_by_socket() as http:
        assert stat.S_ISSOCK(stage.socket_path.stat().st_mode)
        shown = http.post(f"{CHAINS}/{CHAIN}/pause").json()
        assert (shown["state"], shown["note"]) == ("paused", f"paused by {me.pw_name}")


def test_by_a_proxy_at_the_socket_nobody_is_known(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    """It is known for whom it passes on by the credential alone."""
    proxy = replace(context, proxy_uids=frozenset({os.geteuid()}))
    with store.begin() as tx:
        add_chain(tx, cluster_id, user="alice", uid=USERS["alice"])
    path = f"{CHAINS}/{CHAIN}/pause"
    by_alice = {"Authorization": f"MUNGE alice:{build_signed_text('POST', path, b'', CLUSTER)}"}
    with stage.serving(proxy), stage.call_by_socket() as http:
        assert http.post(path).status_code == 421, "browsers come through it, led by any name"
        http.headers["Host"] = "localhost"
        assert http.post(path).status_code == 401
        assert http.post(path, headers=by_alice).json()["note"] == "paused by alice"


def test_a_users_own_service_is_theirs_alone(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    with stage.serving(replace(context, owner_uid=USERS["alice"], admins=("alice",))) as client:
        assert client.get(CHAINS).status_code == 401, "nobody looks without a name"
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", who="alice").status_code == 200
        for path in ("/healthz", "/problems/not-found", "/api/v1/openapi.json"):
            assert client.get(path).status_code == 200, "nothing of the service's chains"
        assert client.get(CHAINS, who="bob").status_code == 403
        assert client.get(CHAINS, who="root").status_code == 403
        assert client.get(CHAINS, who="alice").json()["items"][0]["chain_id"] == CHAIN
        assert client.put(MODE, ACT, who="alice").status_code == 200
    assert [entry.actor for entry in refusals(store)] == ["root", "bob"]


def asked(dependant: Dependant) -> set[object]:
    """Everything that a route has looked up before it runs."""
    return {dependant.call}.union(*(asked(inner) for inner in dependant.dependencies))


def test_no_route_answers_without_asking_who_looks() -> None:
    """Whoever adds one decides what PrivateData leaves of it."""
    rooms = (chains, job_callbacks, cluster, system)
    routes = [route for room in rooms for route in room.router.routes]
    versioned = [route for route in routes if isinstance(route, APIRoute)]
    assert len(versioned) == len(routes) > 10
    blind = [
        route.path
        for route in versioned
        if dependencies.authorize_reader not in asked(route.dependant)
    ]
    assert blind == []
    changing = [route for route in versioned if route.methods and "GET" not in route.methods]
    assert [
        route.path
        for route in changing
        if dependencies.authorize_writer not in asked(route.dependant)
    ] == []
