"""Forecasts of new jobs: made at their submission, counted once their wait is known."""

from dataclasses import replace
from typing import Any

import pytest

from mirage.database.forecasts import job_forecasts
from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.callers.caller import Principal, Role
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.provision.forecasts.job_forecast_recorder import (
    LEAST_SAMPLES,
    MOST,
    JobForecastRecorder,
    settle_outcomes,
)
from mirage.provision.forecasts.new_jobs import is_plain, sample_evenly
from mirage.reports.forecast_accuracy import Accuracy, build_accuracy
from mirage.twin.twin_features import LEVELS
from tests.support.slurm.printed_jobs import read_queue_job, read_record

DAY = 86400
HOUR = 3600
NOW = 20_000 * DAY + 12 * HOUR
ADMIN = Principal(uid=0, user="root", role=Role.ADMIN)


LIKE = {"submit": NOW, "eligible": NOW, "partition": "gpu", "time_limit_s": HOUR, "priority": 10}


def read_new_job(job_id: int, **fields: Any) -> Job:
    """In squeue; submitted now, unless `fields` say otherwise."""
    return read_queue_job(job_id=job_id, **{**LIKE, **fields})


def ran(job_id: int, submit: int, wait_s: int, **fields: Any) -> Job:
    given: dict[str, Any] = {"submit": submit, "eligible": submit, "start": submit + wait_s}
    given |= {"end": submit + wait_s + 600, "state": JobState.COMPLETED}
    return read_record(job_id=job_id, **{**LIKE, **given, **fields})


MIXED = [360 * (37 * i % 100) for i in range(100)]
HISTORY = [ran(i + 1, NOW - 2 * DAY + 60 * i - wait, wait) for i, wait in enumerate(MIXED)]


@pytest.fixture
def busy_cluster_id(store: Store) -> int:
    """Whose last 100 jobs waited 0, 6, 12, ... minutes, in no order."""
    with store.begin() as tx:
        made = clusters.ensure_cluster(tx, "lab")
        job_history.upsert_jobs(tx, made, HISTORY)
    return made


def looked(store: Store, cluster_id: int, *new: Job) -> JobForecastRecorder:
    """A second look, in which these are new."""
    foreteller = JobForecastRecorder(cluster_id)
    foreteller.record_new_jobs(
        store, Queue.from_jobs(NOW - 60, [read_new_job(900, submit=NOW - DAY)])
    )
    foreteller.record_new_jobs(
        store, Queue.from_jobs(NOW + 30, [read_new_job(900, submit=NOW - DAY), *new])
    )
    return foreteller


def known(store: Store, cluster_id: int, *records: Job) -> Accuracy:
    with store.begin() as tx:
        job_history.upsert_jobs(tx, cluster_id, records)
        settle_outcomes(tx, cluster_id, NOW + DAY)
    with store.read() as tx:
        return build_accuracy(tx, cluster_id, NOW - 29 * DAY, NOW + 2 * DAY, ADMIN)


def test_a_new_job_is_foretold_and_counted_once(store: Store, busy_cluster_id: int) -> None:
    looked(store, busy_cluster_id, read_new_job(901, start=NOW + 2 * HOUR))
    with store.read() as tx:
        assert job_forecasts.count_open_forecasts(tx, busy_cluster_id, 0) == {"gpu": 1}
    before = known(store, busy_cluster_id)
    assert before.places == ()
    assert "Too few results: 0 waits on 0 days" in before.too_few
    # It waits for four hours; like ones had waited five at the median, and Slurm planned two.
    wait_s = 4 * HOUR
    for _ in range(2):
        found = known(store, busy_cluster_id, ran(901, NOW, wait_s))
        everywhere, place = found.places
        assert (everywhere.partition, place.partition) == ("", "gpu")
        assert (place.count, place.days, place.open, place.waited) == (1, 1, 0, 1.0)
        assert place.covered == 1.0
        assert place.median_s == pytest.approx(HOUR, rel=0.2)
        assert place.beside.slurm_median_s == pytest.approx(2 * HOUR, rel=0.2)
        assert [level for level, _ in place.calibration] == list(LEVELS)


def test_what_was_known_later_is_not_in_a_forecast(store: Store, busy_cluster_id: int) -> None:
    with store.begin() as tx:
        later = [ran(500 + i, NOW - 10, 11 + i) for i in range(50)]
        job_history.upsert_jobs(tx, busy_cluster_id, later)
    looked(store, busy_cluster_id, read_new_job(901))
    found = known(store, busy_cluster_id, ran(901, NOW, 0))
    # Half of all have waited about five hours: those that started after it did not count.
    assert found.places[0].median_s == pytest.approx(5 * HOUR, rel=0.2)


def test_jobs_that_start_at_once_are_in_it(store: Store, busy_cluster_id: int) -> None:
    started = read_new_job(901, state=JobState.RUNNING, start=NOW + 5)
    looked(store, busy_cluster_id, started)
    found = known(store, busy_cluster_id, started)
    assert (found.places[0].count, found.places[0].waited) == (1, 0.0)
    assert found.places[0].beside.count == 0, "Slurm planned nothing, and needed not"


