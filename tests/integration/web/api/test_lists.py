"""Lists: narrowed, paged in an order that inserts do not disturb, and revalidated."""

from typing import Any

import pytest

from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store
from mirage.domain.callers.request_signing import build_signed_text
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.job import JobState
from tests.support.api.rows import add_chain, add_decision, add_links, look, read_running_record
from tests.support.api.running import CHAIN, NOW, Client

UPKEEP = ChainRisk(of=Risk.HINDERED, link=2, detail="Maintenance")

API = "/api/v1"
DAY = 86400
LISTS = ["chains", f"chains/{CHAIN}/decisions", "decisions", "handovers", "jobs", "audit"]


@pytest.fixture
def filled(store: Store, cluster_id: int) -> None:
    """Three chains with their links, decisions on one, six jobs of a week."""
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        add_chain(tx, cluster_id, "riskychain01", "bob", created_at=NOW - 5, at_risk=UPKEEP)
        add_chain(tx, cluster_id, "oldchain0001", "carol", created_at=NOW - 9 * DAY)
        for minute in range(5):
            add_decision(tx, cluster_id, at=NOW + 7200 * minute)
        week = [
            read_running_record(
                n, submit=NOW - n * DAY, account=f"a{n % 2}", qos=f"q{n % 3}", state=state
            )
            for n, state in enumerate([JobState.PENDING, *[JobState.COMPLETED] * 5], start=1)
        ]
        job_history.upsert_jobs(tx, cluster_id, week)


def keys(client: Client, name: str, **query: Any) -> list[Any]:
    answer = client.get(f"{API}/{name}", who="root", **query)
    assert answer.status_code == 200, answer.text
    by = {"jobs": "job_id", "chains": "chain_id", "handovers": "link"}.get(name, "id")
    return [item[by] for item in answer.json()["items"]]


DATE, LATER = "2027-01-15T08:00:00Z", "2027-01-15T10:00:01Z"
"""NOW, and two hours on."""


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("name", "query", "found"),
    [
        ("chains", {"user": "bob"}, ["riskychain01"]),
        ("chains", {"state": "paused"}, []),
        ("chains", {"at_risk": "true"}, ["riskychain01"]),
        ("chains", {"at_risk": "false"}, [CHAIN, "oldchain0001"]),
        ("chains", {"partition": "gpu"}, [CHAIN]),
        ("chains", {"partition": "cpu"}, []),
        ("chains", {"account": "physics"}, []),
        ("chains", {"since": "2027-01-15T07:59:00"}, ["riskychain01"]),
        ("chains", {"until": "2027-01-10T00:00:00+05:00"}, ["oldchain0001"]),
        ("decisions", {"effect": "intended", "action": "free", "mode": "act"}, [5, 4, 3, 2, 1]),
        ("decisions", {"action": "wait"}, []),
        ("decisions", {"policy": "quantile", "since": DATE, "until": LATER}, [2, 1]),
        ("decisions", {"policy": "average"}, []),
        ("handovers", {}, [3, 2]),
        ("handovers", {"chain_id": CHAIN, "user": "alice", "partition": "gpu"}, [3, 2]),
        ("handovers", {"user": "bob"}, []),
        ("handovers", {"since": "2027-01-15T05:00:00Z"}, [3]),
        ("jobs", {"account": "a0"}, [6, 4, 2]),
        ("jobs", {"qos": "q0"}, [6, 3]),
        ("jobs", {"state": "PENDING"}, [1]),
        ("jobs", {"since": "2027-01-12T08:00:00Z", "until": "2027-01-14T08:00:00Z"}, [3, 2]),
        ("audit", {"actor": "nobody"}, []),
    ],
)
def test_a_list_is_narrowed(
    client: Client, name: str, query: dict[str, str], found: list[Any]
) -> None:
    assert keys(client, name, **query) == found


