"""Asks the twin how long jobs of the usual shapes would wait, before users ask.

The worker runs this after all moves of a tick. Each tick brings a little time, which is saved up
for a round over the shapes that are due. Shapes that users asked about come first.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from mirage.chains.open_handovers import list_open_handovers
from mirage.database.forecasts import forecast_trials, shape_forecasts
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.chain import ChainState
from mirage.domain.decision import Forecast
from mirage.domain.job_shape import JobShape
from mirage.domain.snapshot import Queue, Snapshot
from mirage.errors import MirageError, NotFound
from mirage.provision.cluster_observer import NO_FILE, Observer, list_predecessors
from mirage.provision.forecasts import forecast_calibration, submission_forecast
from mirage.provision.forecasts.submission_forecast import ASKED_S
from mirage.simulator.types import Params, SelectType
from mirage.twin.cache import BUDGET_S, LONGEST_SAVING

if TYPE_CHECKING:
    # They import numba: half a second and 60 MiB, wasted if nobody asks the twin.
    from mirage.observation.feature_vector import SnapshotObserver
    from mirage.observation.handover_input import HandoverInput
    from mirage.twin.forecast import Futures, TwinForecast

_log = structlog.get_logger(__name__)

GOOD_S = 600
"""Seconds after which the twin is asked about a shape again."""
USUAL = 24
"""The most usual shapes that the twin is asked about unasked."""
USUAL_S = 7 * 86400
"""Usual shapes are those of jobs that started in these last seconds."""
AGAIN_S = 3600
"""Seconds between two updates of the usual shapes and of the forecast accuracy."""


@dataclass(slots=True)
class ShapeForecaster:
    """Asks the twin about job shapes in the time that each tick brings; keeps the last queue."""

    budget_s: float = BUDGET_S
    """The seconds that a tick brings."""
    clock: Callable[[], float] = time.perf_counter
    _saved_s: float = 0.0
    _usual_at: int | None = None
    _before: Queue | None = None

    def run_tick(
        self, store: Store, cluster_id: int, snapshot: Snapshot, observer: Observer | None
    ) -> None:
        """Record trials, update the usual shapes, and forecast what the tick has time for."""
        now = snapshot.queue.taken_at
        self._record_trials(store, cluster_id, snapshot.queue)
        if self._usual_at is None or now >= self._usual_at + AGAIN_S:
            self._usual_at = now
            with store.begin() as tx:
                _refresh_usual_shapes(tx, cluster_id, now, observer)
                forecast_calibration.judge_sources(tx, cluster_id, now)
        self._saved_s = min(self._saved_s + self.budget_s, self._longest_s)
        if observer is not None and not observer.is_compiled():
            return  # the requests stay open until the compilation is over
        with store.read() as tx:
            has_requests = shape_forecasts.has_open_requests(tx, cluster_id, now - ASKED_S)
            due = shape_forecasts.list_due_shapes(
                tx, cluster_id, older_than=now - GOOD_S, asked_since=now - ASKED_S
            )
            # If a user waits, a round may use time that is saved up only afterwards.
            has_time = self._saved_s > 0 if has_requests else self._saved_s >= self._longest_s
            if not due or not has_time:
                return
            answers = list(self._forecast_due_shapes(due, tx, cluster_id, snapshot, observer))
        with store.begin() as tx:
            for shape, answer in answers:
                shape_forecasts.save_forecast(tx, cluster_id, shape, now, answer)

    def _record_trials(self, store: Store, cluster_id: int, queue: Queue) -> None:
        """Store trials for the jobs that are new since the last look; none at the first look."""
        before, self._before = self._before, queue
        if before is None:
            return
        with store.begin() as tx:
            forecast_shape = partial(_forecast_from_stored, tx, cluster_id, queue.taken_at)
            forecast_trials.record_trials(
                tx, cluster_id, forecast_calibration.try_forecasts(queue, before, forecast_shape)
            )

    def _forecast_due_shapes(
        self,
        due: Sequence[JobShape],
        tx: Transaction,
        cluster_id: int,
        snapshot: Snapshot,
        observer: Observer | None,
    ) -> Iterator[tuple[JobShape, Forecast | str]]:
        """Yield at least one forecast, or why there is none, and more while there is time."""
        began = self.clock()
        query = _prepare_query(tx, cluster_id, snapshot, observer)
        links = {
            shape: query if isinstance(query, str) else query.build_link(shape) for shape in due
        }
        refused = [(shape, link) for shape, link in links.items() if isinstance(link, str)]
        yield from refused
        wanted = [(shape, link) for shape, link in links.items() if not isinstance(link, str)]
        if not isinstance(query, str):
            for answers in query.forecast_links(wanted):
                yield from answers
                if self.clock() - began >= self._longest_s:
                    break
        # The first round after an installation compiles for a minute or more. The cap keeps later
        # rounds from paying for that.
        took_s = min(self.clock() - began, 2 * self._longest_s)
        self._saved_s = max(self._saved_s - took_s, -self._longest_s)

    @property
    def _longest_s(self) -> float:
        """Return the seconds after which a round asks about no further shape."""
        return LONGEST_SAVING * self.budget_s


@dataclass(frozen=True, slots=True)
class _TwinQuery:
    """The data for the twin's forecasts of one tick."""

    snapshot_observer: "SnapshotObserver"
    futures: "Futures"
    params: Params
    now: int

    def build_link(self, shape: JobShape) -> "HandoverInput | str":
        """Build a job of this shape, or say why the twin cannot be asked about it."""
        if shape.partition not in {p.name for p in self.params.partitions}:
            return (
                "the cluster file has no such partition (`mirage cluster import` writes a new one)"
            )
        return _build_link(self.params, shape, self.now)

    def forecast_links(
        self, links: Sequence[tuple[JobShape, "HandoverInput"]]
    ) -> Iterator[list[tuple[JobShape, Forecast | str]]]:
        """Yield the answers of shapes that share futures, in about the order given."""
        from mirage.twin.forecast import build_probe, group_probes  # noqa: PLC0415 - see above

        probes = [build_probe(self.snapshot_observer, link) for _, link in links]
        for places in group_probes(probes, self.params):
            answers = self.futures.try_waits([probes[i] for i in places])
            pairs = zip(places, answers, strict=True)
            yield [(links[i][0], _read_forecast(answer)) for i, answer in pairs]


