"""Limits how often one user may ask, and for how much at once, so that others are served too.

All such limits are here. They are counted in this process's memory: Mirage is one process
(docs/decisions/0020), and after a restart a user gains at most one burst. Counts that must survive
a restart are made in the database (`chains.chain_quota`).
"""

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mirage.errors import TooMany

MOST_KEYS = 10_000
"""The callers that one `RateLimiter` remembers (some 2 MB): more than a site has users.

If there are more, the limiter forgets the caller that has been silent longest.
"""
_ROUNDING_S = 1e-6
"""Sums of seconds are rounded. The last act of a burst is not refused for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The quotas as configured ([quota], mirage/config/settings.py)."""

    writes_burst: int = 200
    writes_per_minute: int = 20
    registrations_per_day: int = 1000
    exports: int = 4
    export_s: int = 900
    forecasts_per_minute: int = 60
    forecasts_asked: int = 16


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """The one whose quota a request uses up."""

    name: str
    """The uid of a user, the token of a token without a user, else the address."""
    is_known: bool
    """Whether a credential proves who the caller is."""


class RateLimiter:
    """Allows each caller a burst, and then a number of acts a minute (a token bucket)."""

    def __init__(self, burst: int, per_minute: float, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that never go back; any instant may be its zero."""
        self._clock = clock
        self._interval_s = 60 / per_minute
        self._burst_s = (burst - 1) * self._interval_s
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def acquire_or_wait_s(self, name: str) -> float:
        """Count one act of `name` and return 0; else return the seconds to wait, uncounted."""
        with self._lock:
            now = self._clock()
            full_at = max(now, self._full_at.get(name, now))
            wait_s = full_at - now - self._burst_s
            if wait_s > _ROUNDING_S:
                return wait_s
            self._full_at[name] = full_at + self._interval_s
            self._full_at.move_to_end(name)
            if len(self._full_at) > MOST_KEYS:
                self._full_at.popitem(last=False)
            return 0.0

    def check_rate(self, name: str, message: str) -> None:
        """Count one act of `name`. Raise TooMany if it must wait; `message` begins the error."""
        if wait_s := self.acquire_or_wait_s(name):
            again_s = math.ceil(wait_s)
            raise TooMany(f"{message}: ask again in {again_s} s", again_s)


class Slots:
    """A fixed number of places for work that runs at the same time.

    One caller takes at most half of the places. All unknown callers together take at most half.
    """

    def __init__(self, count: int, message: str, after_s: int) -> None:
        """Make `count` places. A refusal says `message`, and to wait `after_s` seconds."""
        self._count, self._half = count, max(1, count // 2)
        self._message, self._after_s = message, after_s
        self._used: Counter[QuotaHolder] = Counter()
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        return self._count - self._used.total()

    @contextmanager
    def acquire_slot(self, holder: QuotaHolder) -> Iterator[None]:
        """Hold a place while the block runs. Raises TooMany if there is none for this caller."""
        with self._lock:
            in_use = self._used[holder] if holder.is_known else self._count_unknown()
            if self._used.total() >= self._count or in_use >= self._half:
                raise TooMany(self._message, self._after_s)
            self._used[holder] += 1
        try:
            yield
        finally:
            with self._lock:
                self._used[holder] -= 1
                if not self._used[holder]:
                    del self._used[holder]

    def _count_unknown(self) -> int:
        return sum(number for holder, number in self._used.items() if not holder.is_known)
