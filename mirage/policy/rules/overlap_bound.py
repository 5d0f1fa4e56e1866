"""Bounds how early a chain lets its next link start: `--max-overlap` and `--never-overlap`.

A link that starts earlier than the chain allows is sent back behind its predecessor by its own
guard, once a hand-over. The age that the link had earned is lost: such a start costs nodes for a
moment and gains nothing. The start must not be early, but the move may be: a standby that will wait
for ten hours may be freed ten hours before the time. So a standby is freed once the time left is no
more than the allowed overlap plus p10. Nine of ten forecasts agree on a wait of at least p10. If a
policy tells no p10, a wait of nothing is expected. One in ten is sent back then, which costs no
more than plain Slurm does; waiting for certainty would cost every other hand-over its lead. A link
that was sent back is freed again when it cannot be too early any more: a link that is early twice
waits in its place.

A link of a chain that never overlaps is never freed before its predecessor's end. Pinned to whole
nodes it cannot start early, and earns its age. So such a link is pinned instead if the admin allows
it. Otherwise it stays held.
"""

from dataclasses import replace

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import HOUR_S


def bound_overlap(decision: Decision, view: PolicyView) -> Decision:
    """Return the decision, or what the chain allows instead."""
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
    """Return the seconds before its predecessor's end that a standby may be released at most.

    None: nothing bounds them.
    """
    cap_s = view.max_overlap_s
    return cap_s if not cap_s else cap_s + _get_least_wait_s(decision, view)


def _get_least_wait_s(decision: Decision, view: PolicyView) -> float:
    if decision.forecast is None or view.counts_no_wait:
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
