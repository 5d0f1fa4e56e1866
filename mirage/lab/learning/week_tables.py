"""Makes the episode tables that a site learns from: one file for each shape of chain and week.

A finished week is not made again. It is replayed by itself, with the jobs of the weeks before it,
so its file does not depend on what is stored later.
"""

import hashlib
import json
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable, join_tables
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork, PointsCallback
from mirage.lab.episodes.generation.builder import EpisodeBuilder, describe_table
from mirage.lab.episodes.generation.resumable_build import NoEpisodes, TablePlan, build_table
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.history_facts import ReplayedWeek
from mirage.lab.site_history import BEFORE_S
from mirage.lab.tables.twin_tables import build_request, make_twin_table
from mirage.lab.training.dataset import compute_known_at
from mirage.lab.whole_files import remove_path, write_whole
from mirage.observation import spec
from mirage.simulator.types import Params, SimJob
from mirage.twin import table_forecasts
from mirage.twin.table_forecasts import join_forecasts

EVERY_S = 6 * HOUR_S
"""The time between two start points; that of `mirage report shadow`."""
_NOTHING = ".none"
"""The suffix of a file that says that no start point of the week gave an episode."""
_PASSING = ("reservations", "node_events")
"""Parts of a cluster file that tell of times and not of the cluster. Tables are not made anew
because of them."""


@dataclass(frozen=True, slots=True)
class TableUnit:
    """A table to be made, with the twin's answers beside it."""

    shape: ChainShape
    week: ReplayedWeek
    path: Path
    handovers: tuple[int, ...] = ()
    """The start points, ascending, if the table is of the site's own hand-overs; else there is one
    every EVERY_S."""

    def __len__(self) -> int:
        return len(self.points)

    @property
    def settings(self) -> PairSettings:
        return self.shape.build_settings(self.week.since, self.week.until, EVERY_S)

    @property
    def points(self) -> range:
        """The start points, or as many places as there are own hand-overs."""
        return range(len(self.handovers)) if self.handovers else self.settings.start_points

    @property
    def jobs_until(self) -> int:
        """The jobs that are submitted until then are replayed: the week's last hand-overs wait
        among them. Epoch seconds."""
        return self.week.until + 2 * self.shape.time_limit_s

    @property
    def is_made(self) -> bool:
        """Whether the table and the twin's answers are there, or the week gave no episode."""
        whole = self.path.exists() and table_forecasts.get_twin_path(self.path).exists()
        return whole or self.path.with_suffix(_NOTHING).exists()


def list_units(
    folder: Path, params: Params, weeks: Sequence[ReplayedWeek], shapes: Sequence[ChainShape]
) -> list[TableUnit]:
    """List the tables of all weeks and shapes, in the order of `weeks`. `folder` is learning's."""
    under = folder / "tables" / hash_cluster(params)
    return [
        TableUnit(shape, week, under / shape.folder / f"{week.name}.npz")
        for week in weeks
        for shape in shapes
    ]


def list_own_units(
    folder: Path,
    params: Params,
    weeks: Sequence[ReplayedWeek],
    handovers: Mapping[ChainShape, Sequence[int]],
) -> list[TableUnit]:
    """List the tables of the site's own hand-overs, which began at these instants."""
    under = folder / "tables" / hash_cluster(params)
    units = []
    for week in weeks:
        for shape, starts in handovers.items():
            points = tuple(sorted({at for at in starts if week.since <= at < week.until}))
            if points:
                digest = hashlib.sha256(repr(points).encode()).hexdigest()[:12]
                path = under / shape.folder / f"{week.name}.own-{digest}.npz"
                units.append(TableUnit(shape, week, path, points))
    return units


def make_units(
    units: Sequence[TableUnit],
    params: Params,
    jobs: Sequence[SimJob],
    executor: BlockExecutor,
    on_points: PointsCallback,
) -> None:
    """Make the tables that are not there yet, in the order given. `jobs` ascend by submission.

    `on_points` is called with the number of start points of each finished table. What it raises
    ends the work: finished blocks are kept, and the next call goes on from them. Raises InputError
    if a file cannot be written.
    """
    missing = {unit.path: unit for unit in units if not unit.is_made}
    for path in missing:
        _make_folder(path.parent)
    executor.make_blocks(BlockWork(partial(_UnitMaker, params, jobs), missing), on_points)


@dataclass(frozen=True, slots=True)
class LoadedTables:
    """The finished tables of some weeks, without hand-overs that were not replayed to their end."""

    by_shape: Mapping[ChainShape, EpisodeTable]
    """The weeks of each shape joined, oldest first."""
    unfinished: int
    """The number of hand-overs that are left out."""


def load_shape_tables(units: Iterable[TableUnit]) -> LoadedTables:
    """Load the finished tables, and join the weeks of each shape, oldest first."""
    by_shape: dict[ChainShape, list[EpisodeTable]] = {}
    unfinished = 0
    for unit in sorted(units, key=lambda unit: unit.week.since):
        if unit.path.exists():
            table, left_out = load_finished(unit)
            unfinished += left_out
            if len(table):
                by_shape.setdefault(unit.shape, []).append(table)
    joined = {shape: _join_weeks(tables) for shape, tables in by_shape.items()}
    return LoadedTables(joined, unfinished)


def load_finished(unit: TableUnit) -> tuple[EpisodeTable, int]:
    """Load a table without the hand-overs of which a successor starts after the replayed jobs, and
    count these: the queue only empties there, so their waits are too short."""
    table = EpisodeTable.load(unit.path)
    finished = np.flatnonzero(compute_known_at(table) <= unit.jobs_until)
    about = replace(table.metadata, beyond_trace=0)
    return table.select_episodes(finished, about), len(table) - len(finished)


