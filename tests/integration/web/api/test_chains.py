"""Chains over HTTP: registered, looked at, paused, resumed, cancelled."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.schema import tables
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, ChainState, Link
from mirage.domain.chain_cause import ChainRisk, Risk
from mirage.domain.job import JobId
from mirage.policies import registry
from mirage.web.shared.context import ApiContext
from tests.support.api.rows import add_chain, add_decision, look
from tests.support.api.running import CHAIN, NOW, Client, Stage
from tests.support.training.committed import save

PATH = "/api/v1/chains"


def body(**changes: Any) -> bytes:
    values = {"chain_id": CHAIN, "job_id": 101, "links": 8, "policy": None, "overlap_price": None}
    return json.dumps(values | changes).encode()


def test_a_registered_chain_is_its_callers(client: Client, store: Store) -> None:
    answer = client.post(PATH, body(policy="quantile", overlap_price=0.25), who="alice")
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{PATH}/{CHAIN}"
    assert answer.json()["links_planned"] == 8
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(CHAIN))
    assert (chain.uid, chain.user, chain.policy) == (1001, "alice", "quantile")
    assert (chain.overlap_price, chain.created_at) == (0.25, NOW)


ASKED = {
    "total_s": 86400,
    "max_overlap_s": 0,
    "presubmit": "all",
    "style": "serve",
    "mode": "standby",
}


def test_what_its_user_asked_of_a_chain_is_kept_and_shown(client: Client) -> None:
    client.post(PATH, body(**ASKED), who="alice")
    shown = client.get(f"{PATH}/{CHAIN}").json()
    listed = client.get(PATH).json()["items"][0]
    assert {key: shown[key] for key in ASKED} == ASKED
    assert {key: listed[key] for key in ASKED} == ASKED


def test_what_its_user_did_not_say_is_the_wrappers_default(client: Client) -> None:
    shown = client.post(PATH, body(), who="alice").json()
    assert {key: shown[key] for key in ASKED} == {
        "total_s": None,
        "max_overlap_s": 4 * 3600,
        "presubmit": "next",
        "style": None,
        "mode": "standby",
    }


@pytest.mark.parametrize("style", ["sequential", "concurrent", "switch", "wait", "serve"])
def test_a_chain_that_names_its_style_overlaps_by_a_share_of_its_time_limit(
    client: Client, store: Store, style: str
) -> None:
    """A wrapped sbatch that names none is older than that default."""
    named = client.post(PATH, body(style=style), who="alice").json()
    assert (named["style"], named["max_overlap_s"]) == (style, 4 * 3600)
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(CHAIN))
    link = Link(chain_id=chain.chain_id, index=1, job_id=JobId(1), submit=0, time_limit_s=7200)
    assert chain.get_allowed_overlap_s(link) == (7200 if style == "switch" else 1800)
    assert replace(chain, style=None).get_allowed_overlap_s(link) == 4 * 3600


@pytest.mark.parametrize(
    "wrong",
    [
        {"total_s": 0},
        {"total_s": "7-00:00:00"},
        {"max_overlap_s": -1},
        {"presubmit": "some"},
        {"style": "dance"},
        {"mode": "act"},
        {"mode": "submit", "presubmit": "all"},
    ],
    ids=str,
)
def test_what_cannot_be_asked_of_a_chain_is_a_problem(
    client: Client, wrong: dict[str, Any]
) -> None:
    answer = client.post(PATH, body(**wrong), who="alice")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.get(f"{PATH}/{CHAIN}").status_code == 404


def test_a_chain_at_risk_says_what_of_and_what_to_do(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        held = ChainRisk(of=Risk.HINDERED, link=2, job_id=JobId(12), detail="JobHeldAdmin")
        add_chain(tx, cluster_id, at_risk=held)
    risk = client.get(f"{PATH}/{CHAIN}").json()["at_risk"]
    assert (risk["reason"], risk["says"]) == (
        "JobHeldAdmin",
        "link 2 (job 12) waits: an admin holds it",
    )
    assert "admins" in risk["advice"]
    metrics = client.get("/metrics").text
    assert 'mirage_chains_at_risk{reason="JobHeldAdmin"} 1.0' in metrics
    assert CHAIN not in metrics


def test_what_was_registered_is_there_to_look_at(client: Client) -> None:
    client.post(PATH, body(), who="alice")
    answer = client.get(f"{PATH}/{CHAIN}")
    assert answer.status_code == 200
    assert answer.json()["user"] == "alice"
    assert answer.json()["created_at"] == "2027-01-15T08:00:00Z"


def test_what_an_older_plugin_leaves_for_a_service_that_submits_is_ignored(
    client: Client, store: Store
) -> None:
    """The plugin of 33c702b5 sends it of each chain of mode submit; nothing of it is kept."""
    left = {
        "carrier": "/home/alice/.local/state/mirage/secret/carrier/job.sh",
        "directory": "/home/alice",
        "name": "job.sh",
        "comment": "",
        "umask": 18,
        "options": {"time": "10", "gres": "gpu:8"},
    }
    answer = client.post(PATH, body(mode="submit", recipe=left), who="alice")
    assert (answer.status_code, answer.json()["mode"]) == (201, "submit")
    paths = (PATH, f"{PATH}/{CHAIN}", f"{PATH}/{CHAIN}/decisions", "/api/v1/audit")
    assert "secret" not in "".join(client.get(path, who="root").text for path in paths)
    with store.read() as tx:
        assert tx.execute(select(tables.recipes)).all() == []


def test_when_a_link_has_failed_fast_is_its_users_word(client: Client) -> None:
    assert client.post(PATH, body(min_runtime_s=0), who="alice").status_code == 201
    assert client.post(PATH, body(min_runtime_s=-1), who="alice").status_code == 422


@pytest.mark.parametrize("told", [0, 9, None])
def test_how_often_links_give_their_nodes_back_is_their_users_word(
    client: Client, store: Store, cluster_id: int, told: int | None
) -> None:
    assert client.post(PATH, body(max_returns=told), who="alice").status_code == 201
    with store.read() as tx:
        assert chains.get_chain(tx, cluster_id, ChainId(CHAIN)).max_returns == told
    for wrong in (-1, 10, 1000, "2", True):
        assert client.post(PATH, body(max_returns=wrong), who="alice").status_code == 422


def test_another_users_chain_is_not_registered_again(client: Client) -> None:
    client.post(PATH, body(), who="alice")
    answer = client.post(PATH, body(), who="bob")
    assert answer.status_code == 403
    assert answer.json()["type"] == "/problems/not-allowed"


def test_a_repeat_under_the_same_key_is_told_how_it_is_now(
    client: Client, store: Store, cluster_id: int
) -> None:
    key = {"Idempotency-Key": CHAIN}
    first = client.post(PATH, body(), who="alice", headers=key)
    with store.begin() as tx:
        paused = chains.get_chain(tx, cluster_id, ChainId(CHAIN)).move_to(ChainState.PAUSED)
        chains.save_chain(tx, cluster_id, paused)
    again = client.post(PATH, body(), who="alice", headers=key)
    assert (again.status_code, again.json()) == (201, first.json() | {"state": "paused"})


def test_a_refused_registration_leaves_its_key_free(client: Client) -> None:
    key = {"Idempotency-Key": CHAIN}
    wrong = client.post(PATH, body(policy="clairvoyant"), who="alice", headers=key)
    right = client.post(PATH, body(), who="alice", headers=key)
    assert (wrong.status_code, right.status_code) == (422, 201)


@pytest.mark.usefixtures("chain_with_links")
def test_links_and_handovers_are_shown(client: Client) -> None:
    shown = client.get(f"{PATH}/{CHAIN}").json()
    assert [link["job_id"] for link in shown["links"]] == [101, 102, 103]
    found = [(h["link"], h["interruption_h"], h["overlap_h"]) for h in shown["handovers"]]
    assert found == [(2, 0.5, 0.0), (3, 0.0, 1.0)]
    assert [h["cost_h"] for h in shown["handovers"]] == [0.5, 0.5]
    assert (shown["links_started"], shown["running"]) == (3, [103])
    assert (shown["interruption_h"], shown["overlap_h"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("move", "before", "after"),
    [
        ("pause", ChainState.ACTIVE, "paused"),
        ("resume", ChainState.PAUSED, "active"),
        ("cancel", ChainState.ACTIVE, "cancelled"),
        ("cancel", ChainState.PAUSED, "cancelled"),
    ],
)
def test_an_owner_moves_a_chain(
    client: Client, store: Store, cluster_id: int, move: str, before: ChainState, after: str
) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id, state=before)
    answer = client.post(f"{PATH}/{CHAIN}/{move}", who="alice")
    assert (answer.status_code, answer.json()["state"]) == (200, after)
    assert answer.json()["note"].endswith("by alice")
    with store.read() as tx:
        (entry,) = audit.list_entries(tx, cluster_id, chain_id=ChainId(CHAIN))
    assert (entry.actor, entry.event.split(":")[0]) == ("alice", "asked")


@pytest.mark.parametrize("number", [2**63, 99999999999999999999])
def test_a_job_id_that_no_column_holds_is_a_mistake(client: Client, number: int) -> None:
    new = {"chain_id": CHAIN, "job_id": number, "links": 1}
    assert client.post(PATH, json.dumps(new).encode(), who="alice").status_code == 422


def test_an_admin_moves_anybodys_chain(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    answer = client.post(f"{PATH}/{CHAIN}/pause", who="root")
    assert (answer.status_code, answer.json()["note"]) == (200, "paused by root")


@pytest.mark.parametrize("move", ["pause", "resume", "cancel"])
def test_nobody_else_may(client: Client, store: Store, cluster_id: int, move: str) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
    answer = client.post(f"{PATH}/{CHAIN}/{move}", who="bob")
    assert answer.status_code == 403
    assert client.get(f"{PATH}/{CHAIN}").json()["state"] == "active"


@pytest.mark.parametrize("move", ["pause", "resume", "cancel"])
def test_a_chain_that_is_over_stays_over(
    client: Client, store: Store, cluster_id: int, move: str
) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id, state=ChainState.FINISHED)
    answer = client.post(f"{PATH}/{CHAIN}/{move}", who="alice")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/conflict")


def test_decisions_tell_what_they_were_made_from(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        add_chain(tx, cluster_id)
        add_decision(tx, cluster_id)
    (shown,) = client.get(f"{PATH}/{CHAIN}/decisions").json()["items"]
    assert (shown["action"], shown["effect"], shown["link"]) == ("free", "intended", 3)
    assert shown["forecast"] == {"p10_s": 60, "p50_s": 300, "p90_s": 900, "samples": 40}
    assert shown["inputs"] == {"predecessor": 102, "standby": 103}
    assert shown["says"] == "makes the next link eligible"


def test_decisions_of_all_chains_are_paged(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for chain_id in (CHAIN, "otherchain1"):
            add_chain(tx, cluster_id, chain_id)
        made = [add_decision(tx, cluster_id, c, at=NOW) for c in (CHAIN, "otherchain1", CHAIN)]
    first = client.get("/api/v1/decisions", limit=2).json()
    rest = client.raw("GET", first["next"]).json()
    assert [row["id"] for row in first["items"] + rest["items"]] == made[::-1]
    assert rest["next"] is None


def test_answers_say_how_old_their_view_is(client: Client, store: Store, cluster_id: int) -> None:
    assert client.get(PATH).json() == {"as_of": None, "stale": True, "next": None, "items": []}
    look(store, cluster_id, at=NOW - 180)
    assert client.get(PATH).json()["stale"] is False
    assert client.get(PATH).json()["as_of"] == "2027-01-15T07:57:00Z"


def test_a_chain_may_ask_for_a_model_that_can_be_used(
    stage: Stage, context: ApiContext, store: Store, tmp_path: Path
) -> None:
    save(tmp_path / "made" / "1")
    save(tmp_path / "made" / "2", features_fingerprint="0" * 64)
    given = replace(context, model=partial(registry.get_policy, under=tmp_path))
    with stage.serving(given) as running:
        answers = [
            running.post(PATH, body(policy=f"models/made/{version}"), who="alice")
            for version in (2, 3, 1)
        ]
    assert [answer.status_code for answer in answers] == [422, 422, 201]
    assert "other features" in answers[0].text
    with store.read() as tx:
        assert chains.get_chain(tx, 1, ChainId(CHAIN)).policy == "models/made/1"
