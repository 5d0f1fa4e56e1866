"""Stores forecasts of jobs whose waits are not known yet, and the tallies of the others by day.

A forecast is kept until its job starts. Then it is counted in its day's tally and deleted. So a
year of a busy site is a few thousand rows, and no page scans jobs.

`database.forecasts.forecast_trials` keeps forecasts of new jobs as well, for another purpose. The
forecasts here measure the one forecast with which every decision begins. They are made for all new
jobs alike, hold the whole distribution and Slurm's plan, and nobody needs them once they are summed
up. A trial is the forecast that one user would have read at that moment, from any source, in the
three quantiles that are shown. It is kept for three weeks, because
`provision.forecasts.forecast_calibration` corrects later forecasts by the quantiles of all
residuals, which no sums give. One table for both would hold rows of two shapes and two lifetimes.
Both use the same code for which jobs are new (`new_jobs`) and how long a job has waited (`Job`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Integer, RowMapping, and_, bindparam, delete, func, or_, select, tuple_

from mirage.database.jobs.job_times import build_never_ran, build_waited_s
from mirage.database.schema.engine import Transaction
from mirage.database.schema.read_model_tables import accuracy_days, foretold
from mirage.database.schema.tables import jobs
from mirage.database.schema.upsert import put_row, put_rows
from mirage.domain.job import JobId

_CHUNK = 5000

ForecastKey = tuple[int, int]
"""The job's id and the instant of its submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForecast:
    """The forecast of one job's wait that was made at its submission."""

    job_id: JobId
    submit: int
    partition: str
    quantiles_s: tuple[int, ...]
    """Quantiles of the wait in seconds, at `twin.twin_features.LEVELS`."""
    slurm_wait_s: int | None = None
    """The wait until the start that Slurm planned at the same look; None: it planned none."""

    @property
    def key(self) -> ForecastKey:
        return self.job_id, self.submit


@dataclass(frozen=True, slots=True)
class JobForecastOutcome:
    """A forecast with its outcome. `wait_s` None: the job never started."""

    forecast: JobForecast
    wait_s: int | None


_IS_SAME = and_(*(foretold.c[n] == jobs.c[n] for n in ("cluster_id", "job_id", "submit")))
_SELECT_OUTCOMES = (
    select(
        *(foretold.c[n] for n in ("job_id", "submit", "partition")),
        *(foretold.c[n] for n in ("quantiles_s", "slurm_wait_s")),
        build_waited_s().label("waited_s"),
    )
    .select_from(foretold.join(jobs, _IS_SAME))
    .where(
        foretold.c.cluster_id == bindparam("cluster_id"),
        or_(jobs.c.start.is_not(None), build_never_ran()),
    )
    .order_by(foretold.c.submit, foretold.c.job_id)
    .limit(bindparam("limit", type_=Integer))
)


def add_forecasts(tx: Transaction, cluster_id: int, new_forecasts: Sequence[JobForecast]) -> None:
    """Store forecasts. A new forecast of a job replaces the old one."""
    rows = [
        {
            "cluster_id": cluster_id,
            "job_id": forecast.job_id,
            "submit": forecast.submit,
            "partition": forecast.partition,
            "quantiles_s": list(forecast.quantiles_s),
            "slurm_wait_s": forecast.slurm_wait_s,
        }
        for forecast in new_forecasts
    ]
    put_rows(tx, foretold, rows, key=["cluster_id", "job_id", "submit"])


def list_outcomes(
    tx: Transaction, cluster_id: int, limit: int = _CHUNK
) -> list[JobForecastOutcome]:
    """List the forecasts whose job has started, or ended without a start, oldest first."""
    rows = tx.execute(_SELECT_OUTCOMES, {"cluster_id": cluster_id, "limit": limit}).mappings()
    return [_build_outcome(row) for row in rows]


def _build_outcome(row: RowMapping) -> JobForecastOutcome:
    forecast = JobForecast(
        job_id=JobId(row["job_id"]),
        submit=row["submit"],
        partition=row["partition"],
        quantiles_s=tuple(row["quantiles_s"]),
        slurm_wait_s=row["slurm_wait_s"],
    )
    return JobForecastOutcome(forecast, row["waited_s"])


def drop_forecasts(tx: Transaction, cluster_id: int, keys: Sequence[ForecastKey]) -> None:
    key = tuple_(foretold.c.job_id, foretold.c.submit)
    for begin in range(0, len(keys), _CHUNK):
        is_in_chunk = key.in_(keys[begin : begin + _CHUNK])
        tx.execute(delete(foretold).where(foretold.c.cluster_id == cluster_id, is_in_chunk))


def drop_forecasts_before(tx: Transaction, cluster_id: int, submit: int) -> None:
    """Delete the forecasts of jobs that were submitted before then and whose outcome is unknown."""
    is_old = (foretold.c.cluster_id == cluster_id, foretold.c.submit < submit)
    tx.execute(delete(foretold).where(*is_old))


def count_open_forecasts(tx: Transaction, cluster_id: int, since: int) -> dict[str, int]:
    """Count the forecasts of jobs submitted since then that still wait, by partition."""
    query = select(foretold.c.partition, func.count()).where(
        foretold.c.cluster_id == cluster_id, foretold.c.submit >= since
    )
    rows = tx.execute(query.group_by(foretold.c.partition))
    return {str(partition): int(count) for partition, count in rows}


def find_tally(tx: Transaction, cluster_id: int, day: int, partition: str) -> Any:
    """Return the tally as it was stored; None: there is none."""
    days = accuracy_days
    query = select(days.c.tally).where(
        days.c.cluster_id == cluster_id, days.c.day == day, days.c.partition == partition
    )
    return tx.scalar(query)


def put_tally(tx: Transaction, cluster_id: int, day: int, partition: str, value: Any) -> None:
    values = {"cluster_id": cluster_id, "day": day, "partition": partition, "tally": value}
    put_row(tx, accuracy_days, values, key=["cluster_id", "day", "partition"])


def list_tallies(
    tx: Transaction, cluster_id: int, since: int, until: int
) -> list[tuple[int, str, Any]]:
    """List (day, partition, tally) of days that begin in [since, until), oldest first."""
    days = accuracy_days
    query = select(days.c.day, days.c.partition, days.c.tally).where(
        days.c.cluster_id == cluster_id, days.c.day >= since, days.c.day < until
    )
    rows = tx.execute(query.order_by(days.c.day, days.c.partition))
    return [(row.day, row.partition, row.tally) for row in rows]
