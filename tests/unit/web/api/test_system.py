"""The service over HTTP: modes, the kill switch, the audit, probes and metrics."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest

from mirage.database.forecasts import handover_forecasts
from mirage.database.forecasts.handover_forecasts import ForecastRow
from mirage.database.operations import clusters, reports, telemetry
from mirage.database.operations.telemetry import CallCounts
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.decision import Forecast, Mode
from mirage.web.api.app import ApiContext
from tests.support import patient
from tests.support.api.rows import add_chain, add_decision, look
from tests.support.api.running import CHAIN, NOW, USERS, Client, Stage

MODE = "/api/v1/mode"


def test_an_admin_sets_modes(client: Client) -> None:
    client.put(MODE, b'{"mode": "observe"}', who="root")
    answer = client.put(MODE, b'{"mode": "act", "partition": "gpu"}', who="root")
    assert answer.status_code == 200
    assert client.get(MODE).json() == {
        "mode": "observe",
        "partitions": {"gpu": "act"},
        "demoted": [],
        "says": "act in gpu, else observe",
        "kill_switch": False,
    }


def test_a_partition_that_nobody_knows_gets_no_mode(
    client: Client, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id)
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gup")
    answer = client.put(MODE, b'{"mode": "act", "partition": "gpuu"}', who="root")
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "#/partition"
    assert "partition gpuu has neither nodes nor jobs; name one of these: gpu." in fault["detail"]
    new = b'{"mode": "observe", "partition": "gpu"}'
    assert client.put(MODE, new, who="root").status_code == 200
    for _ in range(2):
        taken = client.put(MODE, b'{"mode": null, "partition": "gup"}', who="root")
        assert taken.json()["partitions"] == {"gpu": "observe"}
    assert client.put(MODE, b'{"mode": null}', who="root").status_code == 422


def test_the_kill_switch_stops_all_acting(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT)
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
        clusters.set_mode(tx, cluster_id, Mode.OBSERVE, "cpu")
    answer = client.post("/api/v1/kill", who="root")
    assert answer.json() == {
        "mode": "shadow",
        "partitions": {"gpu": "shadow", "cpu": "observe"},
        "says": "observe in cpu, else shadow",
        "kill_switch": True,
        "demoted": [],
    }


@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.put(MODE, b'{"mode": "act"}', who="alice"),
        lambda c: c.post("/api/v1/kill", who="alice"),
        lambda c: c.get("/api/v1/audit", who="alice"),
    ],
)
def test_what_is_the_admins_is_theirs_alone(client: Client, ask: Callable[[Client], Any]) -> None:
    answer = ask(client)
    assert answer.status_code == 403
    assert answer.json()["detail"] == "alice is not an admin of this service"
    assert client.get(MODE).json()["mode"] == "shadow"


def test_the_audit_tells_who_did_what(client: Client) -> None:
    client.put(MODE, b'{"mode": "act"}', who="root")
    client.post("/api/v1/kill", who="root")
    shown = client.get("/api/v1/audit", who="root", limit=1).json()
    assert shown["items"][0]["actor"] == "root"
    detail = {"way": "rest", "stopped": [""], "via": "munge"}
    assert (shown["items"][0]["event"], shown["items"][0]["detail"]) == (
        "kill switch pulled",
        detail,
    )
    rest = client.get("/api/v1/audit", who="root", cursor=f"audit.{shown['items'][0]['id']}").json()
    assert [row["detail"]["mode"] for row in rest["items"]] == ["act"]


def test_an_answer_waits_for_no_acknowledgement(client: Client) -> None:
    """Ten of them over one connection, each in two parts: 40 ms each where Nagle's algorithm and
    delayed acknowledgements meet. The fastest tells, whatever else the machine does."""
    with httpx.Client(
        trust_env=False, verify=patient.NO_ISSUER, timeout=patient.PATIENCE_S
    ) as http:
        took = [http.get(f"{client.url}/healthz").elapsed.total_seconds() for _ in range(10)]
    assert min(took[1:]) < 0.035


def test_alive_is_not_ready(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("Mirage has not read the cluster's state")


def test_ready_once_the_cluster_was_looked_at(
    client: Client, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id, at=NOW - 180)
    assert client.get("/readyz").status_code == 200


def test_not_ready_when_the_last_look_is_old(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id, at=NOW - 181)
    answer = client.get("/readyz")
    assert answer.json()["type"] == "/problems/not-ready"
    assert answer.json()["detail"].startswith(
        "Mirage last read the cluster's state at 2027-01-15T07:56:59"
    )


@dataclass(frozen=True)
class Cost:
    calls: int = 7
    failures: int = 1
    seconds: float = 2.5


def test_metrics_are_mirages_own_numbers(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id, at=NOW - 30)
    with store.begin() as tx:
        clusters.take_lease(tx, cluster_id, "here:1", now=NOW - 60, ttl_s=180)
        add_chain(tx, cluster_id)
        add_decision(tx, cluster_id)
        row = ForecastRow(
            chain_id=ChainId(CHAIN), index=2, source="quantile", at=NOW, forecast=Forecast(p50_s=90)
        )
        handover_forecasts.record_forecasts(tx, cluster_id, [row])
        handover_forecasts.settle_forecast(tx, cluster_id, ChainId(CHAIN), 2, 100)
        made = CallCounts(calls=60, failures=0, seconds=3.0, unread=12)
        telemetry.add_calls(tx, cluster_id, NOW - 7200, {"squeue": made})
        telemetry.add_calls(tx, cluster_id, NOW, {"squeue": replace(made, unread=30)})
    with stage.serving(replace(context, usage=lambda: {"squeue": Cost()})) as client:
        answer = client.get("/metrics")
    lines = set(answer.text.splitlines())
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert lines >= {
        'mirage_chains{state="active"} 1.0',
        'mirage_chains{state="failed"} 0.0',
        'mirage_decisions_total{effect="intended"} 1.0',
        'mirage_mode{mode="shadow",partition=""} 1.0',
        "mirage_last_poll_age_seconds 30.0",
        "mirage_worker_lease_seconds 120.0",
        "mirage_forecast_handovers 1.0",
        "mirage_forecast_error_seconds 10.0",
        'mirage_slurm_commands_total{command="squeue"} 7.0',
        'mirage_slurm_command_failures_total{command="squeue"} 1.0',
        'mirage_slurm_command_seconds_total{command="squeue"} 2.5',
        'mirage_slurm_unread_rows{command="squeue"} 42.0',
    }
    assert "alice" not in answer.text


def test_a_demotion_is_told_to_the_chains_owner_and_to_admins(
    client: Client, store: Store, cluster_id: int
) -> None:
    place = {"uid": USERS["alice"], "partition": "gpu", "size": 2}
    row = {"place": place, "user": "alice", "error_s": 90_000, "bound_s": 43_200.0, "until": NOW}
    with store.begin() as tx:
        reports.put_report(tx, cluster_id, reports.DEMOTIONS, {"places": [row]}, at=NOW)
    told = {who: client.get(MODE, who=who).json()["demoted"] for who in ("alice", "bob", "root")}
    assert told["bob"] == []
    assert told["alice"] == told["root"]
    (said,) = told["root"]
    assert said.startswith(
        "forecasts for alice's links of 4 to 7 nodes in partition gpu were wrong"
    )
