"""The protocols of Mirage's two exchangeable parts: the cluster and the policy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue


class Cluster(Protocol):
    """Slurm, by commands, by slurmrestd, or simulated.

    Every method raises ClusterUnavailable if there is no answer: then nothing is known, and nothing
    may be concluded. The moves raise ClusterRefused if Slurm refuses. Instants are epoch seconds of
    the cluster's clock.

    `owner` of a move is the uid of the chain's owner. Right before the move the client asks Slurm
    for the job's uid again, in a query whose answer holds no text of users. If the job belongs to
    somebody else, it is not touched, and ClusterRefused is raised.

    `expected_dependency` of a move is the dependency from which the move was computed. It is
    compared with the dependency in the same answer. If somebody has changed the dependency in
    between, the standby is not touched, and JobChanged is raised. None: nothing is compared.
    """

    def read_clock(self) -> int:
        """Return the time of the cluster's clock, in epoch seconds."""
        ...

    def fetch_queue(self) -> Queue:
        """Fetch all jobs that Slurm knows, also those that ended within MinJobAge. One RPC serves
        all callers."""
        ...

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        """Fetch only these jobs, as the queue shows them. Jobs that Slurm does not know are absent.

        Unreadable rows of other jobs cannot spoil this answer, and it does not wait while queries
        are paused.
        """
        ...

    def fetch_nodes(self) -> tuple[Node, ...]: ...

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        """Fetch accounting's records of jobs that were in any state in [since, until), with every
        run of a requeued job.

        Raises AccountingOff if the site keeps no accounting.
        """
        ...

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        """Return accounting's records of these ids; absent ids are left out.

        Returns `Records` if some of the records cannot be read.
        """
        ...

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """Fetch the nodes that these jobs ask for by name, as host lists. Jobs that ask for no
        nodes, or that Slurm does not show, are absent."""
        ...

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Make the standby eligible anywhere. `dependency` is the user's own part, which stays.

        `unpin`: Mirage pinned the standby, so its node list is Mirage's and is removed.
        """
        ...

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        """Make the standby eligible, but only on `node_list`, the predecessor's nodes.

        Raises ClusterRefused for a standby that asks for nodes by name itself: a job has one such
        list, and the user's would be lost.
        """
        ...

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Set the standby's dependency again, to `dependency`, which names its predecessor.

        `unpin` as in `free_standby`. Slurm must still know the predecessor. If it does not, Slurm
        drops the dependency and the standby is free.
        """
        ...

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        """Hold the standby: it does not start until `release_job`, whatever its dependency.

        The hold is a user's hold, which the job's owner may lift too. Raises JobChanged for a job
        that is held already, or that no longer waits; such a job is not touched.
        """
        ...

    def release_job(self, standby: JobId, *, owner: int) -> None:
        """Lift a user's hold. Slurm does not show who made it: the caller must know its own.

        Raises JobChanged for a job without a user's hold, such as one that an admin holds.
        """
        ...

    def cancel_job(self, job_id: JobId, *, owner: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The parts of a handover that a policy needs beyond its times; each part costs something."""

    observation: bool = False
    """`PolicyView.observation`, which takes time to compute."""
    window: bool = False
    """`PolicyView.window`, which takes memory to keep."""
    twin: bool = False
    """`PolicyView.twin_s`, for which the cluster is simulated."""


class Policy(Protocol):
    """Decides when to make the standby eligible.

    A policy is pure: all that it knows is in the view.
    """

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Needs: ...

    def decide(self, view: PolicyView) -> Decision: ...

    def decide_outright(self, view: PolicyView) -> Decision | None:
        """Return the decision if it needs neither observation nor twin; None: call `decide`."""
        ...

    def explain_unfit(self, view: PolicyView) -> str | None:
        """Return why the policy cannot decide this hand-over now; None: it can."""
        ...


class SimplePolicy:
    """A base for policies that need nothing and can always be asked."""

    __slots__ = ()

    @property
    def needs(self) -> Needs:
        return Needs()

    def decide_outright(self, view: PolicyView) -> Decision | None:  # noqa: ARG002 - see Policy
        return None

    def explain_unfit(self, view: PolicyView) -> str | None:  # noqa: ARG002 - see Policy
        return None
