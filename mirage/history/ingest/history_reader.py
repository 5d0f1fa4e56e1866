"""Reads accounting into the history, window by window, as far as it has come."""

from collections.abc import Callable, Sequence

import structlog

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.job import Job
from mirage.domain.ports import Cluster
from mirage.errors import AccountingOff, ClusterError, UnreadableAnswer
from mirage.history.ingest.live_ingest import FIRST_WINDOW_S, ingest_history, split_history

_log = structlog.get_logger(__name__)

PASSED = "part of accounting passed"
"""The audit event for a span of accounting that never read: its records are not in the history."""

WINDOW_TRIES = 5
"""Tries after which a window whose answer does not read is passed. A window without an answer is
not."""
_LOOK_AGAIN_S = 3600
"""Seconds until a site without accounting is asked again, since it may get accounting."""


class HistoryReader:
    """Stores accounting's records since its last answer, in overlapping windows."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        cluster_id: int,
        every_s: int,
        follow: Callable[[Transaction, Sequence[Job], int], None],
    ) -> None:
        """`follow` brings links to what the records say, at an instant."""
        self._store, self._cluster, self._cluster_id = store, cluster, cluster_id
        self._every_s, self._follow = every_s, follow
        self._until: int | None = None
        self._off_until = 0
        self._unreadable = (0, 0)
        """The beginning of the window that did not read last, and its tries."""

    def read_new_records(self, now: int) -> None:
        """Read on if it is time to. Without an answer the next call asks again."""
        if now < self._off_until:
            return
        if self._until is None:
            with self._store.read() as tx:
                known = clusters.read_history_until(tx, self._cluster_id)
            self._until = now - FIRST_WINDOW_S if known is None else known
        if now < self._until + self._every_s:
            return
        try:
            for window in split_history(self._until, now):
                try:
                    self._read_window(window, now)
                except UnreadableAnswer as error:
                    if not self._pass_window(window, now, str(error)):
                        return
        except AccountingOff as error:
            self._off_until = now + _LOOK_AGAIN_S
            _log.warning("no accounting: history comes from the queue alone", error=str(error))
        except ClusterError as error:
            _log.warning("accounting does not answer", error=str(error))

    def _read_window(self, window: tuple[int, int], now: int) -> None:
        counts, records = ingest_history(self._store, self._cluster, self._cluster_id, window)
        with self._store.begin() as tx:
            self._follow(tx, records, now)
            clusters.set_history_until(tx, self._cluster_id, window[1])
        self._until = window[1]
        _log.info("accounting", until=window[1], added=counts.added, updated=counts.updated)

    def _pass_window(self, window: tuple[int, int], now: int, error: str) -> bool:
        """Pass the window if it was tried often enough, and return whether it was.

        It would be asked for ever otherwise, and nothing after it.
        """
        since, until = window
        tries = self._unreadable[1] + 1 if self._unreadable[0] == since else 1
        self._unreadable = (since, tries)
        _log.warning("accounting does not read", since=since, tries=tries, error=error)
        if tries < WINDOW_TRIES:
            return False
        detail = {"since": since, "until": until, "error": error}
        entry = AuditEntry(at=now, actor="mirage", event=PASSED, detail=detail)
        with self._store.begin() as tx:
            audit.write_entry(tx, self._cluster_id, entry)
            clusters.set_history_until(tx, self._cluster_id, until)
        self._until = until
        return True
