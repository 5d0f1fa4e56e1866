"""Reads accounting into the history, window by window, from where the last read ended."""

from collections.abc import Callable, Sequence

import structlog

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.job import Job
from mirage.domain.ports import Cluster
from mirage.errors import AccountingOff, ClusterError, UnreadableAnswer
from mirage.provision.polling.live_ingest import FIRST_WINDOW_S, ingest_history, split_history

_log = structlog.get_logger(__name__)

SKIPPED_EVENT = "part of accounting passed"
"""The audit event for a span of accounting whose answer could never be parsed. Its records are not
in the history."""

WINDOW_TRIES = 5
"""Tries after which a window is skipped if its answer cannot be parsed. A window without an answer
is never skipped."""
_ASK_AGAIN_S = 3600
"""Seconds until a site without accounting is asked again, since it may get accounting."""


class HistoryReader:
    """Stores accounting's records since its last answer, in overlapping windows."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        cluster_id: int,
        every_s: int,
        sync_links: Callable[[Transaction, Sequence[Job], int], None],
    ) -> None:
        """`sync_links` updates links by the records, as of an instant."""
        self._store, self._cluster, self._cluster_id = store, cluster, cluster_id
        self._every_s, self._sync_links = every_s, sync_links
        self._read_until: int | None = None
        self._paused_until = 0
        self._last_unreadable = (0, 0)
        """The beginning of the last window whose answer could not be parsed, and its tries."""

    def read_new_records(self, now: int) -> None:
        """Read the windows up to `now` if `every_s` has passed. Without an answer the next call
        asks again."""
        if now < self._paused_until:
            return
        if self._read_until is None:
            with self._store.read() as tx:
                stored_until = clusters.read_history_until(tx, self._cluster_id)
            self._read_until = now - FIRST_WINDOW_S if stored_until is None else stored_until
        if now < self._read_until + self._every_s:
            return
        try:
            for window in split_history(self._read_until, now):
                try:
                    self._read_window(window, now)
                except UnreadableAnswer as error:
                    if not self._skip_window(window, now, str(error)):
                        return
        except AccountingOff as error:
            self._paused_until = now + _ASK_AGAIN_S
            _log.warning("no accounting: history comes from the queue alone", error=str(error))
        except ClusterError as error:
            _log.warning("accounting does not answer", error=str(error))

    def _read_window(self, window: tuple[int, int], now: int) -> None:
        counts, records = ingest_history(self._store, self._cluster, self._cluster_id, window)
        with self._store.begin() as tx:
            self._sync_links(tx, records, now)
            clusters.set_history_until(tx, self._cluster_id, window[1])
        self._read_until = window[1]
        _log.info("accounting", until=window[1], added=counts.added, updated=counts.updated)

    def _skip_window(self, window: tuple[int, int], now: int, error: str) -> bool:
        """Skip the window if it was tried often enough, and return whether it was skipped.

        Otherwise this window would be asked for again for ever, and no later window would be read.
        """
        since, until = window
        tries = self._last_unreadable[1] + 1 if self._last_unreadable[0] == since else 1
        self._last_unreadable = (since, tries)
        _log.warning("accounting does not read", since=since, tries=tries, error=error)
        if tries < WINDOW_TRIES:
            return False
        detail = {"since": since, "until": until, "error": error}
        entry = AuditEntry(at=now, actor="mirage", event=SKIPPED_EVENT, detail=detail)
        with self._store.begin() as tx:
            audit.write_entry(tx, self._cluster_id, entry)
            clusters.set_history_until(tx, self._cluster_id, until)
        self._read_until = until
        return True
