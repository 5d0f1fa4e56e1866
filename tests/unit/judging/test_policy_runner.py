"""Rules over tables choose what they would have chosen live, at the instant they would have."""

import importlib

import numpy as np
import pytest

from mirage.domain.decision import Action, Decision, Forecast, PolicyView
from mirage.domain.ports import SimplePolicy
from mirage.judging import policy_runner
from mirage.judging.policy_runner import Terms
from mirage.judging.table.episode_table import EpisodeTable
from mirage.policies.registry import POLICIES
from mirage.policies.rules.lead_rules import Average, FixedLead, Quantile, SlurmEstimate
from tests.support.episodes.tables import HOUR_S, MONDAY, table
from tests.support.paths import PLUGIN

HOUR = [[-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0]]
"""An hour's run: seven instants."""
TWO = HOUR * 2


class Noted(SimplePolicy):
    """Frees at a given time left, and notes what it was shown."""

    name = "noted"

    def __init__(self, time_left_s: int = 0) -> None:
        self._time_left_s = time_left_s
        self.views: list[PolicyView] = []

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        free = view.time_left_s <= self._time_left_s
        return Decision(action=Action.FREE if free else Action.WAIT, reason="", policy=self.name)


def test_reactive_is_the_last_instant_and_at_once_the_first() -> None:
    made = table(TWO)
    assert policy_runner.choose_reactive(made).tolist() == [6, 6]
    assert policy_runner.run_policy(made, POLICIES["reactive"], 0.5).tolist() == [6, 6]
    assert policy_runner.run_policy(made, POLICIES["at-once"], 0.5).tolist() == [0, 0]


@pytest.mark.parametrize(("price", "instant"), [(0.5, 2), (0.0, 2), (9.0, 2)])
def test_oracle_takes_the_cheapest_and_of_equals_the_last(price: float, instant: int) -> None:
    assert policy_runner.choose_oracle(table(HOUR), price).tolist() == [instant]


def test_oracle_weighs_overlap_at_its_price() -> None:
    made = table([[-2.0, -2.0, 1.5]])
    assert policy_runner.choose_oracle(made, 0.5).tolist() == [1]
    assert policy_runner.choose_oracle(made, 1.0).tolist() == [2]


def test_oracle_knows_the_startup_time() -> None:
    made = table([[-1.0, 0.0, 0.5]])
    assert policy_runner.choose_oracle(made, 0.5, startup_h=1.0).tolist() == [0]


def test_average_frees_when_no_more_time_is_left_than_jobs_waited() -> None:
    # The mean is 1500 s: 1800 s before the end is too early, 1200 s is not.
    assert policy_runner.run_policy(table(TWO, waits_s=(1000, 2000)), Average(), 0.5).tolist() == [
        4,
        4,
    ]


class Timed(SimplePolicy):
    """Asks for given releases in turn, seconds before the end; from then on for the last one."""

    name = "timed"

    def __init__(self, *leads_s: int | None, least_wait_s: int) -> None:
        self._leads_s = list(leads_s)
        self._forecast = Forecast(p50_s=3600, p10_s=least_wait_s)
        self.asked: list[int] = []

    def decide(self, view: PolicyView) -> Decision:
        self.asked.append(view.predecessor_end - view.now)
        lead_s = self._leads_s.pop(0) if len(self._leads_s) > 1 else self._leads_s[0]
        at = None if lead_s is None else view.predecessor_end - lead_s
        return Decision(
            action=Action.WAIT,
            reason="",
            policy=self.name,
            forecast=self._forecast,
            release_at=at,
        )


def planned(*leads_s: int | None, least_wait_s: int = 3600) -> tuple[int, list[int]]:
    """The instant of an hour's seven, and how much time was left at each look."""
    rule = Timed(*leads_s, least_wait_s=least_wait_s)
    played = policy_runner.play_own_plan(table(HOUR), rule, Terms(overlap_price=0.5))
    (chosen,) = played.release_instants.tolist()
    return chosen, rule.asked


def test_an_own_plan_is_made_at_the_start_and_moved_twice_at_most() -> None:
    # Looks at 0, at three quarters of the 40 min to the release, and of the 20 min after that.
    assert planned(1200, 600, 600) == (5, [3600, 1800, 600])
    # Nobody looks a fourth time: what the rule would say then is not heard.
    assert planned(0, 0, 0, 3600)[0] == 6


def test_an_own_plan_is_carried_out_at_the_next_instant_of_the_table() -> None:
    assert planned(1250, 1250)[0] == 4, "never before the minute that was planned"
    assert planned(3600)[0] == 1, "Slurm takes no plan below a minute after the start"


def test_an_own_plan_that_would_move_by_little_stays() -> None:
    assert planned(1800, 1500)[0] == 3
    assert planned(1800, 1440)[0] == 4


