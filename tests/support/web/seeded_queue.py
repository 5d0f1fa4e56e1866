"""Stores the queue, sums of waits and forecasts of new jobs, as the worker does."""

from collections.abc import Sequence

from sqlalchemy import select

from mirage.database.forecasts import forecast_trials, shape_forecasts
from mirage.database.jobs import queue_summary, wait_marks
from mirage.database.jobs.queue_summary import PartitionNodes, PartitionQueue
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import jobs as jobs_table
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import ForecastAccuracy, JobShape
from mirage.reports import wait_statistics

HOUR = 3600
REASONS = {
    "Priority": 140,
    "Resources": 9,
    "Dependency": 31,
    "QOSMaxJobsPerUserLimit": 22,
    "JobHeldUser": 4,
    "Maintenance": 12,
    "PartitionTimeLimit": 2,
}


def seed_queue(
    store: Store, cluster_id: int, looked_at: int, partitions: Sequence[str], *, jobs: int
) -> None:
    """Store them; `jobs`: how many jobs the database has. Without jobs nothing is stored."""
    if not jobs:
        return
    with store.begin() as tx:
        starts = tx.scalars(select(jobs_table.c.start).where(jobs_table.c.start.is_not(None)))
        wait_marks.mark_hours(tx, cluster_id, starts)
        queue = [
            _build_partition_queue("", looked_at, 3),
            *(_build_partition_queue(name, looked_at, 1) for name in partitions),
        ]
        nodes = [
            _build_partition_nodes("", 90),
            *(_build_partition_nodes(name, 30) for name in partitions),
        ]
        queue_summary.save_summary(tx, cluster_id, looked_at, queue, nodes)
        for n, size in enumerate((1, 2, 4, 16)):
            shape = JobShape(partition="gpu", nodes=size, time_limit_s=24 * HOUR)
            shape_forecasts.request_forecast(tx, cluster_id, shape, looked_at - 400)
            forecast = Forecast(
                p10_s=600.0 * 2**n, p50_s=5400.0 * 2**n, p90_s=20000.0 * 2**n, samples=100
            )
            shape_forecasts.save_forecast(tx, cluster_id, shape, looked_at - 240, forecast)
        accuracy = ForecastAccuracy(
            jobs=412, days=20, within=0.74, below_p90=0.83, error_s=1700.0, shift=(-0.1, 0.05, 0.3)
        )
        forecast_trials.save_quality(tx, cluster_id, "twin", looked_at - HOUR, accuracy)
    assert wait_statistics.refresh_sums(store, cluster_id, budget_s=120)


def _build_partition_queue(partition: str, looked_at: int, times: int) -> PartitionQueue:
    reasons = {word: number * times for word, number in REASONS.items()}
    return PartitionQueue(
        partition=partition,
        pending_jobs=sum(reasons.values()),
        pending_nodes=4 * sum(reasons.values()),
        running_jobs=32 * times,
        running_nodes=29 * times,
        oldest_eligible=looked_at - 29 * HOUR,
        reasons=reasons,
    )


def _build_partition_nodes(partition: str, number: int) -> PartitionNodes:
    return PartitionNodes(
        partition=partition,
        nodes=number,
        usable_nodes=number - 2,
        idle_nodes=1,
        gpus=4 * number,
        gpus_used=4 * number - 6,
    )
