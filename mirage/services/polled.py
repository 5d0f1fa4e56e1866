"""What Slurm knows and seldom changes: asked rarely, kept while it does not answer, then let go."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from mirage.errors import ClusterError

_log = structlog.get_logger(__name__)

RETRY_S = 60.0
"""After a question without an answer."""

KEPT_PERIODS = 6
"""An answer older than so many periods counts no more."""

T = TypeVar("T")


class Polled(Generic[T]):
    """Safe to use from several threads: one asks, the others have what was known before."""

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
        self._known: T | None = None
        self._known_at = 0.0
        self._ask_at = 0.0
        self._asking = threading.Lock()

    def __call__(self) -> T:
        due = self._clock() >= self._ask_at
        # The first to ask is waited for; later nobody waits for another's question.
        if due and self._asking.acquire(blocking=self._known is None):
            try:
                self._refresh()
            finally:
                self._asking.release()
        stale = self._clock() > self._known_at + KEPT_PERIODS * self._every_s
        return self._unknown if self._known is None or stale else self._known

    def _refresh(self) -> None:
        if self._clock() < self._ask_at:
            return  # somebody asked while this one waited
        try:
            self._known = self._ask()
        except ClusterError as error:
            self._ask_at = self._clock() + RETRY_S
            _log.warning("Slurm does not say who may do what", what=self._what, error=str(error))
            return
        self._known_at = self._clock()
        self._ask_at = self._known_at + self._every_s
