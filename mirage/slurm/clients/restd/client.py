"""A cluster reached through slurmrestd.

`mirage.slurm.restd` builds the requests' bodies and parses the answers; this module sends them.
docs/decisions/0016 says what slurmrestd of 22.05.8 cannot do.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue, Records
from mirage.errors import (
    AccountingOff,
    ClusterError,
    ClusterRefused,
    ClusterUnavailable,
    UnreadableAnswer,
)
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.call_stats import CallTotals
from mirage.slurm.clients.cli.client import SlurmCli, get_own_name
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from mirage.slurm.clients.query_gate import SLOW_S, BackoffSettings, QueryGate
from mirage.slurm.clients.restd.http import Query, Reply, RestHttp
from mirage.slurm.clients.restd.moves import RestMoves
from mirage.slurm.clients.restd.session import RestSession
from mirage.slurm.commands.sdiag import Diagnosis
from mirage.slurm.restd import diagnosis, history, node_inventory, queue
from mirage.slurm.restd.envelope import EARLIEST, Dialect
from mirage.slurm.text import holds
from mirage.slurm.text.unread_rows import Unread

_JOBS_AT_ONCE = 200


class Slurmrestd:
    """Implements `ports.Cluster`. Queries wait for each other and back off; moves do neither."""

    def __init__(
        self,
        http: RestHttp,
        *,
        commands: SlurmCli | None = None,
        backoff: BackoffSettings | None = None,
    ) -> None:
        """`commands` does the moves that slurmrestd cannot do; None: such moves are refused."""
        self.http = http
        self.commands = commands
        backoff = backoff or BackoffSettings(slow_s=SLOW_S)
        self._controller = QueryGate(backoff)
        self._accounting = QueryGate(backoff)
        # slurmctld too, but with a gate of its own: trouble with statistics must not delay the
        # queue.
        self._statistics = QueryGate(backoff)
        self._pinned: set[JobId] = set()
        self.alarms = ForgeryAlarms() if commands is None else commands.alarms
        """Alarms about text in Slurm's answers that Slurm did not write."""
        self._read = AnswerReader(self.alarms, http.meter)
        self._session = RestSession(http, self._read)
        self._moves = RestMoves(self._session)

    def read_clock(self) -> int:
        return int(time.time())

    def get_usage(self) -> Mapping[str, CallTotals]:
        """Return calls and seconds by kind of request, and by command, since the start."""
        own = dict(self.http.get_usage())
        return own if self.commands is None else own | dict(self.commands.get_usage())

    def get_dialect(self) -> Dialect:
        """Return the API version in use. slurmrestd is asked once, and again after a 404."""
        return self._session.get_dialect()

    def fetch_queue(self) -> Queue:
        return self._controller.ask("queue", self._query_queue)

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        """Fetch each job by itself, so that one unreadable job costs no other job."""
        taken_at, jobs, unread = self.read_clock(), [], set[JobId]()
        for job_id in sorted(set(job_ids)):
            try:
                job = self._moves.fetch_job(job_id)
            except UnreadableAnswer:
                unread.add(job_id)
            else:
                jobs += [] if job is None else [job]
        return Queue.from_jobs(taken_at, jobs, frozenset(unread))

    def fetch_nodes(self) -> tuple[Node, ...]:
        return self._controller.ask("nodes", self._query_nodes)

    def fetch_diagnosis(self) -> tuple[Diagnosis, str]:
        """Return slurmctld's count of RPCs, and the user as whom Mirage calls it."""
        return self._statistics.ask(
            "diag", self._query_diagnosis
        ), self.http.get_user() or get_own_name()

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        """Fetch the records of a span in one request. Callers divide a long span."""
        if since < until:
            span = history.build_window_query(since, until)
            yield from self._query_records(f"history {since} {until}", lambda _: span)

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> Records:
        wanted_ids = sorted(set(job_ids))
        batches = [
            wanted_ids[i : i + _JOBS_AT_ONCE] for i in range(0, len(wanted_ids), _JOBS_AT_ONCE)
        ]
        answers = [
            self._query_records(f"jobs {ids}", partial(history.build_id_query, ids))
            for ids in batches
        ]
        return Records.join_records(answers, wanted_ids)

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """Fetch each job by itself, as the queue's own answer is many times as long."""
        node_lists = {
            job_id: self._query_requested_nodes(job_id) for job_id in sorted(set(job_ids))
        }
        return {job_id: node_list for job_id, node_list in node_lists.items() if node_list}

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Release the standby. `unpin`: an earlier process pinned it. Otherwise a user's own node
        list stays."""
        self._update_standby(
            standby, owner, dependency, unpin=unpin, expected_dependency=expected_dependency
        )

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        requested_nodes = self._moves.fetch_own_job(
            standby, owner, expected_dependency
        ).read_requested_nodes()
        if requested_nodes and standby not in self._pinned:
            # A job has one list of nodes: the pin would replace it, and the unpin clear it.
            raise ClusterRefused(
                f"job {standby} asks for nodes itself ({requested_nodes}): it is not pinned"
            )
        self._moves.update_job(standby, dependency, node_list)
        self._pinned.add(standby)

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Set the standby's dependency again. `unpin` as in `free_standby`."""
        self._update_standby(
            standby, owner, dependency, unpin=unpin, expected_dependency=expected_dependency
        )

    def _update_standby(
        self,
        standby: JobId,
        owner: int,
        dependency: str,
        *,
        unpin: bool,
        expected_dependency: str | None,
    ) -> None:
        self._moves.fetch_own_job(standby, owner, expected_dependency)
        unpin_now = unpin or standby in self._pinned
        self._moves.update_job(standby, dependency, "" if unpin_now else None)
        self._pinned.discard(standby)

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        """Hold the job through scontrol, as slurmrestd's hold is an admin's, which the owner cannot
        lift."""
        if self.commands is None:
            raise ClusterRefused(
                f"job {standby} is not held: slurmrestd would hold it as an admin, and its owner "
                "could not lift that; put scontrol on PATH for it"
            )
        self.commands.hold_job(standby, owner=owner)

    def release_job(self, standby: JobId, *, owner: int) -> None:
        """Release the job after checking its hold. The same gap remains as in
        `SlurmCli.release_job`."""
        holds.check_users_hold(standby, self._moves.fetch_own_job(standby, owner).read_hold())
        self._moves.release_job(standby)

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        """Cancel the job. A job that is already over stays as it is."""
        self._moves.fetch_own_job(job_id, owner)
        self._moves.cancel_job(job_id)

    def _query_queue(self) -> Queue:
        taken_at = self.read_clock()
        reply = self._get_reply("jobs")
        return self._read.read_rows(
            "slurmrestd",
            lambda unread: queue.parse_queue(reply.body, taken_at, unread),
            kind="rest:jobs",
        )

    def _query_requested_nodes(self, job_id: JobId) -> str:
        """Fetch the nodes that the job asks for by name; empty also if Slurm does not know the
        job."""
        return self._controller.ask(
            f"job {job_id}", lambda: self._moves.fetch_requested_nodes(job_id)
        )

    def _query_nodes(self) -> tuple[Node, ...]:
        reply = self._get_reply("nodes")
        return self._read.read_rows(
            "slurmrestd",
            lambda unread: node_inventory.parse_nodes(reply.body, unread),
            kind="rest:nodes",
        )

    def _query_diagnosis(self) -> Diagnosis:
        reply = self._get_reply("diag")
        return self._read("slurmrestd", lambda: diagnosis.parse_diagnosis(reply.body))

    def _get_reply(self, path: str) -> Reply:
        return self._session.send_query(lambda v: self.http.get(f"/slurm/{v.version}/{path}", path))

    def _query_records(self, key: str, build_query: Callable[[Dialect], Query]) -> Records:
        def request_records(version: Dialect) -> Reply:
            if not version.accounting:
                # Forget the dialect: the next query then notices a slurmrestd that was restarted
                # with the plugin.
                self._session.forget_dialect()
                raise _build_unserved_error(version, self.commands)
            query = [*build_query(version), *history.build_completeness_query(version)]
            return self.http.get(f"/slurmdb/{version.version}/jobs", "accounting", query)

        reply = self._accounting.ask(key, lambda: self._session.send_query(request_records))
        unread = Unread()
        jobs = self._read.read_rows(
            "slurmrestd",
            lambda rejects: history.parse_records(reply.body, rejects),
            kind="rest:accounting",
            unread=unread,
        )
        return Records(jobs, unread.job_ids)


def _build_unserved_error(version: Dialect, commands: SlurmCli | None) -> ClusterError:
    """Build the error of a query of accounting if slurmrestd serves no `/slurmdb`.

    Either the site keeps no accounting, or slurmrestd was started without that plugin. scontrol
    tells which, if this host has it. Without scontrol the version decides: slurmrestd of v0.0.38
    loads only the plugins that are named, so the plugin may have been forgotten. From 23.11 on
    slurmrestd loads both plugins by default, so the site must have left it out on purpose, for
    example because slurmrestd does not start with it where there is no accounting.
    """
    message = f"slurmrestd serves no /slurmdb/{version.version}"
    if version.version == EARLIEST if commands is None else commands.fetch_site_config().accounting:
        return ClusterUnavailable(f"{message}: start it without -s, or name that plugin in -s too")
    return AccountingOff(
        f"{message}: accounting storage is disabled here, or slurmrestd was started without that "
        "plugin (-s)"
    )
