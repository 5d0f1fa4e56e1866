"""If I submitted this now: what the worker foretells, what is told of it, and how it is judged."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.database.forecasts import forecast_trials, shape_forecasts
from mirage.database.forecasts.forecast_trials import ForecastTrial, TrialOutcome
from mirage.database.jobs.job_history import upsert_jobs
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.decision import Forecast
from mirage.domain.job import JobId, JobState
from mirage.domain.job_shape import ForecastAccuracy, JobShape
from mirage.domain.snapshot import Snapshot
from mirage.errors import InputError, NotFound, TooMany
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.observation.handover_input import HandoverInput
from mirage.provision.cluster_observer import NO_FILE, Observer
from mirage.provision.forecasts import forecast_calibration, submission_forecast
from mirage.provision.forecasts.shape_forecaster import GOOD_S, ShapeForecaster
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from mirage.twin.forecast import build_probe
from tests.support.observation.scene import BEGIN, HOUR, PARAMS, generate_jobs
from tests.support.provision.scene import Always
from tests.support.slurm.printed_jobs import read_record

POINT = BEGIN + 26 * HOUR
WIDE = JobShape(partition="batch", nodes=8, time_limit_s=2 * HOUR)
DAY = 86400


class BusyCluster:
    """A busy cluster that has been looked at for a while, and its worker."""

    def __init__(self, store: Store, observer: Observer | None, budget_s: float = 100.0) -> None:
        self.store = store
        self.cluster = SimulatedCluster(PARAMS, generate_jobs(3), now=BEGIN)
        with store.begin() as tx:
            self.cluster_id = clusters.ensure_cluster(tx, "scene")
        self.worker = Worker(
            store,
            self.cluster,
            self.cluster_id,
            settings=DecisionSettings(
                get_policy=Always, default_policy="always", observer=observer
            ),
            shape_forecaster=ShapeForecaster(budget_s=budget_s),
        )
        self.cluster.advance(POINT - BEGIN)
        self.worker.run_tick()

    def tick(self, after_s: int = 60) -> None:
        self.cluster.advance(after_s)
        self.worker.run_tick()

    def told(self, shape: JobShape) -> submission_forecast.SubmissionForecast:
        with self.store.read() as tx:
            return submission_forecast.forecast_submission(
                tx, self.cluster_id, shape, self.cluster.read_clock()
            )

    def ask(self, shape: JobShape) -> None:
        """As somebody to whom the number of nodes is private."""
        with self.store.begin() as tx:
            now, bounds = (
                self.cluster.read_clock(),
                submission_forecast.PartitionBounds(sees_nodes=False),
            )
            submission_forecast.request_forecast(tx, self.cluster_id, shape, now, bounds=bounds)


@pytest.fixture
def busy(sqlite_store: Store) -> BusyCluster:
    return BusyCluster(sqlite_store, Observer(params=PARAMS))


def test_usual_shapes_are_foretold_without_being_asked(busy: BusyCluster) -> None:
    """And what is told is the twin's own answer of that instant."""
    with busy.store.read() as tx:
        (usual, *_) = shape_forecasts.list_usual_shapes(tx, busy.cluster_id, 0, 1, shared=False)
    busy.tick(GOOD_S)
    found = busy.told(usual)
    assert (found.source, found.exact, found.waiting) == ("twin", True, False)
    with busy.store.read() as tx:
        snapshot = Snapshot(queue=busy.cluster.fetch_queue(), nodes=busy.cluster.fetch_nodes())
        observer = Observer(params=PARAMS)
        look = observer.observe_cluster(tx, busy.cluster_id, snapshot)
        futures = observer.prepare_futures(tx, busy.cluster_id, snapshot, look, ())()
    link = HandoverInput(
        nodes=usual.nodes,
        time_limit_s=usual.time_limit_s,
        user="",
        partition=usual.partition,
        predecessor_submit=0,
        predecessor_start=0,
        predecessor_end=0,
    )
    [again] = (told.to_forecast() for told in futures.simulate_waits([build_probe(look, link)]))
    assert found.forecast.p50_s == pytest.approx(again.p50_s, rel=0.3, abs=600)


