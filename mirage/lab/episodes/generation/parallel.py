"""Makes blocks of start points in several processes. Each process replays the trace for itself."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol, TypeVar

PointsCallback = Callable[[int], None]
Result = TypeVar("Result")


class BlockMaker(Protocol):
    """One process's replay: asked in the order of time."""

    def make_block(self, path: Path, points: range) -> int:
        """Write the block, whole or not at all, and return its number of start points."""


Begin = Callable[[], BlockMaker]
"""Makes a block maker. It can be sent to another process."""


def make_blocks(
    begin: Begin, left: Mapping[Path, range], processes: int, told: PointsCallback
) -> None:
    """Make each block. `told` is called with the number of its start points when a block is
    finished.

    `processes`: 0 for this process. A command that a person may end with Ctrl-C needs another
    process, since an interrupt within a compiled function is a SystemError, or worse.
    """
    if not left:
        return
    if processes < 1:
        maker = begin()
        for path, points in left.items():
            told(maker.make_block(path, points))
        return
    with _open_pool(begin, min(processes, len(left))) as pool:
        # Handed out in the order of time: each process only ever moves its replay forward.
        futures = [pool.submit(_make_in_worker, path, points) for path, points in left.items()]
        _gather_results(futures, told)


def run_apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function of a module returns in another process, which Ctrl-C may end."""
    with _open_pool(_begin_nothing, 1) as pool:
        return pool.submit(function, *arguments).result()


def _begin_nothing() -> BlockMaker:
    raise AssertionError("no block is made")


def _gather_results(futures: Sequence["Future[int]"], told: PointsCallback) -> None:
    try:
        for future in as_completed(futures):
            told(future.result())
    except BaseException:
        # Blocks that have not begun are not started.
        for future in futures:
            future.cancel()
        raise


@contextmanager
def _open_pool(begin: Begin, processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: a progress bar is a thread, and a fork would take its locks along.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _init_worker, (begin,)) as pool:
        yield pool


_begun: list[Begin] = []
_here: list[BlockMaker] = []
"""The block maker of a child process, made when it is first needed."""


def _init_worker(begin: Begin) -> None:
    # Ctrl-C reaches the whole group, and ends this process at once and without a traceback. Blocks
    # are written whole or not at all: the one under way is lost, the others are kept.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _begun.append(begin)


def _end_with_parent() -> None:
    """End this process when its parent ends. A killed parent cannot end its children, and they
    would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _make_in_worker(path: Path, points: range) -> int:
    if not _here:
        _here.append(_begun[0]())
    return _here[0].make_block(path, points)
