"""Moves through slurmrestd, each looked at afterwards: an HTTP 200 alone proves nothing.

24.11 and 26.05 answer 200 without errors to a cancel that Slurm refused, to an update that leaves
the job as it is, and to a submission of which they ignore a field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirage.cluster.ownership import refuse_another_owner
from mirage.cluster.rest.http import Reply
from mirage.cluster.rest.session import Session
from mirage.cluster.rest.token import Token
from mirage.domain.job import Job, JobId, JobState
from mirage.domain.submission import Submission
from mirage.errors import ClusterRefused, ClusterUnavailable, InputError
from mirage.slurm.rest import envelope, moves, queue, submit
from mirage.slurm.rest.envelope import Dialect
from mirage.slurm.text import hostlist
from mirage.slurm.text.dependency import normalize_dependency
from mirage.slurm.text.holds import HoldState, is_users_hold

_BAD_REQUEST = 400
_UNKNOWN_JOB = 2017
"""ESLURM_INVALID_JOB_ID."""
_GOING = frozenset({JobState.COMPLETING, JobState.STAGE_OUT})
"""Of a job that was cancelled: its nodes are freed, or its data are staged out."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one job."""

    reply: Reply
    job: Job | None
    """None: slurmctld knows no such job."""
    read: Callable[[Callable[[], Any]], Any]

    def asked_nodes(self) -> str:
        """The nodes that it asks for by name."""
        found: str = self.read(lambda: queue.parse_requested_nodes(self.reply.body))
        return found

    def hold(self) -> list[HoldState]:
        found: list[HoldState] = self.read(lambda: queue.parse_hold_states(self.reply.body))
        return found


class Moves:
    def __init__(self, session: Session) -> None:
        self._session = session

    def look_at(self, job_id: JobId, owner: int) -> Look:
        """Part of a move: it waits for no other query. ClusterRefused for another user's job."""
        look = self._look(job_id)
        if look.job is None:
            raise ClusterRefused(f"slurmrestd does not show job {job_id}: it is not touched")
        refuse_another_owner(job_id, look.job.uid, owner)
        return look

    def asked_nodes(self, job_id: JobId) -> str:
        """The nodes that the job asks for by name; empty for one that slurmctld does not know."""
        look = self._look(job_id)
        return "" if look.job is None else look.asked_nodes()

    def update(self, standby: JobId, dependency: str, node_list: str | None) -> None:
        """None leaves the node list alone, empty text takes it away."""
        self._post(standby, lambda v: moves.build_update_body(v, dependency, node_list), "update")
        look = self._look(standby)
        if look.job is None or not look.job.state.is_waiting:
            return
        if normalize_dependency(look.job.dependency) != normalize_dependency(dependency):
            raise _unmoved(standby, f"its dependency is still {look.job.dependency!r}")
        if node_list is not None and _hosts(own := look.asked_nodes()) != _hosts(node_list):
            raise _unmoved(standby, f"its node list is still {own!r}")

    def release(self, standby: JobId) -> None:
        """Lifts whatever hold there is."""
        self._post(standby, lambda _: moves.build_release_body(), "release")
        if any(is_users_hold(each.reason) for each in self._look(standby).hold()):
            raise _unmoved(standby, "it is still held")

    def cancel(self, job_id: JobId, *, token: Token | None = None) -> None:
        """`token`: of whom; the service's own unless given."""
        self._session.told(
            "cancel",
            lambda v: self._session.http.delete(_path(v, job_id), "cancel", token=token),
            ignored=envelope.ALREADY_DONE,
        )
        # v0.0.40 and v0.0.41 tell of no refusal at all.
        job = self._look(job_id).job
        if job is not None and not job.state.has_ended and job.state not in _GOING:
            raise ClusterRefused(
                f"slurmrestd took the cancel of job {job_id}, and it is {job.state} still"
            )

    def submit(self, job: Submission, token: Token) -> JobId:
        """Raises InputError where slurmrestd would make another job of it: none stands."""

        def tell(version: Dialect) -> Reply:
            body = submit.build_submission(version, job)
            path = f"/slurm/{version.version}/job/submit"
            return self._session.http.post(path, "submit", body, token=token)

        reply = self._session.spoken(tell)
        if not self._session.read(lambda: submit.has_job_id(reply.body)):
            _refuse_misunderstood(self._session, reply)
            self._session.told("submit", lambda _: reply)
        made = self._session.read(lambda: submit.parse_job_id(reply.body))
        self._withdraw_half(made, reply, token)
        return made

    def _withdraw_half(self, made: JobId, reply: Reply, token: Token) -> None:
        """Take back a job of which something was ignored, or that has an error beside its number:
        it is another than its user's."""
        wrong = self._session.said(reply) or self._session.ignored(reply)
        if not wrong:
            return
        why = f"slurmrestd did not take all of the job: {wrong}"
        try:
            self.cancel(made, token=token)
        except (ClusterRefused, ClusterUnavailable) as error:
            raise ClusterUnavailable(f"{why}; and job {made} was not cancelled: {error}") from error
        raise InputError(f"{why}; job {made} was cancelled")

    def _post(self, job_id: JobId, body: Callable[[Dialect], Any], what: str) -> None:
        self._session.told(
            what, lambda v: self._session.http.post(_path(v, job_id), "update", body(v))
        )

    def _look(self, job_id: JobId) -> Look:
        session = self._session
        reply = session.spoken(lambda v: session.http.get(_path(v, job_id), "job"))
        if any(each.number == _UNKNOWN_JOB for each in session.complaints(reply)):
            return Look(reply, None, session.read)
        reply = session.asked(lambda _: reply)
        shown = session.read(lambda: queue.parse_jobs(reply.body))
        found = next((job for job in shown if job.job_id == job_id), None)
        return Look(reply, found, session.read)


def _refuse_misunderstood(session: Session, reply: Reply) -> None:
    """Raises InputError for a submission that slurmrestd could not read, and made no job of."""
    said = session.said(reply)
    if said is not None:
        if reply.status == _BAD_REQUEST or any(
            c.is_request_fault for c in session.complaints(reply)
        ):
            raise InputError(f"slurmrestd does not understand the job: {said}")
        return
    ignored = session.ignored(reply)
    if ignored:
        # 24.11 and 26.05 answer 200 without an error to a value of another type.
        raise InputError(f"slurmrestd does not understand the job: {ignored}")


def _path(version: Dialect, job_id: JobId) -> str:
    return f"/slurm/{version.version}/job/{job_id}"


def _hosts(node_list: str) -> frozenset[str]:
    return frozenset(hostlist.expand_hostlist(node_list))


def _unmoved(job_id: JobId, how: str) -> ClusterUnavailable:
    return ClusterUnavailable(
        f'slurmrestd took the move of job {job_id} and {how}: use cluster.transport = "cli"'
    )
