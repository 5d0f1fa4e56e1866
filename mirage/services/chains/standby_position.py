"""Reads from Slurm where a standby stands: position, planned release, who released it.

A plan stands in Slurm alone. The running link, the chain's owner and an admin may write one as
well. Slurm carries a plan out whether or not Mirage is there to see it.
"""

from dataclasses import replace

from mirage.domain.chain import Link, LinkState, Planner, Position
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import MalformedText
from mirage.slurm.text import dependency
from mirage.slurm.text.chain_settings import infer_planner

GRACE_S = 180
"""What does not show up within three queue ticks will not come by itself."""


def update_position(before: Link | None, predecessor: Link | None, link: Link, job: Job) -> Link:
    """Return the link with the position and the plan that the queue shows.

    `before`: the same place in the chain at the look before, of any job.
    """
    link = replace(link, position=_compute_position(link, predecessor, job))
    known = before if before is not None and before.job_id == link.job_id else None
    return _update_plan(known, predecessor, link, job)


def _compute_position(link: Link, predecessor: Link | None, job: Job) -> Position:
    if not job.state.is_waiting:
        return link.position
    if predecessor is not None and _is_waiting_on(job.dependency, predecessor.job_id):
        return Position.HELD
    if predecessor is None and job.dependency:
        return Position.HELD
    # The queue does not show which nodes a pending job asks for.
    return Position.PINNED if link.position is Position.PINNED else Position.FREE


def _is_waiting_on(text: str, predecessor: JobId) -> bool:
    """A list that does not read is not Mirage's to take apart: the standby counts as held."""
    try:
        return dependency.has_own_term(text, predecessor)
    except MalformedText:
        return True


def _update_plan(known: Link | None, predecessor: Link | None, link: Link, job: Job) -> Link:
    """Return the link with the plan that the queue shows for a held standby.

    A link that is released keeps its last plan: it tells how the release came about.
    """
    if link.position is not Position.HELD or link.state is not LinkState.PENDING:
        return link
    minutes = start = None
    if predecessor is not None:
        minutes = dependency.find_plan_minutes(job.dependency, predecessor.job_id)
        start = predecessor.start
    return replace(
        link,
        plan_min=minutes,
        planned_release=None if minutes is None or start is None else start + 60 * minutes,
        planned_by=_find_planner(known, minutes, job),
    )


def _find_planner(known: Link | None, minutes: int | None, job: Job) -> Planner | None:
    """Return who wrote the plan, or took it away; None if there was none.

    A plan that the service did not write is the running link's, or is of somebody who changed a
    plan. The running link writes again only if the plan still reads as the link wrote it itself.
    """
    was = None if known is None else known.plan_min
    by = None if known is None else known.planned_by
    if minutes == was and (minutes is None or by is not None):
        return by
    if minutes is None or by in {Planner.SERVICE, Planner.USER}:
        return Planner.USER
    return infer_planner(job)


def update_release(
    before: Link | None, predecessor: Link | None, link: Link, *, in_queue: bool
) -> Link:
    """Return the link with when Slurm released it by a plan, and whose plan that was.

    Both are known as far as EligibleTime tells. A standby is eligible before its predecessor ends
    by a plan or by a move. Moves of the service are written down as they are made. If nobody looked
    at the queue for a while, the release was by the running link's plan.
    """
    at = link.eligible
    if at is None or at > link.seen_at or link.freed_at is not None or not _is_out(link, in_queue):
        return link
    if predecessor is None or not _is_early(at, predecessor, link):
        return link
    known = before if before is not None and before.job_id == link.job_id else None
    if known is not None and known.planned_release is not None and at >= known.planned_release:
        return replace(link, freed_at=at, freed_by=known.planned_by or Planner.LINK)
    watched = known is not None and known.seen_at >= at - GRACE_S
    if watched or at <= link.submit:
        return link
    return replace(link, freed_at=at, freed_by=Planner.LINK)


def _is_out(link: Link, in_queue: bool) -> bool:
    """Accounting shows no dependency: of a job that waits it cannot tell. A pinned one is eligible
    on its predecessor's nodes alone."""
    if link.position is Position.PINNED:
        return False
    if link.state is LinkState.PENDING:
        return in_queue and link.position is Position.FREE
    return True


def _is_early(at: int, predecessor: Link, link: Link) -> bool:
    """Before the predecessor's end, which has to be known, or not to have come yet."""
    if predecessor.start is None or at <= predecessor.start:
        return False
    if predecessor.state is LinkState.ENDED:
        known = predecessor.end_state is not JobState.UNKNOWN
        return known and predecessor.end is not None and at < predecessor.end
    return predecessor.state is LinkState.RUNNING and predecessor.seen_at >= link.seen_at
