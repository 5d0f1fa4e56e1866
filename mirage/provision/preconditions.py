"""Decides hand-overs that need no policy: a guard settles them first."""

from dataclasses import replace
from datetime import UTC, datetime

from mirage.chains.open_handovers import OpenHandover
from mirage.chains.standby_position import GRACE_S
from mirage.domain.callers.move_scope import MoveScope
from mirage.domain.chain import Link, LinkState, Planner, Position
from mirage.domain.decision import Action, Decision
from mirage.domain.job import JobState
from mirage.domain.snapshot import Queue
from mirage.domain.time_units import MINUTE_S
from mirage.provision.release_planning import has_mirage_plan
from mirage.slurm.text import dependency

_GUARD = "guard"
_REQUEUED = Decision(action=Action.HOLD, reason="its predecessor was requeued", policy=_GUARD)
_UNPIN_AT_END = Decision(
    action=Action.FREE,
    reason="pinned, and its predecessor has ended: any nodes will do",
    policy=_GUARD,
)
_SINGLETON = Decision(
    action=Action.WAIT,
    reason="its own dependency `singleton` lets it start only after its predecessor",
    policy=_GUARD,
)
_SUSPENDED = "its predecessor is suspended: nobody knows for how long"
_CHANGED_BY_OTHERS = Decision(
    action=Action.WAIT,
    reason="its owner or an admin has changed when Slurm releases it: Mirage leaves it as it is",
    policy=_GUARD,
)
_WAIT_WHILE_SUSPENDED = Decision(action=Action.WAIT, reason=_SUSPENDED, policy=_GUARD)
_UNPIN_WHILE_SUSPENDED = Decision(
    action=Action.HOLD,
    reason=f"pinned, and {_SUSPENDED}, while Slurm may give its nodes away",
    policy=_GUARD,
)


def guard_handover(
    standby: Link, predecessor: Link, earlier_link: Link | None, queue: Queue
) -> Decision | None:
    """Return the decision that needs no policy; None if a policy is to decide.

    `earlier_link`: a link before the predecessor that still runs.
    """
    if not can_move_early(standby, predecessor):
        return _decide_without_policy(standby, predecessor)
    if standby.planned_by is Planner.USER:
        return _CHANGED_BY_OTHERS
    decision = _guard_early_start(standby, predecessor, earlier_link, queue)
    if decision is None:
        return _wait_for_links_plan(standby, predecessor, queue.taken_at)
    waits = decision.action is Action.WAIT
    return _take_plan_back(decision) if waits and has_mirage_plan(standby) else decision


def _guard_early_start(
    standby: Link, predecessor: Link, earlier_link: Link | None, queue: Queue
) -> Decision | None:
    """Return the decision while the standby must not start early; None if it may."""
    if earlier_link is not None:
        return _wait_for_earlier_link(earlier_link)
    standby_job = queue.find_job(standby.job_id)
    predecessor_job = queue.find_job(predecessor.job_id)
    if standby_job is not None and dependency.has_singleton(standby_job.dependency):
        return _SINGLETON
    if predecessor_job is None or predecessor_job.state is not JobState.SUSPENDED:
        return None
    is_pinned = standby.position is Position.PINNED
    return _UNPIN_WHILE_SUSPENDED if is_pinned else _WAIT_WHILE_SUSPENDED


def _wait_for_links_plan(standby: Link, predecessor: Link, now: int) -> Decision | None:
    """Return the wait of a link that gave its nodes back, until its planned release has come.

    The link knew how long it had waited, and planned its next release by that. None: there is no
    such plan, or it was made for another end or another run of the predecessor.
    """
    at, end = standby.planned_release, predecessor.get_planned_end()
    if at is None or standby.planned_by is not Planner.LINK:
        return None
    # left_s: the seconds from the return to the predecessor's end, as planned at the return.
    returned_at, left_s = standby.returned_at, standby.returned_left_s
    if returned_at is None and _is_replaced_beside(standby, predecessor):
        returned_at, left_s = standby.submit, None if end is None else end - standby.submit
    if returned_at is None or end is None or left_s is None:
        return None
    is_same_end = abs(end - returned_at - left_s) <= MINUTE_S
    if not is_same_end or at + GRACE_S < now or not has_mirage_plan(standby):
        return None
    reason = (
        f"its link gave its nodes back at {_format_instant(returned_at)} and planned its next "
        f"release for {_format_instant(at)}"
    )
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)


def _is_replaced_beside(standby: Link, predecessor: Link) -> bool:
    """Return whether the link's job was replaced beside its predecessor without a look showing it.

    If the new job has a plan, the earlier job gave its nodes back. Slurmctld forgets a job after
    MinJobAge, which may be shorter than a tick; its record in accounting comes later.
    """
    start, replaced_at = predecessor.start, standby.replaced_at
    return start is not None and replaced_at is not None and start <= standby.submit <= replaced_at


def _format_instant(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def is_left_behind(handover: OpenHandover) -> bool:
    """Return whether Mirage must put the standby back if its mode is no longer act.

    That is so if Mirage has pinned the standby or has planned its release. In a chain that is not
    registered, a plan of the running link is the user's own and stays.
    """
    predecessor, standby = handover.predecessor, handover.standby
    is_services = handover.chain.is_registered or standby.planned_by is Planner.SERVICE
    is_running = predecessor.state is not LinkState.ENDED
    is_planned = has_mirage_plan(standby) and is_services and is_running
    return standby.position is Position.PINNED or is_planned


def build_out_of_reach(account: str, reach: MoveScope) -> Decision:
    """Return the wait of a standby that the service's account may not move."""
    owner = f"of account {account}" if account else "of this user"
    reason = (
        f"the service may not move jobs {owner}, so plain Slurm starts it when its predecessor "
        f"ends; the service may move {reach.describe_scope()}"
    )
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)


def can_move_early(standby: Link, predecessor: Link) -> bool:
    """Return whether the standby can be moved before its predecessor ends, so a policy decides."""
    runs = predecessor.state is LinkState.RUNNING and predecessor.get_planned_end() is not None
    return runs and standby.position is not Position.FREE


def _decide_without_policy(standby: Link, predecessor: Link) -> Decision | None:
    """Return the decision on a standby whose predecessor does not run, or that is free already."""
    is_pinned = standby.position is Position.PINNED
    is_freed = standby.freed_at is not None and standby.freed_by is not Planner.USER
    # A standby with a plan stays: Slurm counts anew from its predecessor's next start.
    if predecessor.state is LinkState.PENDING and (is_pinned or is_freed):
        return _REQUEUED
    # A pinned standby starts in the second in which its predecessor ends, or not at all: nothing
    # keeps the nodes for it afterwards.
    return _UNPIN_AT_END if is_pinned and predecessor.state is LinkState.ENDED else None


def _take_plan_back(decision: Decision) -> Decision:
    """Return a HOLD that takes the plan back, so that Slurm does not release the standby."""
    reason = f"its plan is taken back: {decision.reason}"
    return replace(decision, action=Action.HOLD, reason=reason)


def _wait_for_earlier_link(earlier_link: Link) -> Decision:
    """Return the wait of a standby while a link before its predecessor still runs.

    If waits are forecast to outlast a link, every link would otherwise be freed as soon as it is
    queued. On a queue that has just cleared, the whole chain would then run at once.
    """
    reason = f"link {earlier_link.index} still runs: one hand-over at a time"
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)
