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
from mirage.chains.notices.notices import NoticeRecorder, forget_situations
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
from mirage.logs import ThrottledLog
from mirage.provision import move_verification
from mirage.provision.control import kill_switch, limit_overrides
from mirage.provision.forecasts.shape_forecaster import ShapeForecaster
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.polling import completion_push
from mirage.provision.polling.completion_push import PollingCadence
from mirage.provision.polling.history_reader import HistoryReader
from mirage.provision.polling.live_ingest import ingest_queue
from mirage.provision.polling.required_nodes import complete_reasons
from mirage.provision.provision_tick import provision_handovers, reconcile_intentions
from mirage.provision.retreats import list_retreats, retreat_handovers
from mirage.reports import wait_statistics
from mirage.reports.periodic_recorder import PeriodicRecorder
from mirage.reports.service_status import TickRecorder
from mirage.reports.slurmctld_load import LoadSensor
from mirage.service.nightly_learning import NightlyLearning
from mirage.service.retention import Retention, prune_expired
from mirage.slurm.clients.call_stats import CallTotals
from mirage.twin.cache import BUDGET_S
from mirage.web.identity.quotas import Quotas

_log = structlog.get_logger(__name__)

FORGED = "forged answer"
"""The audit event for text in one of Slurm's answers that Slurm did not write."""

_MAX_FORGERIES = 8
"""The most sentences about forged answers that one tick records, earliest first. squeue is read
before accounting, which matters less and is easier to forge."""

