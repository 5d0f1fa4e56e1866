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
    """The replay of one process. It makes blocks in the order of time."""

    def make_block(self, path: Path, points: range) -> int:
        """Write the block, whole or not at all, and return its number of start points."""


MakerFactory = Callable[[], BlockMaker]
"""Creates a block maker. It is pickled, since it is sent to other processes."""


def make_blocks(
    create_maker: MakerFactory,
    missing_blocks: Mapping[Path, range],
    processes: int,
    on_points: PointsCallback,
) -> None:
    """Make each block. `on_points` is called with the number of its start points when a block is
    finished.

    `processes`: 0 for this process. A command that a person may end with Ctrl-C needs another
    process, since an interrupt within a compiled function is a SystemError, or worse.
    """
    if not missing_blocks:
        return
    if processes < 1:
        maker = create_maker()
        for path, points in missing_blocks.items():
            on_points(maker.make_block(path, points))
        return
    with _open_pool(create_maker, min(processes, len(missing_blocks))) as pool:
        # Handed out in the order of time: each process only ever moves its replay forward.
        futures = [
            pool.submit(_make_in_worker, path, points) for path, points in missing_blocks.items()
        ]
        _gather_results(futures, on_points)


def run_apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function of a module returns in another process, which Ctrl-C may end."""
    with _open_pool(_begin_nothing, 1) as pool:
        return pool.submit(function, *arguments).result()


def _begin_nothing() -> BlockMaker:
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
def _open_pool(create_maker: MakerFactory, processes: int) -> Iterator[ProcessPoolExecutor]:
    # Not forked: a progress bar is a thread, and a fork would take its locks along.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _init_worker, (create_maker,)) as pool:
        yield pool


_maker_factories: list[MakerFactory] = []
_makers: list[BlockMaker] = []
"""The block maker of a child process, made when it is first needed."""


def _init_worker(create_maker: MakerFactory) -> None:
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


def _make_in_worker(path: Path, points: range) -> int:
    if not _makers:
        _makers.append(_maker_factories[0]())
    return _makers[0].make_block(path, points)
