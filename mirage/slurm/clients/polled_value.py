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
"""Seconds before Slurm is asked again if it did not answer.

The time doubles with each further failure, up to the period of the value.
"""

KEPT_PERIODS = 6
"""An answer older than this many periods is dropped."""

_CHECK_S = 1.0

T = TypeVar("T")


class PolledValue(Generic[T]):
    """A value that any thread may read, and that one thread asks Slurm for."""

    def __init__(
        self,
        name: str,
        ask: Callable[[], T],
        *,
        default: T,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the value; nothing is asked yet.

        `name` names the value in the log. `ask` asks Slurm and raises MirageError if that fails.
        `default` is the value while there is no answer: choose the safest one. `every_s` is the
        period in seconds.
        """
        self._name, self._ask, self._default = name, ask, default
        self._every_s, self._clock = every_s, clock
        self._answer: tuple[T, float] | None = None
        """The last answer, and when it came."""
        self._ask_at = 0.0
        self._failures = 0

    def __call__(self) -> T:
        """Return the last known answer, or `default` if none is fresh enough. Asks nobody."""
        if self._answer is None:
            return self._default
        answer, at = self._answer
        is_stale = self._clock() > at + KEPT_PERIODS * self._every_s
        return self._default if is_stale else answer

    def ask_if_due(self) -> None:
        """Ask Slurm if the period, or the wait after a failure, is over. Raises nothing."""
        now = self._clock()
        if now < self._ask_at:
            return
        try:
            answer = self._ask()
        except MirageError as error:
            if not self._failures:
                _log.warning(
                    "Slurm does not say who may do what", what=self._name, error=str(error)
                )
            wait_s = min(self._every_s, RETRY_S * 2**self._failures)
            self._failures += 1
            self._ask_at = self._clock() + wait_s
            return
        self._answer, self._failures = (answer, self._clock()), 0
        self._ask_at = self._clock() + self._every_s


def poll_until_stopped(
    values: Sequence[PolledValue[Any]], first_round_done: threading.Event, stop: threading.Event
) -> None:
    """Ask for each value when it is due, until `stop` is set.

    `first_round_done` is set once every value has been asked for.
    """
    while not stop.is_set():
        for value in values:
            value.ask_if_due()
        first_round_done.set()
        # Not `stop.wait`: its clock ignores the faster time of the testbed.
        time.sleep(_CHECK_S)
