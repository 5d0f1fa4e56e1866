"""Stores a forecast for each new job, made from the waits of similar jobs.

The forecast is a full distribution, built from jobs that started before this job was submitted,
including jobs that started immediately. It is kept until the job's own wait is known. The start
that Slurm planned when the queue first showed the job is stored as well.
`database.forecasts.job_forecasts` says why these are not the trials of `forecast_calibration`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from mirage.database.forecasts import job_forecasts
from mirage.database.forecasts.job_forecasts import JobForecast, JobForecastOutcome
from mirage.database.jobs import job_history
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.arrays import Ints
from mirage.domain.decision import RECENT_JOBS
from mirage.domain.job import Job
from mirage.domain.snapshot import Queue
from mirage.domain.time_units import DAY_S
from mirage.policies.rules.lead_rules import sample_like_waits
from mirage.provision.forecasts.accuracy_tally import Tally
from mirage.provision.forecasts.new_jobs import sample_new_jobs
from mirage.twin.twin_features import LEVELS

MOST = 60
"""The most new jobs of one look that get a forecast."""
LEAST_SAMPLES = 20
"""The fewest similar jobs that a forecast is made from."""
_FORGOTTEN_S = 90 * 86400
"""Seconds after which the forecast of a job without an outcome is deleted."""


class JobForecastRecorder:
    """Records forecasts of new jobs for one cluster's worker; remembers the last look's queue."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._before: Queue | None = None

    def record_new_jobs(self, store: Store, queue: Queue) -> None:
        """Store a forecast for the jobs that are new since the last look."""
        before, self._before = self._before, queue
        if before is None:
            return
        new_jobs = sample_new_jobs(queue, before, MOST)
        if not new_jobs:
            return
        with store.read() as tx:
            forecasts = list(build_forecasts(tx, self._cluster_id, new_jobs, queue))
        with store.begin() as tx:
            job_forecasts.add_forecasts(tx, self._cluster_id, forecasts)


def build_forecasts(
    tx: Transaction, cluster_id: int, jobs: Sequence[Job], queue: Queue
) -> Iterator[JobForecast]:
    """Yield a forecast for each job that has at least LEAST_SAMPLES similar jobs."""
    for partition in dict.fromkeys(job.partition for job in jobs):
        in_partition = [job for job in jobs if job.partition == partition]
        # Only jobs that started before the first of them was submitted: no forecast of the batch
        # may know of another job in it.
        first = min(job.submit for job in in_partition)
        waits = job_history.read_waits(tx, cluster_id, partition, before=first, last=RECENT_JOBS)
        for job in in_partition:
            samples = sample_like_waits(waits, job.nodes, job.time_limit_s or 0)
            if len(samples) >= LEAST_SAMPLES:
                yield JobForecast(
                    job_id=job.job_id,
                    submit=job.submit,
                    partition=partition,
                    quantiles_s=_compute_quantiles(samples),
                    slurm_wait_s=_compute_planned_wait_s(job, queue.taken_at),
                )


def _compute_quantiles(waits: Ints) -> tuple[int, ...]:
    return tuple(int(q) for q in np.quantile(waits, LEVELS, method="inverted_cdf"))


def _compute_planned_wait_s(job: Job, now: int) -> int | None:
    """Return the wait by Slurm's plan, in seconds; None if Slurm has no plan for the job."""
    return None if job.planned_start is None else max(0, max(job.planned_start, now) - job.submit)


def settle_outcomes(tx: Transaction, cluster_id: int, now: int) -> int:
    """Add the outcomes that are known now to their days' tallies; return how many there were."""
    settled = job_forecasts.list_outcomes(tx, cluster_id)
    by_day: dict[tuple[int, str], list[JobForecastOutcome]] = {}
    for outcome in settled:
        day = outcome.forecast.submit // DAY_S * DAY_S
        by_day.setdefault((day, outcome.forecast.partition), []).append(outcome)
    for (day, partition), outcomes in by_day.items():
        tally = Tally.from_stored(job_forecasts.find_tally(tx, cluster_id, day, partition))
        for outcome in outcomes:
            _add_outcome(tally, outcome)
        job_forecasts.put_tally(tx, cluster_id, day, partition, tally.to_stored())
    job_forecasts.drop_forecasts(tx, cluster_id, [outcome.forecast.key for outcome in settled])
    job_forecasts.drop_forecasts_before(tx, cluster_id, now - _FORGOTTEN_S)
    return len(settled)


def _add_outcome(tally: Tally, outcome: JobForecastOutcome) -> None:
    if outcome.wait_s is None:
        tally.gave_up += 1
        return
    forecast = outcome.forecast
    tally.add_outcome(forecast.quantiles_s, outcome.wait_s, forecast.slurm_wait_s)
