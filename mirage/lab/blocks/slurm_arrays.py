"""Makes blocks by arrays of Slurm. No daemon is needed: the command may be ended, and the same
command goes on with the arrays that it finds in the queue."""

import hashlib
import os
import time
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from pathlib import Path

from mirage.config.settings import SlurmSettings
from mirage.errors import ClusterError, ClusterUnavailable, InputError
from mirage.lab.blocks import array_submission, block_task
from mirage.lab.blocks.array_ledger import ArrayLedger
from mirage.lab.blocks.array_submission import TooManyTasks
from mirage.lab.blocks.block_executor import BlockWork, Part, PointsCallback
from mirage.lab.blocks.block_results import BlockResult, BrokenResult
from mirage.lab.blocks.block_task import BlockTask
from mirage.lab.whole_files import remove_path
from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.commands import array_queue
from mirage.slurm.commands.array_queue import QueuedTask
from mirage.slurm.text.command_errors import classify_query_error

MOST_TRIES = 3
"""A block that is not made by so many jobs is named. Slurm cannot tell a time limit from a fault
of the program so that one could rely on it, and a node may die: both are tried again."""
MOST_TASKS = 1000
"""The tasks of an array at most: Slurm's own default (MaxArraySize 1001)."""
_FIRST_LOOK_S, _LONGEST_LOOK_S = 1.0, 30.0
_ORDINARY = {"None", "Priority", "Resources", "JobArrayTaskLimit", "Dependency", "BeginTime"}
"""Reasons to wait that pass by themselves."""


class BlocksFailed(ClusterError):
    """Some blocks were not made, however often they were tried."""


@dataclass(frozen=True, slots=True)
class SlurmArrays:
    """Makes each block by a task of an array."""

    settings: SlurmSettings
    warn: Callable[[str], None]
    gpus: int = 0
    """GPUs of each task of a kind that may use them."""

    def __post_init__(self) -> None:
        """Raises InputError if submitit or the shared folder is missing."""
        if self.settings.folder is None:
            raise InputError(
                "--executor slurm needs slurm.folder in the configuration: a folder on a file "
                "system that the nodes share, in which jobs read their input and leave results"
            )
        array_submission.check_submitit()

    @property
    def is_local(self) -> bool:
        return False

    def make_blocks(self, work: BlockWork[Part], on_points: PointsCallback) -> None:
        """Make each block. Raises InputError if a block cannot be made, BlocksFailed, and
        ClusterRefused if Slurm takes no jobs. Whatever else ends the work leaves the arrays in
        Slurm: the same call goes on with them."""
        if not work.missing_blocks:
            return
        if self.settings.folder is None:
            raise InputError("slurm.folder is not set")
        folder = block_task.save_input(self.settings.folder.absolute(), work.create_maker)
        blocks = {
            _build_key(path): _Block(path, part) for path, part in work.missing_blocks.items()
        }
        gpus = self.gpus if work.may_use_gpus else 0
        run = _ArrayRun(folder, blocks, self.settings, gpus, self.warn, on_points)
        try:
            run.finish()
        except InputError:
            run.cancel_live()
            raise
        except BaseException:
            run.report_live()
            raise
        run.cancel_live()
        block_task.remove_work(folder)


@dataclass(frozen=True, slots=True)
class _Block:
    path: Path
    part: Sized


def _build_key(path: Path) -> str:
    """Build the name of a block's result: blocks of one work may have the same file name."""
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()
    return f"{digest[:16]}-{path.name}"


