"""Asks the twin how long jobs of the usual shapes would wait, before users ask.

The worker runs this after all moves of a tick. What a tick has no time for goes on between the
ticks. Shapes that users asked about come first.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
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
from mirage.provision.cluster_observer import NO_FILE, Observer
from mirage.provision.forecasts import forecast_calibration, submission_forecast
from mirage.provision.forecasts.submission_forecast import ASKED_S
from mirage.simulator.types import Params, SelectType
from mirage.twin.cache import BUDGET_S, PacedRound

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
_NO_PARTITION = "the cluster file has no such partition (`mirage cluster import` writes a new one)"
AGAIN_S = 3600
"""Seconds between two updates of the usual shapes and of the forecast accuracy."""


@dataclass(slots=True)
class ShapeForecaster:
    """Asks the twin about job shapes in the time that there is; keeps the last queue."""

    budget_s: float = BUDGET_S
    """The seconds that a tick brings."""
    clock: Callable[[], float] = time.perf_counter
    round: PacedRound = field(init=False)
    _now: int = 0
    """The instant of the last tick."""
    _usual_at: int | None = None
    _before: Queue | None = None

    def __post_init__(self) -> None:
        self.round = PacedRound(self.clock)

    def run_tick(
        self, store: Store, cluster_id: int, snapshot: Snapshot, observer: Observer | None
    ) -> None:
        """Record trials, update the usual shapes, and forecast what the tick has time for."""
        now = self._now = snapshot.queue.taken_at
        self._record_trials(store, cluster_id, snapshot.queue)
        if self._usual_at is None or now >= self._usual_at + AGAIN_S:
            self._usual_at = now
            with store.begin() as tx:
                _refresh_usual_shapes(tx, cluster_id, now, observer)
                forecast_calibration.judge_sources(tx, cluster_id, now)
        if observer is not None and not observer.is_compiled():
            return  # the requests stay open until the compilation is over
        began = self.clock()
        if not self.round.is_under_way:
            with store.read() as tx:
                due = shape_forecasts.list_due_shapes(
                    tx, cluster_id, older_than=now - GOOD_S, asked_since=now - ASKED_S
                )
                if not due:
                    return
                work = _forecast_shapes(due, tx, cluster_id, snapshot, observer)
            save = partial(_store_answers, store, cluster_id, now)
            self.round.begin(self._keep_forecasts(work, due, now, save))
        self.round.go_on(self.budget_s - (self.clock() - began))

    def _keep_forecasts(
        self,
        work: Iterator["_Answers | None"],
        due: Sequence[JobShape],
        now: int,
        save: Callable[["_Answers"], None],
    ) -> Iterator[None]:
        """Do the work, and store what it answers, until the queue that it began from is old. If the
        work fails, this is the answer for the shapes that have none yet."""
        left = dict.fromkeys(due)
        try:
            for answers in work:
                if answers:
                    save(answers)
                    for shape, _ in answers:
                        del left[shape]
                if answers and self._now - now >= GOOD_S:
                    return
                yield
        except Exception as error:
            _log.exception("the twin failed on job shapes")
            save([(shape, _describe_failure(error)) for shape in left])

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


_Answers = Sequence[tuple[JobShape, Forecast | str]]


def _store_answers(store: Store, cluster_id: int, now: int, answers: _Answers) -> None:
    with store.begin() as tx:
        for shape, answer in answers:
            shape_forecasts.save_forecast(tx, cluster_id, shape, now, answer)


def _forecast_shapes(
    due: Sequence[JobShape],
    tx: Transaction,
    cluster_id: int,
    snapshot: Snapshot,
    observer: Observer | None,
) -> Iterator[_Answers | None]:
    """Return the pieces of the work: a forecast for each shape, or why there is none. What they
    need of the database is read before."""
    if observer is None:
        return iter([[(shape, NO_FILE) for shape in due]])
    try:
        snapshot_observer = observer.observe_cluster(tx, cluster_id, snapshot)
        open_ones = list_open_handovers(tx, cluster_id, ChainState.ACTIVE, ChainState.PAUSED)
        build_futures = observer.prepare_futures(
            tx, cluster_id, snapshot, snapshot_observer, open_ones
        )
    except MirageError as error:
        return iter([[(shape, str(error)) for shape in due]])
    return _forecast_from_futures(build_futures, snapshot_observer, observer.params, due)


def _forecast_from_futures(
    build_futures: "Callable[[], Futures]",
    snapshot_observer: "SnapshotObserver",
    params: Params,
    due: Sequence[JobShape],
) -> Generator[_Answers | None, None, None]:
    """Yield None after a piece of the work, and the answers of shapes that share futures."""
    from mirage.twin.forecast import build_probe, group_probes  # noqa: PLC0415 - see above

    names = {partition.name for partition in params.partitions}
    yield [(shape, _NO_PARTITION) for shape in due if shape.partition not in names]
    shapes = [shape for shape in due if shape.partition in names]
    futures = build_futures()
    yield None
    links = [_build_link(params, shape, futures.now) for shape in shapes]
    probes = [build_probe(snapshot_observer, link) for link in links]
    for places in group_probes(probes, params):
        answers = yield from futures.try_waits([probes[i] for i in places])
        yield [
            (shapes[i], _read_forecast(answer)) for i, answer in zip(places, answers, strict=True)
        ]


def _read_forecast(answer: "TwinForecast | Exception") -> Forecast | str:
    if isinstance(answer, Exception):
        if not isinstance(answer, MirageError):
            _log.error("the twin failed on a job shape", exc_info=answer)
        return _describe_failure(answer)
    return answer.to_forecast()


def _describe_failure(error: Exception) -> str:
    return str(error) if isinstance(error, MirageError) else f"the simulation failed: {error!r}"


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
