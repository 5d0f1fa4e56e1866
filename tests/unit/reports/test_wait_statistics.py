"""Waits in sums: they say what the jobs say, and go on saying it when jobs change."""

from collections.abc import Sequence
from contextlib import closing
from random import Random
from typing import Any

import numpy as np
import pytest

from mirage.database.jobs import job_history, wait_marks
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.job import Job, JobState
from mirage.domain.timelimit import UNLIMITED
from mirage.domain.wait_buckets import LimitClass, SizeClass
from mirage.domain.wait_histogram import WaitSummary, assign_bins, compute_quantiles
from mirage.errors import InputError
from mirage.reports import wait_statistics
from mirage.reports.wait_statistics import Span, WaitQuery, WaitsOverTime
from tests.support.older_schema import take_back
from tests.support.paths import MIGRATIONS
from tests.support.slurm.printed_jobs import read_record, reread_record

HOUR, DAY = 3600, 86400
BEGIN = 1_800_057_600  # a midnight, UTC
WITHIN = 0.05


def read_record_after_wait(number: int, start: int | None, wait_s: int, **more: Any) -> Job:
    submit = (BEGIN if start is None else start) - wait_s
    state = JobState.PENDING if start is None else JobState.RUNNING
    told: dict[str, Any] = {"submit": submit, "eligible": submit, "start": start}
    like: dict[str, Any] = {"partition": "gpu", "nodes": 2, "time_limit_s": 12 * HOUR}
    return read_record(job_id=number, **{"state": state} | told | like | more)


def some(count: int, seed: int = 1) -> list[Job]:
    """Over three days, of two partitions, all sizes and limits."""
    rng = Random(seed)  # noqa: S311 - no secret
    return [
        read_record_after_wait(
            i,
            BEGIN + rng.randrange(3 * DAY),
            int(rng.expovariate(1 / 7000)) if rng.random() < 0.7 else 0,
            partition=rng.choice(("gpu", "cpu")),
            nodes=rng.choice((1, 3, 16, 17, 100)),
            time_limit_s=rng.choice((None, 1800, HOUR, 30 * HOUR, UNLIMITED)),
        )
        for i in range(1, count + 1)
    ]


def put(store: Store, cluster_id: int, records: Sequence[Job]) -> None:
    with store.begin() as tx:
        job_history.upsert_jobs(tx, cluster_id, records)
    assert wait_statistics.refresh_sums(store, cluster_id, budget_s=60)


def ask(store: Store, cluster_id: int, *, least: int = 1, **more: Any) -> WaitsOverTime:
    asked = WaitQuery(**({"since": BEGIN, "until": BEGIN + 3 * DAY} | more))
    with store.read() as tx:
        return wait_statistics.read_waits_over_time(tx, cluster_id, asked, least=least)


def check(spread: WaitSummary, records: Sequence[Job]) -> None:
    """The spread is of these jobs' waits."""
    wait_s = [j.start - max(j.submit, j.eligible or 0) for j in records if j.start is not None]
    assert spread.jobs == len(wait_s)
    found = (spread.p10_s, spread.p50_s, spread.p90_s)
    if not wait_s:
        assert found == (None, None, None)
        return
    exact = np.quantile(wait_s, (0.1, 0.5, 0.9), method="inverted_cdf")
    assert found == pytest.approx(tuple(exact), rel=WITHIN, abs=1)


def test_a_quantile_is_within_five_per_cent_of_its_wait() -> None:
    for wait_s in (0, 1, 2, 59, 3600, 86400, 40 * DAY):
        counts = np.bincount(assign_bins(np.array([wait_s])), minlength=256)
        (found,) = compute_quantiles(counts, [0.5])
        assert found == pytest.approx(wait_s, rel=WITHIN, abs=0.6)


def test_sums_say_what_the_jobs_say(store: Store, cluster_id: int) -> None:
    records = some(900)
    put(store, cluster_id, records)
    found = ask(store, cluster_id)
    check(found.whole, records)
    assert [p.at for p in found.points] == [BEGIN, BEGIN + DAY, BEGIN + 2 * DAY]
    for point in found.points:
        check(point.waits, [j for j in records if point.at <= (j.start or 0) < point.until])
    assert sorted(g.name for g in found.partitions) == ["cpu", "gpu"]
    for group in found.partitions:
        check(group.waits, [j for j in records if j.partition == group.name])
    by_size = {g.name: g.waits for g in found.sizes}
    check(by_size["1"], [j for j in records if j.nodes == 1])
    check(by_size["5-16"], [j for j in records if j.nodes == 16])
    check(by_size["17-64"], [j for j in records if j.nodes == 17])
    by_limit = {g.name: g.waits for g in found.limits}
    check(by_limit["1h"], [j for j in records if j.time_limit_s in {1800, HOUR}])
    check(by_limit["unknown"], [j for j in records if j.time_limit_s is None])
    check(by_limit["longer"], [j for j in records if j.time_limit_s == UNLIMITED])


