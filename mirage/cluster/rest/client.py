"""A cluster reached through slurmrestd. docs/decisions/0016 says what of 22.05.8's it cannot do.

What to say and how to read it lives in `mirage.slurm.rest.envelope` and its sisters.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from mirage.cluster import rest_accounting
from mirage.cluster.answer_reader import Reader
from mirage.cluster.call_stats import Usage
from mirage.cluster.cli.client import SlurmCli, own_name
from mirage.cluster.forgery_alarms import Alarms
from mirage.cluster.query_gate import SLOW_S, Lane, Patience
from mirage.cluster.rest.http import Query, Reply, RestHttp
from mirage.cluster.rest.moves import Moves
from mirage.cluster.rest.session import Session
from mirage.cluster.rest.token import Token
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue, Records
from mirage.domain.submission import Submission
from mirage.errors import ClusterRefused
from mirage.slurm.commands.sdiag import Diagnosis
from mirage.slurm.rest import diagnosis, history, node_inventory, queue
from mirage.slurm.rest.envelope import Dialect
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
        user_token: Callable[[str], Token] | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`commands`: for the little that slurmrestd cannot do; `user_token`: for `submit`."""
        self.http = http
        self.commands = commands
        self._user_token = user_token
        patience = patience or Patience(slow_s=SLOW_S)
        self._controller = Lane(patience)
        self._accounting = Lane(patience)
        # slurmctld too, and by itself: nobody waits for the queue because this does not read.
        self._statistics = Lane(patience)
        self._pinned: set[JobId] = set()
        self.alarms = Alarms() if commands is None else commands.alarms
        """What somebody else than Slurm wrote into its answers."""
        self._read = Reader(self.alarms, http.meter)
        self._session = Session(http, self._read)
        self._moves = Moves(self._session)

    def read_clock(self) -> int:
        return int(time.time())

    def usage(self) -> Mapping[str, Usage]:
        """Calls and seconds by kind of request, since the start; those of commands beside them."""
        own = dict(self.http.usage())
        return own if self.commands is None else own | dict(self.commands.usage())

    def dialect(self) -> Dialect:
        """The version that is spoken, asked of slurmrestd once; again after a 404."""
        return self._session.dialect()

    def fetch_queue(self) -> Queue:
        return self._controller.ask("queue", self._queue)

    def fetch_nodes(self) -> tuple[Node, ...]:
        return self._controller.ask("nodes", self._nodes)

    def diagnosis(self) -> tuple[Diagnosis, str]:
        """slurmctld's count of what it was asked, and who asks here."""
        return self._statistics.ask("diag", self._diagnosis), self.http.user() or own_name()

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        """One question: who wants a long span asks for it in pieces."""
        if since < until:
            span = history.build_window_query(since, until)
            yield from self._records(f"history {since} {until}", lambda _: span)

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> Records:
        wanted = sorted(set(job_ids))
        some = [wanted[i : i + _JOBS_AT_ONCE] for i in range(0, len(wanted), _JOBS_AT_ONCE)]
        found = [self._records(f"jobs {ids}", partial(history.build_id_query, ids)) for ids in some]
        return Records.join_records(found, wanted)

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """One question for each: the queue's own answer is many times as long."""
        found = {job_id: self._asked_nodes(job_id) for job_id in sorted(set(job_ids))}
        return {job_id: asked for job_id, asked in found.items() if asked}

    def free_standby(
        self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False
    ) -> None:
        """`unpin` where an earlier process pinned it; a user's own node list stays otherwise."""
        self._set(standby, owner, dependency, unpin=unpin)

    def pin_standby(self, standby: JobId, *, owner: int, dependency: str, node_list: str) -> None:
        own = self._moves.look_at(standby, owner).asked_nodes()
        if own and standby not in self._pinned:
            # A job has one list of nodes: the pin would replace it, and the unpin clear it.
            raise ClusterRefused(f"job {standby} asks for nodes itself ({own}): it is not pinned")
        self._moves.update(standby, dependency, node_list)
        self._pinned.add(standby)

    def set_dependency(
        self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False
    ) -> None:
        """`unpin` as in `free_standby`."""
        self._set(standby, owner, dependency, unpin=unpin)

    def _set(self, standby: JobId, owner: int, dependency: str, *, unpin: bool) -> None:
        self._moves.look_at(standby, owner)
        pinned = unpin or standby in self._pinned
        self._moves.update(standby, dependency, "" if pinned else None)
        self._pinned.discard(standby)

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        """Through scontrol: slurmrestd's hold is an admin's, which the job's owner cannot lift."""
        if self.commands is None:
            raise ClusterRefused(
                f"job {standby} is not held: slurmrestd would hold it as an admin, and its owner "
                "could not lift that; put scontrol on PATH for it"
            )
        self.commands.hold_job(standby, owner=owner)

    def release_job(self, standby: JobId, *, owner: int) -> None:
        """Looks before, and leaves the same gap as `SlurmCli.release_job`."""
        holds.check_users_hold(standby, self._moves.look_at(standby, owner).hold())
        self._moves.release(standby)

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        """A job that is over already is left at that."""
        self._moves.look_at(job_id, owner)
        self._moves.cancel(job_id)

    def submit(self, job: Submission, *, user: str) -> JobId:
        """Submit as that user, with a token of theirs for this one request.

        ClusterUnavailable: whether it was taken is not known; its mark tells. InputError: this
        slurmrestd cannot be told of such a job; none stands.
        """
        if self._user_token is None:
            raise ClusterRefused(
                "nothing is submitted for users: set cluster.rest_token_command to allow it"
            )
        return self._moves.submit(job, self._user_token(user))

    def _queue(self) -> Queue:
        taken_at = self.read_clock()
        reply = self._get("jobs")
        return self._read.rows(
            "slurmrestd",
            lambda unread: queue.parse_queue(reply.body, taken_at, unread),
            kind="rest:jobs",
        )

    def _asked_nodes(self, job_id: JobId) -> str:
        """Empty as well where Slurm does not know the job."""
        return self._controller.ask(f"job {job_id}", lambda: self._moves.asked_nodes(job_id))

    def _nodes(self) -> tuple[Node, ...]:
        reply = self._get("nodes")
        return self._read.rows(
            "slurmrestd",
            lambda unread: node_inventory.parse_nodes(reply.body, unread),
            kind="rest:nodes",
        )

    def _diagnosis(self) -> Diagnosis:
        reply = self._get("diag")
        return self._read("slurmrestd", lambda: diagnosis.parse_diagnosis(reply.body))

    def _get(self, what: str) -> Reply:
        return self._session.asked(lambda v: self.http.get(f"/slurm/{v.version}/{what}", what))

    def _records(self, key: str, which: Callable[[Dialect], Query]) -> Records:
        def ask(version: Dialect) -> Reply:
            if not version.accounting:
                # The next question finds a slurmrestd that was started anew with that plugin.
                self._session.forget()
                raise rest_accounting.not_served(version, self.commands)
            query = [*which(version), *history.build_completeness_query(version)]
            return self.http.get(f"/slurmdb/{version.version}/jobs", "accounting", query)

        reply = self._accounting.ask(key, lambda: self._session.asked(ask))
        unread = Unread()
        found = self._read.rows(
            "slurmrestd",
            lambda left_out: history.parse_records(reply.body, left_out),
            kind="rest:accounting",
            unread=unread,
        )
        return Records(found, unread.job_ids)
