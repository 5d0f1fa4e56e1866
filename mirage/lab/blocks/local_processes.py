"""Makes blocks in processes of this machine. Each process does the common work for itself."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

from mirage.lab.blocks.block_executor import (
    BlockMaker,
    BlockWork,
    MakerFactory,
    Part,
    PointsCallback,
)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Makes blocks in so many processes."""

    processes: int = 0
    """0: in this process. A command that a person may end with Ctrl-C needs another process, since
    an interrupt within a compiled function is a SystemError, or worse."""

    @property
    def is_local(self) -> bool:
        return True

    def make_blocks(self, work: BlockWork[Part], on_points: PointsCallback) -> None:
        blocks = work.missing_blocks
        if not blocks:
            return
        if self.processes < 1:
            maker = work.create_maker()
            for path, part in blocks.items():
                maker.make_block(path, part)
                on_points(len(part))
            return
        with _open_pool(work.create_maker, min(self.processes, len(blocks))) as pool:
            # Handed out in the order of time: each process only ever moves its replay forward.
            futures = [pool.submit(_make_in_worker, path, part) for path, part in blocks.items()]
            _gather_results(futures, on_points)


IN_THIS_PROCESS = LocalProcesses()


def run_apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function of a module returns in another process, which Ctrl-C may end."""
    with _open_pool(_begin_nothing, 1) as pool:
        return pool.submit(function, *arguments).result()


def _begin_nothing() -> BlockMaker[Any]:
    raise AssertionError("no block is made")


def _gather_results(futures: Sequence["Future[int]"], on_points: PointsCallback) -> None:
    try:
        for future in as_completed(futures):
            on_points(future.result())
    except BaseException:
        # Blocks that have not begun are not started.
        for future in futures:
            future.cancel()
        raise


@contextmanager
def _open_pool(create_maker: MakerFactory[Any], processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: a progress bar is a thread, and a fork would take its locks along.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _init_worker, (create_maker,)) as pool:
        yield pool


_maker_factories: list[MakerFactory[Any]] = []
_makers: list[BlockMaker[Any]] = []
"""The block maker of a child process, made when it is first needed."""


def _init_worker(create_maker: MakerFactory[Any]) -> None:
    # Ctrl-C reaches the whole group, and ends this process at once and without a traceback. Blocks
    # are written whole or not at all: the one under way is lost, the others are kept.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _maker_factories.append(create_maker)


def _end_with_parent() -> None:
    """End this process when its parent ends. A killed parent cannot end its children, and they
    would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _make_in_worker(path: Path, part: Any) -> int:
    if not _makers:
        _makers.append(_maker_factories[0]())
    _makers[0].make_block(path, part)
    return len(part)