def explain_unfinished(handovers: int) -> str:
    """Return why so many hand-overs are not learned from."""
    return (
        f"{handovers} hand-overs are left out: their successors start after the jobs among which "
        "their week is replayed, so their waits would be too short."
    )


def split_newest(table: EpisodeTable, cut: int) -> tuple[EpisodeTable, EpisodeTable]:
    """Split a table into the hand-overs whose every outcome was known at `cut`, and those that
    begin later."""
    about, start = table.metadata, table.start_point
    past = np.flatnonzero((start < cut) & (compute_known_at(table) <= cut))
    later = np.flatnonzero(start >= cut)
    return (
        table.select_episodes(past, replace(about, until=cut)),
        table.select_episodes(later, replace(about, since=cut)),
    )


def save_with_twin(table: EpisodeTable, path: Path) -> None:
    """Write a table and the twin's answers beside it. Raises InputError if that is impossible."""
    _make_folder(path.parent)
    table.save(path)
    if table.twins is not None:
        table.twins.save(table_forecasts.get_twin_path(path))


def choose_cut(until: int, days: int) -> int:
    """Choose from when on candidates are judged: the newest quarter of the days, in whole weeks, a
    week at least and four at most."""
    weeks = min(4, max(1, days // (4 * 7)))
    return until - weeks * 7 * DAY_S


def remove_old_tables(folder: Path, units: Iterable[TableUnit]) -> None:
    """Remove the tables of other cluster files, of shapes that are not learned for any more, and of
    weeks that are too old."""
    table_names = {unit.path.stem for unit in units}
    folders = {unit.path.parent for unit in units}
    for shape_folder in (folder / "tables").glob("*/*"):
        if shape_folder not in folders:
            shutil.rmtree(shape_folder, ignore_errors=True)
            continue
        for file in shape_folder.iterdir():
            # Those of own hand-overs are called by their week, too.
            if file.name.lstrip(".").split(".")[0] not in table_names:
                remove_path(file)


class _UnitMaker:
    """One process: it makes whole tables."""

    def __init__(self, params: Params, jobs: Sequence[SimJob]) -> None:
        self._params = params
        self._jobs = jobs

    def make_block(self, path: Path, part: TableUnit) -> Sequence[Path]:
        """Make the table `path` and the twin's answers, or the file that says that the week gave no
        episode."""
        unit = replace(part, path=path)
        jobs = select_segment(self._jobs, unit)
        plan = build_unit_plan(self._params, jobs, unit)
        _remove_stale_blocks(path, plan)
        try:
            table = _find_made_table(path, plan) or _build_unit_table(unit, plan)
        except NoEpisodes as error:
            write_whole(path.with_suffix(_NOTHING), f"{error}\n")
            return [path.with_suffix(_NOTHING)]
        twin = table_forecasts.get_twin_path(path)
        make_twin_table(build_request(table, self._params, jobs), twin)
        return [path, twin]


def select_segment(jobs: Sequence[SimJob], unit: TableUnit) -> Sequence[SimJob]:
    """Select the jobs that the replay of a week needs: those before it, by which the queue builds
    up, and those among which its last hand-overs wait."""
    span = (unit.week.since - BEFORE_S, unit.jobs_until)
    first, last = (bisect_left(jobs, at, key=lambda job: job.submit) for at in span)
    return jobs[first:last]


def build_unit_plan(params: Params, jobs: Sequence[SimJob], unit: TableUnit) -> TablePlan:
    """Build the plan of a week's table. Its trace is the jobs themselves: the same jobs give the
    same table, whatever else is stored."""
    about = describe_table(
        params,
        unit.settings,
        trace=f"history {unit.week.name}",
        trace_sha256=hashlib.sha256(repr((jobs, unit.handovers)).encode()).hexdigest(),
    )
    return TablePlan(params, jobs, unit.settings, about)


def _build_unit_table(unit: TableUnit, plan: TablePlan) -> EpisodeTable:
    if not unit.handovers:
        return build_table(plan, unit.path).table
    builder = EpisodeBuilder(plan.params, plan.jobs, plan.settings)
    table = builder.build_table(unit.handovers, plan.metadata)
    if not len(table):
        raise NoEpisodes(f"none of {len(unit.handovers)} hand-overs could be simulated")
    table.save(unit.path)
    return table


def _join_weeks(tables: Sequence[EpisodeTable]) -> EpisodeTable:
    abouts = [table.metadata for table in tables]
    hashes = ",".join(about.trace_sha256 for about in abouts)
    about = replace(
        abouts[-1],
        trace="history",
        trace_sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        since=min(about.since for about in abouts),
        until=max(about.until for about in abouts),
    )
    joined = join_tables(tables, about)
    twins = [table.twins for table in tables if table.twins is not None]
    if len(twins) == len(tables):
        joined.twins = replace(join_forecasts(twins), pair=joined.metadata.pair)
    return joined


def hash_cluster(params: Params) -> str:
    """Hash what tables depend on beside their jobs: the cluster, and the features."""
    values = {k: v for k, v in asdict(params).items() if k not in _PASSING}
    text = json.dumps([values, spec.FINGERPRINT], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _find_made_table(path: Path, plan: TablePlan) -> EpisodeTable | None:
    """Return the table that an interrupted run finished, if it is of the same jobs."""
    try:
        table = EpisodeTable.load(path)
    except InputError:
        return None
    return table if table.metadata.pair == plan.metadata.pair else None


def _remove_stale_blocks(path: Path, plan: TablePlan) -> None:
    """Remove the blocks of a table that was begun from other jobs."""
    for folder in path.parent.glob(f".{path.name}.*"):
        if folder.is_dir() and plan.fingerprint[:16] not in folder.name:
            shutil.rmtree(folder, ignore_errors=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}") from error
