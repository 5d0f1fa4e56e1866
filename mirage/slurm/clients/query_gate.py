"""Sends queries to one Slurm daemon.

Queries are sent one at a time, equal ones share an answer, and after signs of load the gate pauses.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from mirage.errors import ClusterUnavailable, MirageError

T = TypeVar("T")

SLOW_S = 2.0
"""Seconds. An answer that takes longer is a sign of load, as a failure is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """The signs of trouble, and the durations of pauses."""

    slow_s: float = SLOW_S
    first_pause_s: float = 5.0
    """Seconds of the pause after the first sign. Each further sign in a row doubles it."""
    longest_pause_s: float = 600.0


class Backoff:
    """Decides how long to pause queries to a daemon, by its answers so far."""

    def __init__(
        self, settings: BackoffSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._pause_s = 0.0
        self._paused_until = 0.0
        self._sign = ""

    def check_pause(self) -> None:
        """Raise ClusterUnavailable while the pause lasts."""
        left_s = self._paused_until - self._clock()
        if self._pause_s and left_s > 0:
            raise ClusterUnavailable(f"not asked for another {left_s:.0f} s: {self._sign}")

    def record_answer(self, seconds: float) -> None:
        if seconds > self._settings.slow_s:
            self._extend_pause(f"the last answer took {seconds:.1f} s")
        else:
            self._pause_s = 0.0

    def record_failure(self, reason: str) -> None:
        self._extend_pause(f"the last answer was: {reason}")

    def _extend_pause(self, sign: str) -> None:
        longer_s = self._pause_s * 2 or self._settings.first_pause_s
        self._pause_s = min(longer_s, self._settings.longest_pause_s)
        self._paused_until = self._clock() + self._pause_s
        self._sign = sign


class QueryGate:
    """Sends queries. Safe to use from several threads."""

    def __init__(
        self, settings: BackoffSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._backoff = Backoff(settings, clock)
        self._one_at_a_time = threading.Lock()
        self._flights: dict[str, Future[Any]] = {}
        self._flights_lock = threading.Lock()

    def ask(self, key: str, query: Callable[[], T]) -> T:
        """Return the answer of `query`, or of a running query with the same key."""
        with self._flights_lock:
            flight = self._flights.get(key)
            if flight is None:
                future: Future[Any] = Future()
                self._flights[key] = future
        if flight is not None:
            return cast(T, flight.result())
        try:
            answer = self._run_query(query)
        except BaseException as error:
            self._finish_flight(key)
            future.set_exception(error)
            raise
        self._finish_flight(key)
        future.set_result(answer)
        return answer

    def _finish_flight(self, key: str) -> None:
        with self._flights_lock:
            del self._flights[key]

    def _run_query(self, query: Callable[[], T]) -> T:
        with self._one_at_a_time:
            self._backoff.check_pause()
            began = self._clock()
            try:
                answer = query()
            except ClusterUnavailable as error:
                self._backoff.record_failure(str(error))
                raise
            except MirageError:
                self._backoff.record_answer(self._clock() - began)
                raise
            self._backoff.record_answer(self._clock() - began)
            return answer
