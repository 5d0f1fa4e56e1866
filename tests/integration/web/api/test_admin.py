"""What is the admins' alone, over HTTP: kill switch, limits, models, polling, status."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.decision import Mode
from mirage.policies import registry
from mirage.provision.control.limit_overrides import LimitDescription
from mirage.reports.slurmctld_load import LoadSensor
from mirage.slurm.commands.sdiag import Diagnosis, UserCalls
from mirage.web.api.app import ApiContext
from tests.support.api.running import NOW, Client, Stage
from tests.support.episodes.tables import MONDAY
from tests.support.training.committed import save_two_versions
from tests.support.training.queue_tables import EACH_DAY, EPISODES, queue_table

KILL, RELEASE = "/api/v1/kill", "/api/v1/kill/release"
LIMITS, MODELS = "/api/v1/limits", "/api/v1/models"
LATER = MONDAY + EPISODES * 4 * 3600 + 86400
CALM = -4.0


@pytest.fixture
def context(context: ApiContext, tmp_path: Path) -> ApiContext:
    return replace(
        context,
        models_dir=tmp_path / "models",
        tables_dir=tmp_path / "tables",
        kill_file=tmp_path / "shadow",
        limit_descriptions={
            "max_touches": LimitDescription(unit="", meaning="Moves.", origin="configuration")
        },
    )


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Version 1 frees at once and is in use; version 2 is a trained one, and better."""
    save_two_versions(tmp_path / "models")
    (tmp_path / "tables").mkdir()
    for name, days in (("calm.npz", 8), ("few.npz", 4)):
        made = queue_table(days * EACH_DAY, seed=4, first=LATER, loads=[CALM] * days)
        made.save(tmp_path / "tables" / name)
    return tmp_path / "models"


def events(client: Client) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get("/api/v1/audit", who="root").json()["items"]
    return items


READS = [KILL, LIMITS, MODELS, f"{MODELS}/made/1", "/api/v1/polling", "/api/v1/status"]
WRITES = [
    ("POST", RELEASE, b"{}"),
    ("PUT", f"{LIMITS}/max_touches", b'{"value": 3}'),
    ("PUT", f"{MODELS}/made/promoted", b'{"version": "2", "force": true}'),
]


@pytest.mark.parametrize("path", READS)
def test_others_read_nothing_of_it(client: Client, path: str) -> None:
    assert client.get(path).status_code == 401
    answer = client.get(path, who="alice")
    assert answer.status_code == 403
    assert answer.json()["detail"] == "alice is not an admin of this service"


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_others_change_nothing_and_the_try_is_audited(
    client: Client, models: Path, method: str, path: str, body: bytes
) -> None:
    send = client.put if method == "PUT" else client.post
    assert send(path, body, who="alice").status_code == 403
    assert events(client)[0]["actor"] == "alice"
    assert registry.find_promoted_version(models / "made") == "1"


def test_the_kill_switch_stays_pulled_until_it_is_released(
    client: Client, store: Store, cluster_id: int, tmp_path: Path
) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
    client.post(KILL, who="root")
    found = client.get(KILL, who="root").json()
    assert found["pulled"] is True
    assert found["file"] == str(tmp_path / "shadow")
    (way,) = found["ways"]
    assert (way["way"], way["by"], way["stopped"]) == ("rest", "root", ["gpu"])
    act = b'{"mode": "act", "partition": "gpu"}'
    refused = client.put("/api/v1/mode", act, who="root")
    assert refused.status_code == 409
    assert "the kill switch is pulled by root" in refused.json()["detail"]
    assert client.post(RELEASE, b'{"act_again": true}', who="root").json()["pulled"] is False
    assert client.get("/api/v1/mode").json()["partitions"] == {"gpu": "act"}
    assert [row["event"] for row in events(client)[:2]] == [
        "kill switch released",
        "kill switch pulled",
    ]


def test_limits_tell_who_set_them(client: Client) -> None:
    def touches() -> dict[str, Any]:
        items = client.get(LIMITS, who="root").json()["items"]
        return next(each for each in items if each["name"] == "max_touches")

    assert (touches()["value"], touches()["set_by"]) == (6, "configuration")
    client.put(f"{LIMITS}/max_touches", b'{"value": 3}', who="root")
    assert (touches()["value"], touches()["set_by"], touches()["configured"]) == (3, "root", 6)
    assert events(client)[0]["detail"]["value"] == 3
    client.put(f"{LIMITS}/max_touches", b'{"value": null}', who="root")
    assert (touches()["value"], touches()["set_by"]) == (6, "configuration")


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [("max_touches", "0", 422), ("max_touches", "1.5", 422), ("max_nothing", "3", 404)],
)
def test_a_limit_that_cannot_be_is_refused(
    client: Client, name: str, value: str, status: int
) -> None:
    answer = client.put(f"{LIMITS}/{name}", f'{{"value": {value}}}'.encode(), who="root")
    assert answer.status_code == status


