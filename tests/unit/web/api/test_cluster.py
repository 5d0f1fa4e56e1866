"""The cluster over HTTP: its sums, its jobs, and how long one would wait."""

from datetime import datetime
from typing import Any

import pytest

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.decision import Mode
from mirage.domain.job import JobState
from mirage.domain.timelimit import UNLIMITED
from tests.support.api.rows import HOUR, look, read_running_job
from tests.support.api.running import NOW, Client
from tests.support.slurm.printed_jobs import reread_queue_job


def test_a_cluster_never_looked_at_has_no_numbers(client: Client) -> None:
    shown = client.get("/api/v1/cluster").json()
    assert (shown["name"], shown["mode"], shown["stale"]) == ("lab", "shadow", True)
    assert shown["as_of"] is None
    assert set(shown["sums"].values()) == {None}


def test_the_cluster_is_shown_in_sums(client: Client, store: Store, cluster_id: int) -> None:
    waiting = read_running_job(2, state=JobState.PENDING, start=None, nodes=3)
    look(store, cluster_id, read_running_job(1), waiting)
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
    shown = client.get("/api/v1/cluster").json()
    assert shown["sums"]["pending_nodes"] == 3
    assert (shown["sums"]["running_jobs"], shown["sums"]["idle_nodes"]) == (1, 1)
    assert (shown["stale"], shown["partitions"]) == (False, {"gpu": "act"})


def test_a_plan_stands_beside_the_start_and_is_none(
    client: Client, store: Store, cluster_id: int
) -> None:
    waits = read_running_job(2, state=JobState.PENDING, start=NOW + HOUR)
    gone = read_running_job(
        3, state=JobState.CANCELLED, submit=NOW - HOUR, start=NOW - 60, end=NOW - 60
    )
    look(store, cluster_id, read_running_job(1), waits, gone)

    def instants(name: str) -> list[Any]:
        rows = client.get("/api/v1/jobs").json()["items"]
        assert [row["job_id"] for row in rows] == [3, 2, 1]
        return [row[name] and datetime.fromisoformat(row[name]).timestamp() for row in rows]

    assert instants("start") == [None, None, NOW - 9 * HOUR]
    assert instants("planned_start") == [None, NOW + HOUR, None]
    assert instants("cancelled_at") == [NOW - 60, None, None]
    assert instants("end") == [NOW - 60, None, None]
    look(store, cluster_id, read_running_job(1), reread_queue_job(waits, start=None), at=NOW + 60)
    assert instants("planned_start") == [None, None, None], "of the last look alone"


def test_a_view_older_than_three_polls_is_stale(
    client: Client, store: Store, cluster_id: int
) -> None:
    look(store, cluster_id, at=NOW - 181)
    assert client.get("/api/v1/cluster").json()["stale"] is True


def test_jobs_are_shown_as_slurm_tells_them(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id, read_running_job(1, time_limit_s=UNLIMITED), read_running_job(2))
    two, one = client.get("/api/v1/jobs").json()["items"]
    assert (two["job_id"], two["time_limit_s"], two["unlimited"]) == (2, 12 * HOUR, False)
    assert (one["job_id"], one["time_limit_s"], one["unlimited"]) == (1, None, True)
    assert (two["state"], two["wait_s"], two["end"]) == ("RUNNING", HOUR, None)


def test_jobs_are_paged_by_following_next(client: Client, store: Store, cluster_id: int) -> None:
    look(store, cluster_id, *(read_running_job(i) for i in range(1, 6)))
    found, path = [], "/api/v1/jobs?limit=2"
    while path:
        page = client.raw("GET", path).json()
        found += [item["job_id"] for item in page["items"]]
        path = page["next"]
    assert found == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("asked", [{"user": "bob"}, {"partition": "cpu"}, {"state": "PENDING"}])
def test_jobs_are_filtered(
    client: Client, store: Store, cluster_id: int, asked: dict[str, Any]
) -> None:
    other = read_running_job(7, user="bob", partition="cpu", state=JobState.PENDING, start=None)
    look(store, cluster_id, read_running_job(1), other)
    assert [item["job_id"] for item in client.get("/api/v1/jobs", **asked).json()["items"]] == [7]


def test_a_forecast_comes_from_what_like_jobs_waited(
    client: Client, store: Store, cluster_id: int
) -> None:
    # Waits of an hour and 1 to 40 seconds, in no order: nothing has changed over time.
    began = [NOW - 9 * HOUR + 60 * i for i in range(40)]
    waited = [HOUR + 1 + 7 * i % 40 for i in range(40)]
    small = [
        read_running_job(i + 1, submit=start - wait, eligible=start - wait, start=start)
        for i, (start, wait) in enumerate(zip(began, waited, strict=True))
    ]
    large = [read_running_job(100 + i, nodes=64, start=NOW - HOUR) for i in range(40)]
    look(store, cluster_id, *small, *large)
    path = "/api/v1/forecasts"
    shown = client.get(path, partition="gpu", nodes=2, time_limit_s=12 * HOUR).json()
    assert (shown["p10_s"], shown["p50_s"], shown["p90_s"]) == (3604, 3620, 3636)
    assert (shown["samples"], shown["nodes"], shown["stale"]) == (40, 2, False)


def test_without_history_there_is_no_forecast(client: Client) -> None:
    answer = client.get("/api/v1/forecasts", partition="gpu", nodes=2, time_limit_s=HOUR)
    assert answer.status_code == 404
    assert answer.json()["detail"] == "no started jobs of partition gpu are known"
