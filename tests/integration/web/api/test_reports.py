"""Accuracy, impact and the shadow report over HTTP; what each may see of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains import chains
from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.forecasts import job_forecasts
from mirage.database.jobs import job_history
from mirage.database.operations import reports
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.job import JobId
from mirage.provision.forecasts import job_forecast_recorder
from mirage.provision.forecasts.accuracy_tally import Tally
from mirage.reports import handover_outcomes
from mirage.twin.twin_features import LEVELS
from mirage.web.api.app import ApiContext
from tests.support.api.rows import (
    HOUR,
    add_chain,
    add_decision,
    add_links,
    look,
    read_running_record,
)
from tests.support.api.running import CHAIN, NOW, Client, Stage
from tests.support.web.seeded_past import report

ACCURACY, IMPACT, SHADOW = "/api/v1/accuracy", "/api/v1/impact", "/api/v1/reports/shadow"


@pytest.fixture
def past(store: Store, cluster_id: int) -> None:
    """12 forecasts that were 2 h at the median of waits of 1 h; alice's two hand-overs."""
    look(store, cluster_id)
    done = [read_running_record(100 + n, start=NOW - 9 * HOUR, end=NOW - HOUR) for n in range(12)]
    with store.begin() as tx:
        job_history.upsert_jobs(tx, cluster_id, done)
        told = tuple(int(level * 4 * HOUR) for level in LEVELS)
        news = [
            job_forecasts.JobForecast(
                job_id=JobId(j.job_id), submit=j.submit, partition="gpu", quantiles_s=told
            )
            for j in done
        ]
        job_forecasts.add_forecasts(tx, cluster_id, news)
        job_forecast_recorder.settle_outcomes(tx, cluster_id, NOW)
        add_chain(tx, cluster_id)
        add_links(tx, cluster_id)
        for link in chains.list_links(tx, cluster_id, ChainId(CHAIN)):
            chains.save_link(tx, cluster_id, replace(link, account="physics"))
        add_decision(tx, cluster_id)
        handover_outcomes.record_outcomes(tx, cluster_id)
        document = report()
        document["pairs"].append({"name": "of one", "user_class": "heaviest user"})
        one = document["groups"][0] | {"by": "user", "name": "heaviest user"}
        document["groups"] += [one, one | {"by": "partition", "name": "gpu"}]
        reports.put_report(tx, cluster_id, reports.SHADOW, document, at=NOW - HOUR)


def body(client: Client, path: str, who: str | None = None, **params: Any) -> dict[str, Any]:
    answer = client.get(path, who=who, **params)
    assert answer.status_code == 200, answer.text
    read: dict[str, Any] = answer.json()
    return read


def test_an_empty_database_has_too_few_results(client: Client) -> None:
    assert body(client, ACCURACY)["too_few"].startswith("Too few results: 0 waits on 0 days")
    nothing = body(client, IMPACT)
    assert (nothing["act"]["handovers"], nothing["days"]) == (0, [])
    absent = client.get(SHADOW)
    assert absent.status_code == 404
    assert "run `mirage report shadow`" in absent.json()["detail"]


@pytest.mark.usefixtures("past")
def test_what_was_foretold_stands_beside_what_happened(client: Client) -> None:
    told = body(client, ACCURACY)
    everywhere, place = told["places"]
    assert (everywhere["partition"], place["partition"]) == ("", "gpu")
    assert (place["count"], place["covered"], place["waited"]) == (12, 1.0, 1.0)
    assert place["median_s"] == pytest.approx(HOUR, rel=0.2)
    assert place["beside"] == {"count": 0, "median_s": None, "slurm_median_s": None}
    assert told["step_s"] == 86400
    assert told["since"] == "2026-12-16T00:00:00Z"


@pytest.mark.usefixtures("past")
def test_impact_tells_acting_from_not_being_asked(client: Client) -> None:
    """Of the two hand-overs the second one was decided in mode act, and ran an hour too early."""
    told = body(client, IMPACT)
    assert (told["act"]["handovers"], told["unasked"], told["own"]) == (1, 1, False)
    assert told["act"]["overlap_node_h"] == 1.0
    assert told["released_while_away"] == 0
    (payer,) = told["payers"]
    assert (payer["account"], payer["user"], payer["handovers"]) == ("physics", "alice", 1)
    assert told["chains"][0]["chain_id"] == CHAIN