_PRUNE_EVERY_S = 3600
_REST = 3
"""Between two ticks the worker rests so many times as long as it asked the twin: that takes a
quarter of a core at most, and the API has the rest."""
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
        settings: DecisionSettings,
        intervals: Intervals | None = None,
        kill_file: Path | None = None,
        owner_uid: int | None = None,
        shape_forecaster: ShapeForecaster | None = None,
        notices: NoticeRecorder | None = None,
        usage: Callable[[], Mapping[str, CallTotals]] | None = None,
        load_sensor: LoadSensor | None = None,
        forgeries: Callable[[], list[str]] = list,
        retention: Retention | None = None,
        learning: NightlyLearning | None = None,
        chains_a_day: int = Quotas().registrations_per_day,
    ) -> None:
        """`settings`: who decides, and the configured limits. `owner_uid`: the user of a private
        service, which touches no other user's jobs. `shape_forecaster`: makes forecasts for jobs
        that are not submitted yet. `notices`: records notices about chains. `usage`: returns the
        cost of this process's Slurm calls. `load_sensor`: records slurmctld's own count of calls.
        `forgeries`: returns new sentences about forged answers. `retention`: how long rows are
        kept. `learning`: starts `mirage learn` by night; None: something else does, or nothing.
        `chains_a_day`: the most new chains of one user in 24 hours."""
        self._store, self._cluster, self._cluster_id = store, cluster, cluster_id
        self._settings = settings
        self._intervals = intervals or Intervals()
        self._kill_file = kill_file
        self._owner_uid = owner_uid
        self._shape_forecaster = shape_forecaster
        self._notices = notices
        self._load_sensor = load_sensor
        self._forgeries = forgeries
        self._seldom = ThrottledLog()
        self._retention = retention or Retention()
        self._learning = learning
        self._chains_a_day = chains_a_day
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._tick_recorder = TickRecorder(self._holder, usage)
        self._queue: Queue | None = None
        self._nodes: tuple[Node, ...] = ()
        self._nodes_at: int | None = None
        self._history = HistoryReader(
            store, cluster, cluster_id, self._intervals.history_s, self._follow_records
        )
        self._pruned_at: int | None = None
        self._cadence = PollingCadence(self._intervals.queue_s, self._intervals.pushed_queue_s)
        self._pushed = PushTimes(None, None, None)
        self._periodic_recorder = PeriodicRecorder(
            store, cluster_id, max(self._intervals.queue_s, self._intervals.pushed_queue_s)
        )

    def run(self, stop: threading.Event, sleep: Callable[[float], None] = time.sleep) -> None:
        """Tick until `stop` is set. The tick under way is finished."""
        while not stop.is_set():
            began = self._cluster.read_clock()
            self.run_tick()
            rest_s = 0.0
            while (
                not stop.is_set()
                and (left := self._compute_due_at(began) - self._cluster.read_clock()) > 0
            ):
                if rest_s <= 0:
                    rest_s = _REST * self._ask_twin_ahead() or 1.0
                nap_s = min(1.0, left, rest_s)
                sleep(nap_s)
                rest_s -= nap_s
        with self._store.begin() as tx:
            clusters.release_lease(tx, self._cluster_id, self._holder)

    def _ask_twin_ahead(self) -> float:
        """Go on for a moment with what the last ticks asked the twin. Return the seconds that it
        took; 0: nothing is asked."""
        observer, began = self._settings.observer, time.monotonic()
        rounds = [] if observer is None else [observer.twin_cache.round]
        if self._shape_forecaster is not None:
            rounds.append(self._shape_forecaster.round)
        under_way = next((one for one in rounds if one.is_under_way), None)
        if under_way is None:
            return 0.0
        try:
            under_way.go_on(BUDGET_S)
        except Exception:
            _log.exception("the twin's answers are not stored")
        return time.monotonic() - began

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
        except ClusterUnavailable as unavailable:
            error = f"Slurm does not answer: {unavailable}"
            _log.warning("Slurm does not answer", error=str(unavailable))
        except MirageError as failure:
            error = str(failure)
            _log.error("tick failed", error=error)
        except Exception:
            error = "an error that Mirage did not foresee: the log has it"
            _log.exception("tick failed")
        self._record_tick(error, time.monotonic() - began)

    def _record_tick(self, error: str, took_s: float) -> None:
        """Store the tick's duration and error for the page Admin; another process may show it."""
        try:
            with self._store.begin() as tx:
                now = self._cluster.read_clock()
                self._tick_recorder.record_tick(
                    tx, self._cluster_id, now, took_s=took_s, error=error
                )
                self._record_forgeries(tx, now)
        except MirageError as failure:
            _log.error("the tick is not written down", error=str(failure))
        except Exception:  # as in run_tick: only `stop` ends the worker, never an error
            _log.exception("the tick is not written down")

    def _record_forgeries(self, tx: Transaction, now: int) -> None:
        """Record at most one row a tick, so that a forger cannot fill the database."""
        sentences = self._forgeries()
        if not sentences:
            return
        errors = list(dict.fromkeys(sentences))[:_MAX_FORGERIES]
        self._seldom.log_event(_log.warning, FORGED, errors=errors, times=len(sentences))
        detail = {"errors": errors, "times": len(sentences)}
        audit.write_entry(
            tx, self._cluster_id, AuditEntry(at=now, actor="mirage", event=FORGED, detail=detail)
        )

    def _take_turn(self) -> bool:
        """Renew the lease and return whether this worker has it.

        A worker that has the lease obeys the kill switch before it does anything else.
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

    def _read_current_settings(self) -> DecisionSettings:
        """Return the settings with the limits that an admin may have set since the last tick."""
        with self._store.read() as tx:
            limits = limit_overrides.read_effective_limits(
                tx, self._cluster_id, self._settings.limits
            )
        return replace(self._settings, limits=limits)

    def _observe_and_act(self) -> None:
        # The order matters. Links are updated first. Then open intentions are settled by what the
        # queue shows, so that no command is repeated. Requests of owners come before the policies.
        # Slow reads of accounting come last, because moves need a queue that was just read.
        try:
            queue = self._cluster.fetch_queue()
        except ClusterUnavailable:
            self._retreat_unseen()
            raise
        last_look_at = None if self._queue is None else self._queue.taken_at
        nodes = self._refresh_nodes(queue.taken_at)
        marked = self._list_marked_jobs(queue)
        with self._store.begin() as tx:
            ingest_queue(tx, self._cluster_id, queue, nodes, earlier=self._queue)
            running_before = completion_push.list_running_links(tx, self._cluster_id)
            jobs = self._select_followed_jobs(tx, marked)
            link_sync.sync_links(tx, self._cluster_id, jobs, queue.taken_at, queue=queue)
            completion_push.check_missed_pushes(
                tx, self._cluster_id, running_before, queue.taken_at
            )
            self._pushed = push_times.read_push_times(tx, self._cluster_id)
            link_sync.keep_unread_links(tx, self._cluster_id, queue)
            missing = link_sync.list_missing_jobs(tx, self._cluster_id, queue.taken_at)
        self._queue = queue
        self._resolve_missing_links(missing, queue.taken_at)
        with self._store.begin() as tx:
            # Slurm may have answered slowly. If the lease ran out meanwhile, another worker acts.
            if not self._renew_lease(tx):
                return
            unread = link_sync.list_unread_chains(tx, self._cluster_id, queue)
            reconcile_intentions(tx, self._cluster_id, queue.taken_at, unread)
            move_verification.verify_moves(tx, self._cluster_id, queue, last_look_at, unread)
            advance_chains(tx, self._cluster_id, queue.taken_at)
            if self._notices is None:
                forget_situations(tx, self._cluster_id)
            else:
                self._notices.record_news(tx, self._cluster_id, queue.taken_at)
        enforce_requests(self._store, self._cluster, self._cluster_id, queue)
        snapshot = Snapshot(queue=queue, nodes=self._nodes)
        provision_handovers(
            self._store, self._cluster, self._cluster_id, snapshot, self._read_current_settings()
        )
        self._history.read_new_records(queue.taken_at)
        self._periodic_recorder.record_tick(queue)
        self._do_chores(queue.taken_at)
        if self._shape_forecaster is not None:
            self._shape_forecaster.run_tick(
                self._store, self._cluster_id, snapshot, self._settings.observer
            )

    def _do_chores(self, now: int) -> None:
        """Do what is due now and then, and decides nothing."""
        self._prune_old_rows(now)
        wait_statistics.refresh_sums(self._store, self._cluster_id)
        if self._load_sensor is not None:
            self._load_sensor.poll_if_due(self._store, self._cluster_id, now)
        if self._learning is not None:
            self._learning.run_tick(now)

    def _retreat_unseen(self) -> None:
        """Put back the standbys that Mirage pinned or planned where its mode is no longer act.

        The whole queue cannot be read, so Slurm is asked about these standbys and their
        predecessors alone.
        """
        with self._store.read() as tx:
            handovers = list_retreats(tx, self._cluster_id)
        if not handovers:
            return
        ids = {job_id for h in handovers for job_id in (h.standby.job_id, h.predecessor.job_id)}
        try:
            queue = self._cluster.fetch_jobs(sorted(ids))
        except ClusterError as error:
            _log.warning("standbys are not put back yet", error=str(error))
            return
        with self._store.begin() as tx:
            jobs = self._select_followed_jobs(tx, link_sync.list_marked_jobs(queue))
            link_sync.sync_links(tx, self._cluster_id, jobs, queue.taken_at)
            reconcile_intentions(tx, self._cluster_id, queue.taken_at)
        snapshot = Snapshot(queue=queue, nodes=())
        retreat_handovers(
            self._store, self._cluster, self._cluster_id, snapshot, self._read_current_settings()
        )

    def _list_marked_jobs(self, queue: Queue) -> list[Job]:
        """Return the jobs of the queue that carry a mark, with Slurm's full reasons why they
        wait."""
        with self._store.read() as tx:
            open_job_ids = list_open_job_ids(tx, self._cluster_id)
        return complete_reasons(
            self._cluster, link_sync.list_marked_jobs(queue), open_job_ids, self._nodes
        )

    def _select_followed_jobs(self, tx: Transaction, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that may become links. Only links are ever moved."""
        own = [job for job in jobs if self._owner_uid in {None, job.uid}]
        limits = limit_overrides.read_effective_limits(tx, self._cluster_id, self._settings.limits)
        quota = chain_quota.ChainQuota(live=limits.max_chains_per_user, a_day=self._chains_a_day)
        return chain_quota.filter_followed_jobs(
            tx, self._cluster_id, own, quota, now=self._cluster.read_clock()
        )

    def _refresh_nodes(self, now: int) -> tuple[Node, ...] | None:
        """Return the nodes; None if the last answer is recent, or if Slurm gives none.

        A tick goes on without nodes: the queue is enough to decide.
        """
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
        jobs = self._select_followed_jobs(tx, records)
        link_sync.sync_links(tx, self._cluster_id, jobs, now, accounting=True)

    def _prune_old_rows(self, now: int) -> None:
        if self._pruned_at is not None and now < self._pruned_at + _PRUNE_EVERY_S:
            return
        prune_expired(self._store, self._cluster_id, now, self._retention)
        self._pruned_at = now
