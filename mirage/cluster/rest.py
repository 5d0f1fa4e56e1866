"""A cluster reached through slurmrestd. docs/decisions/0016 says what of 22.05.8's it cannot do.

What to say and how to read it lives in `mirage.slurm.payloads` and its sisters.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mirage.cluster.alarms import Alarms
from mirage.cluster.cli import SlurmCli, own_name
from mirage.cluster.lane import SLOW_S, Lane, Patience
from mirage.cluster.meter import Usage
from mirage.cluster.ownership import refuse_another_owner
from mirage.cluster.reading import Reader
from mirage.cluster.rest_http import Gone, Reply, RestHttp
from mirage.cluster.rest_token import Token
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue, Records
from mirage.domain.submission import Submission
from mirage.errors import (
    AccountingOff,
    ClusterRefused,
    ClusterUnavailable,
    InputError,
)
from mirage.slurm import (
    holds,
    payloads,
    payloads_diag,
    payloads_history,
    payloads_moves,
    payloads_nodes,
    payloads_queue,
    payloads_submit,
)
from mirage.slurm.complaints import no_accounting, no_answer, plain_no
from mirage.slurm.dependency import plain
from mirage.slurm.sdiag import Diagnosis
from mirage.slurm.unread import Unread

_BAD = 400
_JOBS_AT_ONCE = 200
_RECORD_QUERIES = ("skip_steps", "show_duplicates")
"""Asked for where the server's document has them: no steps; every run of a requeued job."""


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
        self._dialect: payloads.Dialect | None = None
        self._dialect_lock = threading.Lock()
        self._pinned: set[JobId] = set()
        self.alarms = Alarms() if commands is None else commands.alarms
        """What somebody else than Slurm wrote into its answers."""
        self._read = Reader(self.alarms, http.meter)

    def now(self) -> int:
        return int(time.time())

    def usage(self) -> Mapping[str, Usage]:
        """Calls and seconds by kind of request, since the start; those of commands beside them."""
        own = dict(self.http.usage())
        return own if self.commands is None else own | dict(self.commands.usage())

    def dialect(self) -> payloads.Dialect:
        """The version that is spoken, asked of slurmrestd once; again after a 404."""
        with self._dialect_lock:
            if self._dialect is None:
                reply = self.http.get("/openapi/v3", "openapi")
                self._dialect = self._read("slurmrestd", lambda: payloads.dialect(reply.body))
            return self._dialect

    def queue(self) -> Queue:
        return self._controller.ask("queue", self._queue)

    def nodes(self) -> tuple[Node, ...]:
        return self._controller.ask("nodes", self._nodes)

    def diagnosis(self) -> tuple[Diagnosis, str]:
        """slurmctld's count of what it was asked, and who asks here."""
        return self._statistics.ask("diag", self._diagnosis), self.http.user() or own_name()

    def history(self, since: int, until: int) -> Iterator[Job]:
        """One question: who wants a long span asks for it in pieces."""
        yield from self._window(since, until) if since < until else ()

    def jobs(self, job_ids: Sequence[JobId]) -> Records:
        wanted = sorted(set(job_ids))
        some = (wanted[i : i + _JOBS_AT_ONCE] for i in range(0, len(wanted), _JOBS_AT_ONCE))
        named = (",".join(map(str, ids)) for ids in some)
        found = [self._records(f"jobs {ids}", {"step": ids}) for ids in named]
        return Records.joined(found, wanted)

    def asked_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """One question for each: the queue's own answer is many times as long."""
        found = {job_id: self._asked_nodes(job_id) for job_id in sorted(set(job_ids))}
        return {job_id: asked for job_id, asked in found.items() if asked}

    def free(self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False) -> None:
        """`unpin` where an earlier process pinned it; a user's own node list stays otherwise."""
        self._look_at(standby, owner)
        pinned = unpin or standby in self._pinned
        self._move(standby, dependency, "" if pinned else None)
        self._pinned.discard(standby)

    def pin(self, standby: JobId, *, owner: int, dependency: str, node_list: str) -> None:
        reply = self._look_at(standby, owner)
        own = self._read("slurmrestd", lambda: payloads_queue.asked_nodes(reply.body))
        if own and standby not in self._pinned:
            # A job has one list of nodes: the pin would replace it, and the unpin clear it.
            raise ClusterRefused(f"job {standby} asks for nodes itself ({own}): it is not pinned")
        self._move(standby, dependency, node_list)
        self._pinned.add(standby)

    def hold(self, standby: JobId, *, owner: int, dependency: str, unpin: bool = False) -> None:
        """`unpin` as in `free`."""
        self._look_at(standby, owner)
        pinned = unpin or standby in self._pinned
        self._move(standby, dependency, "" if pinned else None)
        self._pinned.discard(standby)

    def suspend(self, standby: JobId, *, owner: int) -> None:
        """Through scontrol: slurmrestd's hold is an admin's, which the job's owner cannot lift."""
        if self.commands is None:
            raise ClusterRefused(
                f"job {standby} is not held: slurmrestd would hold it as an admin, and its owner "
                "could not lift that; put scontrol on PATH for it"
            )
        self.commands.suspend(standby, owner=owner)

    def resume(self, standby: JobId, *, owner: int) -> None:
        """Looks before, and leaves the same gap as `SlurmCli.resume`."""
        reply = self._look_at(standby, owner)
        holds.check_users(
            standby, self._read("slurmrestd", lambda: payloads_queue.hold(reply.body))
        )
        self._told("release", lambda v: self._update(v, standby, payloads_moves.release()))

    def cancel(self, job_id: JobId, *, owner: int) -> None:
        """A job that is over already is left at that."""
        self._look_at(job_id, owner)
        self._told("cancel", lambda v: self.http.delete(_job(v, job_id), "cancel"))

    def submit(self, job: Submission, *, user: str) -> JobId:
        """Submit as that user, with a token of theirs for this one request.

        ClusterUnavailable: whether it was taken is not known; its mark tells. InputError: this
        slurmrestd cannot be told of such a job; nothing was submitted.
        """
        if self._user_token is None:
            raise ClusterRefused(
                "nothing is submitted for users: set cluster.rest_token_command to allow it"
            )
        version = self.dialect()
        body, token = payloads_submit.submit(version, job), self._user_token(user)
        path = f"/slurm/{version.version}/job/submit"
        reply = self._spoken(lambda _: self.http.post(path, "submit", body, token=token))
        said = self._said(reply)
        if said is not None and reply.status == _BAD:
            raise InputError(f"slurmrestd does not understand the job: {said}")
        reply = self._told("submit", lambda _: reply)
        return self._read("slurmrestd", lambda: payloads_submit.submitted(reply.body))

    def _queue(self) -> Queue:
        taken_at = self.now()
        reply = self._asked(lambda v: self.http.get(f"/slurm/{v.version}/jobs", "jobs"))
        return self._read.rows(
            "slurmrestd",
            lambda unread: payloads_queue.parse(reply.body, taken_at, unread),
            kind="rest:jobs",
        )

    def _asked_nodes(self, job_id: JobId) -> str:
        """Empty as well where Slurm does not know the job."""
        try:
            reply = self._controller.ask(
                f"job {job_id}",
                lambda: self._asked(lambda v: self.http.get(_job(v, job_id), "job")),
            )
        except ClusterRefused:
            return ""
        return self._read("slurmrestd", lambda: payloads_queue.asked_nodes(reply.body))

    def _nodes(self) -> tuple[Node, ...]:
        reply = self._asked(lambda v: self.http.get(f"/slurm/{v.version}/nodes", "nodes"))
        return self._read.rows(
            "slurmrestd",
            lambda unread: payloads_nodes.parse(reply.body, unread),
            kind="rest:nodes",
        )

    def _diagnosis(self) -> Diagnosis:
        reply = self._asked(lambda v: self.http.get(f"/slurm/{v.version}/diag", "diag"))
        return self._read("slurmrestd", lambda: payloads_diag.parse(reply.body))

    def _window(self, since: int, until: int) -> Records:
        span = {"start_time": f"uts{since}", "end_time": f"uts{until}"}
        return self._records(f"history {since} {until}", span)

    def _records(self, key: str, which: Mapping[str, str]) -> Records:
        def ask(version: payloads.Dialect) -> Reply:
            if not version.accounting:
                raise ClusterUnavailable(
                    f"slurmrestd serves no /slurmdb/{version.version}: start it with that plugin "
                    "as well (-s)"
                )
            query = {k: "true" for k in _RECORD_QUERIES if k in version.record_queries}
            at = f"/slurmdb/{version.version}/jobs"
            return self.http.get(at, "accounting", {**which, **query})

        reply = self._accounting.ask(key, lambda: self._asked(ask))
        unread = Unread()
        found = self._read.rows(
            "slurmrestd",
            lambda left_out: payloads_history.records(reply.body, left_out),
            kind="rest:accounting",
            unread=unread,
        )
        return Records(found, unread.job_ids)

    def _move(self, standby: JobId, dependency: str, node_list: str | None) -> None:
        def tell(version: payloads.Dialect) -> Reply:
            body = payloads_moves.update(version, dependency, node_list)
            return self._update(version, standby, body)

        self._told("update", tell)
        if self.dialect().version != payloads.TRIED:
            self._check(standby, dependency)

    def _check(self, standby: JobId, dependency: str) -> None:
        """Look whether the move was made: how later versions take an empty list was not tried."""
        reply = self._asked(lambda v: self.http.get(_job(v, standby), "job"))
        shown = self._read("slurmrestd", lambda: payloads_queue.jobs(reply.body))
        found = next((job for job in shown if job.job_id == standby), None)
        if (
            found is not None
            and found.state.waiting
            and plain(found.dependency) != plain(dependency)
        ):
            raise ClusterUnavailable(
                f"slurmrestd took the move of job {standby} and its dependency is still "
                f'{found.dependency!r}: use cluster.transport = "cli"'
            )

    def _look_at(self, job_id: JobId, owner: int) -> Reply:
        """Part of a move: it waits for no other query. ClusterRefused for another user's job."""
        reply = self._asked(lambda v: self.http.get(_job(v, job_id), "job"))
        shown = self._read("slurmrestd", lambda: payloads_queue.jobs(reply.body))
        uids = [job.uid for job in shown if job.job_id == job_id]
        if not uids:
            raise ClusterRefused(f"slurmrestd does not show job {job_id}: it is not touched")
        refuse_another_owner(job_id, uids[0], owner)
        return reply

    def _update(self, version: payloads.Dialect, job_id: JobId, body: Any) -> Reply:
        return self.http.post(_job(version, job_id), "update", body)

    def _asked(self, ask: Callable[[payloads.Dialect], Reply]) -> Reply:
        """The answer of a query, its errors raised: only a plain no is a refusal."""
        reply = self._spoken(ask)
        said = self._said(reply, ignored=payloads_history.NOTHING_FOUND)
        if said is None:
            return reply
        if no_accounting(said):
            raise AccountingOff(said)
        raise ClusterRefused(said) if plain_no(said) else ClusterUnavailable(said)

    def _told(self, what: str, tell: Callable[[payloads.Dialect], Reply]) -> Reply:
        """The answer of a move: whatever is not about reaching Slurm is a no."""
        reply = self._spoken(tell)
        said = self._said(reply)
        if said is None:
            return reply
        told = f"slurmrestd, {what}: {said}"
        raise ClusterUnavailable(told) if _unreached(reply) else ClusterRefused(told)

    def _said(self, reply: Reply, *, ignored: int | None = None) -> str | None:
        """What an answer complains of, in one line; None for a good one."""
        found = self._read("slurmrestd", lambda: payloads.complaints(reply.body))
        held = [each for each in found if each.number != ignored]
        if not held and (reply.status < _BAD or found):
            return None
        told = list(dict.fromkeys(map(str, held)))
        return f"{'; '.join(told)[:500] or 'no word of why'} (HTTP {reply.status})"

    def _spoken(self, ask: Callable[[payloads.Dialect], Reply]) -> Reply:
        try:
            return ask(self.dialect())
        except Gone:
            with self._dialect_lock:
                self._dialect = None
            raise


def _job(version: payloads.Dialect, job_id: JobId) -> str:
    return f"/slurm/{version.version}/job/{job_id}"


def _unreached(reply: Reply) -> bool:
    """Judged by Slurm's own words: a description may hold the path of slurmrestd's socket."""
    found = payloads.complaints(reply.body)
    return (
        not found
        or all(each.number == -1 for each in found)
        or any(no_answer(each.error) for each in found)
    )
