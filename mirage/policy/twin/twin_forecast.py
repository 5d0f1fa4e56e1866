"""The twin: the cluster simulated forward from now, many times, each time with another future.

A future draws run times for the known jobs, and days of the recent past for the jobs to come. In
each future the successor becomes eligible now. Its wait there is one sample of its wait.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.decision import Forecast
from mirage.features.futures.future_sampler import (
    FutureSampler,
    RecentSubmissions,
    Resampling,
    SampledFuture,
)
from mirage.features.futures.submission_history import SubmissionHistory
from mirage.features.handover_input import HandoverInput
from mirage.features.observation.feature_vector import SnapshotObserver
from mirage.features.twin_features import LEVELS
from mirage.sim.future_removal import Present
from mirage.sim.simulator import Simulator

_SOON_S = 86400


@dataclass(frozen=True, slots=True)
class TwinForecast:
    """The wait of a successor that becomes eligible now."""

    wait_s: Ints
    """int64[samples], ascending."""
    unstarted: int
    """Samples in which it had not started by the horizon; their wait is the horizon."""
    cost_ms: float

    def compute_quantile(self, fractile: float) -> float:
        """Return the least sample at or above the fractile, in seconds. Nothing is interpolated."""
        return float(np.quantile(self.wait_s, fractile, method="inverted_cdf"))

    def compute_quantiles(self) -> NDArray[np.int32]:
        """Return the quantiles [19] at `twin_features.LEVELS`, in seconds."""
        return np.array([round(self.compute_quantile(level)) for level in LEVELS], dtype=np.int32)

    def to_forecast(self) -> Forecast:
        """Return the three quantiles that decisions are shown with."""
        p10, p50, p90 = (self.compute_quantile(q) for q in (0.1, 0.5, 0.9))
        return Forecast(p10_s=p10, p50_s=p50, p90_s=p90, samples=len(self.wait_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The settings of the twin's simulations: how many futures, how far, and of what.

    One thread at a time: forks share their scratch.
    """

    samples: int = 100
    horizon_s: int = 7 * 86400
    how: Resampling = field(default_factory=Resampling)
    clock: Callable[[], float] = time.perf_counter
    """The clock that measures the cost, in seconds."""

    def forecast_from_simulator(
        self, simulator: Simulator, link: HandoverInput, history: SubmissionHistory, *, seed: int
    ) -> TwinForecast:
        """Forecast from a simulator's present instant; the simulator is left as it is.

        The same seed gives the same samples. A successor that does not stand there yet
        (`link.job_id` 0) is submitted now.
        """
        return self._simulate_waits(simulator, link, history, seed, None)

    def forecast_from_queue(
        self, look: SnapshotObserver, link: HandoverInput, history: SubmissionHistory, *, seed: int
    ) -> TwinForecast:
        """Forecast from a live queue, by the simulator made for all links of an instant."""
        # A stand-in knows no fair share of users without waiting jobs (features/standin).
        return self._simulate_waits(look.stood, link, history, seed, look.build_view(link).priority)

    def _simulate_waits(
        self,
        simulator: Simulator,
        link: HandoverInput,
        history: SubmissionHistory,
        seed: int,
        priority: int | None,
    ) -> TwinForecast:
        begun, now = self.clock(), simulator.now
        recent = RecentSubmissions(history, now, self.how)
        present = Present(simulator, recent.kinds)
        link = replace(link, job_id=link.job_id or present.submit_job(link.build_successor(now)))
        present.clear_restrictions(link.job_id, priority)
        futures = FutureSampler(present, recent, history.run_times, link, self.how)
        starts = self._simulate_starts(present, futures, link.job_id, np.random.default_rng(seed))
        waits = np.array([self.horizon_s if s is None else s - now for s in starts], dtype=np.int64)
        cost_ms = (self.clock() - begun) * 1000.0
        return TwinForecast(np.sort(waits), starts.count(None), cost_ms)

    def _simulate_starts(
        self, present: Present, futures: FutureSampler, job_id: int, rng: np.random.Generator
    ) -> list[int | None]:
        """Return one start per sample; None: the successor did not start by the horizon."""
        drawn = (futures.draw_future(rng) for _ in range(self.samples))
        return [self._simulate_start(present, future, job_id) for future in drawn]

    def _simulate_start(self, present: Present, future: SampledFuture, job_id: int) -> int | None:
        """Simulate one start. The first day is simulated before the whole horizon, since nearly
        all start on it."""
        for ahead_s in (min(_SOON_S, self.horizon_s), self.horizon_s):
            until = present.now + ahead_s
            start = present.simulate_start(job_id, until, future.run_s, future.draw_arrivals(until))
            if start is not None:
                return start
        return None