def promote(client: Client, *tables: str, version: str = "2", **more: Any) -> Any:
    body = json.dumps({"version": version, "tables": tables} | more).encode()
    return client.put(f"{MODELS}/made/promoted", body, who="root")


def test_a_model_that_is_better_is_promoted_with_its_evidence(client: Client, models: Path) -> None:
    listed = client.get(MODELS, who="root").json()
    assert [(m["model"], m["promoted"]) for m in listed["items"]] == [
        ("models/made/1", True),
        ("models/made/2", False),
    ]
    assert listed["tables"] == ["calm.npz", "few.npz"]
    answer = promote(client, "calm.npz")
    assert answer.status_code == 200
    told = answer.json()
    low, high = told["difference_h_ci"]
    assert low <= told["difference_h"] <= high < 0.0
    assert (told["before"], told["promoted"], told["days"]) == ("1", True, 8)
    assert registry.find_promoted_version(models / "made") == "2"
    shown = client.get(f"{MODELS}/made/2", who="root").json()
    assert shown["promoted"] is True
    assert shown["card"]["family"] == shown["family"]
    newest = shown["promotions"][0]
    assert (newest["by"], newest["at"], newest["difference_h"]) == (
        "root",
        NOW,
        told["difference_h"],
    )
    assert events(client)[0]["event"] == "model promoted"


def test_without_enough_evidence_nothing_changes(client: Client, models: Path) -> None:
    refused = promote(client, "few.npz")
    assert refused.status_code == 409
    assert "fewer than 6 days are too few to compare" in refused.json()["detail"]
    assert promote(client).status_code == 422
    assert promote(client, "none.npz").status_code == 404
    assert promote(client, "../tables/calm.npz").status_code == 422
    assert promote(client, version="9").status_code == 404
    assert promote(client, version="../1").status_code == 422
    assert registry.find_promoted_version(models / "made") == "1"
    assert events(client)[0]["event"] == "promotion refused"


def test_forced_it_is_said_so(client: Client, models: Path) -> None:
    told = promote(client, force=True).json()
    assert (told["promoted"], told["forced"], told["difference_h"]) == (True, True, None)
    assert registry.find_promoted_version(models / "made") == "2"
    assert events(client)[0]["detail"]["forced"] is True


def test_a_service_without_models_says_so(stage: Stage, context: ApiContext) -> None:
    with stage.serving(replace(context, models_dir=None)) as client:
        assert client.get(MODELS, who="root").json()["items"] == []
        assert promote(client).status_code == 404


def test_status_before_any_round(client: Client) -> None:
    found = client.get("/api/v1/status", who="root").json()
    assert (found["tick"], found["lease"]) == (None, None)
    assert found["schema_version"] == found["schema_known"]
    assert found["versions"].keys() == {"mirage", "python", "database"}
    polling = client.get("/api/v1/polling", who="root").json()
    assert (polling["commands"], polling["slurmctld"]) == ([], None)


def test_slurmctlds_own_count_is_told_as_it_was_last_asked(
    client: Client, store: Store, cluster_id: int
) -> None:
    users = (UserCalls(user="mirage", calls=30, us=600_000), UserCalls(user="root", calls=90, us=0))
    told = Diagnosis(at=1_800_000_000, since=None, users=users)
    LoadSensor(lambda: (told, "mirage"), every_s=600).poll_if_due(store, cluster_id, told.at)
    found = client.get("/api/v1/polling", who="root").json()["slurmctld"]
    assert found == {
        "at": "2027-01-15T08:00:00Z",
        "since": None,
        "user": "mirage",
        "calls": 30,
        "seconds": 0.6,
        "all_calls": 120,
        "all_seconds": 0.6,
    }
    scraped = client.get("/metrics").text
    assert 'mirage_slurmctld_rpcs_total{by="mirage"} 30.0' in scraped
    assert 'mirage_slurmctld_rpcs_total{by="others"} 90.0' in scraped