def test_one_that_gives_up_waiting_tells_nothing(store: Store, busy_cluster_id: int) -> None:
    looked(store, busy_cluster_id, read_new_job(901), read_new_job(902))
    gone = read_new_job(901, state=JobState.CANCELLED, end=NOW + HOUR)
    found = known(store, busy_cluster_id, gone)
    assert (found.places[0].count, found.places[0].gave_up, found.places[0].open) == (0, 1, 1)
    assert found.places[0].covered is None


@pytest.mark.parametrize(
    "fields",
    [
        {"dependency": "afterok:7"},
        {"priority": 0},
        {"eligible": None},
        {"eligible": NOW + HOUR},
    ],
)
def test_what_its_user_keeps_waiting_is_not_foretold(fields: dict[str, Any]) -> None:
    assert is_plain(read_new_job(1))
    assert not is_plain(read_new_job(1, **fields))


def test_nothing_is_foretold_from_little(store: Store, busy_cluster_id: int) -> None:
    with store.begin() as tx:
        few = [ran(300 + i, NOW - DAY, i, partition="cpu") for i in range(LEAST_SAMPLES - 1)]
        job_history.upsert_jobs(tx, busy_cluster_id, few)
    looked(
        store,
        busy_cluster_id,
        read_new_job(901, partition="cpu"),
        read_new_job(902, partition="none"),
    )
    with store.read() as tx:
        assert job_forecasts.count_open_forecasts(tx, busy_cluster_id, 0) == {}


def test_old_jobs_are_not_new_after_a_restart(store: Store, busy_cluster_id: int) -> None:
    foreteller = JobForecastRecorder(busy_cluster_id)
    foreteller.record_new_jobs(store, Queue.from_jobs(NOW + 30, [read_new_job(901)]))
    foreteller.record_new_jobs(
        store, Queue.from_jobs(NOW + 90, [read_new_job(901), read_new_job(902, submit=NOW - DAY)])
    )
    with store.read() as tx:
        assert job_forecasts.count_open_forecasts(tx, busy_cluster_id, 0) == {}


def test_a_burst_is_sampled_evenly() -> None:
    burst = [read_new_job(i) for i in range(1, 1001)]
    kept = [int(j.job_id) for j in sample_evenly(burst, MOST)]
    assert len(kept) == MOST
    assert (kept[0], kept[-1]) == (1, 1000)
    assert len(sample_evenly(burst[:3], MOST)) == 3


def test_enough_results_say_so_and_weeks_take_the_place_of_days(
    store: Store, busy_cluster_id: int
) -> None:
    with store.begin() as tx:
        for day in range(40):
            at = NOW - 40 * DAY + day * DAY
            news = [
                job_forecasts.JobForecast(
                    job_id=JobId(2000 + 10 * day + i),
                    submit=at + i,
                    partition="gpu",
                    quantiles_s=tuple(int(level * 10 * HOUR) for level in LEVELS),
                )
                for i in range(5)
            ]
            job_forecasts.add_forecasts(tx, busy_cluster_id, news)
            job_history.upsert_jobs(
                tx,
                busy_cluster_id,
                [ran(n.job_id, n.submit, (2 * i + 1) * HOUR) for i, n in enumerate(news)],
            )
    found = known(store, busy_cluster_id)
    assert (found.too_few, found.step_s) == ("", DAY)
    assert found.places[0].covered_ci is not None
    assert len(found.places[0].series) == 29
    with store.read() as tx:
        months = build_accuracy(tx, busy_cluster_id, NOW - 60 * DAY, NOW, ADMIN)
    assert months.step_s == 7 * DAY
    assert len(months.places[0].series) in {6, 7}
    assert sum(point.count for point in months.places[0].series) == 200
    # Uniform from 0 to 10 h was said, and so it was.
    shares = dict(months.places[0].calibration)
    assert shares[0.5] == pytest.approx(0.5, abs=0.06)
    assert months.places[0].covered == pytest.approx(0.8, abs=0.03)


def test_partitions_are_told_as_the_cluster_keeps_them_private(
    store: Store, busy_cluster_id: int
) -> None:
    looked(store, busy_cluster_id, read_new_job(901))
    known(store, busy_cluster_id, ran(901, NOW, HOUR))
    seen = {}
    for words in ((), ("partitions",), ("jobs",)):
        reader = Principal(uid=7, user="bob", role=Role.USER, hidden=frozenset(words))
        with store.read() as tx:
            found = build_accuracy(tx, busy_cluster_id, NOW - DAY, NOW + DAY, reader)
        seen[words] = [place.partition for place in found.places]
    assert seen == {(): ["", "gpu"], ("partitions",): [""], ("jobs",): [""]}


def test_a_forecast_twice_said_is_one(store: Store, busy_cluster_id: int) -> None:
    made = job_forecasts.JobForecast(
        job_id=JobId(1), submit=NOW, partition="gpu", quantiles_s=(1,) * 19
    )
    with store.begin() as tx:
        job_forecasts.add_forecasts(tx, busy_cluster_id, [made, replace(made, job_id=JobId(2))])
        job_forecasts.add_forecasts(tx, busy_cluster_id, [made])
        assert job_forecasts.count_open_forecasts(tx, busy_cluster_id, 0) == {"gpu": 2}
        job_forecasts.drop_forecasts_before(tx, busy_cluster_id, NOW + 1)
        assert job_forecasts.count_open_forecasts(tx, busy_cluster_id, 0) == {}