def test_the_audit_is_narrowed_to_an_actor_and_an_event(client: Client) -> None:
    client.put(f"{API}/mode", b'{"mode": "observe"}', who="root")
    assert len(keys(client, "audit", actor="root", event="mode set")) == 1
    assert keys(client, "audit", actor="root", until="2020-01-01T00:00:00Z") == []


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", ["chains", "decisions", "handovers", "jobs"])
def test_pages_hold_every_row_once_though_rows_come_in_between(
    client: Client, store: Store, cluster_id: int, name: str
) -> None:
    whole = keys(client, name)
    path, seen, links = f"{API}/{name}?limit=1", [], []
    while path:
        answer = client.get(path, who="root")
        seen += answer.json()["items"]
        path = answer.json()["next"]
        links.append(answer.headers.get("link"))
        assert links[-1] == (f'<{path}>; rel="next"' if path else None)
        with store.begin() as tx:  # newer than all of them: it belongs on a page that is past
            number = len(links)
            add_chain(tx, cluster_id, f"newer{number:06}", created_at=NOW + number)
            add_decision(tx, cluster_id, at=NOW + 10 * DAY + 7200 * number)
            job_history.upsert_jobs(tx, cluster_id, [read_running_record(100 + number)])
    by = {"jobs": "job_id", "chains": "chain_id", "handovers": "link"}.get(name, "id")
    assert [item[by] for item in seen] == whole
    assert len(whole) > 1


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    "cursor", ["", "1", ".", "jobs.", "nosuchlist.1", "jobs.1-x", "chains.1'--", "é", "a" * 65]
)
def test_a_cursor_that_was_never_given_is_refused(client: Client, name: str, cursor: str) -> None:
    answer = client.get(f"{API}/{name}", who="root", cursor=cursor)
    assert answer.status_code == 422
    assert [fault["parameter"] for fault in answer.json()["errors"]] == ["cursor"]


@pytest.mark.usefixtures("filled")
def test_a_cursor_of_another_list_is_refused(client: Client) -> None:
    following = client.get(f"{API}/decisions?limit=1", who="root").json()["next"]
    cursor = following.partition("cursor=")[2]
    assert client.get(f"{API}/decisions", who="root", cursor=cursor).status_code == 200
    assert client.get(f"{API}/audit", who="root", cursor=cursor).status_code == 422


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("name", [*LISTS, "cluster", "mode", f"chains/{CHAIN}"])
def test_who_has_the_newest_answer_is_not_sent_it_again(
    client: Client, store: Store, cluster_id: int, name: str
) -> None:
    def ask(tag: str) -> Any:
        return client.raw("GET", f"{API}/{name}", headers={"If-None-Match": tag} | root(name))

    first = ask('"other"')
    tag = first.headers["etag"]
    assert (first.status_code, first.headers["cache-control"]) == (200, "private, no-cache")
    assert "authorization" in first.headers["vary"].lower()
    for told in (tag, f"W/{tag}", f'"a", {tag}', "*"):
        again = ask(told)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    look(store, cluster_id)  # the cluster was looked at: every answer says when
    if name != "mode":
        changed = ask(tag)
        assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)


def root(name: str) -> dict[str, str]:
    return {"Authorization": "MUNGE root:" + build_signed_text("GET", f"{API}/{name}", b"", "lab")}


def test_an_error_is_not_kept(client: Client) -> None:
    answer = client.get(f"{API}/chains/nosuchchain")
    assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    assert "etag" not in answer.headers


@pytest.mark.parametrize("given", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_is_not_said_to_be_json_is_not_read(client: Client, given: str) -> None:
    body = b'{"mode": "act"}'
    answer = client.put(f"{API}/mode", body, who="root", headers={"Content-Type": given})
    assert answer.status_code == 415
    assert answer.json()["type"] == "/problems/unsupported-media-type"
    typed = {"Content-Type": "application/merge-patch+json; charset=utf-8"}
    assert client.put(f"{API}/mode", body, who="root", headers=typed).status_code == 200


def test_no_name_has_a_nul(client: Client) -> None:
    answer = client.get(f"{API}/jobs", user="a\0b")
    assert answer.status_code == 422
    assert [fault["parameter"] for fault in answer.json()["errors"]] == ["user"]
