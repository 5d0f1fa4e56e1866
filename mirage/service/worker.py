"""The worker's loop: read Slurm, store what it shows, decide, act. Ticks never overlap."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from mirage.chains import chain_quota, link_sync
from mirage.chains.lifecycle import advance_chains
from mirage.chains.notices import notices
from mirage.chains.notices.notices import Watch
from mirage.chains.request_enforcement import enforce_requests
from mirage.database.chains import push_times
from mirage.database.chains.open_links import list_open_job_ids
from mirage.database.chains.push_times import PushTimes
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store, Transaction
from mirage.domain.job import Job, JobId
from mirage.domain.ports import Cluster
from mirage.domain.snapshot import Node, Queue, Records, Snapshot
from mirage.errors import AccountingOff, ClusterError, ClusterUnavailable, MirageError
from mirage.history.ingest import completion_push
from mirage.history.ingest.completion_push import PollingCadence
from mirage.history.ingest.history_reader import HistoryReader
from mirage.history.ingest.live_ingest import ingest_queue
from mirage.history.ingest.required_nodes import complete_reasons
from mirage.logs import ThrottledLog
from mirage.provision import move_verification
from mirage.provision.control import kill_switch, limit_overrides
from mirage.provision.decision_context import Rules
from mirage.provision.forecasts.shape_forecaster import ShapeForecaster
from mirage.provision.provision_tick import provision_handovers, reconcile_intentions
from mirage.provision.retreats import list_retreats, retreat_handovers
from mirage.reports import wait_statistics
from mirage.reports.periodic_recorder import PeriodicRecorder
from mirage.reports.service_status import TickRecorder
from mirage.reports.slurmctld_load import LoadSensor
from mirage.service import retention
from mirage.service.retention import Retention
from mirage.slurm.clients.call_stats import CallTotals
from mirage.web.identity.quotas import Quotas

_log = structlog.get_logger(__name__)

FORGED = "forged answer"
"""The audit event for text in one of Slurm's answers that Slurm did not write."""

_FORGERIES_TOLD = 8
"""The most sentences that one tick records, earliest first. squeue comes before accounting, which
matters less and is easier to forge."""

_PRUNE_EVERY_S = 3600
_MISSED_TICKS = 3
"""A worker that has not renewed its lease for this many ticks is taken to be dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Seconds of the cluster's clock between two queries of one kind."""

    queue_s: int = 60
    pushed_queue_s: int = 120
    """The interval of the queue while slurmctld reports ended jobs."""
    nodes_s: int = 120
    history_s: int = 300


