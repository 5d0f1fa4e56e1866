"""Reads a standby's position from Slurm, its planned release, and who released it.

A plan is stored in the standby's dependency in Slurm, and nowhere else. The running link, the
chain's owner and an admin may write a plan as well. Slurm carries a plan out even if Mirage is not
running.
"""

from dataclasses import replace

from mirage.domain.chain import Link, LinkState, Planner, Position
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import MalformedText
from mirage.slurm.text import dependency
from mirage.slurm.text.chain_settings import infer_planner

GRACE_S = 180
"""Seconds, three ticks: an expected job that has not shown up by then does not come by itself."""


def update_position(before: Link | None, predecessor: Link | None, link: Link, job: Job) -> Link:
    """Return the link with the position and the plan that the queue shows.

    `before` is the same link at the last look, perhaps with another job.
    """
    link = link.replace(position=_compute_position(link, predecessor, job))
    last_seen = before if before is not None and before.job_id == link.job_id else None
    return _update_plan(last_seen, predecessor, link, job)


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
    """Return whether the dependency names the predecessor.

    A dependency that Mirage cannot read is left alone: the standby counts as held.
    """
    try:
        return dependency.has_own_term(text, predecessor)
    except MalformedText:
        return True


def _update_plan(last_seen: Link | None, predecessor: Link | None, link: Link, job: Job) -> Link:
    """Return the link with the plan that the queue shows for a held standby.

    A link that is released keeps its last plan, which tells how the release came about.
    """
    if link.position is not Position.HELD or link.state is not LinkState.PENDING:
        return link
    minutes = start = None
    if predecessor is not None:
        minutes = dependency.find_plan_minutes(job.dependency, predecessor.job_id)
        start = predecessor.start
    return link.replace(
        plan_min=minutes,
        planned_release=None if minutes is None or start is None else start + 60 * minutes,
        planned_by=_find_planner(last_seen, minutes, job),
    )


def _find_planner(last_seen: Link | None, minutes: int | None, job: Job) -> Planner | None:
    """Return who wrote the plan, or took it away; None if there was none.

    A plan that the service did not write comes from the running link, or from somebody who changed
    a plan. The running link changes a plan only if it still is as the link wrote it.
    """
    minutes_before = None if last_seen is None else last_seen.plan_min
    planner = None if last_seen is None else last_seen.planned_by
    if minutes == minutes_before and (minutes is None or planner is not None):
        return planner
    if minutes is None or planner in {Planner.SERVICE, Planner.USER}:
        return Planner.USER
    return infer_planner(job)


def update_release(
    before: Link | None, predecessor: Link | None, link: Link, *, in_queue: bool
) -> Link:
    """Return the link with `freed_at` and `freed_by` if Slurm released it by a plan.

    EligibleTime tells the instant. A standby becomes eligible before its predecessor's end by a
    plan or by a move, and the service's moves are recorded when they are made. If the service did
    not look at the queue at that time, the running link's plan released the standby.
    """
    at = link.eligible
    if at is None or at > link.seen_at or link.freed_at is not None:
        return link
    if not _is_known_released(link, in_queue):
        return link
    if predecessor is None or not _is_early(at, predecessor, link):
        return link
    last_seen = before if before is not None and before.job_id == link.job_id else None
    if (
        last_seen is not None
        and last_seen.planned_release is not None
        and at >= last_seen.planned_release
    ):
        return replace(link, freed_at=at, freed_by=last_seen.planned_by or Planner.LINK)
    # The service looked at the queue at that time, and saw no plan: some other change released it.
    was_watched = last_seen is not None and last_seen.seen_at >= at - GRACE_S
    if was_watched or at <= link.submit:
        return link
    return replace(link, freed_at=at, freed_by=Planner.LINK)


def _is_known_released(link: Link, in_queue: bool) -> bool:
    """Return whether the standby is known to be released.

    Accounting shows no dependencies, so it does not tell this of a waiting job. A pinned standby is
    eligible on its predecessor's nodes only, and does not count.
    """
    if link.position is Position.PINNED:
        return False
    if link.state is LinkState.PENDING:
        return in_queue and link.position is Position.FREE
    return True


def _is_early(at: int, predecessor: Link, link: Link) -> bool:
    """Return whether `at` lies before the predecessor's end, which is known or still to come."""
    if predecessor.start is None or at <= predecessor.start:
        return False
    if predecessor.state is LinkState.ENDED:
        has_known_end = predecessor.end_state is not JobState.UNKNOWN
        return has_known_end and predecessor.end is not None and at < predecessor.end
    return predecessor.state is LinkState.RUNNING and predecessor.seen_at >= link.seen_at