def test_filters_and_hours(store: Store, cluster_id: int) -> None:
    records = some(600)
    put(store, cluster_id, records)
    found = ask(
        store,
        cluster_id,
        by=Span.HOUR,
        since=BEGIN + 1800,
        until=BEGIN + DAY - 1800,
        partition="gpu",
        size=SizeClass.ONE,
        limit=LimitClass.HOUR,
    )
    assert (len(found.points), found.query.since) == (24, BEGIN)
    mine = [j for j in records if j.partition == "gpu" and j.nodes == 1]
    mine = [j for j in mine if j.time_limit_s in {1800, HOUR}]
    check(found.whole, [j for j in mine if (j.start or 0) < BEGIN + DAY])
    assert ask(store, cluster_id, partition="nowhere").whole == WaitSummary(jobs=0)


def test_late_updates_are_counted_where_they_belong(store: Store, cluster_id: int) -> None:
    """A start told late, a start corrected, an end in the first second: the sums follow each."""

    def by_day() -> list[int]:
        return [p.waits.jobs for p in ask(store, cluster_id).points]

    pending, third = (
        read_record_after_wait(1, None, 0),
        read_record_after_wait(3, BEGIN + HOUR, 600),
    )
    put(store, cluster_id, [pending, read_record_after_wait(2, BEGIN + HOUR, 600), third])
    assert by_day() == [2, 0, 0]
    put(store, cluster_id, [reread_record(pending, state=JobState.RUNNING, start=BEGIN + 2 * DAY)])
    assert by_day() == [2, 0, 1]
    second = read_record_after_wait(
        2, BEGIN + HOUR, 600, state=JobState.COMPLETED, end=BEGIN + 2 * DAY
    )
    corrected = reread_record(second, start=BEGIN + DAY, eligible=BEGIN + DAY - 60)
    put(store, cluster_id, [corrected])
    assert by_day() == [1, 1, 1]
    check(ask(store, cluster_id).points[1].waits, [corrected])
    at_once = reread_record(third, state=JobState.CANCELLED, end=third.start, node_list="")
    put(store, cluster_id, [at_once])
    assert by_day() == [1, 1, 1], "who was seen to run has run"


def test_an_end_does_not_have_a_start_summed_again(store: Store, cluster_id: int) -> None:
    put(store, cluster_id, [running := read_record_after_wait(1, BEGIN + HOUR, 600)])
    ended = reread_record(running, state=JobState.TIMEOUT, end=BEGIN + 13 * HOUR)
    with store.begin() as tx:
        job_history.upsert_jobs(tx, cluster_id, [ended])
        assert wait_marks.count_marked_hours(tx, cluster_id, BEGIN, BEGIN + DAY) == 0


def test_what_is_behind_is_told_and_the_newest_is_summed_first(
    store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        job_history.upsert_jobs(
            tx, cluster_id, [read_record_after_wait(i, BEGIN + i * DAY, 60) for i in range(3)]
        )
    assert ask(store, cluster_id).behind_h == 3
    clock = iter((0.0, 0.0, 1.0))  # one day is summed, then the time is up
    assert not wait_statistics.refresh_sums(
        store, cluster_id, budget_s=0.5, clock=lambda: next(clock)
    )
    found = ask(store, cluster_id)
    assert [p.waits.jobs for p in found.points] == [0, 0, 1]
    assert found.behind_h == 2
    assert wait_statistics.refresh_sums(store, cluster_id, budget_s=60)
    assert ask(store, cluster_id).behind_h == 0


def test_waits_of_few_jobs_are_not_told(store: Store, cluster_id: int) -> None:
    put(
        store,
        cluster_id,
        [read_record_after_wait(i, BEGIN + i, 60, nodes=1 if i < 4 else 2) for i in range(20)],
    )
    found = ask(store, cluster_id, least=10)
    assert {g.name: (g.waits.jobs, g.waits.p50_s is None) for g in found.sizes} == {
        "1": (4, True),
        "2-4": (16, False),
    }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"until": BEGIN - DAY}, "ends before"),
        ({"until": BEGIN + 500 * DAY}, "more than 400 days"),
        ({"by": Span.HOUR, "until": BEGIN + 20 * DAY}, "more than 400 hours"),
    ],
)
def test_ranges_that_cannot_be_shown(more: dict[str, Any], said: str) -> None:
    asked = {"since": BEGIN, "until": BEGIN + 3 * DAY} | more
    with pytest.raises(InputError, match=said):
        WaitQuery(**asked).round_range()


def test_an_upgrade_sums_what_was_there(empty_database_url: str) -> None:
    records = some(50)
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        job_history.upsert_jobs(tx, cluster_id, records)
    take_back(empty_database_url, "0020")
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store:
        assert wait_statistics.refresh_sums(store, cluster_id, budget_s=60)
        check(ask(store, cluster_id).whole, records)