class Worker:
    """The loop of one cluster. Two workers may share a database: the one with the lease acts."""

    def __init__(  # noqa: PLR0913 - what a loop needs
        self,
        store: Store,
        cluster: Cluster,
        cluster_id: int,
        *,
        rules: Rules,
        intervals: Intervals | None = None,
        kill_file: Path | None = None,
        owner_uid: int | None = None,
        foreteller: ShapeForecaster | None = None,
        watch: Watch | None = None,
        usage: Callable[[], Mapping[str, CallTotals]] | None = None,
        sensor: LoadSensor | None = None,
        alarms: Callable[[], list[str]] = list,
        keep: Retention | None = None,
        chains_a_day: int = Quotas().registrations_per_day,
    ) -> None:
        """`owner_uid`: the user of a private service, which touches no other user's jobs.
        `foreteller`: makes forecasts for jobs that are not submitted yet. `watch`: writes notices
        about chains. `usage`: returns the cost of this process's Slurm calls. `sensor`: returns
        slurmctld's count of them. `alarms`: returns new sentences about forged answers. `keep`: how
        long rows are kept. `chains_a_day`: the most new chains of one user."""
        self._store, self._cluster, self._cluster_id = store, cluster, cluster_id
        self._rules = rules
        self._intervals = intervals or Intervals()
        self._kill_file = kill_file
        self._owner_uid = owner_uid
        self._foreteller = foreteller
        self._watch = watch
        self._sensor = sensor
        self._alarms = alarms
        self._seldom = ThrottledLog()
        self._retention = keep or Retention()
        self._chains_a_day = chains_a_day
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._teller = TickRecorder(self._holder, usage)
        self._queue: Queue | None = None
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at: int | None = None
        self._history = HistoryReader(
            store, cluster, cluster_id, self._intervals.history_s, self._follow_records
        )
        self._pruned_at: int | None = None
        self._cadence = PollingCadence(self._intervals.queue_s, self._intervals.pushed_queue_s)
        self._pushed = PushTimes(None, None, None)
        self._books = PeriodicRecorder(
            store, cluster_id, max(self._intervals.queue_s, self._intervals.pushed_queue_s)
        )

    def run(self, stop: threading.Event, sleep: Callable[[float], None] = time.sleep) -> None:
        """Tick until `stop` is set. The tick under way is finished."""
        while not stop.is_set():
            began = self._cluster.read_clock()
            self.run_tick()
            while (
                not stop.is_set()
                and (left := self._compute_due_at(began) - self._cluster.read_clock()) > 0
            ):
                sleep(min(1.0, left))
        with self._store.begin() as tx:
            clusters.release_lease(tx, self._cluster_id, self._holder)

    def _compute_due_at(self, began: int) -> int:
        """Return when to read the queue again. Pushes may bring the next read forward or put it
        off."""
        if self._pushed.last is not None:
            self._read_pushes()
        return self._cadence.compute_next_look(began, self._pushed, self._cluster.read_clock())

    def _read_pushes(self) -> None:
        try:
            with self._store.read() as tx:
                self._pushed = push_times.read_push_times(tx, self._cluster_id)
        except MirageError as error:
            _log.warning("pushes cannot be read", error=str(error))

    def run_tick(self) -> None:
        """Run one round. If Slurm does not answer, this is logged and the next tick asks again."""
        began = time.monotonic()
        error = ""
        try:
            if self._take_turn():
                self._observe_and_act()
        except ClusterUnavailable as away:
            error = f"Slurm does not answer: {away}"
            _log.warning("Slurm does not answer", error=str(away))
        except MirageError as fault:
            error = str(fault)
            _log.error("tick failed", error=error)
        except Exception:
            error = "an error that Mirage did not foresee: the log has it"
            _log.exception("tick failed")
        self._record_tick(error, time.monotonic() - began)

    def _record_tick(self, error: str, took_s: float) -> None:
        """Record the tick for the page Admin, which any process may show."""
        try:
            with self._store.begin() as tx:
                now = self._cluster.read_clock()
                self._teller.record_tick(tx, self._cluster_id, now, took_s=took_s, error=error)
                self._record_forgeries(tx, now)
        except MirageError as trouble:
            _log.error("the tick is not written down", error=str(trouble))
        except Exception:  # as in the tick: nothing ends the worker but its `stop`
            _log.exception("the tick is not written down")

    def _record_forgeries(self, tx: Transaction, now: int) -> None:
        """Record at most one row a tick, so that a forger cannot fill the database."""
        found = self._alarms()
        if not found:
            return
        errors = list(dict.fromkeys(found))[:_FORGERIES_TOLD]
        self._seldom.log_event(_log.warning, FORGED, errors=errors, times=len(found))
        detail = {"errors": errors, "times": len(found)}
        audit.write_entry(
            tx, self._cluster_id, AuditEntry(at=now, actor="mirage", event=FORGED, detail=detail)
        )

    def _take_turn(self) -> bool:
        """Renew the lease and return whether this worker has it.

        If it has the lease, it obeys the kill switch before all else.
        """
        with self._store.begin() as tx:
            if not self._renew_lease(tx):
                return False
            kill_switch.enforce_switch(
                tx, self._cluster_id, self._kill_file, now=self._cluster.read_clock()
            )
        return True

    def _renew_lease(self, tx: Transaction) -> bool:
        ttl_s = _MISSED_TICKS * self._intervals.queue_s
        return clusters.take_lease(
            tx, self._cluster_id, self._holder, now=self._cluster.read_clock(), ttl_s=ttl_s
        )

    def _get_current_rules(self) -> Rules:
        """Return the rules with the limits that an admin may have set since the last tick."""
        with self._store.read() as tx:
            limits = limit_overrides.read_effective_limits(tx, self._cluster_id, self._rules.limits)
        return replace(self._rules, limits=limits)

    def _observe_and_act(self) -> None:
        try:
            queue = self._cluster.fetch_queue()
        except ClusterUnavailable:
            self._retreat_unseen()
            raise
        looked_at = None if self._queue is None else self._queue.taken_at
        nodes = self._refresh_nodes(queue.taken_at)
        marked = self._list_marked_jobs(queue)
        with self._store.begin() as tx:
            ingest_queue(tx, self._cluster_id, queue, nodes, earlier=self._queue)
            ran = completion_push.list_running_links(tx, self._cluster_id)
            found = self._select_followed_jobs(tx, marked)
            link_sync.sync_links(tx, self._cluster_id, found, queue.taken_at, queue=queue)
            completion_push.check_missed_pushes(tx, self._cluster_id, ran, queue.taken_at)
            self._pushed = push_times.read_push_times(tx, self._cluster_id)
            link_sync.keep_unread_links(tx, self._cluster_id, queue)
            missing = link_sync.list_missing_jobs(tx, self._cluster_id, queue.taken_at)
        self._queue = queue
        self._resolve_missing_links(missing, queue.taken_at)
        with self._store.begin() as tx:
            # Slurm may have taken long: another worker acts by now if the lease ran out.
            if not self._renew_lease(tx):
                return
            unread = link_sync.list_unread_chains(tx, self._cluster_id, queue)
            reconcile_intentions(tx, self._cluster_id, queue.taken_at, unread)
            move_verification.verify_moves(tx, self._cluster_id, queue, looked_at, unread)
            advance_chains(tx, self._cluster_id, queue.taken_at)
            if self._watch is None:
                notices.forget_situations(tx, self._cluster_id)
            else:
                self._watch.record_news(tx, self._cluster_id, queue.taken_at)
        enforce_requests(self._store, self._cluster, self._cluster_id, queue)
        snapshot = Snapshot(queue=queue, nodes=self._nodes)
        provision_handovers(
            self._store, self._cluster, self._cluster_id, snapshot, self._get_current_rules()
        )
        # Last, for a week of accounting takes minutes, and moves want a queue just seen.
        self._history.read_new_records(queue.taken_at)
        self._books.record_tick(queue)
        self._prune_old_rows(queue.taken_at)
        wait_statistics.refresh_sums(self._store, self._cluster_id)
        if self._sensor is not None:
            self._sensor.poll_if_due(self._store, self._cluster_id, queue.taken_at)
        if self._foreteller is not None:
            self._foreteller.run_tick(self._store, self._cluster_id, snapshot, self._rules.observer)

    def _retreat_unseen(self) -> None:
        """Put back what Mirage pinned or planned where it acts no more, though the queue cannot be
        read: Slurm is asked about these jobs alone."""
        with self._store.read() as tx:
            left = list_retreats(tx, self._cluster_id)
        if not left:
            return
        ids = {job_id for one in left for job_id in (one.standby.job_id, one.predecessor.job_id)}
        try:
            queue = self._cluster.fetch_jobs(sorted(ids))
        except ClusterError as error:
            _log.warning("standbys are not put back yet", error=str(error))
            return
        with self._store.begin() as tx:
            found = self._select_followed_jobs(tx, link_sync.list_marked_jobs(queue))
            link_sync.sync_links(tx, self._cluster_id, found, queue.taken_at)
            reconcile_intentions(tx, self._cluster_id, queue.taken_at)
        shown = Snapshot(queue=queue, nodes=())
        retreat_handovers(
            self._store, self._cluster, self._cluster_id, shown, self._get_current_rules()
        )

    def _list_marked_jobs(self, queue: Queue) -> list[Job]:
        """Return the jobs of the queue that carry a mark, with Slurm's full reasons why they
        wait."""
        with self._store.read() as tx:
            known = list_open_job_ids(tx, self._cluster_id)
        return complete_reasons(
            self._cluster, link_sync.list_marked_jobs(queue), known, self._nodes
        )

    def _select_followed_jobs(self, tx: Transaction, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that may become links. Only links are ever moved."""
        own = [job for job in jobs if self._owner_uid in {None, job.uid}]
        limits = limit_overrides.read_effective_limits(tx, self._cluster_id, self._rules.limits)
        bounds = chain_quota.ChainQuota(live=limits.max_chains_per_user, a_day=self._chains_a_day)
        return chain_quota.filter_followed_jobs(
            tx, self._cluster_id, own, bounds, now=self._cluster.read_clock()
        )

    def _refresh_nodes(self, now: int) -> tuple[Node, ...] | None:
        """Return the nodes; None if the last answer is recent or none came, as the queue is
        enough."""
        if self._nodes_at is not None and now < self._nodes_at + self._intervals.nodes_s:
            return None
        try:
            self._nodes, self._nodes_at = self._cluster.fetch_nodes(), now
        except ClusterUnavailable as error:
            _log.warning("no answer on nodes", error=str(error))
            return None
        return self._nodes

    def _resolve_missing_links(self, missing: list[JobId], now: int) -> None:
        """Ask accounting about links that the queue no longer shows."""
        if not missing:
            return
        try:
            records = self._cluster.fetch_job_records(missing)
        except AccountingOff:
            records = []
        except ClusterError as error:
            _log.warning("accounting does not answer", error=str(error))
            return
        with self._store.begin() as tx:
            link_sync.sync_links(
                tx, self._cluster_id, self._select_followed_jobs(tx, records), now, accounting=True
            )
            unread = records.unread if isinstance(records, Records) else frozenset()
            unknown = set(missing) - {job.job_id for job in records} - unread
            link_sync.close_forgotten(tx, self._cluster_id, unknown, now)

    def _follow_records(self, tx: Transaction, records: Sequence[Job], now: int) -> None:
        found = self._select_followed_jobs(tx, records)
        link_sync.sync_links(tx, self._cluster_id, found, now, accounting=True)

    def _prune_old_rows(self, now: int) -> None:
        if self._pruned_at is not None and now < self._pruned_at + _PRUNE_EVERY_S:
            return
        retention.prune_expired(self._store, self._cluster_id, now, self._retention)
        self._pruned_at = now
