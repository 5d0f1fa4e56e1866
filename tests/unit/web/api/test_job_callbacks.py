"""What links and slurmctld ask of the service."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from mirage.database.chains import chains, decisions, push_times
from mirage.database.chains.decisions import NewDecision
from mirage.database.chains.push_times import PushTimes
from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.callers.request_signing import build_signed_text
from mirage.domain.chain import ChainId, ChainMode, LinkState, Position, Style
from mirage.domain.decision import Action, Decision, Mode
from mirage.domain.job import JobState
from mirage.provision.control import kill_switch, limit_overrides
from mirage.provision.control.kill_switch import Way
from mirage.web.api.app import ApiContext
from mirage.web.api.routes.job_callbacks import NOTE_INTERVAL_S, _is_from_another_host
from tests.support.api.rows import HOUR, add_chain
from tests.support.api.running import CHAIN, CLUSTER, NOW, Client, Stage
from tests.support.chains import make_link
from tests.support.patient import PATIENCE_S
from tests.support.slurm.printed_jobs import read_record

NEXT = f"/api/v1/chains/{CHAIN}/next"
COMPLETIONS = "/api/v1/completions"


def running_link(tx: Transaction, cluster_id: int, mode: ChainMode) -> None:
    add_chain(tx, cluster_id, mode=mode, links_planned=9)
    link = make_link(
        CHAIN,
        job_id=101,
        submit=NOW - HOUR,
        state=LinkState.RUNNING,
        start=NOW - HOUR,
        time_limit_s=2 * HOUR,
    )
    chains.save_link(tx, cluster_id, link)


def add_waits(tx: Transaction, cluster_id: int, wait_s: int) -> None:
    """Of thirty jobs like the link's."""
    like: dict[str, Any] = {
        "nodes": 1,
        "time_limit_s": 2 * HOUR,
        "partition": "",
        "uid": 1002,
        "user": "bob",
    }
    submit = NOW - HOUR - wait_s
    started = [
        read_record(
            job_id=500 + i,
            state=JobState.RUNNING,
            submit=submit,
            eligible=submit,
            start=submit + wait_s,
            **like,
        )
        for i in range(30)
    ]
    job_history.upsert_jobs(tx, cluster_id, started)


def decided(tx: Transaction, cluster_id: int) -> None:
    decision = Decision(action=Action.SUBMIT, reason="x", policy="p")
    new = NewDecision(at=NOW, chain_id=ChainId(CHAIN), index=2, mode=Mode.ACT, decision=decision)
    decisions.record_decisions(tx, cluster_id, [new])


def test_an_owners_link_hears_whether_to_submit(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.SUBMIT)
    answer = client.get(NEXT, who="alice")
    assert (answer.status_code, answer.json()) == (200, {"submit_now": False, "ask_again_s": 180})
    with store.begin() as tx:
        decided(tx, cluster_id)
    assert client.get(NEXT, who="alice").json() == {"submit_now": True, "ask_again_s": 60}


@pytest.mark.parametrize(("who", "status"), [("bob", 403), ("root", 403), (None, 401)])
def test_nobody_else_does(
    client: Client, store: Store, cluster_id: int, who: str | None, status: int
) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.SUBMIT)
    assert client.get(NEXT, who=who).status_code == status


def test_the_link_of_a_chain_with_standbys_hears_what_to_plan(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        add_waits(tx, cluster_id, wait_s=900)
    plan = {"submit_now": False, "ask_again_s": 1200, "mode": "act", "lead_s": 900}
    plan["policy"] = "quantile"
    answer = client.get(NEXT, who="alice")
    assert (answer.status_code, answer.json()) == (200, plan)
    assert client.get(f"{NEXT}?link=1", who="alice").json() == plan
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.SHADOW)
    shadow = {"submit_now": False, "ask_again_s": 21600, "mode": "shadow", "lead_s": None}
    shadow["policy"] = None
    assert client.get(NEXT, who="alice").json() == shadow


COSTS = {"price": 0.5, "left_s": [0, 1800], "cost_s": [1500, 600], "lead_s": [0, 1800]}


@pytest.fixture
def early(store: Store, cluster_id: int) -> None:
    """The second link was released two minutes ago, and has begun beside the first one."""
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
        chain = chains.get_chain(tx, cluster_id, ChainId(CHAIN))
        chains.save_chain(tx, cluster_id, replace(chain, style=Style.SEQUENTIAL, max_returns=2))
        standby = make_link(CHAIN, 2, 102, submit=NOW - HOUR, time_limit_s=2 * HOUR)
        chains.save_link(tx, cluster_id, replace(standby, position=Position.FREE))
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        new = NewDecision(
            at=NOW - 120,
            chain_id=ChainId(CHAIN),
            index=2,
            mode=Mode.ACT,
            decision=Decision(action=Action.FREE, reason="x", policy="p"),
            inputs={"predecessor": 101, "standby": 102, "return_costs": COSTS},
        )
        decisions.record_decisions(tx, cluster_id, [new])


