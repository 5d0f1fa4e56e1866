"""Measures the cost of calls to Slurm: calls, failures and seconds by kind of call (/metrics)."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The cost of one kind of call since the start."""

    calls: int = 0
    failures: int = 0
    """Calls that could not be made, or were not answered in time."""
    seconds: float = 0.0
    unread: int = 0
    """Rows of the answers that could not be read and were left out."""


class CallStats:
    """Counts calls. Safe to use from several threads."""

    def __init__(self) -> None:
        self._usage: dict[str, CallTotals] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def count_call(self, kind: str) -> Iterator[None]:
        """Count the call made inside. An exception inside is a failure."""
        began = time.monotonic()
        has_failed = True
        try:
            yield
            has_failed = False
        finally:
            self._add_call(kind, has_failed=has_failed, seconds=time.monotonic() - began)

    def count_unread(self, kind: str, rows: int) -> None:
        with self._lock:
            usage = self._usage.get(kind, CallTotals())
            self._usage[kind] = replace(usage, unread=usage.unread + rows)

    def get_usage(self) -> Mapping[str, CallTotals]:
        with self._lock:
            return dict(self._usage)

    def _add_call(self, kind: str, *, has_failed: bool, seconds: float) -> None:
        with self._lock:
            usage = self._usage.get(kind, CallTotals())
            self._usage[kind] = replace(
                usage,
                calls=usage.calls + 1,
                failures=usage.failures + has_failed,
                seconds=usage.seconds + seconds,
            )
