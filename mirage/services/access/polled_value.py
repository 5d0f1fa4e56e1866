"""Keeps answers of Slurm that seldom change: Slurm is asked rarely, in the background.

If Slurm stops answering, the last answer is kept for a while and then dropped. Readers get the last
known value. A thread of its own asks Slurm (`poll_until_stopped`), so no request asks Slurm or
waits for it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import structlog

from mirage.errors import MirageError

_log = structlog.get_logger(__name__)

RETRY_S = 60.0
"""After a question without an answer; twice as long after each further one, up to the period."""

KEPT_PERIODS = 6
"""An answer older than so many periods counts no more."""

_LOOK_EVERY_S = 1.0

T = TypeVar("T")


class PolledValue(Generic[T]):
    """Read from any thread, asked by one."""

    def __init__(
        self,
        what: str,
        ask: Callable[[], T],
        *,
        unknown: T,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`unknown` stands for an answer where there is none: what is safest to believe."""
        self._what, self._ask, self._unknown = what, ask, unknown
        self._every_s, self._clock = every_s, clock
        self._known: tuple[T, float] | None = None
        """The last answer, and when it came."""
        self._ask_at = 0.0
        self._unanswered = 0

    def __call__(self) -> T:
        """Return the last known answer, or `unknown` if none is fresh enough. Asks nobody."""
        if self._known is None:
            return self._unknown
        answer, at = self._known
        stale = self._clock() > at + KEPT_PERIODS * self._every_s
        return self._unknown if stale else answer

    def ask_if_due(self) -> None:
        now = self._clock()
        if now < self._ask_at:
            return
        try:
            answer = self._ask()
        except MirageError as error:
            if not self._unanswered:
                _log.warning(
                    "Slurm does not say who may do what", what=self._what, error=str(error)
                )
            wait_s = min(self._every_s, RETRY_S * 2**self._unanswered)
            self._unanswered += 1
            self._ask_at = self._clock() + wait_s
            return
        self._known, self._unanswered = (answer, self._clock()), 0
        self._ask_at = self._clock() + self._every_s


def poll_until_stopped(
    polled: Sequence[PolledValue[Any]], asked: threading.Event, stop: threading.Event
) -> None:
    """Ask what is due until `stop`. `asked`: all of it has been asked once."""
    while not stop.is_set():
        for one in polled:
            one.ask_if_due()
        asked.set()
        # No wait for `stop`: it goes by a clock that the testbed's faster time does not reach.
        time.sleep(_LOOK_EVERY_S)