def test_without_a_forecast_or_with_a_short_lead_there_is_no_own_plan() -> None:
    assert planned(None)[0] == planned(59, 59, 59)[0] == 6
    assert planned(1200, None)[0] == 6, "it is taken back"


def test_an_own_plan_obeys_the_default_max_overlap() -> None:
    # A quarter of the hour, and so much more as the successor waits at least.
    assert planned(2400, least_wait_s=0)[0] == 5, "900 s before the end is no instant of the table"
    assert planned(2400, least_wait_s=300)[0] == 4
    assert planned(2400, least_wait_s=3600)[0] == 2


def test_own_plans_follow_what_the_links_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PLUGIN)
    link = importlib.import_module("mirage_slurm.planner.planned")
    assert link.TURNS == policy_runner.OWN_UPDATES
    assert 60 * link.MOVED_MINUTES == policy_runner.OWN_MOVED_S
    assert link.LEAST_LEAD_S == policy_runner.OWN_LEAST_LEAD_S
    assert (
        importlib.import_module("mirage_slurm.planner.lead_rules").LAST == policy_runner.OWN_SAMPLE
    )


def test_quantile_depends_on_the_price_of_overlap() -> None:
    made = table(HOUR, waits_s=(600, 1200, 1800, 2400))
    cheap = policy_runner.run_policy(made, Quantile(), 0.1)
    dear = policy_runner.run_policy(made, Quantile(), 3.0)
    assert (cheap.tolist(), dear.tolist()) == ([2], [5])


def test_jobs_started_after_the_instant_are_not_shown() -> None:
    first = MONDAY
    late = np.array([first - 60, first + 600, first + 601, first + 3000], dtype=np.int64)
    made = table(HOUR, waits_s=(0, 1, 2, 3), started_at=late)
    noted = Noted()
    policy_runner.run_policy(made, noted, 0.5)
    shown = {v.now - first: v.jobs.wait_s.tolist() for v in noted.views}
    assert shown[0] == [0]
    assert shown[600] == [0, 1]
    assert shown[1200] == [0, 1, 2]
    assert shown[3000] == [0, 1, 2, 3]


def test_at_most_the_last_thousand_jobs_are_shown() -> None:
    noted = Noted()
    policy_runner.run_policy(table(HOUR, waits_s=tuple(range(1100))), noted, 0.5)
    assert noted.views[0].jobs.wait_s.tolist() == list(range(100, 1100))


def lined_up(rivals: int, planned_s: int, free_nodes: int) -> EpisodeTable:
    """The same line at each instant."""
    shape = (1, 7)
    return table(
        HOUR,
        rivals=np.full(shape, rivals, dtype=np.int32),
        rivals_planned_s=np.full(shape, planned_s, dtype=np.int32),
        free_nodes=np.full(shape, free_nodes, dtype=np.int32),
    )


@pytest.mark.parametrize(
    ("rivals", "planned_s", "free_nodes", "instant"),
    [
        (2, 1300, 0, 4),  # as long before the end as the line's latest plan
        (2, -1, 1, 6),  # a line without a plan: nothing is known
        (0, -1, 0, 6),  # no line and no room
        (0, -1, 1, 6),  # no line and room: at the end
    ],
)
def test_slurm_estimate_reads_the_line(
    rivals: int, planned_s: int, free_nodes: int, instant: int
) -> None:
    chosen = policy_runner.run_policy(lined_up(rivals, planned_s, free_nodes), SlurmEstimate(), 0.5)
    assert chosen.tolist() == [instant]


def test_fixed_lead_learns_from_hand_overs_whose_successor_has_started() -> None:
    # One a day, each reactive and 0.5 h late: known before the next; from the sixth on it leads.
    days = [MONDAY + d * 24 * HOUR_S for d in range(7)]
    made = table([[-1.0, -0.5, -0.25, 0.0, 0.25, 0.4, 0.5]] * 7, start_points=days)
    assert policy_runner.run_policy(made, FixedLead(), 0.5).tolist() == [6] * 5 + [3, 3]


def test_fixed_lead_does_not_know_hand_overs_that_are_under_way() -> None:
    # The same seven at once: no successor has started before the last decision.
    made = table([[-1.0, -0.5, -0.25, 0.0, 0.25, 0.4, 0.5]] * 7, start_points=[MONDAY] * 7)
    assert policy_runner.run_policy(made, FixedLead(), 0.5).tolist() == [6] * 7


def test_a_policy_is_asked_in_the_order_of_time_and_not_after_it_has_freed() -> None:
    made = table(TWO, start_points=[MONDAY, MONDAY + 300])
    noted = Noted(time_left_s=3000)
    told: list[int] = []
    chosen = policy_runner.run_policy(made, noted, 0.5, told.append)
    assert chosen.tolist() == [1, 1]
    assert [v.now - MONDAY for v in noted.views] == [0, 300, 600, 900]
    assert told == [0, 1]
