"""The twin: the cluster simulated forward from now, many times, each time with another future.

A future draws run times for the known jobs, and days of the recent past for the jobs to come. In
each future the successor becomes eligible now. Its wait there is one sample of its wait.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mirage.domain.arrays import Ints
from mirage.domain.decision import Forecast
from mirage.domain.time_units import DAY_S
from mirage.observation.feature_vector import SnapshotObserver
from mirage.observation.handover_input import HandoverInput
from mirage.observation.queue_view import get_partition_number
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params
from mirage.twin.future_removal import Present
from mirage.twin.futures.future_sampler import (
    FutureSampler,
    RecentSubmissions,
    Resampling,
    SampledFuture,
)
from mirage.twin.futures.submission_history import SubmissionHistory
from mirage.twin.piecework import Piecework, finish_work
from mirage.twin.twin_features import LEVELS

SHARE = 0.1
"""The share of a partition's nodes that probes of one future may need together."""
_CHECKED_COUNTS = range(40, 100, 20)
"""The numbers of futures after which the twin checks whether the decisions are settled."""
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class TwinForecast:
    """The wait of a successor that becomes eligible now."""

    wait_s: Ints
    """int64[samples], ascending."""
    unstarted: int
    """Samples in which it had not started by the horizon; their wait is the horizon."""

    def compute_quantile(self, fractile: float) -> float:
        """Return the least sample at or above the fractile, in seconds. Nothing is interpolated."""
        return float(np.quantile(self.wait_s, fractile, method="inverted_cdf"))

    def compute_quantiles(self) -> NDArray[np.int32]:
        """Return the quantiles [19] at `twin_features.LEVELS`, in seconds."""
        return np.array([round(self.compute_quantile(level)) for level in LEVELS], dtype=np.int32)

    def to_forecast(self) -> Forecast:
        """Return the three quantiles that a decision shows, in seconds."""
        p10, p50, p90 = (self.compute_quantile(q) for q in (0.1, 0.5, 0.9))
        return Forecast(p10_s=p10, p50_s=p50, p90_s=p90, samples=len(self.wait_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question: how long would this successor wait if it became eligible now?"""

    link: HandoverInput
    priority: int | None = None
    """The successor's priority as squeue prints it, if the simulator cannot know it."""
    stakes: Collection[tuple[int, float]] = ()
    """What the answer decides: of each hand-over the seconds left of its predecessor, and P(late)
    at which the decision turns. Without any the decision is never settled early."""

    def is_settled(self, wait_s: Ints) -> bool:
        """Return whether more samples would hardly move a decision: P(late) is on its side of the
        turn by two standard errors (Wilson's interval)."""
        left_s, turning_points = np.array(list(self.stakes), dtype=np.float64).reshape(-1, 2).T
        count = len(wait_s)
        late_share = (count - np.searchsorted(np.sort(wait_s), left_s, side="right")) / count
        centre = (late_share * count + _STANDARD_ERRORS**2 / 2) / (count + _STANDARD_ERRORS**2)
        spread = np.sqrt(late_share * (1.0 - late_share) * count + _STANDARD_ERRORS**2 / 4) / (
            count + _STANDARD_ERRORS**2
        )
        is_clear = np.abs(centre - turning_points) > _STANDARD_ERRORS * spread
        return bool(len(is_clear)) and bool(is_clear.all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The settings of the twin's simulations: how many futures, how far, and of what.

    One thread at a time: forks share their scratch.
    """

    samples: int = 100
    """The most futures. Fewer are simulated if they settle every decision (`Probe.stakes`)."""
    horizon_s: int = 7 * DAY_S
    resampling: Resampling = field(default_factory=Resampling)

    def forecast_from_simulator(
        self, simulator: Simulator, link: HandoverInput, history: SubmissionHistory, *, seed: int
    ) -> TwinForecast:
        """Forecast from a simulator's present instant; the simulator is left as it is.

        The same seed gives the same samples. A successor that does not stand there yet
        (`link.job_id` 0) is submitted now.
        """
        return self._forecast_one(simulator, Probe(link=link), history, seed)

    def forecast_from_queue(
        self,
        observer: SnapshotObserver,
        link: HandoverInput,
        history: SubmissionHistory,
        *,
        seed: int,
    ) -> TwinForecast:
        """Forecast from a live queue, by the simulator made for all links of an instant."""
        return self._forecast_one(observer.simulator, build_probe(observer, link), history, seed)

    def _forecast_one(
        self, simulator: Simulator, probe: Probe, history: SubmissionHistory, seed: int
    ) -> TwinForecast:
        predecessors = {(probe.link.user, probe.link.predecessor_start)}
        futures = Futures(self, simulator, history, predecessors, seed=seed)
        [forecast] = futures.simulate_waits([probe])
        return forecast


def build_probe(
    observer: SnapshotObserver, link: HandoverInput, stakes: Collection[tuple[int, float]] = ()
) -> Probe:
    """Build the question about a successor in a live queue."""
    # A simulator built from a queue knows no fair share of users without waiting jobs
    # (simulator/from_queue.py).
    return Probe(link=link, priority=observer.build_view(link).priority, stakes=stakes)


class Futures:
    """The futures of one present. They are the same for all questions, whoever asks."""

    def __init__(
        self,
        twin: Twin,
        simulator: Simulator,
        history: SubmissionHistory,
        predecessors: Collection[tuple[str, int]],
        *,
        seed: int,
    ) -> None:
        """`predecessors`: user and start of the running links with a successor, which run on until
        their limits. `simulator` is left as it is. The same seed gives the same futures."""
        self._twin, self._seed = twin, seed
        recent = RecentSubmissions(history, simulator.now, twin.resampling)
        self._present = Present(simulator, recent.kinds)
        self._sampler = FutureSampler(
            self._present, recent, history.run_times, predecessors, twin.resampling
        )

    @property
    def now(self) -> int:
        """Return the instant of the present, epoch seconds."""
        return self._present.now

    def simulate_waits(self, probes: Sequence[Probe]) -> list[TwinForecast]:
        """Answer questions from the same futures, each simulated once.

        The probes take nothing from other jobs, but while they wait they may reserve nodes: what is
        asked together should need few nodes (`group_probes`).
        """
        return finish_work(self.sample_waits(probes))

    def sample_waits(self, probes: Sequence[Probe]) -> Piecework[list[TwinForecast]]:
        """Answer like `simulate_waits`, in pieces of some hours of one future.

        A question that is settled takes no part in more futures.
        """
        now, horizon_s = self.now, self._twin.horizon_s
        present = self._present.fork()
        for probe in probes:
            if probe.link.job_id:
                present.turn_into_probe(probe.link.job_id, probe.priority)
            else:
                present.add_probe(probe.link.build_successor(now), probe.priority)
        waits = np.empty((self._twin.samples, len(probes)), dtype=np.int64)
        counts = np.full(len(probes), self._twin.samples)
        unsettled = list(range(len(probes)))
        for count in range(self._twin.samples):
            if count in _CHECKED_COUNTS:
                counts[unsettled] = count
                unsettled = [i for i in unsettled if not probes[i].is_settled(waits[:count, i])]
                counts[unsettled] = self._twin.samples
                if not unsettled:
                    break
            # Of its own: how far one future is drawn must not change the next one.
            rng = np.random.default_rng((self._seed, count))
            future = self._sampler.draw_future(rng)
            waits[count, unsettled] = yield from self._simulate_future(present, future, unsettled)
        samples = [np.sort(waits[:count, i]) for i, count in enumerate(counts.tolist())]
        return [TwinForecast(wait_s, int((wait_s == horizon_s).sum())) for wait_s in samples]

    def try_waits(self, probes: Sequence[Probe]) -> Piecework[list[TwinForecast | Exception]]:
        """Answer like `sample_waits`. If that fails, each is answered alone, or by its error."""
        try:
            return list((yield from self.sample_waits(probes)))
        except Exception as error:
            if len(probes) == 1:
                return [error]
        answers: list[TwinForecast | Exception] = []
        for probe in probes:
            answers += yield from self.try_waits([probe])
        return answers

    def _simulate_future(
        self, present: Present, future: SampledFuture, awaited_probes: Sequence[int]
    ) -> Piecework[list[int]]:
        """Return the waits of the awaited probes, in seconds. Nearly all start on the first day, so
        the rest is simulated only for those that do not."""
        horizon_s, now = self._twin.horizon_s, present.now
        span_ends = (now + min(DAY_S, horizon_s), now + horizon_s)
        starts = yield from present.simulate_starts(
            future.run_s,
            ((until, future.draw_arrivals(until)) for until in span_ends),
            awaited_probes,
        )
        return [horizon_s if start is None else start - now for start in starts]


def group_probes(probes: Sequence[Probe], params: Params, share: float = SHARE) -> list[list[int]]:
    """Return the places of the probes that are answered together, in the order of their first.

    Probes of one future need at most `share` of their partitions' nodes together, or there is one
    alone.
    """
    groups: list[list[int]] = []
    free_shares: list[float] = []
    for i, probe in enumerate(probes):
        partition = params.partitions[get_partition_number(params, probe.link.partition)]
        needed_share = probe.link.nodes / (len(partition.nodes) or params.nodes)
        group = next(
            (group for group, free_share in enumerate(free_shares) if needed_share <= free_share),
            len(free_shares),
        )
        if group == len(free_shares):
            groups.append([])
            free_shares.append(share)
        groups[group].append(i)
        free_shares[group] -= needed_share
    return groups