@pytest.mark.usefixtures("past")
def test_the_report_is_the_last_one(client: Client) -> None:
    told = body(client, SHADOW)
    assert told["made_at"] == "2027-01-15T07:00:00Z"
    assert told["recommendation"]["verdict"] == "saves"
    assert told["report"]["groups"][0]["by"] == "all"


@pytest.mark.parametrize("days", [0, 367, "x"])
def test_a_range_that_is_none_is_refused(client: Client, days: object) -> None:
    for path in (ACCURACY, IMPACT):
        answer = client.get(path, days=days)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["parameter"] == "days"


@pytest.fixture(params=["jobs", "usage", "partitions"])
def strict(
    request: pytest.FixtureRequest, stage: Stage, context: ApiContext, past: None
) -> Iterator[tuple[str, Client]]:
    """A cluster that keeps that private."""
    word: str = request.param
    with stage.serving(replace(context, hidden=lambda: frozenset({word}))) as client:
        yield word, client


def test_private_data_is_honoured(strict: tuple[str, Client]) -> None:
    word, client = strict
    private = word != "partitions"
    assert client.get(IMPACT).status_code == (401 if private else 200)
    for who, payers in (("bob", 0 if private else 1), ("alice", 1), ("root", 1)):
        seen = body(client, IMPACT, who)
        assert len(seen["payers"]) == len(seen["chains"]) == payers
        assert seen["own"] is (private and who != "root")
    assert len(body(client, ACCURACY)["places"]) == (2 if private else 1), "12 are no one's own"
    assert len(body(client, ACCURACY, "root")["places"]) == 2
    groups = {
        who: {group["by"] for group in body(client, SHADOW, who)["report"]["groups"]}
        for who in ("bob", "root")
    }
    assert groups["root"] == {"all", "user", "partition"}
    assert groups["bob"] == {"all", "partition" if private else "user"}
    classes = {p["user_class"] for p in body(client, SHADOW, "bob")["report"]["pairs"]}
    assert classes == ({"new user"} if private else set())


@pytest.mark.usefixtures("past")
def test_an_answer_is_kept_until_something_changes(
    client: Client, store: Store, cluster_id: int
) -> None:
    before = body(client, IMPACT)
    with store.begin() as tx:
        add_chain(tx, cluster_id, "anotherone", user="bob")
        for link in chains.list_links(tx, cluster_id, ChainId(CHAIN)):
            moved = replace(link, chain_id=ChainId("anotherone"), job_id=JobId(link.job_id + 50))
            chains.save_link(tx, cluster_id, moved)
        handover_outcomes.record_outcomes(tx, cluster_id)
        changes.record_change(tx, cluster_id, Topic.QUEUE)
    after = body(client, IMPACT)
    assert (before["unasked"], after["unasked"]) == (1, 3)


def test_few_results_tell_of_nobody(
    stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    """Where jobs are private, of three waits and of one hand-over there is their number alone."""
    tally = Tally()
    for wait_s in (600, 1200, 7200):
        tally.add_outcome(tuple(int(level * 4 * HOUR) for level in LEVELS), wait_s, 60)
    with store.begin() as tx:
        job_forecasts.put_tally(tx, cluster_id, NOW - NOW % 86400, "gpu", tally.to_stored())
    with stage.serving(replace(context, hidden=lambda: frozenset({"jobs"}))) as client:
        (everywhere,) = body(client, ACCURACY)["places"]
        (point,) = everywhere["series"]
        assert (everywhere["count"], point["count"]) == (3, 3)
        told = [everywhere[name] for name in ("median_s", "covered", "waited", "pinball_s")]
        told += [point[name] for name in ("median_s", "slurm_median_s", "covered")]
        told += [everywhere["beside"]["median_s"], everywhere["covered_ci"]]
        assert told == [None] * 9
        assert everywhere["calibration"] == []
        assert len(body(client, ACCURACY, "root")["places"]) == 2
        assert body(client, ACCURACY, "root")["places"][0]["median_s"] > 0
