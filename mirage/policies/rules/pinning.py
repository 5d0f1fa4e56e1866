"""Rules that pin: the standby is eligible on its predecessor's nodes only, and earns age.

Pinned to whole nodes, the standby cannot start before its predecessor ends. So it costs no overlap,
and Slurm plans its start for exactly that instant. It is late only if Slurm plans jobs ahead of it
onto these nodes, and its planned start shows that hours before (docs/concepts/positions.md).
"""

from dataclasses import dataclass, field, replace

from mirage.domain.chain import Position
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import Policy, SimplePolicy
from mirage.policies.rules.lead_rules import Average

SLACK_S = 600
"""A planned start this many seconds after the predecessor's end still counts as on time. Slurm
plans in steps of bf_resolution, and a link takes some minutes to end."""


@dataclass(frozen=True, slots=True)
class Pin(SimplePolicy):
    """Pins the standby as soon as it is queued, and leaves it pinned."""

    name: str = "pin"

    def decide(self, view: PolicyView) -> Decision:
        if view.position is Position.FREE:
            return keep_free(self.name)
        if view.position is Position.PINNED:
            return keep_pinned(view, self.name) if view.can_pin else move_off_nodes(self.name)
        if view.can_pin:
            return pin_standby(self.name)
        reason = "the standby may not be pinned here, and this rule only pins"
        return Decision(action=Action.WAIT, reason=reason, policy=self.name)


@dataclass(frozen=True, slots=True)
class PinThenFree(SimplePolicy):
    """Pins the standby from the start, and frees it near the end if Slurm plans it later than the
    end.

    It is not freed sooner: Slurm plans by time limits, most jobs end before theirs, and a freed
    standby that has earned age may start at once. If the standby may not be pinned, `fallback`
    decides.
    """

    share: float = 0.01
    """How near the end it may be freed, as a share of the time limit: half an hour of 48 h."""
    fallback: Policy = field(default_factory=Average)
    name: str = "pin-then-free"

    def decide(self, view: PolicyView) -> Decision:
        if view.position is Position.FREE:
            return keep_free(self.name)
        if view.can_pin:
            return (
                self._decide_pinned(view)
                if view.position is Position.PINNED
                else pin_standby(self.name)
            )
        answer = replace(self.fallback.decide(view), policy=self.name)
        if view.position is Position.PINNED and answer.action is Action.WAIT:
            return move_off_nodes(self.name)
        return answer

    def _decide_pinned(self, view: PolicyView) -> Decision:
        if view.time_left_s > self.share * view.time_limit_s or not is_late(view):
            return keep_pinned(view, self.name)
        reason = f"{keep_pinned(view, self.name).reason}; it may now start on any nodes"
        return Decision(action=Action.FREE, reason=reason, policy=self.name)


def is_late(view: PolicyView) -> bool:
    """Return whether Slurm plans the pinned standby for later than its predecessor's end.

    False if Slurm plans no start: the predecessor's end may lie beyond bf_window.
    """
    return view.planned_start is not None and (view.planned_start > view.predecessor_end + SLACK_S)


def pin_standby(policy: str) -> Decision:
    reason = "pinned to its predecessor's nodes, the standby earns age and cannot start early"
    return Decision(action=Action.PIN, reason=reason, policy=policy)


def keep_pinned(view: PolicyView, policy: str) -> Decision:
    if view.planned_start is None:
        reason = "the standby is pinned, and Slurm plans no start for it yet"
    else:
        after_min = round((view.planned_start - view.predecessor_end) / 60)
        reason = (
            f"the standby is pinned, and Slurm plans its start {after_min} min after its "
            "predecessor's end"
        )
    return Decision(action=Action.WAIT, reason=reason, policy=policy)


def keep_free(policy: str) -> Decision:
    return Decision(action=Action.WAIT, reason="the standby is free already", policy=policy)


def move_off_nodes(policy: str) -> Decision:
    reason = "the standby should no longer wait for its predecessor's nodes"
    return Decision(action=Action.HOLD, reason=reason, policy=policy)
