"""Two clusters in one database: through one's service nothing of the other is read or changed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from mirage.chains import lifecycle
from mirage.chains.link_sync import sync_links
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import metadata
from mirage.domain.callers.request_signing import build_signed_text
from mirage.domain.chain import ChainId
from mirage.web.shared.context import ApiContext
from tests.support.api.rows import add_chain, add_decision, add_links, look, read_running_job
from tests.support.api.running import CHAIN, NOW, USERS, Client, Stage
from tests.support.database.clusters_apart import list_statements_of_any_cluster
from tests.support.paths import DOCS

API = "/api/v1"
DOCUMENT = json.loads((DOCS / "openapi.json").read_text())
SECRETS = (CHAIN, "alice", "secret-partition")
BODIES = {
    "/api/v1/chains": {"chain_id": CHAIN, "job_id": 101, "links": 8},
    "/api/v1/completions": {"job_id": 103},
}


@pytest.fixture
def other(store: Store, context: ApiContext) -> ApiContext:
    """The second cluster's service; alice's chain is the first cluster's."""
    with store.begin() as tx:
        add_chain(tx, context.cluster_id)
        add_links(tx, context.cluster_id)
        add_decision(tx, context.cluster_id)
        entry = AuditEntry(at=NOW, actor="alice", event="asked", chain_id=ChainId(CHAIN))
        audit.write_entry(tx, context.cluster_id, entry)
        number = clusters.ensure_cluster(tx, "other")
    look(store, context.cluster_id, read_running_job(103, partition="secret-partition"))
    return replace(context, cluster_id=number, pushers=("root",))


@pytest.fixture
def elsewhere(stage: Stage, other: ApiContext) -> Iterator[Client]:
    with stage.serving(other) as running:
        yield running


def read_rows(store: Store, cluster_id: int) -> dict[str, list[Any]]:
    """What the database holds of the cluster."""
    with store.read() as tx:
        return {
            table.name: [
                tuple(row)
                for row in tx.execute(select(table))
                if "cluster_id" not in table.c or row._mapping["cluster_id"] == cluster_id
            ]
            for table in metadata.sorted_tables
            if table.name not in {"idempotency_keys", "clusters"}
        }


def list_calls() -> list[tuple[str, str, bytes]]:
    """Each operation of the document, about alice's chain where it is about a chain."""
    found = []
    for path, operations in DOCUMENT["paths"].items():
        if "/events" in path or "{" in path.replace("{chain_id}", ""):
            continue
        for method in operations:
            body = BODIES.get(path, {}) if method != "get" else None
            sent = b"" if body is None else json.dumps(body).encode()
            found.append((method.upper(), path.replace("{chain_id}", CHAIN), sent))
    return found


@pytest.mark.parametrize("who", ["alice", "root"])
def test_no_operation_of_the_other_service_tells_of_the_chain_or_changes_it(
    elsewhere: Client, store: Store, context: ApiContext, who: str
) -> None:
    before = read_rows(store, context.cluster_id)
    calls = list_calls()
    assert sum(CHAIN in path for _, path, _ in calls) >= 7
    with list_statements_of_any_cluster() as found:
        for method, path, body in calls:
            signed = build_signed_text(method, path, body, "lab")
            headers = {"Authorization": f"MUNGE {who}:{signed}", "Content-Type": "application/json"}
            answer = elsewhere.raw(method, path, content=body, headers=headers)
            if CHAIN in path:
                assert answer.status_code in {404, 422}, (method, path, answer.text)
            elif method == "GET":
                told = [word for word in SECRETS if word in answer.text]
                assert told in ([], [who]), (path, answer.text)
            assert answer.status_code != 500, (method, path)
    assert found == []
    after = read_rows(store, context.cluster_id)
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}


def test_the_other_clusters_service_registers_no_chain_of_this_one(elsewhere: Client) -> None:
    body = json.dumps(BODIES["/api/v1/chains"]).encode()
    refused = elsewhere.post(f"{API}/chains", body, who="alice")
    assert (refused.status_code, "another cluster" in refused.text) == (403, True), refused.text


def test_a_key_that_was_used_at_one_cluster_is_new_at_the_other(
    stage: Stage, context: ApiContext, other: ApiContext
) -> None:
    replayed = []
    for served in (context, other, other):
        with stage.serving(served) as client:
            answer = client.post(f"{API}/kill", who="root", headers={"Idempotency-Key": "k"})
        assert answer.status_code == 200, answer.text
        replayed.append("idempotency-replayed" in answer.headers)
    assert replayed == [False, False, True]


def test_a_mark_of_the_other_clusters_chain_is_no_link_here_and_costs_no_other_job(
    store: Store, context: ApiContext, other: ApiContext
) -> None:
    before = read_rows(store, context.cluster_id)
    marks = [CHAIN, "anotherchain"]
    jobs = [
        read_running_job(900 + n, comment=f"mirage:{mark}:1", uid=USERS["alice"])
        for n, mark in enumerate(marks)
    ]
    with list_statements_of_any_cluster() as found, store.begin() as tx:
        sync_links(tx, other.cluster_id, jobs, NOW)
        lifecycle.advance_chains(tx, other.cluster_id, NOW)
    assert found == []
    after = read_rows(store, context.cluster_id)
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}
    assert {row.chain_id for row in read_links(store, other.cluster_id)} == {"anotherchain"}


def read_links(store: Store, cluster_id: int) -> list[Any]:
    links = metadata.tables["links"]
    with store.read() as tx:
        return list(tx.execute(select(links).where(links.c.cluster_id == cluster_id)))
