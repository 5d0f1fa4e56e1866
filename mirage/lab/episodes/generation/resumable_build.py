"""Builds many episodes in several processes, in blocks that are kept until the table is
complete."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable, join_tables
from mirage.judging.table.metadata import TableMetadata
from mirage.judging.table.pair_settings import PairSettings
from mirage.lab.blocks.block_executor import BlockExecutor, BlockWork, PointsCallback
from mirage.lab.blocks.local_processes import IN_THIS_PROCESS
from mirage.lab.episodes.generation.builder import EpisodeBuilder
from mirage.simulator.types import Params, SimJob

BLOCK = 12
"""The number of start points that are made and kept together. It does not depend on the number
of processes, so a repeated command can use another number of them."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table to be made."""

    params: Params
    jobs: Sequence[SimJob]
    settings: PairSettings
    metadata: TableMetadata

    @property
    def fingerprint(self) -> str:
        """Hash of the trace, the cluster, the settings, the features and the versions."""
        # Where the trace lies does not matter.
        text = json.dumps(asdict(replace(self.metadata, source="")), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def blocks(self) -> list[range]:
        points = self.settings.start_points
        return [points[i : i + BLOCK] for i in range(0, len(points), BLOCK)]


class NoEpisodes(InputError):
    """Raised when no start point gives an episode: one of the pair never starts."""


@dataclass(frozen=True, slots=True)
class BuiltTable:
    table: EpisodeTable
    kept_points: int
    """Start points that an earlier, interrupted command had made."""


def build_table(
    plan: TablePlan,
    out: Path,
    executor: BlockExecutor = IN_THIS_PROCESS,
    on_points: PointsCallback = lambda _: None,
) -> BuiltTable:
    """Make the table and write it to `out`. `on_points` is called with the number of finished start
    points.

    Finished blocks are kept in a folder beside `out` until the table is written, so the same
    command continues where it was interrupted. Raises InputError, and writes no file, if no start
    point gives an episode.
    """
    if out.is_dir():
        raise InputError(f"{out} is a folder: name a file to write")
    with _open_block_folder(plan, out) as folder:
        missing_blocks = _list_missing_blocks(plan, out)
        kept_points = _count_points(plan) - sum(map(len, missing_blocks.values()))
        on_points(kept_points)
        work = BlockWork(partial(_TableBlockMaker, plan), missing_blocks)
        executor.make_blocks(work, on_points)
        table = join_tables([EpisodeTable.load(path) for path in _list_blocks(plan, out)])
        if len(table):
            table.save(out)
        shutil.rmtree(folder)
    if not len(table):
        raise NoEpisodes(
            f"not one of {table.metadata.left_out} start points gave an episode: "
            "the predecessor or its successor never starts"
        )
    return BuiltTable(table=table, kept_points=kept_points)


def count_kept_points(plan: TablePlan, out: Path) -> int:
    """Count the start points of the blocks that an interrupted command has kept."""
    return _count_points(plan) - sum(map(len, _list_missing_blocks(plan, out).values()))


def _count_points(plan: TablePlan) -> int:
    return len(plan.settings.start_points)


def _get_block_folder(plan: TablePlan, out: Path) -> Path:
    return out.with_name(f".{out.name}.{plan.fingerprint[:16]}")


@contextmanager
def _open_block_folder(plan: TablePlan, out: Path) -> Iterator[Path]:
    """Open the folder of the blocks. An empty folder is removed at the end of the command."""
    folder = _get_block_folder(plan, out)
    try:
        folder.mkdir(parents=False, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    try:
        yield folder
    finally:
        if not any(folder.glob("block-*")):
            # A block that was being written when the command ended is incomplete.
            shutil.rmtree(folder, ignore_errors=True)


def _list_blocks(plan: TablePlan, out: Path) -> dict[Path, range]:
    folder = _get_block_folder(plan, out)
    return {folder / f"block-{i:05}.npz": points for i, points in enumerate(plan.blocks)}


def _list_missing_blocks(plan: TablePlan, out: Path) -> dict[Path, range]:
    """List the blocks that are still to be made."""
    blocks = _list_blocks(plan, out)
    return {
        path: points for path, points in blocks.items() if not _is_whole_block(path, points, plan)
    }


def _is_whole_block(path: Path, points: range, plan: TablePlan) -> bool:
    """Return whether the block is whole: a table is written whole or not at all, but disks fail."""
    try:
        block = EpisodeTable.load(path)
        point_count = len(block) + block.metadata.left_out
        return point_count == len(points) and block.observations.shape[1] == len(
            plan.settings.instant_s
        )
    except InputError:
        return False


class _TableBlockMaker:
    """The replay of one process."""

    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan
        self._builder = EpisodeBuilder(plan.params, plan.jobs, plan.settings)

    def make_block(self, path: Path, part: range) -> Sequence[Path]:
        self._builder.build_table(part, self._plan.metadata).save(path)
        return [path]
