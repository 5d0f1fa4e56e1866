"""Moves through slurmrestd. The job is fetched after each move, since an HTTP 200 proves nothing.

24.11 and 26.05 answer 200 without errors to a cancel that Slurm refused, and to an update that
leaves the job as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mirage.domain.job import Job, JobId, JobState
from mirage.errors import ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.ownership import refuse_another_owner
from mirage.slurm.clients.restd.http import Reply
from mirage.slurm.clients.restd.session import RestSession
from mirage.slurm.restd import envelope, moves, queue
from mirage.slurm.restd.envelope import Dialect
from mirage.slurm.text import hostlist
from mirage.slurm.text.dependency import check_unchanged, normalize_dependency
from mirage.slurm.text.holds import HoldState, is_users_hold

_UNKNOWN_JOB = 2017
"""Slurm's error ESLURM_INVALID_JOB_ID."""
_ENDING_STATES = frozenset({JobState.COMPLETING, JobState.STAGE_OUT})
"""States of a cancelled job whose nodes are being freed, or whose data are being staged out."""


@dataclass(frozen=True, slots=True)
class JobReply:
    """One answer about one job."""

    reply: Reply
    job: Job | None
    """The job; None: slurmctld does not know it."""
    read: Callable[[Callable[[], Any]], Any]

    def read_requested_nodes(self) -> str:
        """Return the nodes that the job asks for by name."""
        value: str = self.read(lambda: queue.parse_requested_nodes(self.reply.body))
        return value

    def read_hold(self) -> list[HoldState]:
        value: list[HoldState] = self.read(lambda: queue.parse_hold_states(self.reply.body))
        return value


class RestMoves:
    def __init__(self, session: RestSession) -> None:
        self._session = session

    def fetch_own_job(
        self, job_id: JobId, owner: int, expected_dependency: str | None = None
    ) -> JobReply:
        """Fetch the job before a move, without waiting for other queries. Raises ClusterRefused for
        another user's job, JobChanged for a dependency that is not the expected one."""
        answer = self._fetch_job(job_id)
        if answer.job is None:
            raise ClusterRefused(f"slurmrestd does not show job {job_id}: it is not touched")
        refuse_another_owner(job_id, answer.job.uid, owner)
        check_unchanged(job_id, answer.job.dependency, expected_dependency)
        return answer

    def fetch_job(self, job_id: JobId) -> Job | None:
        """Fetch one job without waiting for other queries; None: slurmctld does not know it."""
        return self._fetch_job(job_id).job

    def fetch_requested_nodes(self, job_id: JobId) -> str:
        """Fetch the nodes that the job asks for by name; empty for a job that slurmctld does not
        know."""
        answer = self._fetch_job(job_id)
        return "" if answer.job is None else answer.read_requested_nodes()

    def update_job(self, standby: JobId, dependency: str, node_list: str | None) -> None:
        """Update the standby. `node_list` None keeps the node list, empty text removes it."""
        self._send_update(
            standby, lambda v: moves.build_update_body(v, dependency, node_list), "update"
        )
        answer = self._fetch_job(standby)
        if answer.job is None or not answer.job.state.is_waiting:
            return
        if normalize_dependency(answer.job.dependency) != normalize_dependency(dependency):
            raise _build_unmoved_error(
                standby, f"its dependency is still {answer.job.dependency!r}"
            )
        if node_list is not None and _expand_hosts(
            current_nodes := answer.read_requested_nodes()
        ) != _expand_hosts(node_list):
            raise _build_unmoved_error(standby, f"its node list is still {current_nodes!r}")

    def release_job(self, standby: JobId) -> None:
        """Release the job from any hold."""
        self._send_update(standby, lambda _: moves.build_release_body(), "release")
        if any(is_users_hold(hold.reason) for hold in self._fetch_job(standby).read_hold()):
            raise _build_unmoved_error(standby, "it is still held")

    def cancel_job(self, job_id: JobId) -> None:
        self._session.send_move(
            "cancel",
            lambda v: self._session.http.delete(_build_job_path(v, job_id), "cancel"),
            ignored=envelope.ALREADY_DONE,
        )
        # v0.0.40 and v0.0.41 report no refusal of a cancel at all.
        job = self._fetch_job(job_id).job
        if job is not None and not job.state.has_ended and job.state not in _ENDING_STATES:
            raise ClusterRefused(
                f"slurmrestd accepted the cancel of job {job_id}, but the job is still {job.state}"
            )

    def _send_update(
        self, job_id: JobId, build_body: Callable[[Dialect], Any], action: str
    ) -> None:
        self._session.send_move(
            action,
            lambda v: self._session.http.post(_build_job_path(v, job_id), "update", build_body(v)),
        )

    def _fetch_job(self, job_id: JobId) -> JobReply:
        session = self._session
        reply = session.send_in_dialect(
            lambda v: session.http.get(_build_job_path(v, job_id), "job")
        )
        if any(error.number == _UNKNOWN_JOB for error in session.list_complaints(reply)):
            return JobReply(reply, None, session.read_answer)
        reply = session.send_query(lambda _: reply)
        jobs = session.read_answer(lambda: queue.parse_jobs(reply.body))
        job = next((job for job in jobs if job.job_id == job_id), None)
        return JobReply(reply, job, session.read_answer)


def _build_job_path(version: Dialect, job_id: JobId) -> str:
    return f"/slurm/{version.version}/job/{job_id}"


def _expand_hosts(node_list: str) -> frozenset[str]:
    return frozenset(hostlist.expand_hostlist(node_list))


def _build_unmoved_error(job_id: JobId, problem: str) -> ClusterUnavailable:
    return ClusterUnavailable(
        f'slurmrestd took the move of job {job_id} and {problem}: use cluster.transport = "cli"'
    )
