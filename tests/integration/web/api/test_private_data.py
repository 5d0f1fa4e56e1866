"""PrivateData of the cluster, honoured in every view: alice cannot see, stop or steer bob's."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.database.chains import chains
from mirage.database.events import audit
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.decision import Mode
from mirage.domain.job import JobState
from mirage.slurm.commands.sacctmgr import Roster
from mirage.web.api.app import ApiContext
from tests.support.api.rows import HOUR, add_chain, add_decision, add_links, look, read_running_job
from tests.support.api.running import NOW, USERS, Client, Stage

BOBS, ALICES = "bobschain01", "aliceschain"
CHAINS = "/api/v1/chains"
ROSTER = Roster(operators=frozenset(), coordinated={"carol": frozenset({"physics"})})


@pytest.fixture
def context(context: ApiContext) -> ApiContext:
    return replace(context, hidden=lambda: frozenset({"jobs"}), roster=lambda: ROSTER)


@pytest.fixture
def client(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    """bob has a chain and jobs in account physics, alice one in biology; carol coordinates physics.

    20 jobs of a third user have started lately.
    """
    others = {"account": "chemistry", "user": "dave", "uid": 1004}
    started = [read_running_job(300 + i, start=NOW - HOUR - i, **others) for i in range(20)]
    bobs = read_running_job(
        202, user="bob", uid=1002, account="physics", name="secret", comment="of bob"
    )
    look(store, cluster_id, read_running_job(201, account="biology"), bobs, *started)
    with store.begin() as tx:
        add_chain(tx, cluster_id, ALICES)
        add_chain(tx, cluster_id, BOBS, user="bob")
        add_links(tx, cluster_id, BOBS)
        for link in chains.list_links(tx, cluster_id, ChainId(BOBS)):
            chains.save_link(tx, cluster_id, replace(link, account="physics"))
        add_decision(tx, cluster_id, BOBS)
        add_decision(tx, cluster_id, ALICES)
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
    with stage.serving(context) as running:
        yield running


SEEN_BY = {
    "alice": {ALICES},
    "bob": {BOBS},
    "carol": {BOBS},
    "root": {ALICES, BOBS},
}


@pytest.mark.parametrize("who", SEEN_BY)
def test_lists_hold_ones_own(client: Client, who: str) -> None:
    shown = client.get(CHAINS, who=who).json()["items"]
    assert {row["chain_id"] for row in shown} == SEEN_BY[who]
    decisions = client.get("/api/v1/decisions", who=who).json()["items"]
    assert {row["chain_id"] for row in decisions} == SEEN_BY[who]


@pytest.mark.parametrize("who", SEEN_BY)
def test_jobs_are_ones_own(client: Client, who: str) -> None:
    shown = client.get("/api/v1/jobs", who=who).json()["items"]
    expected = {"alice": {"alice"}, "bob": {"bob"}, "carol": {"bob"}}
    everybody = {"alice", "bob", "dave"}
    assert {row["user"] for row in shown} == expected.get(who, everybody)


def test_asking_for_another_by_name_shows_nothing(client: Client) -> None:
    for path in (CHAINS, "/api/v1/jobs"):
        assert client.get(path, who="alice", user="bob").json()["items"] == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{CHAINS}/{BOBS}"),
        ("GET", f"{CHAINS}/{BOBS}/decisions"),
        ("POST", f"{CHAINS}/{BOBS}/pause"),
        ("POST", f"{CHAINS}/{BOBS}/resume"),
        ("POST", f"{CHAINS}/{BOBS}/cancel"),
    ],
)
def test_anothers_chain_is_as_one_that_is_not_there(
    client: Client, store: Store, method: str, path: str
) -> None:
    def ask(address: str) -> tuple[int, str]:
        send = client.get if method == "GET" else client.post
        answer = send(address, who="alice")
        problem = {k: v for k, v in answer.json().items() if k not in {"request_id", "instance"}}
        return answer.status_code, json.dumps(problem).replace(address.split("/")[4], "ID")

    assert ask(path) == ask(path.replace(BOBS, "nosuchchain"))
    with store.read() as tx:
        before = audit.list_entries(tx, 1)
    assert ask(path)[0] == 404
    with store.read() as tx:
        assert len(before) == 1, "what is hidden is written down, what is not there is not"
        entry = audit.list_entries(tx, 1)[0]
        assert (entry.event, entry.actor) == ("refused: not allowed", "alice")
        assert entry.detail["why"] == f"chain {BOBS} is hidden from alice"
        assert chains.get_chain(tx, 1, ChainId(BOBS)).state == "active"


def test_a_cursor_of_anothers_chain_tells_nothing(client: Client) -> None:
    def ask(cursor: str) -> str:
        return str(client.get(CHAINS, who="alice", cursor=cursor).json()["detail"])

    assert ask(f"chains.{BOBS}") == ask("chains.nosuchchain")


def test_pages_end_with_ones_own(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for i in range(6):
            user = "alice" if i % 2 else "bob"
            add_chain(tx, cluster_id, f"paged{i:05}", user, created_at=NOW + i)
    first = client.get(CHAINS, who="alice", limit=2).json()
    rest = client.get(first["next"], who="alice").json()
    ids = [row["chain_id"] for row in first["items"] + rest["items"]]
    assert ids == ["paged00005", "paged00003", "paged00001", ALICES]
    assert rest["next"] is None


@pytest.mark.parametrize("chain", [BOBS, "nosuchchain"])
@pytest.mark.parametrize("path", ["", "/ID", "/ID/decisions"])
def test_nobody_looks_without_a_name(client: Client, path: str, chain: str) -> None:
    for address in (f"{CHAINS}{path}".replace("ID", chain), "/api/v1/jobs"):
        answer = client.get(address)
        assert answer.status_code == 401
        assert "PrivateData" in answer.json()["detail"]


def test_a_coordinator_steers_the_chains_of_their_accounts(client: Client) -> None:
    assert client.post(f"{CHAINS}/{BOBS}/pause", who="carol").json()["state"] == "paused"
    assert client.post(f"{CHAINS}/{ALICES}/pause", who="carol").status_code == 404


def test_registering_anothers_chain_is_refused_and_audited(client: Client, store: Store) -> None:
    body = json.dumps({"chain_id": BOBS, "job_id": 1, "links": 1}).encode()
    answer = client.post(CHAINS, body, who="alice")
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-input")
    assert not any(word in answer.text for word in ("belongs", "user", "bob'"))
    with store.read() as tx:
        chain = chains.get_chain(tx, 1, ChainId(BOBS))
        entry = audit.list_entries(tx, 1, event="refused: not allowed")[0]
    assert (chain.uid, chain.links_planned) == (USERS["bob"], None)
    assert (entry.actor, entry.detail["why"]) == (
        "alice",
        f"chain {BOBS} belongs to another user",
    )


def test_sums_and_forecasts_are_of_all_and_name_nobody(client: Client) -> None:
    forecast = f"/api/v1/forecasts?partition=gpu&nodes=2&time_limit_s={12 * HOUR}"
    for path in ("/api/v1/cluster", forecast):
        answer = client.get(path)
        assert answer.status_code == 200
        assert not any(user in answer.text for user in USERS)


def test_a_forecast_from_a_few_jobs_is_an_admins(
    client: Client, store: Store, cluster_id: int
) -> None:
    look(
        store,
        cluster_id,
        read_running_job(400, partition="rare", user="bob", uid=1002, start=NOW - HOUR),
    )
    path = f"/api/v1/forecasts?partition=rare&nodes=2&time_limit_s={12 * HOUR}"
    answers = [client.get(path, who=who) for who in ("root", "alice")]
    assert [answer.status_code for answer in answers] == [200, 404]


def test_metrics_have_no_name_of_a_user_job_or_chain(client: Client) -> None:
    assert client.get("/metrics").status_code == 401
    text = client.get("/metrics", who="alice").text
    assert "mirage_chains" in text
    for word in (*USERS, "dave", BOBS, ALICES, "physics", "secret"):
        assert word not in text


@pytest.mark.parametrize("words", [{"nodes"}, {"partitions"}])
def test_other_words_hide_what_they_name(
    stage: Stage, context: ApiContext, client: Client, words: set[str]
) -> None:
    with stage.serving(replace(context, hidden=lambda: frozenset(words))) as strict:
        seen = {
            who: (
                strict.get("/api/v1/cluster", who=who).json()["sums"]["idle_nodes"],
                strict.get("/api/v1/cluster", who=who).json()["partitions"],
                strict.get("/api/v1/mode", who=who).json()["partitions"],
            )
            for who in ("alice", "root")
        }
        metrics = strict.get("/metrics").text
        assert strict.get(CHAINS).status_code == 200, "chains are not what is private here"
    assert seen["root"] == (1, {"gpu": "act"}, {"gpu": "act"})
    nodes, partitions = "nodes" in words, "partitions" in words
    modes = {} if partitions else {"gpu": "act"}
    assert seen["alice"] == (None if nodes else 1, modes, modes)
    assert ('partition="gpu"' in metrics) is not partitions


HOSTILE = 'a\n2027-01-15 [info] root did it\x1b[2J<script>alert(1)</script>$(touch /tmp/pwned)`id`"'


def test_hostile_names_come_back_as_data(
    client: Client, store: Store, cluster_id: int, tmp_path: Path
) -> None:
    hostile = read_running_job(
        500, name=HOSTILE, reason=HOSTILE, state=JobState.PENDING, start=None
    )
    look(store, cluster_id, hostile, at=NOW + 60)
    answer = client.get("/api/v1/jobs", who="alice", limit=1)
    assert answer.json()["items"][0]["name"] == HOSTILE
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "\x1b" not in answer.text
    assert len(answer.text.splitlines()) == 1
