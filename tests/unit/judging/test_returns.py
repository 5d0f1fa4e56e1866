"""Returns over a hand-made table: an early link gives its nodes back, and a later row counts."""

from dataclasses import dataclass

import pytest

from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.domain.time_units import HOUR_S, MINUTE_S
from mirage.judging import policy_runner
from mirage.judging.evaluation import HandoverOutcomes, build_class_masks, evaluate_policies
from mirage.judging.policy_runner import Terms
from tests.support.episodes.tables import table

INSTANTS = 37
"""A predecessor of six hours. The last instant is its end."""
AT_ONCE = [(k - INSTANTS + 1) / 6 for k in range(INSTANTS)]
"""The outcomes, in hours, of a successor that starts in the second of its release."""


@dataclass(frozen=True)
class _FromInstant(SimplePolicy):
    """Frees from an instant on, whatever it forecasts."""

    first: int = 0
    waits_s: tuple[int, ...] = ()
    name: str = "from-instant"

    def decide(self, view: PolicyView) -> Decision:
        frees = view.time_left_s <= 10 * MINUTE_S * (INSTANTS - 1 - self.first)
        least_s = min(self.waits_s, default=0)
        return Decision(
            action=Action.FREE if frees else Action.WAIT,
            reason="",
            policy=self.name,
            forecast=Forecast(p10_s=least_s, p50_s=least_s, waits_s=self.waits_s),
        )


def play(
    outcome_h: list[float], released: int, most: int, waits_h: float | None = None, **terms: bool
) -> tuple[int, int]:
    """The instant of the last release, and how often the link left its nodes.

    `waits_h`: the wait that the policy forecasts; None: it forecasts none.
    """
    waits_s = () if waits_h is None else (round(waits_h * HOUR_S),) * 9
    played = policy_runner.play_policy(
        table([outcome_h]),
        _FromInstant(released, waits_s),
        Terms(overlap_price=0.5, returns=most, **terms),
    )
    return int(played.release_instants[0]), int(played.returns[0])


def test_a_link_that_starts_hours_early_is_released_again_at_a_later_row() -> None:
    # It waited two hours and has four left: two hours before the end it is released again.
    assert play([-4.0, *AT_ONCE[1:]], released=0, most=1) == (24, 1)
    # It has waited for nothing, so the next wait is the floor of five minutes: the last row.
    assert play(AT_ONCE, released=0, most=1) == (36, 1)


def test_a_link_gives_its_nodes_back_no_more_often_than_allowed() -> None:
    # Released at the start it waits an hour, so it is released again an hour before the end. Then
    # it starts at once, and is released a third time five minutes before the end.
    outcomes = [-5.0, *AT_ONCE[1:]]
    assert play(outcomes, released=0, most=0) == (0, 0)
    assert play(outcomes, released=0, most=1) == (30, 1)
    assert play(outcomes, released=0, most=2) == (36, 2)
    assert play(outcomes, released=0, most=9) == (36, 2), "in time, nothing is given back"
    assert play(outcomes, released=35, most=9) == (35, 0), "nor for the sake of ten minutes"


def test_a_played_table_tells_each_release() -> None:
    outcomes = [-5.0, *AT_ONCE[1:]]
    terms = Terms(overlap_price=0.5, returns=2)
    played = policy_runner.play_policy(table([outcomes, AT_ONCE]), _FromInstant(), terms)
    assert played.releases == [[0, 30, 36], [0, 36]]


def test_a_link_that_starts_in_time_or_late_gives_nothing_back() -> None:
    assert play([0.0] * INSTANTS, released=3, most=2) == (3, 0)
    assert play([1.0] * INSTANTS, released=3, most=2) == (3, 0)


