"""Bounds how early a chain lets its next link start: `--max-overlap` and `--never-overlap`.

A link that starts earlier than the chain allows leaves its nodes. The start must not be early, but
the move may be: a standby that will wait for ten hours may be freed ten hours before the time. So a
standby is freed once the time left is no more than the allowed overlap plus a wait to count on.

- A link that may give its nodes back, and be released again, counts on the median of the forecast:
  it is more likely than not to overlap by no more than the chain allows, and if it starts sooner it
  loses some minutes of its nodes (docs/decisions/0039-release-by-expected-cost.md has the figures).
- Any other link is sent back behind its predecessor by its own guard, once a hand-over, and the age
  that it had earned is lost. It counts on p10: nine of ten forecasts agree on a wait of at least
  p10. One in ten is sent back then, which costs no more than plain Slurm does; waiting for
  certainty would cost every other hand-over its lead. A link that was sent back is freed again when
  it cannot be too early any more: a link that is early twice waits in its place.

If a forecast has neither, the bound counts on no wait at all.

A link of a chain that never overlaps is never freed before its predecessor's end. Pinned to whole
nodes, such a link cannot start early, and earns its age. So it is pinned instead if the admin
allows pins. Otherwise it stays held.

In a chain whose links ask each other to end (styles `switch` and `serve`), two more rules hold. No
standby is released early while no job waits for nodes of the partition. None is released before the
predecessor has worked for its *floor*: the chain's `min-runtime`, and at least a tenth of its time
limit. Otherwise past waits that are longer than the time limit would end each link as soon as it
has begun. The links' own plans have the same two rules (mirage_slurm/planner/lead_rules.py), and no
link asks its predecessor to end before the floor (mirage_slurm/handover/watch.py).
"""

from dataclasses import replace

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.time_units import HOUR_S, MINUTE_S

_FLOOR_SHARE = 10
"""The floor is at least 1/_FLOOR_SHARE of the time limit."""
NOBODY_WAITS = (
    "no job waits for nodes of the partition, so it starts when its predecessor has ended"
)

_WAITS = ("the wait may be as short as", "every other such wait is shorter than")
"""What a link counts on that may not give its nodes back, and what one that may."""


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
    reason = _explain_too_early(decision, view)
    if not reason:
        return decision
    return replace(decision, action=_choose_wait_action(view), reason=reason)


def _explain_too_early(decision: Decision, view: PolicyView) -> str:
    """Return why the standby is not to be freed yet; empty if it may be."""
    if view.nobody_waits and view.time_left_s > 0:
        return NOBODY_WAITS
    if view.floor_reached_at is not None and view.now < min(
        view.floor_reached_at, view.predecessor_end
    ):
        left_min = -(-(view.floor_reached_at - view.now) // MINUTE_S)
        return f"not yet: its predecessor has to work for {left_min} min more (min-runtime)"
    cap_s, wait_s = view.max_overlap_s, _get_counted_wait_s(decision, view)
    if cap_s is None or view.time_left_s <= cap_s + wait_s:
        return ""
    return (
        f"not yet: {view.time_left_s / HOUR_S:.1f} h are left, the chain allows "
        f"{cap_s / HOUR_S:g} h of overlap (max-overlap), and {_WAITS[bool(view.returns)]} "
        f"{wait_s / HOUR_S:.1f} h"
    )


def compute_max_lead_s(decision: Decision, view: PolicyView) -> float | None:
    """Return the longest lead that the chain allows, in seconds; None if nothing bounds the lead.

    The lead is how long before its predecessor's end the standby is released.
    """
    cap_s = view.max_overlap_s
    most_s = cap_s if not cap_s else cap_s + _get_counted_wait_s(decision, view)
    if view.floor_reached_at is None:
        return most_s
    worked_s = max(0, view.predecessor_end - view.floor_reached_at)
    return worked_s if most_s is None else min(most_s, worked_s)


def _get_counted_wait_s(decision: Decision, view: PolicyView) -> float:
    """Return how long the link will wait, in seconds, as far as its bound may count on it."""
    if decision.forecast is None or view.counts_no_wait:
        return 0.0
    if view.returns:
        return decision.forecast.p50_s or 0.0
    return decision.forecast.p10_s or 0.0


def _decide_never_early(decision: Decision, view: PolicyView) -> Decision:
    if view.can_pin:
        is_pinned = view.position is Position.PINNED
        reason = "links of this chain never overlap: on its predecessor's nodes it cannot be early"
        return replace(decision, action=Action.WAIT if is_pinned else Action.PIN, reason=reason)
    reason = "links of this chain never overlap: it starts when its predecessor has ended"
    return replace(decision, action=_choose_wait_action(view), reason=reason)


def _choose_wait_action(view: PolicyView) -> Action:
    """Return HOLD for a pinned standby that has to leave its predecessor's nodes; else WAIT."""
    must_leave = view.position is Position.PINNED and not view.can_pin
    return Action.HOLD if must_leave else Action.WAIT
