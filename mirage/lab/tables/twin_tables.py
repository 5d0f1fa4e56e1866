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
from mirage.lab.episodes.generation import parallel
from mirage.lab.episodes.generation.parallel import PointsCallback
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
    asking: TwinTableRequest, out: Path, processes: int = 0, told: PointsCallback = lambda _: None
) -> TwinForecasts:
    """Ask the twin and write `out`. `told` is called with the number of finished hand-overs.

    Finished blocks are kept beside `out` until it is written, so the same call resumes.
    """
    blocks = _list_blocks(asking, out)
    folder = next(iter(blocks)).parent
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    left = {path: rows for path, rows in blocks.items() if not path.exists()}
    told(len(asking.start_point) - sum(map(len, left.values())))
    parallel.make_blocks(partial(_Maker, asking), left, processes, told)
    whole = table_forecasts.join_forecasts([TwinForecasts.load(path) for path in blocks])
    whole.save(out)
    shutil.rmtree(folder)
    return whole


def build_request(
    table: EpisodeTable, params: Params, jobs: Sequence[SimJob], samples: int = 100
) -> TwinTableRequest:
    """Build the request for a table. The table was made from `params` and `jobs`."""
    about = table.about
    settings = PairSettings(
        nodes=about.nodes,
        time_limit_s=about.time_limit_s,
        every_s=about.every_s,
        since=about.since,
        until=about.until,
        step_s=about.step_s,
        partition=about.partition,
        qos=about.qos,
        user=about.user,
        account=about.account,
    )
    points = tuple(table.start_point.tolist())
    return TwinTableRequest(params, jobs, settings, about.pair, points, samples)


def _list_blocks(asking: TwinTableRequest, out: Path) -> dict[Path, range]:
    key = f"{asking.pair}{asking.start_point}{asking.samples}"
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder = out.with_name(f".{out.name}.{digest}")
    count = len(asking.start_point)
    starts = range(0, count, BLOCK)
    return {
        folder / f"block-{n:05}.npz": range(first, min(first + BLOCK, count))
        for n, first in enumerate(starts)
    }


class _Maker:
    """The replay of one process."""

    def __init__(self, asking: TwinTableRequest) -> None:
        self._asking = asking
        self._worlds = TraceReplay(asking.params, asking.jobs, asking.settings)
        since = min((job.submit for job in asking.jobs), default=asking.settings.since) - 1
        history, settings = SubmissionHistory(since), asking.settings
        # First of all users: random draws depend on a user's number, and any block may come first.
        user = settings.user or PAIR_USER
        history.run_times.assign_groups(user, settings.time_limit_s, settings.nodes)
        self._heard = _Heard({job.job_id: job for job in asking.jobs}, history)
        self._twin = Twin(samples=asking.samples)
        instants = asking.settings.instant_s[:-1]
        self._every = table_forecasts.compute_question_step(len(instants))
        self._asked_s = instants[:: self._every].tolist()

    def make_block(self, path: Path, points: range) -> int:
        starts = [self._asking.start_point[row] for row in points]
        answers = np.array([self._forecast_start_point(point) for point in starts], dtype=np.int32)
        starts_at = np.array(starts, dtype=np.int64)
        TwinForecasts(self._asking.pair, starts_at, self._every, answers).save(path)
        return len(starts)

    def _forecast_start_point(self, point: int) -> list[NDArray[np.int32]]:
        """Return the quantiles of the wait at each asked instant, [A][19], in seconds."""
        world, heard = self._worlds.fork_with_listener(point, self._heard)
        if world is None:
            raise InputError("the table was made from another trace: give the trace of the table")
        link = world.build_handover_input(self._worlds.link, point)
        found = []
        for asked_s in self._asked_s:
            now = world.start + asked_s
            heard.follow_world(world.sim, now)
            told = self._twin.forecast_from_simulator(world.sim, link, heard.history, seed=now)
            found.append(told.compute_quantiles())
        return found


class _Heard:
    """Moves a world forward and tells the history what happens to the trace's jobs."""

    def __init__(self, jobs: Mapping[int, SimJob], history: SubmissionHistory) -> None:
        self.history = history
        self._jobs = jobs

    def fork(self) -> Self:
        return type(self)(self._jobs, self.history.fork())

    def follow_world(self, world: Simulator, until: int) -> None:
        # The pair is no job of the trace, so no later day of the trace contains it.
        self.history.record_events(world.advance(until), self._jobs.get)
        world.forget_ended(until)
