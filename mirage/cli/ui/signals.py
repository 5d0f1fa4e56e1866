"""SIGTERM and Ctrl-C, for a command that has something to tidy up before it ends."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_AS_SHELLS_SAY = 128
_LOOK_S = 0.1


class StopSignal:
    """Remembers whether a signal asked the command to end.

    The command checks between two steps, so that no step is cut in two. An exception raised in a
    signal's handler could interrupt a transaction, or be lost in a finalizer.
    """

    def __init__(self) -> None:
        self._asked_by: signal.Signals | None = None

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._asked_by = signal.Signals(number)

    def exit_if_requested(self) -> None:
        """Leave if asked to; with 143 after SIGTERM, 130 after Ctrl-C."""
        if self._asked_by is not None:
            raise typer.Exit(_AS_SHELLS_SAY + self._asked_by)

    def wait(self, seconds: float) -> None:
        """So long, or until it is asked for."""
        # An Event could be waited for, but not be set by a handler that interrupts its own wait.
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.exit_if_requested()
            time.sleep(min(_LOOK_S, left))

    def print_signal(self) -> None:
        if self._asked_by is not None:
            sys.stderr.write(f"mirage: ended by {self._asked_by.name}\n")


@contextmanager
def watch_signals() -> Iterator[StopSignal]:
    """Signals are heard until all inside is tidied up: a second one does not cut that short."""
    ending = StopSignal()
    before = {number: signal.signal(number, ending.handle_signal) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        ending.print_signal()


@contextmanager
def end_like_ctrl_c() -> Iterator[None]:
    """SIGTERM tidies up as Ctrl-C does, whatever is under way; then with 143."""
    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:  # a second one does not cut short what the first began
            asked = True
            for child in multiprocessing.active_children():
                child.terminate()  # Ctrl-C reaches the whole group
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except (KeyboardInterrupt, typer.Exit):
        if asked:
            raise typer.Exit(_AS_SHELLS_SAY + signal.SIGTERM) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
