"""Rules that pin, on hand-made views."""

import pytest

from mirage.domain.chain import Position
from mirage.domain.decision import Action, PolicyView
from mirage.domain.ports import Policy
from mirage.policies.rules.lead_rules import AtOnce, Reactive
from mirage.policies.rules.pinning import Pin, PinThenFree
from tests.support.policies.views import NOW, view

HOUR = 3600
BOTH = pytest.mark.parametrize("rule", [Pin(), PinThenFree()], ids=lambda rule: rule.name)


def pinned(left_s: int, late_s: int | None = None, *, can_pin: bool = True) -> PolicyView:
    """Planned for so long after its predecessor's end; None: not planned."""
    planned = None if late_s is None else NOW + left_s + late_s
    return view(left_s, position=Position.PINNED, planned_start=planned, can_pin=can_pin)


@BOTH
def test_a_standby_is_pinned_as_soon_as_it_may_be(rule: Policy) -> None:
    assert rule.decide(view(48 * HOUR, can_pin=True)).action is Action.PIN


@BOTH
@pytest.mark.parametrize("left_s", [48 * HOUR, 1800, 0])
@pytest.mark.parametrize("late_s", [None, 0, 600])
def test_it_stays_while_it_is_planned_for_its_predecessors_end(
    rule: Policy, left_s: int, late_s: int | None
) -> None:
    assert rule.decide(pinned(left_s, late_s)).action is Action.WAIT


def test_a_late_plan_frees_it_in_the_last_hundredth_of_the_limit_only() -> None:
    """The standby of these views has a limit of an hour."""
    rule = PinThenFree()
    assert rule.decide(pinned(37, 5 * HOUR)).action is Action.WAIT
    assert rule.decide(pinned(36, 5 * HOUR)).action is Action.FREE
    assert Pin().decide(pinned(36, 5 * HOUR)).action is Action.WAIT


@BOTH
def test_one_that_is_free_is_left_alone(rule: Policy) -> None:
    free = view(36, position=Position.FREE, planned_start=NOW + 9 * HOUR, can_pin=True)
    assert rule.decide(free).action is Action.WAIT


def test_where_it_may_not_be_pinned_the_other_rule_decides() -> None:
    assert PinThenFree(fallback=AtOnce()).decide(view(HOUR)).action is Action.FREE
    assert PinThenFree(fallback=Reactive()).decide(view(HOUR)).action is Action.WAIT
    assert Pin().decide(view(HOUR)).action is Action.WAIT


def test_off_nodes_that_are_no_longer_good_it_is_held_or_free() -> None:
    gone = pinned(HOUR, 0, can_pin=False)
    assert Pin().decide(gone).action is Action.HOLD
    assert PinThenFree(fallback=Reactive()).decide(gone).action is Action.HOLD
    assert PinThenFree(fallback=AtOnce()).decide(gone).action is Action.FREE


def test_the_answer_carries_the_name_that_was_asked() -> None:
    assert PinThenFree().decide(view(HOUR)).policy == "pin-then-free"
