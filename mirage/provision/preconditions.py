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
_HOLD_AGAIN = Decision(action=Action.HOLD, reason="its predecessor was requeued", policy=_GUARD)
_LET_OFF = Decision(
    action=Action.FREE,
    reason="pinned, and its predecessor has ended: any nodes will do",
    policy=_GUARD,
)
_NEVER_EARLY = Decision(
    action=Action.WAIT,
    reason="its own dependency `singleton` lets it start only after its predecessor",
    policy=_GUARD,
)
_SUSPENDED = "its predecessor is suspended: nobody knows for how long"
_THEIRS = Decision(
    action=Action.WAIT,
    reason="its owner or an admin has changed when Slurm releases it: Mirage leaves it as it is",
    policy=_GUARD,
)
_NO_END_YET = Decision(action=Action.WAIT, reason=_SUSPENDED, policy=_GUARD)
_OFF_ITS_NODES = Decision(
    action=Action.HOLD,
    reason=f"pinned, and {_SUSPENDED}, while Slurm may give its nodes away",
    policy=_GUARD,
)


def guard_handover(
    standby: Link, predecessor: Link, beside: Link | None, queue: Queue
) -> Decision | None:
    """Return the decision that needs no policy; None if a policy is to decide.

    `beside` is an earlier link that still runs.
    """
    if not can_move_early(standby, predecessor):
        return _decide_without_policy(standby, predecessor)
    if standby.planned_by is Planner.USER:
        return _THEIRS
    found = _guard_unreleased(standby, predecessor, beside, queue)
    if found is None:
        return _leave_to_its_plan(standby, predecessor, queue.taken_at)
    waits = found.action is Action.WAIT
    return _take_plan_back(found) if waits and has_mirage_plan(standby) else found


def _guard_unreleased(
    standby: Link, predecessor: Link, beside: Link | None, queue: Queue
) -> Decision | None:
    """Return the decision while the standby must not start early; None if it may."""
    if beside is not None:
        return _wait_for_earlier_link(beside)
    shown, before = queue.find_job(standby.job_id), queue.find_job(predecessor.job_id)
    if shown is not None and dependency.has_singleton(shown.dependency):
        return _NEVER_EARLY
    if before is None or before.state is not JobState.SUSPENDED:
        return None
    return _OFF_ITS_NODES if standby.position is Position.PINNED else _NO_END_YET


def _leave_to_its_plan(standby: Link, predecessor: Link, now: int) -> Decision | None:
    """Return the wait of a link that gave its nodes back, until its planned release has come.

    The link saw how long it waited, and planned by that. None: it has no such plan, or the plan was
    made for another end or another run of its predecessor.
    """
    at, back_at, end = standby.planned_release, standby.returned_at, predecessor.get_planned_end()
    if at is None or standby.planned_by is not Planner.LINK:
        return None
    left_s = standby.returned_left_s
    if back_at is None and _is_replaced_beside(standby, predecessor):
        back_at, left_s = standby.submit, None if end is None else end - standby.submit
    if back_at is None or end is None or left_s is None or abs(end - back_at - left_s) > MINUTE_S:
        return None
    if at + GRACE_S < now or not has_mirage_plan(standby):
        return None
    reason = (
        f"its link gave its nodes back at {_format_instant(back_at)} and planned its next release "
        f"for {_format_instant(at)}"
    )
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)


def _is_replaced_beside(standby: Link, predecessor: Link) -> bool:
    """Return whether a job that no look showed to start was replaced as the predecessor ran.

    If the new job has a plan, the forgotten one gave its nodes back: slurmctld forgets a job within
    MinJobAge, which may be shorter than a tick. Its record in accounting comes afterwards.
    """
    start, replaced_at = predecessor.start, standby.replaced_at
    return start is not None and replaced_at is not None and start <= standby.submit <= replaced_at


def _format_instant(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"


def is_left_behind(handover: OpenHandover) -> bool:
    """Return whether the standby is pinned or planned by Mirage, so that it is put back where
    Mirage does not act any more."""
    predecessor, standby = handover.predecessor, handover.standby
    told = handover.chain.is_registered or standby.planned_by is Planner.SERVICE
    planned = has_mirage_plan(standby) and told and predecessor.state is not LinkState.ENDED
    return standby.position is Position.PINNED or planned


def build_out_of_reach(account: str, reach: MoveScope) -> Decision:
    """Return the wait of a standby that the service's account may not move."""
    whose = f"of account {account}" if account else "of this user"
    reason = (
        f"the service may not move jobs {whose}, so plain Slurm starts it when its predecessor "
        f"ends; the service may move {reach.describe_scope()}"
    )
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)


def can_move_early(standby: Link, predecessor: Link) -> bool:
    """Return whether a policy has a say: the standby can move before its predecessor ends."""
    runs = predecessor.state is LinkState.RUNNING and predecessor.get_planned_end() is not None
    return runs and standby.position is not Position.FREE


def _decide_without_policy(standby: Link, predecessor: Link) -> Decision | None:
    pinned = standby.position is Position.PINNED
    # One that is planned stays: Slurm counts anew from its predecessor's next start.
    freed = standby.freed_at is not None and standby.freed_by is not Planner.USER
    if predecessor.state is LinkState.PENDING and (pinned or freed):
        return _HOLD_AGAIN
    # It had its chance at the very second. Nothing keeps its predecessor's nodes for it now.
    return _LET_OFF if pinned and predecessor.state is LinkState.ENDED else None


def _take_plan_back(decision: Decision) -> Decision:
    """Return a HOLD that takes the plan back, so that Slurm does not release the standby."""
    reason = f"its plan is taken back: {decision.reason}"
    return replace(decision, action=Action.HOLD, reason=reason)


def _wait_for_earlier_link(beside: Link) -> Decision:
    """Return the wait of a standby while a link before its predecessor still runs.

    If waits are forecast to outlast a link, every link would otherwise be freed as soon as it
    stands. On a queue that has just cleared, the whole chain would then run at once.
    """
    reason = f"link {beside.index} still runs: one hand-over at a time"
    return Decision(action=Action.WAIT, reason=reason, policy=_GUARD)
