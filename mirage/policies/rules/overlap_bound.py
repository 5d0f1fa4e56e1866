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

In a chain whose links ask each other to end (styles `switch` and `serve`) no release is early while
no job waits for nodes of the partition, and none comes before the predecessor has worked for its
*floor*: the chain's `min-runtime`, and at least a tenth of its time limit. Otherwise waits of the
past that are longer than the time limit would end each link as soon as it has begun. The links' own
plans have the same two rules (slurm_plugin/mirage_forecast.py), and no link asks its predecessor to
end before that (slurm_plugin/mirage_handover.py).
"""

from dataclasses import replace

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import HOUR_S, MINUTE_S

_FLOOR_SHARE = 10
NOBODY_WAITS = (
    "no job waits for nodes of the partition, so it starts when its predecessor has ended"
)


def compute_work_floor_s(min_runtime_s: int, time_limit_s: int) -> int:
    """Return the seconds of work before which no link is asked to end."""
    return max(min_runtime_s, -(-time_limit_s // _FLOOR_SHARE))


def bound_overlap(decision: Decision, view: PolicyView) -> Decision:
    """Return the decision, or what the chain allows instead."""
    cap_s = view.max_overlap_s
    if decision.action is not Action.FREE:
        return decision
    if cap_s == 0:
        return _decide_never_early(decision, view)
    early = _explain_too_early(decision, view)
    return replace(decision, action=_choose_wait_action(view), reason=early) if early else decision


def _explain_too_early(decision: Decision, view: PolicyView) -> str:
    """Return why the standby is not to be freed yet; empty if it may be."""
    if view.nobody_waits and view.time_left_s > 0:
        return NOBODY_WAITS
    if view.floor_reached_at is not None and view.now < min(
        view.floor_reached_at, view.predecessor_end
    ):
        left_min = -(-(view.floor_reached_at - view.now) // MINUTE_S)
        return f"not yet: its predecessor has to work for {left_min} min more (min-runtime)"
    cap_s, least_wait_s = view.max_overlap_s, _get_least_wait_s(decision, view)
    if cap_s is None or view.time_left_s <= cap_s + least_wait_s:
        return ""
    return (
        f"not yet: {view.time_left_s / HOUR_S:.1f} h are left, the chain allows "
        f"{cap_s / HOUR_S:g} h of overlap (max-overlap), and the wait may be as short as "
        f"{least_wait_s / HOUR_S:.1f} h"
    )


def compute_max_lead_s(decision: Decision, view: PolicyView) -> float | None:
    """Return the seconds before its predecessor's end that a standby may be released at most.

    None: nothing bounds them.
    """
    cap_s = view.max_overlap_s
    most_s = cap_s if not cap_s else cap_s + _get_least_wait_s(decision, view)
    if view.floor_reached_at is None:
        return most_s
    worked_s = max(0, view.predecessor_end - view.floor_reached_at)
    return worked_s if most_s is None else min(most_s, worked_s)


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
