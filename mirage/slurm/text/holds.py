"""Tells by squeue's words whose hold keeps a job from starting, and who may lift it.

Slurm keeps one hold of a job, a user's or an admin's, and not who made it. To an Operator slurmctld
says yes to everything (22.05.8): `scontrol uhold` turns an admin's hold into a user's, and sets a
running job to be held when it is requeued; `release` lifts any hold. So whoever moves looks first,
and this is what the look has to show (docs/decisions/0028).
"""

from collections.abc import Sequence
from typing import NamedTuple

from mirage.domain.job import JobId
from mirage.errors import JobChanged

USERS = "JobHeldUser"
ADMINS = "JobHeldAdmin"
_HELD = "JobHeld"


class HoldState(NamedTuple):
    """The state of a job that shows its hold."""

    waits: bool
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
    """Return whether this is a hold that the job's owner may lift. Slurm shows it before other
    reasons."""
    return reason == USERS


def check_unheld(job_id: JobId, shown: Sequence[HoldState]) -> None:
    """Raise JobChanged for a job that must not be held now. `shown` has all of its components."""
    _check_pending(job_id, shown, "held")
    for each in shown:
        if is_held(each.reason, each.priority):
            raise JobChanged(
                f"job {job_id} is held already ({each.reason or 'priority 0'}): "
                "Mirage's hold would replace that hold"
            )


def check_hold_made(job_id: JobId, shown: Sequence[HoldState]) -> None:
    """Check the job after a hold. Raise JobChanged if the hold is an admin's, and so not
    Mirage's."""
    _check_pending(job_id, shown, "held")
    if any(each.reason == ADMINS for each in shown):
        raise JobChanged(
            f"job {job_id} was held by an admin just now: only an admin can release it"
        )


def check_users_hold(job_id: JobId, shown: Sequence[HoldState]) -> None:
    """Raise JobChanged unless the job has a user's hold, the only one that may be lifted."""
    _check_pending(job_id, shown, "released")
    for each in shown:
        if not is_users_hold(each.reason):
            raise JobChanged(
                f"job {job_id} is not released: no user's hold keeps it waiting "
                f"({each.reason or 'no reason'})"
            )


def is_hold_too_late(shown: Sequence[HoldState]) -> bool:
    """Return whether a user's hold reached a job that had just started.

    Such a job would wait when requeued.
    """
    return any(not each.waits and is_users_hold(each.reason) for each in shown)


def _check_pending(job_id: JobId, shown: Sequence[HoldState], done: str) -> None:
    if not shown or not all(each.waits for each in shown):
        raise JobChanged(f"job {job_id} is not {done}: it is not waiting any more")
