"""Answers and pages that many ask for and that change once a tick at most: made once for all."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from mirage.domain.access.caller import Principal
from mirage.store.database.engine import Transaction
from mirage.store.events import changes

MOST = 96
"""Of one process: a few ranges, and a few people who see different things. A page is 40 KB."""

T = TypeVar("T")


@dataclass(slots=True)
class _CachedResponse:
    """An answer, or a place for one that is being made."""

    version: Hashable
    lock: Lock = field(default_factory=Lock)
    done: bool = False
    answer: Any = None


@dataclass(slots=True)
class ResponseCache:
    """The latest answers of one process, keyed by what was asked for."""

    _kept: OrderedDict[Hashable, _CachedResponse] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get_or_make(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """`key`: what is asked, and by whom; `version`: all else that the answer depends on.

        Of those who ask for it at once, as all open pages do after a tick, one makes it.
        """
        with self._lock:
            made = self._kept.get(key)
            if made is None or made.version != version:
                made = self._kept[key] = _CachedResponse(version)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        with made.lock:
            if not made.done:
                made.answer, made.done = make(), True
        return made.answer  # type: ignore[no-any-return] # of the same maker

    def get_lookback(
        self,
        make: Callable[[Transaction, int, int, int, Principal], T],
        tx: Transaction,
        span: tuple[int, int, int],
        reader: Principal,
    ) -> T:
        """Return the answer of `make` for this reader, from the cache where that is still good.

        `span` is (cluster, since, until). An answer is good until the cluster's next change
        (`store.events.changes`).
        """
        cluster_id, since, until = span
        own = None if reader.can_see_all_chains else reader.build_own_rows()
        seen = (reader.is_admin, reader.hidden, own)
        key = (make.__qualname__, cluster_id, until - since, seen)
        version = (changes.read_newest_seq(tx, cluster_id), until)
        return self.get_or_make(key, version, lambda: make(tx, *span, reader))


def get_recent_span(now: int, days: int) -> tuple[int, int]:
    """(since, until) of the last days, to the end of this minute, in which all ask the same."""
    until = (now // 60 + 1) * 60
    return until - days * 86400, until