@dataclass(slots=True)
class _ArrayRun:
    """One call: it looks at results and queue until each block is made, or has failed."""

    work: Path
    blocks: dict[str, _Block]
    settings: SlurmSettings
    gpus: int
    warn: Callable[[str], None]
    on_points: PointsCallback
    ledger: ArrayLedger = field(init=False)
    left: list[str] = field(init=False)
    """The blocks that are not made yet."""
    live: dict[str, QueuedTask] = field(default_factory=dict)
    """Those that waited or ran at the last look."""
    largest: int = MOST_TASKS
    full_at: int | None = None
    """So many tasks were live when Slurm took no more."""
    reasons: set[str] = field(default_factory=set)
    is_answered: bool = True
    """Whether Slurm answered at the last look."""
    wait_s: float = _FIRST_LOOK_S
    """How long until the next look: longer, the longer nothing happens."""
    runner: CommandRunner = field(default_factory=CommandRunner)

    def __post_init__(self) -> None:
        self.ledger = ArrayLedger.load(self.work / "arrays.json")
        self.left = list(self.blocks)

    def finish(self) -> None:
        """Look until no block is left."""
        while not self._advance_work():
            time.sleep(self.wait_s)
            self.wait_s = min(_LONGEST_LOOK_S, self.wait_s * 1.5)

    def _advance_work(self) -> bool:
        """Take in results, and submit what neither is made nor waits nor runs. Return whether all
        is done."""
        # The queue first: a job that has ended by then has left its result.
        tasks = self._ask_queue()
        self._take_results()
        if not self.left:
            return True
        # The caller may end the work when its time is over.
        self.on_points(0)
        if tasks is None:
            return False
        for submission, array in self.ledger.find_arrived(tasks):
            waiting = [self._build_task(key) for key in submission.blocks]
            array_submission.adopt_array(self.work / "tasks", array, waiting)
            self.ledger.settle(submission, array)
        before, self.live = self.live, self.ledger.find_live(tasks)
        self._report_reasons()
        taken_keys = self.live.keys() | self.ledger.list_unsure(time.time())
        # A job that was live a moment ago may have left a result that this host does not see yet.
        free_keys = [key for key in self.left if key not in taken_keys and key not in before]
        tried_out = [key for key in free_keys if self.ledger.count_tries(key) >= MOST_TRIES]
        if tried_out and len(tried_out) == len(self.left):
            raise self._make_failure(tried_out)
        self._submit([key for key in free_keys if key not in tried_out])
        return False

    def _ask_queue(self) -> list[QueuedTask] | None:
        """Return the user's tasks in the queue; None if Slurm does not answer."""
        argv = array_queue.build_argv()
        try:
            result = self.runner.run(argv)
            error = classify_query_error(argv[0], result.code, result.stderr)
        except ClusterUnavailable as no_answer:
            error = no_answer
        if error is not None and self.is_answered:
            self.warn(f"{error}. Nothing is known of the jobs until Slurm answers again.")
        self.is_answered = error is None
        return array_queue.parse_tasks(result.stdout) if error is None else None

    def _take_results(self) -> None:
        """Move finished results to where they belong."""
        for key in list(self.left):
            block = self.blocks[key]
            folder = self.work / "results" / key
            try:
                result = BlockResult.find(folder)
                if result is None:
                    continue
                if result.refusal is not None:
                    remove_path(folder)  # the next command may find the cause mended
                    raise InputError(result.refusal)
                result.place(block.path.parent)
            except BrokenResult as error:
                self.warn(f"{block.path.name} is made again: {error}")
                remove_path(folder)
                continue
            remove_path(folder)
            self.left.remove(key)
            self.wait_s = _FIRST_LOOK_S
            self.on_points(len(block.part))

    def _submit(self, keys: list[str]) -> None:
        """Submit the blocks in arrays as large as Slurm takes them."""
        if self.full_at is not None:
            ended = self.full_at - len(self.live)
            if ended <= 0 and self.live:
                return
            self.largest, self.full_at = max(1, ended), None
        while keys:
            batch = keys[: self.largest]
            try:
                self._submit_array(batch)
            except TooManyTasks:
                if len(batch) > 1:
                    self.largest = len(batch) // 2
                    continue
                if not self.live:
                    raise
                self.full_at = len(self.live)
                return
            except ClusterUnavailable as error:
                self.warn(f"{error}. The queue will tell whether Slurm has taken the jobs.")
                return
            keys = keys[len(batch) :]

    def _submit_array(self, batch: list[str]) -> None:
        tasks = [task for task in map(self._build_task, batch) if task is not None]
        submission = self.ledger.begin(batch, time.time())
        folder = self.work / "tasks"
        try:
            array = array_submission.submit_array(
                folder, tasks, self.settings, submission.comment, self.gpus
            )
        except ClusterUnavailable:
            raise
        except ClusterError:
            self.ledger.withdraw(submission)
            raise
        self.ledger.settle(submission, array)
        self.wait_s = _FIRST_LOOK_S
        for index, key in enumerate(batch):
            self.live[key] = QueuedTask(array, index, "None", submission.comment)

    def _build_task(self, key: str) -> BlockTask | None:
        """Build the task of a block; None if the block is made."""
        block = self.blocks.get(key)
        if block is None or key not in self.left:
            return None
        return BlockTask(self.work, key, block.path.name, block.part)

    def _report_reasons(self) -> None:
        """Warn once of each reason for which tasks wait that may not pass by itself."""
        for task in self.live.values():
            if task.reason not in _ORDINARY | self.reasons:
                self.reasons.add(task.reason)
                self.warn(f"job {task.job} waits in Slurm: {task.reason}")

    def _make_failure(self, keys: list[str]) -> BlocksFailed:
        """Name what failed, with the end of its last log."""
        names = ", ".join(self.blocks[key].path.name for key in keys[:5])
        more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""  # noqa: PLR2004
        task = self.ledger.find_last_task(keys[0])
        lines = " / ".join(array_submission.read_last_lines(self.work / "tasks", task))
        explanation = (
            f"The log of job {task} ends: {lines[:600]}."
            if lines
            else f"Job {task} left no log in {self.work / 'tasks'}: is slurm.folder on a file "
            "system that the nodes share?"
        )
        return BlocksFailed(
            f"{names}{more}: not made by {MOST_TRIES} jobs each. {explanation} A job that reaches "
            "slurm.time_limit_h or slurm.memory_gib ends so, too. Run the same command again to "
            "try again: what is made is kept"
        )

    def _list_live_arrays(self) -> list[str]:
        return sorted({str(task.job) for task in self.live.values()})

    def cancel_live(self) -> None:
        """Cancel what no one waits for any more: a second array of the same blocks."""
        tasks = self._ask_queue() or ()
        for array in sorted({task.job for task in self.ledger.find_live(tasks).values()}):
            self._cancel(array)

    def _cancel(self, array: int) -> None:
        try:
            self.runner.run(["scancel", str(array)])
        except ClusterUnavailable as error:
            self.warn(f"job {array} is not cancelled: {error}")

    def report_live(self) -> None:
        arrays = self._list_live_arrays()
        if arrays:
            self.warn(
                f"jobs go on in Slurm: run the same command again to go on with them, or end them "
                f"with `scancel {' '.join(arrays)}`"
            )