def test_by_a_forecast_the_link_is_released_again_when_that_costs_least() -> None:
    # It starts at once, and the forecast is of two hours.
    assert play(AT_ONCE, released=0, most=1, waits_h=2.0) == (24, 1)
    # It starts at once again, an hour before the end: what is left is less than the wait.
    assert play(AT_ONCE, released=0, most=2, waits_h=1.0) == (31, 2)
    # If a wait of ten hours is to be expected, nodes for six hours are kept.
    assert play(AT_ONCE, released=0, most=2, waits_h=10.0) == (0, 0)


def test_a_link_that_has_waited_goes_by_its_own_wait_whatever_was_forecast() -> None:
    # It waited an hour, has five left, and a forecast of twenty hours would keep.
    assert play([-5.0, *AT_ONCE[1:]], released=0, most=1, waits_h=20.0) == (30, 1)


def test_no_release_is_so_early_that_the_link_would_overlap_beyond_its_bound() -> None:
    # A quarter of six hours, beside a wait of two hours.
    assert play([1.0] * INSTANTS, released=0, most=2, waits_h=2.0) == (0, 0)
    assert play([1.0] * INSTANTS, released=0, most=2, waits_h=2.0, guarded=True) == (15, 0)


def test_a_link_beyond_its_bound_gives_back_whatever_the_forecast() -> None:
    # Twelve hours were foretold, so nobody would give the nodes back; it starts at once.
    assert play(AT_ONCE, released=0, most=1, waits_h=12.0) == (0, 0)
    assert play(AT_ONCE, released=0, most=1, waits_h=12.0, guarded=True) == (27, 1)


def test_a_link_beyond_its_bound_is_released_again_as_early_as_its_last_wait_allows() -> None:
    # It may overlap by a quarter of six hours, and waits for ten minutes each time.
    outcomes = [(k - INSTANTS + 2) / 6 for k in range(INSTANTS)]
    assert play(outcomes, released=0, most=1, waits_h=12.0, guarded=True) == (26, 1)


def test_with_no_return_left_it_is_sent_back_until_it_cannot_be_too_early() -> None:
    assert play(AT_ONCE, released=0, most=0, waits_h=12.0, guarded=True) == (27, 1)
    assert play(AT_ONCE, released=33, most=0, waits_h=12.0, guarded=True) == (33, 0)


def test_a_return_that_goes_wrong_is_charged_as_it_went() -> None:
    # Six hours early for the first release; for the second, at the end, three hours late.
    made = table([[-6.0] + [3.0] * (INSTANTS - 1)])
    terms = Terms(overlap_price=0.5, returns=2)
    done = policy_runner.play_policy(made, _FromInstant(), terms)
    played = HandoverOutcomes.from_choices(made, done.release_instants, returns=done.returns)
    assert done.returns.tolist() == [1]
    assert played.interruption_h.tolist() == [3.0]
    assert played.compute_cost_h(0.5).tolist() == [3.05]


def test_figures_count_returns_only_where_they_are_played() -> None:
    made = table([[-4.0] + [-0.1] * 36, [2.0] * INSTANTS])
    terms = Terms(overlap_price=0.5, returns=2)
    done = policy_runner.play_policy(made, _FromInstant(), terms)
    played = {
        "reactive": HandoverOutcomes.from_choices(made, policy_runner.choose_reactive(made)),
        "oracle": HandoverOutcomes.from_choices(made, policy_runner.choose_oracle(made, 0.5)),
        "at-once": HandoverOutcomes.from_choices(made, done.release_instants, returns=done.returns),
    }
    masks = build_class_masks(played["reactive"].interruption_h)
    told = evaluate_policies(played, masks, 0.5)
    assert told["at-once"]["all"]["returns"] == 0.5
    assert told["at-once"]["all"]["return_h"] == pytest.approx(0.05)
    # Six minutes of overlap and a return of six, at the price of 0.5, in one of two hand-overs.
    assert told["at-once"]["all"]["cost_h"] == pytest.approx((0.2 * 0.5 + 2.0) / 2)
    assert "returns" not in told["reactive"]["all"]
