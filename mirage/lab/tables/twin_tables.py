"""Ask the twin about the hand-overs of a table. This replays the table's trace once more."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.pair_settings import PAIR_USER, PairSettings
from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork, PointsCallback
from mirage.lab.blocks.local_processes import IN_THIS_PROCESS
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob
from mirage.twin import table_forecasts
from mirage.twin.forecast import Twin
from mirage.twin.futures.submission_history import SubmissionHistory
from mirage.twin.table_forecasts import TwinForecasts

BLOCK = 6
"""The number of hand-overs that are computed and stored together."""


@dataclass(frozen=True, slots=True)
class TwinTableRequest:
    """A table for which the twin is asked, and the replay from which the table was made."""

    params: Params
    jobs: Sequence[SimJob]
    settings: PairSettings
    pair: str
    start_point: tuple[int, ...]
    samples: int = 100


def make_twin_table(
    request: TwinTableRequest,
    out: Path,
    executor: BlockExecutor = IN_THIS_PROCESS,
    on_handovers: PointsCallback = lambda _: None,
) -> TwinForecasts:
    """Ask the twin and write `out`. `on_handovers` is called with each count of newly finished
    hand-overs.

    Finished blocks are kept beside `out` until it is written, so the same call resumes.
    """
    blocks = _list_blocks(request, out)
    folder = next(iter(blocks)).parent
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    missing_blocks = {path: rows for path, rows in blocks.items() if not path.exists()}
    on_handovers(len(request.start_point) - sum(map(len, missing_blocks.values())))
    work = BlockWork(partial(_TwinBlockMaker, request), missing_blocks)
    executor.make_blocks(work, on_handovers)
    forecasts = table_forecasts.join_forecasts([TwinForecasts.load(path) for path in blocks])
    forecasts.save(out)
    shutil.rmtree(folder)
    return forecasts


def build_request(
    table: EpisodeTable, params: Params, jobs: Sequence[SimJob], samples: int = 100
) -> TwinTableRequest:
    """Build the request for a table. The table was made from `params` and `jobs`."""
    metadata = table.metadata
    settings = PairSettings(
        nodes=metadata.nodes,
        time_limit_s=metadata.time_limit_s,
        every_s=metadata.every_s,
        since=metadata.since,
        until=metadata.until,
        step_s=metadata.step_s,
        partition=metadata.partition,
        qos=metadata.qos,
        user=metadata.user,
        account=metadata.account,
    )
    points = tuple(table.start_point.tolist())
    return TwinTableRequest(params, jobs, settings, metadata.pair, points, samples)


def _list_blocks(request: TwinTableRequest, out: Path) -> dict[Path, range]:
    key = f"{request.pair}{request.start_point}{request.samples}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = out.with_name(f".{out.name}.{digest}")
    count = len(request.start_point)
    starts = range(0, count, BLOCK)
    return {
        folder / f"block-{n:05}.npz": range(first, min(first + BLOCK, count))
        for n, first in enumerate(starts)
    }


class _TwinBlockMaker:
    """The replay of one process."""

    def __init__(self, request: TwinTableRequest) -> None:
        self._request = request
        self._replay = TraceReplay(request.params, request.jobs, request.settings)
        since = min((job.submit for job in request.jobs), default=request.settings.since) - 1
        history, settings = SubmissionHistory(since), request.settings
        # First of all users: random draws depend on a user's number, and any block may come first.
        user = settings.user or PAIR_USER
        history.run_times.assign_groups(user, settings.time_limit_s, settings.nodes)
        self._listener = _HistoryListener({job.job_id: job for job in request.jobs}, history)
        self._twin = Twin(samples=request.samples)
        instants = request.settings.instant_s[:-1]
        self._question_step = table_forecasts.compute_question_step(len(instants))
        self._asked_s = instants[:: self._question_step].tolist()

    def make_block(self, path: Path, part: range) -> Sequence[Path]:
        starts = [self._request.start_point[row] for row in part]
        answers = np.array([self._forecast_start_point(point) for point in starts], dtype=np.int32)
        starts_at = np.array(starts, dtype=np.int64)
        TwinForecasts(self._request.pair, starts_at, self._question_step, answers).save(path)
        return [path]

    def _forecast_start_point(self, point: int) -> list[NDArray[np.int32]]:
        """Return the quantiles of the wait at each asked instant, [A][19], in seconds."""
        world, listener = self._replay.fork_with_listener(point, self._listener)
        if world is None:
            raise InputError("the table was made from another trace: give the trace of the table")
        link = world.build_handover_input(self._replay.link, point)
        quantiles = []
        for asked_s in self._asked_s:
            now = world.start + asked_s
            listener.follow_world(world.sim, now)
            forecast = self._twin.forecast_from_simulator(
                world.sim, link, listener.history, seed=now
            )
            quantiles.append(forecast.compute_quantiles())
        return quantiles


class _HistoryListener:
    """Moves a world forward, and records in the history what happens to the trace's jobs."""

    def __init__(self, jobs: Mapping[int, SimJob], history: SubmissionHistory) -> None:
        self.history = history
        self._jobs = jobs

    def fork(self) -> Self:
        return type(self)(self._jobs, self.history.fork())

    def follow_world(self, world: Simulator, until: int) -> None:
        # The pair is no job of the trace, so no later day of the trace contains it.
        self.history.record_events(world.advance(until), self._jobs.get)
        world.forget_ended(until)
