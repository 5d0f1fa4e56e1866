"""Stores forecasts of new jobs, and the outcomes of jobs and hand-overs, for the reports."""

import structlog

from mirage.database.events import changes
from mirage.database.events.changes import Topic
from mirage.database.schema.engine import Store
from mirage.domain.snapshot import Queue
from mirage.errors import MirageError
from mirage.provision.forecasts import job_forecast_recorder
from mirage.provision.forecasts.job_forecast_recorder import JobForecastRecorder
from mirage.reports import handover_outcomes

_log = structlog.get_logger(__name__)

EVERY_S = 300
"""Seconds between two counts of outcomes."""
AGAIN_S = 3600
"""Seconds between two counts that also compute anew the hand-overs that accounting may still
correct."""
_MISSED_LOOKS = 3
"""Mirage counts as away only if it missed this many intervals of the queue."""


class PeriodicRecorder:
    """Records forecasts and outcomes of one cluster.

    Nothing depends on this recorder. A failure is logged, and the next tick tries again.
    """

    def __init__(self, store: Store, cluster_id: int, longest_interval_s: int = 0) -> None:
        """`longest_interval_s`: the longest time between two looks at the queue."""
        self._store, self._cluster_id = store, cluster_id
        self._away_s = max(handover_outcomes.AWAY_S, _MISSED_LOOKS * longest_interval_s)
        self._forecast_recorder = JobForecastRecorder(cluster_id)
        self._counted_at: int | None = None
        self._recounted_at: int | None = None

    def record_tick(self, queue: Queue) -> None:
        """Record once a tick, after the work that chains depend on."""
        try:
            self._forecast_recorder.record_new_jobs(self._store, queue)
            self._count_outcomes(queue.taken_at)
        except MirageError as error:
            _log.warning("forecasts and outcomes are not counted", error=str(error))
        except Exception:
            _log.exception("forecasts and outcomes are not counted")

    def _count_outcomes(self, now: int) -> None:
        if self._counted_at is not None and now < self._counted_at + EVERY_S:
            return
        recounts = self._recounted_at is None or now >= self._recounted_at + AGAIN_S
        reach_s = handover_outcomes.AGAIN_S if recounts else handover_outcomes.LATE_S
        with self._store.begin() as tx:
            jobs = job_forecast_recorder.settle_outcomes(tx, self._cluster_id, now)
            handovers = handover_outcomes.record_outcomes(
                tx, self._cluster_id, reach_s, self._away_s
            )
            if jobs + handovers:
                changes.record_change(tx, self._cluster_id, Topic.QUEUE)
        self._counted_at = now
        if recounts:
            self._recounted_at = now
