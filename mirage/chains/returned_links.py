"""Follows a link whose job leaves its nodes beside its running predecessor, for another job.

The other job waits behind the predecessor. If it has a planned release, the link *gave its nodes
back*: it would have held them idle for too long. Otherwise the link was *sent back*, since it came
earlier than its chain allows. The job that left is no link that ran.
"""

import re
from dataclasses import replace

from mirage.chains.standby_position import GRACE_S
from mirage.domain.chain import Link, LinkState, Planner
from mirage.domain.job import Job, JobId, JobState
from mirage.slurm.text import dependency

GAVE_BACK = "gave back"
"""The audit's event for a link that gave its nodes back and planned its next release."""

SENT_BACK = "SentBack"
"""The hindrance (`Link.hindered`) of a link that once started too early: its first job ended beside
its predecessor, and a second job waits behind the predecessor."""

_LEFT = frozenset({JobState.COMPLETED, JobState.UNKNOWN})
"""The end of a job that gave its nodes back; UNKNOWN: Slurm forgot the job before a look."""

_LEAVES_S = 600
"""Seconds after the submission of its new job within which a job has given its nodes back. A job
that does not see the new one in the queue keeps its nodes, and the new one leaves on its turn."""

_SUBMITTED_WITH = re.compile(r"--dependency=(\S+)")


def is_turned_away(link: Link, job: Job) -> bool:
    """Return whether the link's job ended before its script began, and `job` replaces it."""
    if link.end_state is not JobState.COMPLETED or link.start is None or job.submit < link.start:
        return False
    end = link.start if link.end is None else link.end
    new_job_ran_beside = job.start is not None and job.start < end
    leaves = job.submit <= end <= job.submit + _LEAVES_S and not new_job_ran_beside
    if leaves and dependency.parse_plan(_find_dependency(job)) is not None:
        return True
    return not job.state.has_ended and end - link.start < GRACE_S


def follow_new_job(
    before: Link | None, predecessor: Link | None, link: Link, job: Job, *, in_queue: bool
) -> Link:
    """Return the link with what its jobs gave back, or with SENT_BACK, if it has a new job.

    `before` is the link at the last look. Accounting shows no dependency, so it does not tell of a
    job that was sent back.
    """
    if before is None or before.job_id == link.job_id:
        return link
    link = replace(
        link,
        returns=before.returns,
        returned_s=before.returned_s,
        returned_at=before.returned_at,
        returned_left_s=before.returned_left_s,
        returned_wait_s=before.returned_wait_s,
    )
    if before.start is None or predecessor is None:
        return link
    if before.end_state in _LEFT and _is_planned_anew(link, job, predecessor.job_id):
        last_end = before.end if before.end_state is JobState.COMPLETED else job.submit
        if last_end is not None and before.start <= job.submit <= last_end:
            eligible = before.freed_at if before.eligible is None else before.eligible
            wait_s = None if eligible is None else max(0, before.start - eligible)
            return _count_return(link, predecessor, before.start, last_end, wait_s)
    if in_queue and predecessor.state is LinkState.RUNNING:
        return replace(link, hindered=SENT_BACK)
    return link


def recall_return(link: Link, predecessor: Link | None, job: Job) -> Link | None:
    """Return the link with the return of its earlier `job`; None if `job` tells of none.

    No look showed that job: slurmctld forgot it sooner (MinJobAge). Its record comes afterwards.
    """
    start, end = job.start, job.end
    planned = Planner.LINK in {link.planned_by, link.freed_by}
    if predecessor is None or start is None or end is None or not planned:
        return None
    if job.job_id == link.job_id or link.hindered == SENT_BACK:
        return None
    is_counted = link.returned_at is not None and link.returned_at >= start
    has_left = job.state is JobState.COMPLETED and start <= link.submit <= end
    if is_counted or not has_left:
        return None
    # The job that was never seen to start counted as lost.
    wait_s = None if job.eligible is None else max(0, start - job.eligible)
    return replace(_count_return(link, predecessor, start, end, wait_s), replaced_at=None)


def has_given_back(before: Link | None, link: Link) -> bool:
    """Return whether the link gave its nodes back since `before`."""
    return before is not None and link.returns > before.returns


def _is_planned_anew(link: Link, job: Job, predecessor: JobId) -> bool:
    """Return whether the new job was submitted with a planned release.

    A look that comes late shows only that Slurm has carried the plan out: a new job of the same
    link does not become eligible beside its predecessor by anything else.
    """
    planned = dependency.find_plan_minutes(_find_dependency(job), predecessor) is not None
    return planned or link.freed_by is Planner.LINK


def _find_dependency(job: Job) -> str:
    """Return the job's dependency; in accounting that with which it was submitted."""
    written = _SUBMITTED_WITH.search(job.submit_line.replace('"', "").replace("'", ""))
    return job.dependency or ("" if written is None else written[1])


def _count_return(link: Link, predecessor: Link, start: int, end: int, wait_s: int | None) -> Link:
    """Return the link with one return more, of a job that waited for `wait_s` once eligible, and
    ran from `start` to `end`.

    The plan is the link's own, whatever its comment says of its predecessor's plan. The wait is one
    that a forecast can know.
    """
    last, planned_end = predecessor.end, predecessor.get_planned_end()
    held_s = max(0, (end if last is None else min(end, last)) - start)
    return replace(
        link,
        returns=link.returns + 1,
        returned_s=link.returned_s + held_s,
        returned_at=end,
        returned_left_s=None if planned_end is None else planned_end - end,
        returned_wait_s=wait_s,
        planned_by=link.planned_by if link.plan_min is None else Planner.LINK,
        hindered="" if link.hindered == SENT_BACK else link.hindered,
    )
