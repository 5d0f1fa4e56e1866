"""Each rule on hand-made views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.decision import Action, PolicyView, Waits
from mirage.domain.ports import Policy
from mirage.domain.snapshot import Queue
from mirage.errors import NotFound
from mirage.policies import registry
from mirage.policies.rules.lead_rules import (
    AtOnce,
    Average,
    CheapestLead,
    FixedLead,
    Quantile,
    Reactive,
    SlurmEstimate,
    compute_best_fractile,
    compute_quantile,
    drop_before_change,
    forecast_wait,
    select_like_waits,
)
from tests.support.policies.views import NOW, make_pending_job, view, waits

HOUR = 3600


def action(policy: Policy, seen: PolicyView) -> Action:
    return policy.decide(seen).action


def test_reactive_waits_and_at_once_frees_whatever_they_see() -> None:
    for left in (-60, 0, 10 * HOUR):
        assert action(Reactive(), view(left)) is Action.WAIT
        assert action(AtOnce(), view(left)) is Action.FREE


@pytest.mark.parametrize("policy", [Average(), Quantile(), CheapestLead(), FixedLead(enough=1)])
def test_a_rule_frees_when_the_time_left_is_its_lead_and_not_before(policy: Policy) -> None:
    known = waits([600] * 30)
    at_lead = view(600, jobs=known, handovers=known)
    before = view(601, jobs=known, handovers=known)
    assert (action(policy, at_lead), action(policy, before)) == (Action.FREE, Action.WAIT)
    assert policy.decide(at_lead).policy == policy.name


@pytest.mark.parametrize("policy", [Average(), Quantile(), CheapestLead(), FixedLead()])
def test_without_history_a_rule_waits_even_past_the_end_and_says_so(policy: Policy) -> None:
    decision = policy.decide(view(-10))
    assert (decision.action, decision.forecast) == (Action.WAIT, None)
    assert "known" in decision.reason or "needed" in decision.reason


@pytest.mark.parametrize("returns", [1, 2])
def test_a_link_that_may_give_back_gets_the_cheapest_lead_of_the_last_twenty(returns: int) -> None:
    known = waits([9 * HOUR] * 50 + [0] * 18 + [6 * HOUR] * 2)
    held, returned = (
        Quantile().decide(view(8 * HOUR, jobs=known, returns=n)) for n in (0, returns)
    )
    at_end = view(8 * HOUR).predecessor_end
    assert held.release_at == at_end - 9 * HOUR, "two in three of all have waited so long"
    assert returned.release_at == at_end - 6 * HOUR, "an early start costs six minutes"
    assert returned.policy == "quantile"


def test_average_takes_the_mean_of_the_last_hundred() -> None:
    known = waits([10**6] * 50 + [100] * 50 + [300] * 50)
    decision = Average().decide(view(200, jobs=known))
    assert decision.forecast is not None
    assert (decision.forecast.p50_s, decision.forecast.samples) == (200.0, 100)
    assert decision.action is Action.FREE
    assert action(Average(), view(201, jobs=known)) is Action.WAIT


def test_quantile_frees_the_earlier_the_cheaper_overlap_is() -> None:
    known = waits([i * 7 % 30 * 100 for i in range(30)])
    leads = {
        price: max(
            left
            for left in range(0, 3000, 50)
            if action(Quantile(), view(left, jobs=known, overlap_price=price)) is Action.FREE
        )
        for price in (0.0, 0.5, 4.0)
    }
    assert leads == {0.0: 2900, 0.5: 1900, 4.0: 500}


def test_the_forecast_is_of_the_waits_that_the_rule_used() -> None:
    known = waits([900] * 3 + [0] * 27 + [10**6] * 20, nodes=[1] * 30 + [64] * 20)
    forecast = Quantile().decide(view(5, jobs=known)).forecast
    assert forecast is not None
    assert (forecast.p10_s, forecast.p50_s, forecast.p90_s) == (0, 0, 0)
    assert forecast.samples == 30
    assert forecast_wait(known, 1, HOUR) == forecast
    assert forecast_wait(waits([]), 1, HOUR) is None


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 3.0]),
)
def test_no_constant_lead_is_cheaper_than_the_fractile(history: list[int], price: float) -> None:
    known = np.array(history, dtype=np.int64)

    def cost(lead_s: float) -> float:
        return float(
            np.maximum(known - lead_s, 0).sum() + price * np.maximum(lead_s - known, 0).sum()
        )

    chosen = compute_quantile(known, compute_best_fractile(price))
    assert cost(chosen) <= min(cost(lead) for lead in range(501)) + 1e-6


def test_like_jobs_are_widened_until_there_are_enough() -> None:
    same = waits([1] * 3, nodes=4, limit_s=HOUR)
    other_limit = waits([2] * 3, nodes=4, limit_s=48 * HOUR)
    other_size = waits([3] * 3, nodes=64, limit_s=HOUR)
    known = Waits(
        **{
            name: np.concatenate([getattr(w, name) for w in (same, other_limit, other_size)])
            for name in ("start", "wait_s", "nodes", "time_limit_s")
        }
    )

    def chosen(enough: int) -> set[int]:
        return set(select_like_waits(known, 4, HOUR, enough=enough).tolist())

    assert (chosen(3), chosen(4), chosen(7)) == ({1}, {1, 2}, {1, 2, 3})


@pytest.mark.parametrize(("nodes", "alike"), [(2, True), (8, True), (1, False), (9, False)])
def test_alike_is_within_a_factor_of_two(nodes: int, *, alike: bool) -> None:
    known = waits([7, 8], nodes=[nodes, 1000], limit_s=HOUR)
    found = select_like_waits(known, 4, HOUR, enough=1).tolist()
    assert (found == [7]) is alike


def test_history_before_a_change_to_longer_waits_is_dropped() -> None:
    history = np.array([10] * 100 + [5000] * 12, dtype=np.int64)
    kept = drop_before_change(history, compute_best_fractile(0.5))
    assert kept.tolist() == history[-20:].tolist()
    longer = np.array([10] * 100 + [5000] * 30, dtype=np.int64)
    assert drop_before_change(longer, compute_best_fractile(0.5)).tolist() == [5000] * 30


@pytest.mark.parametrize(
    "history",
    [[10] * 100 + [5000], [10, 5000] * 50, [5000] * 12 + [10] * 100, [10] * 100, [5000] * 15],
    ids=["one long wait", "to and fro", "shorter waits", "all alike", "too few to drop any"],
)
def test_history_without_such_a_change_is_kept_whole(history: list[int]) -> None:
    column = np.array(history, dtype=np.int64)
    assert len(drop_before_change(column, compute_best_fractile(0.5))) == len(history)


def test_quantile_forgets_the_calm_before_a_rush() -> None:
    known = waits([10] * 100 + [5000] * 30)
    assert action(Quantile(), view(5000, jobs=known)) is Action.FREE
    assert action(Quantile(), view(5001, jobs=known)) is Action.WAIT


def test_fixed_lead_waits_for_enough_past_hand_overs() -> None:
    few, enough = waits([600] * 4), waits([600] * 5)
    assert action(FixedLead(), view(0, handovers=few)) is Action.WAIT
    assert action(FixedLead(), view(600, handovers=enough)) is Action.FREE


def make_pending_queue(*jobs: dict[str, object]) -> Queue:
    return Queue.from_jobs(
        NOW, [make_pending_job(i, **fields) for i, fields in enumerate(jobs, start=1)]
    )


def test_slurm_estimate_is_the_latest_planned_start_of_jobs_in_line() -> None:
    planned = make_pending_queue({"start": NOW + 100}, {"start": NOW + 900}, {"start": None})
    assert action(SlurmEstimate(), view(900, queue=planned)) is Action.FREE
    assert action(SlurmEstimate(), view(901, queue=planned)) is Action.WAIT


def test_slurm_estimate_of_two_partitions_looks_at_the_lines_of_both() -> None:
    planned = make_pending_queue({"start": NOW + 100}, {"start": NOW + 900, "partition": "debug"})
    assert action(SlurmEstimate(), view(500, queue=planned)) is Action.WAIT
    either = view(500, queue=planned, partition="batch,debug")
    assert action(SlurmEstimate(), either) is Action.FREE


@pytest.mark.parametrize(
    "other",
    [
        {"nodes": 2},
        {"partition": "debug"},
        {"eligible": None},
        {"eligible": NOW + 60},
        {"priority": 0},
    ],
    ids=["wider", "another partition", "dependent", "not yet eligible", "held"],
)
def test_slurm_estimate_looks_only_at_jobs_ahead_of_a_newcomer(other: dict[str, object]) -> None:
    planned = make_pending_queue({"start": NOW + 100}, {"start": NOW + 9000, **other})
    decision = SlurmEstimate().decide(view(100, queue=planned))
    assert decision.forecast is not None
    assert decision.forecast.p50_s == 100
    assert action(SlurmEstimate(), view(101, queue=planned)) is Action.WAIT


def test_slurm_estimate_without_a_plan_waits_where_others_stand_in_line() -> None:
    unplanned = view(0, queue=make_pending_queue({"start": None}), free_nodes=4)
    assert SlurmEstimate().decide(unplanned).reason == "Slurm plans no start for the jobs ahead"
    assert action(SlurmEstimate(), unplanned) is Action.WAIT


@pytest.mark.parametrize(("free_nodes", "wanted"), [(1, Action.FREE), (0, Action.WAIT)])
def test_slurm_estimate_in_an_empty_line_asks_for_room(free_nodes: int, wanted: Action) -> None:
    """The standby itself is in the queue, and is no rival of its own."""
    itself = make_pending_queue({"start": None, "eligible": None, "priority": 1})
    assert action(SlurmEstimate(), view(0, queue=itself, free_nodes=free_nodes)) is wanted


def test_each_policy_is_found_by_its_name_and_an_unknown_one_is_told_the_names() -> None:
    names = ["reactive", "average", "quantile", "slurm-estimate", "fixed-lead", "at-once", "twin"]
    names += ["pin", "pin-then-free"]
    assert [registry.get_policy(name).name for name in names] == names
    assert sorted(registry.POLICIES) == sorted(names)
    with pytest.raises(NotFound, match=r"no policy 'oracle': use reactive, average"):
        registry.get_policy("oracle")
