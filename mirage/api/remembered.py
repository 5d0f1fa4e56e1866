"""Answers that many ask for and that change once a tick at most: worked out once for all."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TypeVar

from mirage.domain.caller import Standing
from mirage.store import changes
from mirage.store.engine import Transaction

MOST = 64
"""Answers kept: a few ranges, and a few people who see different things."""

T = TypeVar("T")


@dataclass(slots=True)
class Remembered:
    """Of one process. An answer is good until the cluster's next change (`store.changes`)."""

    _kept: OrderedDict[Hashable, tuple[int, Any]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def of(
        self,
        make: Callable[[Transaction, int, int, int, Standing], T],
        tx: Transaction,
        span: tuple[int, int, int],
        reader: Standing,
    ) -> T:
        """What `make` says of cluster, since, until (`span`) to this reader."""
        own = None if reader.sees_all_chains else reader.own()
        key = (make.__qualname__, span, reader.is_admin, reader.hidden, own)
        newest = changes.newest(tx, span[0])
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known[0] == newest:
            return known[1]  # type: ignore[no-any-return] # of the same maker
        made = make(tx, *span, reader)
        with self._lock:
            self._kept[key] = (newest, made)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return made


def lately(now: int, days: int) -> tuple[int, int]:
    """(since, until) of the last days, to the end of this minute, in which all ask the same."""
    until = (now // 60 + 1) * 60
    return until - days * 86400, until
