"""Handles SIGTERM and Ctrl-C for commands that must clean up before they end."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNAL_EXIT_BASE = 128
_CHECK_S = 0.1


class StopSignal:
    """Remembers whether a signal asked the command to end.

    The command checks between two steps, so that no step is cut in two. An exception raised in a
    signal's handler could interrupt a transaction, or be lost in a finalizer.
    """

    def __init__(self) -> None:
        self._signal: signal.Signals | None = None

    def handle_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signal = signal.Signals(number)

    def exit_if_requested(self) -> None:
        """Raise typer.Exit if a signal asked to: 143 after SIGTERM, 130 after Ctrl-C."""
        if self._signal is not None:
            raise typer.Exit(_SIGNAL_EXIT_BASE + self._signal)

    def wait(self, seconds: float) -> None:
        """Sleep for so many seconds; raise typer.Exit as soon as a signal asks to end."""
        # An Event could be waited for, but not be set by a handler that interrupts its own wait.
        until = time.monotonic() + seconds
        while (left_s := until - time.monotonic()) > 0:
            self.exit_if_requested()
            time.sleep(min(_CHECK_S, left_s))

    def print_signal(self) -> None:
        if self._signal is not None:
            sys.stderr.write(f"mirage: ended by {self._signal.name}\n")


@contextmanager
def watch_signals() -> Iterator[StopSignal]:
    """Catch signals until the body has cleaned up; a second signal does not interrupt that."""
    stop_signal = StopSignal()
    old_handlers = {number: signal.signal(number, stop_signal.handle_signal) for number in _SIGNALS}
    try:
        yield stop_signal
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        stop_signal.print_signal()


@contextmanager
def end_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM interrupt the body as Ctrl-C does, and end the command with 143."""
    was_signalled = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal was_signalled
        if not was_signalled:  # a second signal does not interrupt the cleaning up
            was_signalled = True
            for child in multiprocessing.active_children():
                child.terminate()  # Ctrl-C reaches the whole group
            raise KeyboardInterrupt

    old_handler = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except (KeyboardInterrupt, typer.Exit):
        if was_signalled:
            raise typer.Exit(_SIGNAL_EXIT_BASE + signal.SIGTERM) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, old_handler)
