"""The two seams: the cluster, and the policy. Everything else is ours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirage.domain.decision import Decision, PolicyView
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue


class Cluster(Protocol):
    """Slurm, however it is reached.

    Every method raises ClusterUnavailable when there is no answer (nothing is known then), and the
    moves raise ClusterRefused when Slurm understood and said no. Instants are the cluster's own
    epoch seconds.

    `owner` of a move is the uid whose chain it is for. Right before the move the job's uid is asked
    anew, in a question whose answer holds nothing that users write; a job of anybody else is left
    alone, and ClusterRefused raised.

    `seen` of a move is the dependency that the move was computed from. It is compared with what the
    same question shows: if somebody has changed it since, the standby is left alone, and JobChanged
    raised. None: it is not compared.
    """

    def read_clock(self) -> int:
        """The cluster's clock."""
        ...

    def fetch_queue(self) -> Queue:
        """All jobs Slurm knows, ended ones within MinJobAge included. One RPC for everybody."""
        ...

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        """These jobs alone, as the queue shows them, without those that Slurm does not know.

        Other jobs' rows cannot spoil the answer, and it waits for no pause between queries.
        """
        ...

    def fetch_nodes(self) -> tuple[Node, ...]: ...

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        """Accounting records of jobs that were in any state in [since, until), requeues included.

        Raises AccountingOff where the site keeps no accounting.
        """
        ...

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> list[Job]:
        """Return accounting's records of these ids; absent ids are left out.

        Returns `Records` if some of the records cannot be read.
        """
        ...

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        """The nodes that these jobs ask for by name, as host lists; without those that ask for none
        and those that Slurm does not show."""
        ...

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        seen: str | None = None,
    ) -> None:
        """Make the standby eligible anywhere. `dependency` is what stays of the user's own.

        `unpin` where Mirage pinned it, so that it had no node list of its own.
        """
        ...

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        seen: str | None = None,
    ) -> None:
        """Make it eligible, but only on `node_list`, the predecessor's own nodes.

        Raises ClusterRefused for one that asks for nodes by name itself: a job has one such list,
        and the user's would be lost.
        """
        ...

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        seen: str | None = None,
    ) -> None:
        """Put it back behind `dependency`, which names its predecessor.

        `unpin` as in `free_standby`. Slurm must still know the predecessor: behind a forgotten
        job the standby is free.
        """
        ...

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        """Keep it from starting whatever its dependency says, until `release_job`.

        It is a user's hold, which the job's owner may lift as well.
        Raises JobChanged for a job that somebody holds already, or that does not wait: it is left
        as it is.
        """
        ...

    def release_job(self, standby: JobId, *, owner: int) -> None:
        """Lift a user's hold. Whether it is Mirage's own only the caller knows.

        Raises JobChanged for a job without one, such as one that an admin holds.
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
        """The decision that needs neither observation nor twin; None: `decide` has to be asked."""
        ...

    def explain_unfit(self, view: PolicyView) -> str | None:
        """Why it cannot be asked about this handover now; None: it can."""
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