def _prepare_query(
    tx: Transaction, cluster_id: int, snapshot: Snapshot, observer: Observer | None
) -> _TwinQuery | str:
    """Return the data for the twin's forecasts, or why there is none."""
    if observer is None:
        return NO_FILE
    from mirage.twin.forecast import Futures, Twin  # noqa: PLC0415 - see above

    now = snapshot.queue.taken_at
    try:
        snapshot_observer = observer.observe_cluster(tx, cluster_id, snapshot)
        history = observer.read_history(tx, cluster_id, snapshot)
    except MirageError as error:
        return str(error)
    open_ones = list_open_handovers(tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED)
    predecessors = list_predecessors(snapshot.queue, open_ones)
    futures = Futures(Twin(), snapshot_observer.stood, history, predecessors, seed=now)
    return _TwinQuery(snapshot_observer, futures, observer.params, now)


def _read_forecast(answer: "TwinForecast | Exception") -> Forecast | str:
    if isinstance(answer, MirageError):
        return str(answer)
    if isinstance(answer, Exception):
        _log.error("the twin failed on a job shape", exc_info=answer)
        return f"the simulation failed: {answer!r}"
    return answer.to_forecast()


def _build_link(params: Params, shape: JobShape, now: int) -> "HandoverInput":
    """Return a job of this shape without a predecessor and without a user."""
    from mirage.observation.handover_input import HandoverInput  # noqa: PLC0415 - see above

    shared = params.select_type is not SelectType.LINEAR
    shares_nodes = shared and shape.gpus > 0
    gpus = -(-shape.gpus // shape.nodes) if shares_nodes else 0
    # A job with some of a node's GPUs is taken to use the same share of the node's CPUs.
    share = min(1.0, gpus / max(1, params.gpus_per_node))
    return HandoverInput(
        nodes=shape.nodes,
        time_limit_s=shape.time_limit_s,
        user="",
        account=shape.account,
        partition=shape.partition,
        cpus=max(1, round(share * params.cpus_per_node)) if shares_nodes else 0,
        gpus=gpus,
        exclusive=shared and not shares_nodes,
        predecessor_submit=now,
        predecessor_start=now,
        predecessor_end=now,
    )


def _refresh_usual_shapes(
    tx: Transaction, cluster_id: int, now: int, observer: Observer | None
) -> None:
    """Follow the shapes that are usual now; none if there is no twin to ask."""
    usual: dict[JobShape, int] = {}
    if observer is not None:
        shared = observer.params.select_type is not SelectType.LINEAR
        usual = shape_forecasts.list_usual_shapes(
            tx, cluster_id, now - USUAL_S, USUAL, shared=shared
        )
    shape_forecasts.follow_shapes(tx, cluster_id, usual, now - ASKED_S)


def _forecast_from_stored(
    tx: Transaction, cluster_id: int, now: int, shape: JobShape
) -> tuple[str, Forecast] | None:
    try:
        forecast = submission_forecast.forecast_submission(tx, cluster_id, shape, now)
    except NotFound:
        return None
    return forecast.source, forecast.plain
