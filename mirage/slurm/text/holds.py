"""Tells by squeue's reasons whose hold keeps a job from starting, and who may lift it.

A job has at most one hold, a user's or an admin's, and Slurm does not keep who made it. slurmctld
refuses an Operator nothing (22.05.8). `scontrol uhold` turns an admin's hold into a user's, and
marks a running job to be held when it is requeued. `scontrol release` lifts any hold. So a client
must look at the job before and after such a move. The checks below say what it must find
(docs/decisions/0028).
"""

from collections.abc import Sequence
from typing import NamedTuple

from mirage.domain.job import JobId
from mirage.errors import JobChanged

USERS = "JobHeldUser"
ADMINS = "JobHeldAdmin"
_HELD = ("JobHeld", "JobHoldMaxRequeue", "JobLaunchFailure", "RequeueHeld")
"""How the words of a hold begin (`Hindrance.word`)."""


class HoldState(NamedTuple):
    """What squeue shows about the hold of one job, or of one component of a het job."""

    is_waiting: bool
    """Whether the job is pending."""
    reason: str
    priority: int | None


def is_held(reason: str, priority: int | None) -> bool:
    """Return whether the job is held, by a user, an admin or Slurm.

    Slurm itself gives priority 0 to a job that it will not look at again, such as one whose
    constraints nothing meets.
    """
    return priority == 0 or reason.startswith(_HELD)


def is_users_hold(reason: str) -> bool:
    """Return whether this is a hold that the job's owner may lift. Slurm shows a hold in preference
    to other reasons."""
    return reason == USERS


def check_unheld(job_id: JobId, components: Sequence[HoldState]) -> None:
    """Raise JobChanged if the job must not be held now: it is held already, or no longer waits.

    `components` are all of the job's components.
    """
    _check_pending(job_id, components, "held")
    for component in components:
        if is_held(component.reason, component.priority):
            raise JobChanged(
                f"job {job_id} is held already ({component.reason or 'priority 0'}): "
                "Mirage's hold would replace that hold"
            )


def check_hold_made(job_id: JobId, components: Sequence[HoldState]) -> None:
    """Check the job after a hold. Raise JobChanged if the hold is an admin's, and so not
    Mirage's."""
    _check_pending(job_id, components, "held")
    if any(component.reason == ADMINS for component in components):
        raise JobChanged(
            f"job {job_id} was held by an admin just now: only an admin can release it"
        )


def check_users_hold(job_id: JobId, components: Sequence[HoldState]) -> None:
    """Raise JobChanged unless the job has a user's hold, the only one that may be lifted."""
    _check_pending(job_id, components, "released")
    for component in components:
        if not is_users_hold(component.reason):
            raise JobChanged(
                f"job {job_id} is not released: no user's hold keeps it waiting "
                f"({component.reason or 'no reason'})"
            )


def is_hold_too_late(components: Sequence[HoldState]) -> bool:
    """Return whether a user's hold reached a job that had just started.

    The hold has to be lifted: if the job were requeued, it would be held.
    """
    return any(not c.is_waiting and is_users_hold(c.reason) for c in components)


def _check_pending(job_id: JobId, components: Sequence[HoldState], move: str) -> None:
    if not components or not all(c.is_waiting for c in components):
        raise JobChanged(f"job {job_id} is not {move}: it is not waiting any more")