@pytest.mark.usefixtures("early")
def test_an_early_link_hears_what_a_new_release_would_cost_it(client: Client) -> None:
    told = client.get(f"{NEXT}?link=2", who="alice").json()
    at = datetime.fromtimestamp(NOW - 120, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert told["return_costs"] == COSTS | {"chain_id": CHAIN, "link": 2, "made_at": at}
    for other in ("", "?link=1", "?link=3"):
        assert "return_costs" not in client.get(f"{NEXT}{other}", who="alice").json()


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("most", [0, 1])
def test_an_early_link_hears_the_admins_bound_on_returns(
    client: Client, store: Store, cluster_id: int, most: int
) -> None:
    assert "max_returns" not in client.get(f"{NEXT}?link=2", who="alice").json()
    with store.begin() as tx:
        limit_overrides.set_limit_override(
            tx, cluster_id, "max_returns", most, now=NOW, actor="root"
        )
    told = client.get(f"{NEXT}?link=2", who="alice").json()
    assert (told["max_returns"], "return_costs" in told) == (most, most > 0)
    shown = client.get(f"/api/v1/chains/{CHAIN}", who="alice").json()
    assert (shown["max_returns"], shown["returns"]) == (most, 0)


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_where_the_service_only_watches_no_early_link_hears_of_costs(
    client: Client, store: Store, cluster_id: int, mode: Mode
) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, mode)
    told = client.get(f"{NEXT}?link=2", who="alice").json()
    assert (told["mode"], "return_costs" in told) == (mode, False)


@pytest.mark.usefixtures("early")
def test_under_the_kill_switch_no_early_link_hears_of_costs(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        kill_switch.pull_switch(tx, cluster_id, Way.REST, now=NOW, actor="root")
    told = client.get(f"{NEXT}?link=2", who="alice").json()
    assert (told["mode"], "return_costs" in told) == ("shadow", False)


@pytest.mark.parametrize("link", ["0", "-1", "1001", "x", "1.5"])
def test_the_link_that_asks_has_a_number(
    client: Client, store: Store, cluster_id: int, link: str
) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
    assert client.get(f"{NEXT}?link={link}", who="alice").status_code == 422


def test_there_is_no_next_link_of_no_chain(client: Client) -> None:
    assert client.get(NEXT, who="alice").status_code == 404


@pytest.fixture
def pushed(stage: Stage, context: ApiContext) -> Iterator[Client]:
    with stage.serving(replace(context, pushers=("root",))) as running:
        yield running


def body(**more: object) -> bytes:
    return json.dumps({"job_id": 101} | more).encode()


def test_slurmctld_tells_of_ends(pushed: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
    other = pushed.post(COMPLETIONS, body(job_id=7), who="root")
    assert (other.status_code, other.json()) == (202, {"looks": False})
    assert pushed.post(COMPLETIONS, body(), who="root").json() == {"looks": True}
    with store.read() as tx:
        assert push_times.read_push_times(tx, cluster_id) == PushTimes(NOW, NOW, None)


@pytest.mark.parametrize(("who", "status"), [("alice", 403), (None, 401)])
def test_nobody_else_is_believed(
    pushed: Client, store: Store, cluster_id: int, who: str | None, status: int
) -> None:
    assert pushed.post(COMPLETIONS, body(), who=who).status_code == status
    with store.read() as tx:
        assert push_times.read_push_times(tx, cluster_id) == PushTimes(None, None, None)


@pytest.mark.parametrize(
    "wrong", [{"job_id": 0}, {"job_id": 2**63}, {"job_id": "x"}, {"state": "COMPLETED"}]
)
def test_an_end_is_a_jobs_number_and_nothing_else(pushed: Client, wrong: dict[str, object]) -> None:
    assert pushed.post(COMPLETIONS, body(**wrong), who="root").status_code == 422


def ask_from(client: Client, address: str, who: str = "alice") -> int:
    """Ask about the next link from an address of this host; return the status."""
    signed = build_signed_text("GET", NEXT, b"", CLUSTER)
    with httpx.Client(
        transport=httpx.HTTPTransport(local_address=address), timeout=PATIENCE_S
    ) as http:
        headers = {"Authorization": f"MUNGE {who}:{signed}"}
        return http.get(client.url + NEXT, headers=headers).status_code


def test_a_link_that_asks_from_another_host_is_noted(
    client: Client, store: Store, cluster_id: int
) -> None:
    def read_noted() -> int | None:
        with store.read() as tx:
            return clusters.read_node_asked_at(tx, cluster_id)

    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
    assert ask_from(client, "127.0.0.1") == 200
    assert ask_from(client, "127.0.0.2", "bob") == 403
    assert read_noted() is None
    assert ask_from(client, "127.0.0.2") == 200
    until = time.monotonic() + PATIENCE_S  # it is written after the answer
    while read_noted() is None and time.monotonic() < until:
        time.sleep(0.01)
    assert read_noted() == NOW


@pytest.mark.parametrize(
    ("forwarded", "is_elsewhere"),
    [("192.0.2.7", True), ("127.0.0.1", False), ("192.0.2.7, 127.0.0.1", False), ("", False)],
)
def test_a_call_through_a_proxy_at_the_socket_counts_by_the_forwarded_address(
    forwarded: str, is_elsewhere: bool
) -> None:
    headers = [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "headers": headers, "state": {"peer_uid": 33}}
    assert _is_from_another_host(Request(scope), frozenset({33})) is is_elsewhere
    assert not _is_from_another_host(Request(scope), frozenset())  # no proxy's word


def test_a_call_from_a_node_is_written_once_in_ten_minutes(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        running_link(tx, cluster_id, ChainMode.STANDBY)
        clusters.set_node_asked_at(tx, cluster_id, NOW - NOTE_INTERVAL_S + 1)
    assert ask_from(client, "127.0.0.2") == 200
    with store.read() as tx:
        assert clusters.read_node_asked_at(tx, cluster_id) == NOW - NOTE_INTERVAL_S + 1
