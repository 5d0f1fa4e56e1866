"""Caches answers and pages that many callers ask for and that change once a tick at most."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from mirage.database.events import changes
from mirage.database.schema.engine import Transaction
from mirage.domain.callers.caller import Principal

MAX_ENTRIES = 96
"""Answers kept in one process: a few ranges, for a few people who may see different things. A page
is 40 KB."""

T = TypeVar("T")


@dataclass(slots=True)
class _CachedResponse:
    """An answer, or the place of an answer that is being made."""

    version: Hashable
    lock: Lock = field(default_factory=Lock)
    is_ready: bool = False
    answer: Any = None


@dataclass(slots=True)
class ResponseCache:
    """The latest answers of one process, keyed by what was asked for."""

    _entries: OrderedDict[Hashable, _CachedResponse] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get_or_make(self, key: Hashable, version: Hashable, make: Callable[[], T]) -> T:
        """Return the kept answer; call `make` if there is none for this key and version.

        `key` names what is asked and by whom; `version` is all else that the answer depends on.
        If several callers ask at once, as open pages do after a tick, one of them makes the answer
        and the others wait for it.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.version != version:
                entry = self._entries[key] = _CachedResponse(version)
            self._entries.move_to_end(key)
            while len(self._entries) > MAX_ENTRIES:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.is_ready:
                entry.answer, entry.is_ready = make(), True
        return entry.answer  # type: ignore[no-any-return] # of the same maker

    def get_or_make_report(
        self,
        make: Callable[[Transaction, int, int, int, Principal], T],
        tx: Transaction,
        span: tuple[int, int, int],
        reader: Principal,
    ) -> T:
        """Return the answer of `make` for this reader, from the cache where that is still good.

        `span` is (cluster, since, until). An answer is good until the cluster's next change
        (`database.events.changes`).
        """
        cluster_id, since, until = span
        own_rows = None if reader.can_see_all_chains else reader.build_own_rows()
        visibility = (reader.is_admin, reader.hidden, own_rows)
        key = (make.__qualname__, cluster_id, until - since, visibility)
        version = (changes.read_newest_seq(tx, cluster_id), until)
        return self.get_or_make(key, version, lambda: make(tx, *span, reader))


def get_recent_span(now: int, days: int) -> tuple[int, int]:
    """Return (since, until) of the last `days` days, in epoch seconds.

    `until` is the end of the present minute, so that all requests of a minute ask for the same.
    """
    until = (now // 60 + 1) * 60
    return until - days * 86400, until
