"""How early a chain lets its next link start: `--max-overlap` and `--never-overlap`.

A link that starts earlier than that before its predecessor's end is sent back behind it by its own
guard, once a hand-over, and the age that it had earned is lost: such a start costs nodes for a
moment and gains nothing. What must not be early is the start, not the move: a standby that will
wait for ten hours may be freed ten hours before the time. So it is freed while no more is left than
the allowed overlap and the wait that nine of ten forecasts agree on (p10). Of a policy that tells
no p10, a wait of nothing is expected. One in ten is sent back then, which costs no more than plain
Slurm does; waiting for certainty would cost every other hand-over its lead. One that was sent back
is freed again when it cannot be too early any more: a link that is early twice waits in its place.

A chain that never overlaps is never freed before its predecessor's end. Pinned to whole nodes it
cannot start early, and earns its age: that is what stands in for freeing, where the admin allows
it. Else it stays held.
"""

from dataclasses import replace

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import HOUR_S


def bound_overlap(decision: Decision, view: PolicyView) -> Decision:
    """The decision, or what the chain allows in its place."""
    cap_s = view.max_overlap_s
    if decision.action is not Action.FREE or cap_s is None:
        return decision
    if cap_s == 0:
        return _decide_never_early(decision, view)
    least_wait_s = _get_least_wait_s(decision, view)
    if view.time_left_s <= cap_s + least_wait_s:
        return decision
    reason = (
        f"not yet: {view.time_left_s / HOUR_S:.1f} h are left, the chain allows "
        f"{cap_s / HOUR_S:g} h of overlap (max-overlap), and the wait may be as short as "
        f"{least_wait_s / HOUR_S:.1f} h"
    )
    return replace(decision, action=_choose_wait_action(view), reason=reason)


def compute_max_lead_s(decision: Decision, view: PolicyView) -> float | None:
    """How long before its predecessor's end a standby may be released; None: nothing bounds it."""
    cap_s = view.max_overlap_s
    return cap_s if not cap_s else cap_s + _get_least_wait_s(decision, view)


def _get_least_wait_s(decision: Decision, view: PolicyView) -> float:
    if decision.forecast is None or view.sent_back:
        return 0.0
    return decision.forecast.p10_s or 0.0


def _decide_never_early(decision: Decision, view: PolicyView) -> Decision:
    if view.can_pin:
        pinned = view.position is Position.PINNED
        reason = "links of this chain never overlap: on its predecessor's nodes it cannot be early"
        return replace(decision, action=Action.WAIT if pinned else Action.PIN, reason=reason)
    reason = "links of this chain never overlap: it starts when its predecessor has ended"
    return replace(decision, action=_choose_wait_action(view), reason=reason)


def _choose_wait_action(view: PolicyView) -> Action:
    """A standby that has to leave its predecessor's nodes goes back behind it."""
    leaves = view.position is Position.PINNED and not view.can_pin
    return Action.HOLD if leaves else Action.WAIT
