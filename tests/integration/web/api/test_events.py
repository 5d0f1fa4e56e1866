"""The stream of events on a real server: live, resumed, bounded, and ended with the server."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest
import uvicorn
from sqlalchemy import delete, insert, update

from mirage.database.access.tokens import Token
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema import tables
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import JOBS, Role
from mirage.domain.chain import ChainId
from mirage.domain.decision import Mode
from mirage.provision.control import modes
from mirage.web.api.app import create_app
from mirage.web.api.routes import events
from mirage.web.api.streaming import change_feed
from mirage.web.identity import tokens
from mirage.web.shared.context import ApiContext
from tests.support.api.rows import add_chain, add_decision, add_links, look
from tests.support.api.running import CHAIN, NOW, USERS, Client, PatientProtocol, Stage
from tests.support.api.streams import PATH, listening, read
from tests.support.patient import PATIENCE_S


def test_a_change_arrives_with_no_beat_or_end_to_wait_for(
    client: Client, store: Store, cluster_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 600.0)
    with listening(client.url, for_s=600) as stream:
        first = stream.next()
        assert (first.name, first.data["status"]) == ("health", "stale")  # never looked yet
        with store.begin() as tx:
            add_chain(tx, cluster_id)
        told = stream.next("chains")
        assert told.data == {"id": told.id, "topic": "chains", "chain_ids": [CHAIN]}


def test_each_kind_of_change_has_its_topic(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id)
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_decision(tx, cluster_id)
    with store.begin() as tx:
        modes.set_mode(tx, cluster_id, Mode.ACT, "gpu", now=NOW, actor="root")
    told = [(event.name, event.id) for event in read(client.url, since=0)]
    assert told == [("health", 0), ("queue", 1), ("chains", 2), ("decisions", 3), ("mode", 4)]
    only = read(client.url, since=0, topic=["mode", "queue"])
    assert [event.name for event in only] == ["health", "queue", "mode"]


def test_what_a_transaction_took_back_is_not_told(
    client: Client, store: Store, cluster_id: int
) -> None:
    with suppress(RuntimeError), store.begin() as tx:
        add_chain(tx, cluster_id)
        raise RuntimeError("no")
    assert [event.name for event in read(client.url, since=0)] == ["health"]


def test_it_goes_on_where_it_broke_off(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    with listening(client.url, for_s=600, since=0) as stream:
        seen = stream.next("chains")
    look(store, cluster_id)
    with listening(
        client.url, for_s=600, headers={"Last-Event-ID": str(seen.id)}, since=0
    ) as stream:
        missed = stream.next("queue")
        assert missed.id == (seen.id or 0) + 1
        with store.begin() as tx:
            modes.set_mode(tx, cluster_id, Mode.OBSERVE, "", now=NOW, actor="root")
        assert stream.next("mode").id == (seen.id or 0) + 2


@pytest.mark.parametrize("after", [3, 10**15], ids=["too old", "of another database"])
def test_who_cannot_be_told_all_begins_anew(
    client: Client,
    store: Store,
    cluster_id: int,
    after: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "KEPT", 50)
    for _ in range(200):
        with store.begin() as tx:
            changes.record_change(tx, cluster_id, Topic.QUEUE)
    health, reset = read(client.url, headers={"Last-Event-ID": str(after)})
    assert (health.name, reset.name) == ("health", "reset")
    assert health.id == reset.id == 200


def test_a_reader_far_behind_is_not_given_everything(
    client: Client, store: Store, cluster_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "BATCH", 5)
    for _ in range(6):
        with store.begin() as tx:
            changes.record_change(tx, cluster_id, Topic.QUEUE)
    assert [event.name for event in read(client.url, since=0)] == ["health", "reset"]
    assert len(read(client.url, since=1)) == 1 + 5


def test_a_number_that_is_none_is_refused(client: Client) -> None:
    answer = client.raw("GET", PATH, headers={"Last-Event-ID": "drop table"})
    assert answer.status_code == 422
    assert [fault["parameter"] for fault in answer.json()["errors"]] == ["last-event-id"]


def test_a_chain_is_named_to_who_may_see_it(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    private = replace(context, hidden=lambda: frozenset({JOBS}))
    bearers = {user: bearer(store, cluster_id, user) for user in ("alice", "bob")}
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    with store.begin() as tx:
        add_chain(tx, cluster_id, "bobschain001", "bob")
        modes.set_mode(tx, cluster_id, Mode.OBSERVE, "", now=NOW, actor="root")
    with stage.serving(private) as client:
        told = {
            user: read(client.url, headers={"Authorization": f"Bearer {token}"}, since=0)
            for user, token in bearers.items()
        }
        unknown = read(client.url, since=0)
    named = {
        user: [event.data["chain_ids"] for event in found if event.name == "chains"]
        for user, found in told.items()
    }
    assert named == {"alice": [[CHAIN]], "bob": [["bobschain001"]]}
    assert [event.name for event in unknown] == ["health", "mode"]


def test_many_chains_at_once_are_one_event_without_names(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        for number in range(changes.MANY + 1):
            add_chain(tx, cluster_id, f"chain{number:06}")
    _, told = read(client.url, since=0)
    assert told.data["chain_ids"] is None


def test_a_quiet_stream_beats(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.2)
    with listening(client.url, for_s=600) as stream:
        assert stream.next().name == "health"
        stream.read_comments(3)
    assert len(stream.comments) == 3


def test_a_stream_ends_when_its_time_is_over(client: Client) -> None:
    with listening(client.url, for_s=1) as stream:
        assert [event.name for event in stream] == ["health"]


def test_health_is_told_when_it_changes(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id)
    now = [NOW]
    with (
        stage.serving(replace(context, clock=lambda: now[0])) as client,
        listening(client.url, for_s=600) as stream,
    ):
        assert stream.next("health").data["status"] == "ok"
        now[0] += 10_000
        assert stream.next("health").data["status"] == "stale"


def test_no_more_listen_than_there_is_room_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MAX_LISTENERS", 2)
    monkeypatch.setattr(change_feed, "RESERVED_FOR_KNOWN", 0)
    with ExitStack() as open_ones:
        streams = [open_ones.enter_context(listening(client.url, for_s=600)) for _ in range(2)]
        assert [stream.next().name for stream in streams] == ["health", "health"]
        refused = client.raw("GET", PATH)
        assert refused.status_code == 429
        assert refused.json()["type"] == "/problems/too-many"
    assert until(lambda: client.raw("GET", f"{PATH}?for_s=0").status_code == 200)


def test_who_does_not_say_who_they_are_leaves_room_for_who_does(
    client: Client, store: Store, cluster_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "MAX_LISTENERS", 2)
    monkeypatch.setattr(change_feed, "RESERVED_FOR_KNOWN", 1)
    alice = {"Authorization": f"Bearer {bearer(store, cluster_id, 'alice')}"}
    with listening(client.url, for_s=600) as stream:
        assert stream.next().name == "health"
        assert client.raw("GET", f"{PATH}?for_s=0").status_code == 429
        assert client.raw("GET", f"{PATH}?for_s=0", headers=alice).status_code == 200


@pytest.mark.parametrize("stays", [True, False], ids=["client stays", "client goes"])
def test_the_server_ends_though_streams_are_open(context: ApiContext, stays: bool) -> None:
    """Nothing but the streams themselves makes it: no time-out is set."""
    listening_at = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(context), http=PatientProtocol, log_config=None, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening_at],))
    thread.start()
    url = f"http://127.0.0.1:{listening_at.getsockname()[1]}"
    with listening(url, for_s=600) as stream:
        stream.next()
        if not stays:
            stream.answer.close()
        server.should_exit = True
        thread.join(PATIENCE_S)
        ended = not thread.is_alive()
        server.force_exit = True
        thread.join()
    assert ended


def test_a_client_that_does_not_read_is_let_go(
    client: Client, store: Store, cluster_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it costs meanwhile is its connection: nothing is kept for it."""
    monkeypatch.setattr(events, "SEND_S", 0.3)
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(change_feed, "BATCH", 20_000)
    names = [ChainId(f"chain{number:06}") for number in range(changes.MANY)]
    with store.begin() as tx:
        for name in names:
            add_chain(tx, cluster_id, name)
    with store.begin() as tx:  # several megabytes of events: more than the sockets hold
        row = {"cluster_id": cluster_id, "topic": "chains", "chain_ids": names}
        rows = [row | {"seq": number} for number in range(1, 8001)]
        tx.execute(delete(tables.changes))
        tx.execute(insert(tables.changes), rows)
        tx.execute(update(tables.change_counts).values(newest=8000))
    monkeypatch.setattr(change_feed, "MAX_LISTENERS", 1)
    monkeypatch.setattr(change_feed, "RESERVED_FOR_KNOWN", 0)
    host, port = client.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        idle.sendall(f"GET {PATH}?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert idle.recv(8).startswith(b"HTTP/1.1")
        assert client.raw("GET", PATH).status_code == 429
        assert until(lambda: client.raw("GET", f"{PATH}?for_s=0").status_code == 200)


def bearer(store: Store, cluster_id: int, user: str) -> str:
    token = Token(
        name=user,
        role=Role.USER,
        user=user,
        uid=USERS[user],
        created_at=NOW,
        created_by="root",
        expires_at=NOW + 3600,
    )
    with store.begin() as tx:
        return tokens.create_token(tx, token, cluster_id=cluster_id)[1]


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