def test_wide_jobs_wait_longer_than_narrow_ones(busy: BusyCluster) -> None:
    narrow = replace(WIDE, nodes=1, time_limit_s=HOUR // 2)
    for shape in (WIDE, narrow):
        busy.ask(shape)
    busy.tick()
    told = [busy.told(shape).forecast for shape in (narrow, WIDE)]
    for forecast in told:
        assert None not in {forecast.p10_s, forecast.p90_s}
        assert (forecast.p10_s or 0) <= forecast.p50_s <= (forecast.p90_s or 0)
    assert told[0].p50_s < told[1].p50_s


def test_who_asks_is_answered_and_told_of_the_nearest_until_then(
    busy: BusyCluster,
) -> None:
    busy.ask(WIDE)
    busy.tick()
    near = replace(WIDE, nodes=6)
    found = busy.told(near)
    assert (found.source, found.used, found.exact) == ("twin", WIDE, False)
    busy.ask(near)
    assert busy.told(near).waiting
    words = " ".join(
        submission_forecast.describe_forecast(busy.told(near), busy.cluster.read_clock())
    )
    assert "most similar job that the twin knows: 8 nodes" in words
    assert "asked about exactly your job" in words
    busy.tick()
    found = busy.told(near)
    assert (found.exact, found.waiting) == (True, False)


def test_far_shapes_go_by_like_jobs(busy: BusyCluster) -> None:
    busy.ask(WIDE)
    busy.tick()
    far = replace(WIDE, nodes=1, time_limit_s=48 * HOUR, gpus=3)
    with busy.store.begin() as tx:
        shape_forecasts.follow_shapes(
            tx, busy.cluster_id, {}, asked_since=0
        )  # the usual ones are forgotten
        for row in shape_forecasts.list_forecasts(tx, busy.cluster_id, "batch"):
            if row.shape != WIDE:
                shape_forecasts.save_forecast(tx, busy.cluster_id, row.shape, 0, "not now")
    found = busy.told(far)
    assert (found.source, found.used, found.plain.samples > 0) == ("quantile", far, True)


def test_an_old_answer_is_not_told(busy: BusyCluster) -> None:
    busy.ask(WIDE)
    busy.tick()
    busy.cluster.advance(submission_forecast.FRESH_S + 60)
    assert busy.told(WIDE).source == "quantile"


@pytest.mark.parametrize("partition", ["nowhere", ""])
def test_of_an_unknown_partition_nothing_is_told_and_nothing_asked(
    busy: BusyCluster, partition: str
) -> None:
    shape = replace(WIDE, partition=partition or "a,b")
    with pytest.raises(NotFound):
        busy.told(shape)
    with pytest.raises(InputError, match="unknown partition"):
        busy.ask(shape)


def test_what_the_cluster_cannot_run_is_refused_in_words(busy: BusyCluster) -> None:
    shape = replace(WIDE, nodes=PARAMS.nodes + 1)
    busy.ask(shape)
    busy.tick()
    with busy.store.read() as tx:
        found = shape_forecasts.find_forecast(tx, busy.cluster_id, shape)
    assert found is not None
    assert (found.refused != "", found.forecast) == (True, None)
    with pytest.raises(InputError, match="it would never start"):
        busy.told(shape)


def test_without_a_cluster_file_like_jobs_tell_and_it_is_said(sqlite_store: Store) -> None:
    busy = BusyCluster(sqlite_store, None)
    busy.ask(WIDE)
    busy.tick()
    found = busy.told(WIDE)
    assert (found.source, found.refused, found.waiting) == ("quantile", NO_FILE, False)
    assert NO_FILE in " ".join(
        submission_forecast.describe_forecast(found, busy.cluster.read_clock())
    )


def test_nobody_asks_without_end(busy: BusyCluster) -> None:
    for nodes in range(1, submission_forecast.MOST_ASKED + 1):
        busy.ask(replace(WIDE, nodes=nodes))
    # Asked already. Jobs of so many nodes are not in this workload, so nobody has answered it.
    busy.ask(replace(WIDE, nodes=submission_forecast.MOST_ASKED))
    with pytest.raises(TooMany, match="ask again later"):
        busy.ask(replace(WIDE, nodes=1000))


def test_a_round_takes_as_many_ticks_as_it_needs(sqlite_store: Store) -> None:
    """The clock tells a second more each time it is looked at: about fifty pieces of the hundred
    futures a tick. The three jobs are too wide to share futures."""
    busy = BusyCluster(sqlite_store, Observer(params=PARAMS), budget_s=0.0)
    ticks = iter(range(10**6))
    foreteller = ShapeForecaster(budget_s=50.0, clock=lambda: float(next(ticks)))
    for nodes in (2, 3, 4):
        busy.ask(replace(WIDE, nodes=nodes))
    answered = []
    while 3 not in answered:
        busy.cluster.advance(60)
        snapshot = Snapshot(queue=busy.cluster.fetch_queue(), nodes=busy.cluster.fetch_nodes())
        foreteller.run_tick(sqlite_store, busy.cluster_id, snapshot, Observer(params=PARAMS))
        with sqlite_store.read() as tx:
            rows = [
                shape_forecasts.find_forecast(tx, busy.cluster_id, replace(WIDE, nodes=n))
                for n in (2, 3, 4)
            ]
        answered.append(sum(row is not None and row.at is not None for row in rows))
    at = [answered.index(number) for number in (1, 2, 3)]
    assert at[0] >= 2
    assert min(np.diff(at)) >= 2


def test_jobs_that_users_submit_are_tried(busy: BusyCluster) -> None:
    for _ in range(8):
        busy.tick(900)
    with busy.store.read() as tx:
        later = busy.cluster.read_clock() + 30 * DAY
        found = forecast_trials.list_outcomes(tx, busy.cluster_id, 0, later, 1000)
    assert len(found) > 10
    assert any(o.has_started for o in found)
    assert all(o.quantiles_s[0] <= o.quantiles_s[1] <= o.quantiles_s[2] for o in found)


def outcomes(
    count: int, *, told_s: tuple[float, float, float], factor: float
) -> list[TrialOutcome]:
    """Waits spread as the forecast means, then all of them longer by a factor."""
    waits = np.quantile(told_s, np.linspace(0.0, 1.0, count)) * factor
    return [
        TrialOutcome(
            at=i % 10 * DAY, source="twin", quantiles_s=told_s, wait_s=round(w), has_started=True
        )
        for i, w in enumerate(waits)
    ]


def test_forecasts_that_were_too_hopeful_are_moved_by_what_they_needed() -> None:
    told_s = (600.0, 3600.0, 7200.0)
    found = forecast_calibration.compute_quality(outcomes(200, told_s=told_s, factor=4.0))
    assert found is not None
    assert (found.jobs, found.days) == (200, 10)
    assert found.within < 0.4
    forecast = Forecast(p10_s=600.0, p50_s=3600.0, p90_s=7200.0, samples=100)
    better = forecast_calibration.shift_forecast(forecast, found)
    again = [
        replace(o, quantiles_s=(better.p10_s or 0, better.p50_s, better.p90_s or 0))
        for o in outcomes(200, told_s=told_s, factor=4.0)
    ]
    judged_again = forecast_calibration.compute_quality(again)
    assert judged_again is not None
    assert judged_again.within >= 0.8
    assert judged_again.below_p90 >= 0.9


def test_few_trials_say_something_and_move_nothing() -> None:
    forecast = Forecast(p10_s=1.0, p50_s=2.0, p90_s=3.0)
    some = forecast_calibration.compute_quality(
        outcomes(30, told_s=(600.0, 3600.0, 7200.0), factor=1.0)
    )
    assert some is not None
    assert some.shift is None
    assert forecast_calibration.shift_forecast(forecast, some) == forecast
    assert (
        forecast_calibration.compute_quality(outcomes(5, told_s=(1.0, 2.0, 3.0), factor=1.0))
        is None
    )


def test_less_than_a_minute_is_no_wait() -> None:
    soon = TrialOutcome(
        at=0, source="twin", quantiles_s=(0.0, 0.0, 0.0), wait_s=59, has_started=True
    )
    found = forecast_calibration.compute_quality([soon] * 30)
    assert found is not None
    assert (found.within, found.error_s) == (1.0, 0.0)
    late = forecast_calibration.compute_quality([replace(soon, wait_s=60)] * 30)
    assert late is not None
    assert late.within == 0.0


def test_one_that_waits_still_counts_once_it_is_later_than_p90() -> None:
    started = outcomes(30, told_s=(600.0, 3600.0, 7200.0), factor=1.0)
    waits = [
        replace(o, has_started=False, wait_s=w) for o, w in zip(started, (100, 9000), strict=False)
    ]
    found = forecast_calibration.compute_quality([*started, *waits])
    assert found is not None
    assert found.jobs == 31


def test_a_judgement_is_kept_and_goes_out_of_date(busy: BusyCluster) -> None:
    good = ForecastAccuracy(
        jobs=100, days=9, within=0.8, below_p90=0.9, error_s=60.0, shift=(0.0, 0.1, 0.2)
    )
    with busy.store.begin() as tx:
        forecast_trials.save_quality(tx, busy.cluster_id, "quantile", 1000, good)
        assert forecast_trials.find_quality(tx, busy.cluster_id, "quantile", 1000) == good
        assert forecast_trials.find_quality(tx, busy.cluster_id, "quantile", 1001) is None


def test_a_job_cancelled_while_it_waited_tells_nothing(busy: BusyCluster) -> None:
    queue = busy.cluster.fetch_queue()
    waiting = next(queue.get_job(i) for i in np.flatnonzero(queue.pending_mask).tolist())
    trial = ForecastTrial(
        job_id=JobId(waiting.job_id),
        submit=waiting.submit,
        at=busy.cluster.read_clock(),
        source="twin",
        forecast=Forecast(p10_s=1.0, p50_s=2.0, p90_s=3.0),
    )
    with busy.store.begin() as tx:
        forecast_trials.record_trials(tx, busy.cluster_id, [trial, trial])
        assert not forecast_trials.list_outcomes(tx, busy.cluster_id, 0, trial.at + 2, 10), (
            "p90 is to come"
        )
        assert len(forecast_trials.list_outcomes(tx, busy.cluster_id, 0, trial.at + 3, 10)) == 1
    assert waiting.uid is not None
    busy.cluster.cancel_job(waiting.job_id, owner=waiting.uid)
    busy.tick(600)
    busy.tick(600)
    with busy.store.begin() as tx:
        found = forecast_trials.list_outcomes(
            tx, busy.cluster_id, trial.at, busy.cluster.read_clock(), 1000
        )
        assert trial.forecast.p90_s not in {o.quantiles_s[2] for o in found}


def test_of_many_trials_one_in_so_many_counts_on_each_day(busy: BusyCluster) -> None:
    day = BEGIN // DAY * DAY
    found = [
        ForecastTrial(
            job_id=JobId(100 * d + i),
            submit=day + d * DAY,
            at=day + d * DAY + i,
            source="twin",
            forecast=Forecast(p10_s=1.0, p50_s=2.0, p90_s=3.0),
        )
        for d in range(4)
        for i in range(100)
    ]
    jobs = [
        read_record(
            job_id=t.job_id,
            submit=t.submit,
            start=t.submit + 60,
            state=JobState.RUNNING,
            partition="batch",
            nodes=1,
            user="ann",
        )
        for t in found
    ]
    with busy.store.begin() as tx:
        upsert_jobs(tx, busy.cluster_id, jobs)
        forecast_trials.record_trials(tx, busy.cluster_id, found)
        kept = forecast_trials.list_outcomes(tx, busy.cluster_id, day, day + 5 * DAY, 100)
    assert [sum(o.at // DAY == day // DAY + d for o in kept) for d in range(4)] == [25] * 4
