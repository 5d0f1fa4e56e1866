"""If I submitted this now, over HTTP: what is told, by whom, and how one asks for more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.forecasts import forecast_trials, shape_forecasts
from mirage.database.jobs import queue_summary
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import ForecastAccuracy, JobShape
from mirage.provision.forecasts.submission_forecast import MOST_ASKED
from mirage.web.api.app import ApiContext
from tests.support.api.rows import HOUR, look, read_running_job
from tests.support.api.running import NOW, Client, Stage

PATH = "/api/v1/forecasts"
SHAPE = JobShape(partition="gpu", nodes=4, time_limit_s=12 * HOUR)
ASKED: dict[str, Any] = {"partition": "gpu", "nodes": 4, "time_limit_s": 12 * HOUR}


@pytest.fixture
def client(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    """30 jobs have started after ten minutes; the twin has said an hour of those of 4 nodes."""
    submitted = {"submit": NOW - 20 * HOUR, "eligible": NOW - 9 * HOUR - 600}
    look(store, cluster_id, *(read_running_job(200 + i, **submitted) for i in range(30)))
    with store.begin() as tx:
        of_nodes(tx, cluster_id, 6000)
        shape_forecasts.request_forecast(tx, cluster_id, SHAPE, NOW - 400)
        told = Forecast(p10_s=1800.0, p50_s=3600.0, p90_s=7200.0, samples=100)
        shape_forecasts.save_forecast(tx, cluster_id, SHAPE, NOW - 300, told)
    with stage.serving(context) as running:
        yield running


def of_nodes(tx: Transaction, cluster_id: int, number: int) -> None:
    """The partition has so many."""
    seen = queue_summary.find_summary(tx, cluster_id)
    assert seen is not None
    rows = [replace(row, nodes=number) for row in seen.nodes]
    queue_summary.save_summary(tx, cluster_id, seen.at, seen.queue, rows)


def ask(client: Client, who: str | None = "bob", **more: Any) -> Any:
    return client.post(PATH, json.dumps(ASKED | more).encode(), who=who)


def test_the_twins_answer_is_told(client: Client) -> None:
    answer = client.get(PATH, **ASKED).json()
    assert (answer["p10_s"], answer["p50_s"], answer["p90_s"]) == (1800.0, 3600.0, 7200.0)
    assert (answer["source"], answer["exact"], answer["calibrated"]) == ("twin", True, False)
    assert answer["foretold_at"] == "2027-01-15T07:55:00Z"
    assert "100 simulated futures of the queue as it was 5 min ago" in answer["says"][0]
    assert "not known yet" in answer["says"][-1]


def test_the_nearest_shape_is_named(client: Client) -> None:
    answer = client.get(PATH, **(ASKED | {"nodes": 6})).json()
    assert (answer["source"], answer["exact"], answer["nodes"]) == ("twin", False, 6)
    assert answer["used"] == {"nodes": 4, "time_limit_s": 12 * HOUR, "gpus": 0, "account": ""}
    assert "4 nodes, a time limit of 12:00:00" in answer["says"][1]


def test_where_nothing_is_near_like_jobs_tell(client: Client) -> None:
    answer = client.get(PATH, **(ASKED | {"nodes": 64})).json()
    assert (answer["source"], answer["p50_s"], answer["samples"]) == ("quantile", 600.0, 30)
    assert "30 jobs of the partition, whatever their size" in answer["says"][0]
    like = client.get(PATH, **(ASKED | {"nodes": 1, "time_limit_s": 60})).json()
    assert "30 jobs of about as many nodes, whatever their time limit" in like["says"][0]


def test_a_job_that_fits_nowhere_is_told_no_wait(
    client: Client, stage: Stage, context: ApiContext, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        of_nodes(tx, cluster_id, 8)
    wanted = ASKED | {"nodes": 9}
    answer = client.get(PATH, **wanted)
    assert client.get(PATH, **(ASKED | {"nodes": 8})).status_code == 200
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "nodes"
    assert "partition gpu has 8 nodes" in answer.json()["detail"]
    with stage.serving(replace(context, hidden=lambda: frozenset({"nodes"}))) as told_less:
        assert told_less.get(PATH, **wanted).status_code == 200, "it would tell how many there are"


def test_a_job_longer_than_its_partition_allows_is_told_no_wait(
    stage: Stage, context: ApiContext, client: Client
) -> None:
    bounded = replace(context, max_time_s={"gpu": 48 * HOUR})
    wanted = ASKED | {"time_limit_s": 48 * HOUR + 1}
    with stage.serving(bounded) as running:
        answer, asked = running.get(PATH, **wanted), ask(running, **wanted)
        assert running.get(PATH, **(ASKED | {"time_limit_s": 48 * HOUR})).status_code == 200
        assert ask(running, time_limit_s=48 * HOUR).status_code == 202
    assert (answer.status_code, asked.status_code) == (422, 422)
    assert answer.json()["errors"][0]["parameter"] == "time_limit_s"
    assert asked.json()["errors"][0]["pointer"] == "#/time_limit_s"
    said = "it would never start, as partition gpu has MaxTime=2-00:00:00"
    assert (answer.json()["detail"], asked.json()["detail"]) == (said, said)
    with stage.serving(replace(bounded, hidden=lambda: frozenset({"partitions"}))) as told_less:
        assert told_less.get(PATH, **wanted).status_code == 200, "it would tell of the partition"


def test_the_twin_is_not_asked_about_a_job_that_fits_nowhere(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        of_nodes(tx, cluster_id, 8)
    answer = ask(client, nodes=9)
    assert (answer.status_code, ask(client, nodes=8).status_code) == (422, 202)
    assert answer.json()["errors"][0]["pointer"] == "#/nodes"


def test_forecasts_are_corrected_by_how_the_last_ones_came_out(
    client: Client, store: Store, cluster_id: int
) -> None:
    found = ForecastAccuracy(
        jobs=412, days=20, within=0.61, below_p90=0.7, error_s=900.0, shift=(-0.1, 0.0, 0.5)
    )
    with store.begin() as tx:
        forecast_trials.save_quality(tx, cluster_id, "twin", NOW - HOUR, found)
    answer = client.get(PATH, **ASKED).json()
    assert answer["calibrated"]
    assert answer["p10_s"] < 1800.0
    assert answer["p50_s"] == 3600.0
    assert answer["p90_s"] > 7200.0
    assert (answer["quality"]["jobs"], answer["quality"]["within"]) == (412, 0.61)
    assert "61% started between p10 and p90" in answer["says"][-1]


def test_one_asks_and_the_worker_is_to_answer(client: Client, store: Store) -> None:
    answer = ask(client, nodes=6)
    assert (answer.status_code, answer.json()) == (202, {"ask_again_s": 60})
    assert client.get(PATH, **(ASKED | {"nodes": 6})).json()["waiting"]
    assert not client.get(PATH, **ASKED).json()["waiting"]


def test_nobody_unknown_puts_the_worker_to_work(client: Client) -> None:
    assert ask(client, who=None).status_code == 401


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"partition": "nowhere"}, "unknown partition"),
        ({"nodes": 0}, "greater than or equal to 1"),
        ({"time_limit_s": 2**40}, "less than or equal"),
        ({"user": "alice"}, "extra"),
    ],
)
def test_what_cannot_be_asked_is_refused(client: Client, more: dict[str, Any], said: str) -> None:
    answer = ask(client, **more)
    assert answer.status_code == 422
    assert said in answer.text.lower()


def test_too_many_questions_are_refused(client: Client, store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for nodes in range(1, MOST_ASKED + 1):
            shape_forecasts.request_forecast(tx, cluster_id, replace(SHAPE, nodes=100 + nodes), NOW)
    answer = ask(client, nodes=6)
    assert (answer.status_code, answer.json()["type"]) == (429, "/problems/too-many")


def test_what_is_refused_is_said(client: Client, store: Store, cluster_id: int) -> None:
    huge = replace(SHAPE, nodes=5000)
    with store.begin() as tx:
        shape_forecasts.request_forecast(tx, cluster_id, huge, NOW - 60)
        shape_forecasts.save_forecast(
            tx, cluster_id, huge, NOW, "it asks for more nodes than there are"
        )
    answer = client.get(PATH, **(ASKED | {"nodes": 5000})).json()
    assert answer["refused"] == "it asks for more nodes than there are"
    assert "The twin has no forecast for this job: it asks for more nodes" in answer["says"][1]
