"""The queue as it stands and waits over time, over HTTP; under PrivateData only as counts allow."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobState
from mirage.domain.snapshot import Queue
from mirage.provision.polling.live_ingest import ingest_queue
from mirage.reports import wait_statistics
from mirage.web.api.app import ApiContext
from tests.support.api.rows import HOUR, look, read_running_job
from tests.support.api.running import NOW, Client, Stage

QUEUE, WAITS = "/api/v1/queue", "/api/v1/waits"
HOSTILE = "<script>alert(1)</script>\x1b[2J"


def read_pending_job(number: int, reason: str, **more: Any) -> Job:
    return read_running_job(
        number, **({"state": JobState.PENDING, "start": None, "reason": reason} | more)
    )


@pytest.fixture
def client(stage: Stage, context: ApiContext, store: Store, cluster_id: int) -> Iterator[Client]:
    """12 jobs wait for higher priorities, one for its owner, one in two partitions; 30 run, and
    have waited up to half an hour."""
    waiting = [read_pending_job(100 + i, "Priority", nodes=3, priority=50) for i in range(12)]
    held = read_pending_job(150, "JobHeldUser", priority=0, eligible=NOW - 90 * HOUR)
    both = read_pending_job(160, "Resources", partition="gpu,cpu", eligible=NOW - 5 * HOUR)
    submitted = {"submit": NOW - 20 * HOUR}
    started = [
        read_running_job(200 + i, eligible=NOW - 9 * HOUR - 60 * i, **submitted) for i in range(30)
    ]
    look(store, cluster_id, *waiting, held, both, *started)
    wait_statistics.refresh_sums(store, cluster_id, budget_s=60)
    with stage.serving(context) as running:
        yield running


def private(context: ApiContext, *words: str) -> ApiContext:
    return replace(context, hidden=lambda: frozenset(words))


def test_the_queue_is_told_by_partition_and_reason(client: Client) -> None:
    answer = client.get(QUEUE).json()
    assert [p["partition"] for p in answer["partitions"]] == ["cpu", "gpu"]
    cpu, gpu = answer["partitions"]
    assert (gpu["pending_jobs"], gpu["pending_nodes"], gpu["running_jobs"]) == (14, 40, 30)
    assert (cpu["pending_jobs"], cpu["running_jobs"], cpu["nodes"]) == (1, 0, None)
    assert answer["whole"]["pending_jobs"] == 14, "what waits in two partitions is one job"
    assert (gpu["nodes"], gpu["usable_nodes"], gpu["idle_nodes"]) == (2, 2, 1)
    # The held job does not stand in line.
    assert gpu["oldest_pending_s"] == 10 * HOUR
    first = gpu["reasons"][0]
    assert (first["reason"], first["jobs"], first["cure"]) == ("Priority", 12, "queue")
    held = next(r for r in gpu["reasons"] if r["reason"] == "JobHeldUser")
    assert (held["jobs"], held["cure"], held["says"]) == (1, "person", "its owner holds it")
    assert answer["as_of"] == answer["nodes_as_of"] == "2027-01-15T08:00:00Z"


def test_nodes_stay_known_while_only_the_queue_is_looked_at(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        ingest_queue(tx, cluster_id, Queue.from_jobs(NOW + 60, [read_running_job(1)]), None)
    answer = client.get(QUEUE).json()
    assert answer["whole"]["idle_nodes"] == 1
    assert answer["nodes_as_of"] < answer["as_of"]


def test_before_the_first_look_there_is_nothing_and_no_error(
    stage: Stage, context: ApiContext
) -> None:
    with stage.serving(context) as empty:
        answer = empty.get(QUEUE)
        assert (answer.status_code, answer.json()["whole"]) == (200, None)
        answer = empty.get(WAITS)
        assert (answer.status_code, answer.json()["whole"]["jobs"]) == (200, 0)


def test_private_jobs_are_told_in_sums_of_ten(
    stage: Stage, context: ApiContext, client: Client
) -> None:
    with stage.serving(private(context, "jobs")) as strict:
        mine, admins = (strict.get(QUEUE, who=who).json()["whole"] for who in ("bob", "root"))
    assert {r["reason"]: r["jobs"] for r in mine["reasons"]} == {"Priority": 12, "Other": 2}
    assert mine["oldest_pending_s"] is None
    assert admins["oldest_pending_s"] == 10 * HOUR
    assert {r["reason"] for r in admins["reasons"]} == {"Priority", "JobHeldUser", "Resources"}


def test_private_partitions_and_nodes_are_told_to_admins(
    stage: Stage, context: ApiContext, client: Client
) -> None:
    with stage.serving(private(context, "partitions", "nodes")) as strict:
        for who, hidden in (("bob", True), ("root", False)):
            queue, found = strict.get(QUEUE, who=who).json(), strict.get(WAITS, who=who).json()
            assert (queue["partitions"] == []) is hidden
            assert (queue["whole"]["nodes"] is None) is hidden
            assert (found["by_partition"] == []) is hidden
            assert found["whole"]["jobs"] == 30


def test_waits_over_time(client: Client) -> None:
    answer = client.get(WAITS, by="hour", since="2027-01-14T20:00:00Z", partition="gpu").json()
    assert len(answer["points"]) == 13
    jobs = {point["at"]: point["jobs"] for point in answer["points"] if point["jobs"]}
    assert jobs == {"2027-01-14T23:00:00Z": 30}
    whole = answer["whole"]
    exact = (2 * 60, 14 * 60, 26 * 60)
    assert (whole["p10_s"], whole["p50_s"], whole["p90_s"]) == pytest.approx(exact, rel=0.05)
    assert [g["name"] for g in answer["by_nodes"]] == ["2-4"]
    assert [g["name"] for g in answer["by_time_limit"]] == ["12h"]
    assert answer["behind_h"] == 0
    none = client.get(WAITS, partition="gpu", nodes="1").json()["whole"]
    assert none == {"jobs": 0, "p10_s": None, "p50_s": None, "p90_s": None}


def test_waits_of_few_are_not_told_where_jobs_are_private(
    stage: Stage, context: ApiContext, client: Client, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id, read_running_job(900, partition="rare", nodes=100), at=NOW + 60)
    wait_statistics.refresh_sums(store, cluster_id, budget_s=60)
    with stage.serving(private(context, "jobs")) as strict:
        for who, told in (("bob", False), ("root", True)):
            found = strict.get(WAITS, who=who, partition="rare").json()
            assert found["whole"]["jobs"] == 1
            assert (found["whole"]["p50_s"] is not None) is told
            assert (found["by_nodes"][0]["p50_s"] is not None) is told


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"since": "2026-01-01", "by": "hour"}, "more than 400 hours"),
        ({"since": "2027-03-01"}, "before it begins"),
        ({"since": "yesterday"}, "datetime"),
        ({"nodes": "7"}, "65-up"),
        ({"by": "week"}, "hour"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "between 1970 and 2200"),
        ({"since": "2026-12-31", "until": "9999-12-31T23:59:59Z"}, "between 1970 and 2200"),
    ],
)
def test_ranges_that_cannot_be_shown_are_refused(
    client: Client, asked: dict[str, str], said: str
) -> None:
    answer = client.get(WAITS, **asked)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.text


def test_a_hostile_reason_comes_back_as_data(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id, read_pending_job(1, HOSTILE, partition=HOSTILE), at=NOW + 60)
    answer = client.get(QUEUE)
    assert "\x1b" not in answer.text
    assert answer.json()["whole"]["reasons"][0]["jobs"] == 1
