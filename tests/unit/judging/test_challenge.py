"""What a challenger and a champion have to show: one vote a person, days and not rows."""

from collections.abc import Mapping

import numpy as np
import pytest

from mirage.domain.arrays import Floats
from mirage.errors import InputError
from mirage.judging.challenge import (
    MOST_JUDGEMENTS,
    ChallengeOutcomes,
    Judgement,
    decide_challenge,
    is_judgement_due,
    judge_challenge,
    judge_champion,
)
from mirage.judging.owner_weighed_test import (
    ERROR,
    WeighedDifference,
    compute_t_quantile,
    weigh_by_owner,
)
from mirage.judging.paired_test import FEWEST_DAYS

DAY_S = 86400
DAYS = 42


def outcomes(
    cost_h: Mapping[str, float], *, days: int = DAYS, owners: int = 3, noise_h: float = 0.1
) -> ChallengeOutcomes:
    """One hand-over a day of each owner. Each policy costs what `cost_h` says, give or take."""
    rng = np.random.default_rng(1)
    at = np.repeat(np.arange(days) * DAY_S, owners)
    base_h = rng.lognormal(2.0, 0.5, len(at))
    return ChallengeOutcomes(
        start_point=at,
        owner=np.tile(np.arange(owners), days),
        cost_h={
            name: base_h + cost + rng.normal(0.0, noise_h, len(at)) for name, cost in cost_h.items()
        },
    )


BETTER = {"challenger": 1.0, "champion": 2.0, "twin": 2.5, "quantile": 3.0}


def test_one_that_beats_the_champion_and_the_better_rule_may_be_promoted() -> None:
    verdict = judge_challenge(outcomes(BETTER))
    assert verdict.is_better
    assert verdict.rule == "twin"
    assert verdict.differences.keys() == {"champion", "twin"}
    assert verdict.differences["champion"].mean_h == pytest.approx(-1.0, abs=0.1)
    assert decide_challenge(verdict, 1) is Judgement.BETTER


@pytest.mark.parametrize("unbeaten", ["champion", "twin", "quantile"])
def test_one_that_a_rule_or_the_champion_equals_may_not(unbeaten: str) -> None:
    verdict = judge_challenge(outcomes(BETTER | {unbeaten: 1.0}))
    assert not verdict.is_better
    assert not judge_challenge(outcomes(BETTER | {unbeaten: 0.5})).is_better


def test_the_champion_may_be_cheaper_than_every_rule_and_still_has_to_be_beaten() -> None:
    assert not judge_challenge(outcomes(BETTER | {"champion": 0.5})).is_better


def test_one_who_has_many_hand_overs_has_one_vote() -> None:
    """One owner of a hundred a day gains an hour; nine others lose half an hour each day."""
    at = np.repeat(np.arange(DAYS) * DAY_S, 109)
    owner = np.tile(np.concatenate([np.zeros(100, dtype=np.int64), np.arange(1, 10)]), DAYS)
    gained_h = np.where(owner == 0, -1.0, 0.5)
    assert gained_h.mean() < -0.8
    difference = WeighedDifference.from_differences(at, owner, gained_h)
    assert difference.mean_h == pytest.approx((-1.0 + 9 * 0.5) / 10)
    assert difference.owners == 10
    assert difference.is_dearer


def test_one_with_a_single_hand_over_decides_nothing() -> None:
    """Ten hours worse for one who is there once, on one day of forty-two."""
    at = np.append(np.arange(DAYS) * DAY_S, 20 * DAY_S)
    owner = np.append(np.zeros(DAYS, dtype=np.int64), 1)
    weights = weigh_by_owner(at, owner)
    assert weights[owner == 0].sum() == pytest.approx(1.0)
    assert weights[owner == 1].sum() == pytest.approx(1.0 / FEWEST_DAYS)
    gained_h = np.append(np.full(DAYS, -1.0), 0.0)
    assert WeighedDifference.from_differences(at, owner, gained_h).is_cheaper


def test_a_burst_of_one_day_counts_as_one_day() -> None:
    rng = np.random.default_rng(2)
    at = np.concatenate([np.arange(14) * DAY_S, np.full(1000, 3 * DAY_S)])
    gained_h = np.concatenate([rng.normal(0.0, 1.0, 14), np.full(1000, -5.0)])
    difference = WeighedDifference.from_differences(at, np.zeros(len(at), dtype=int), gained_h)
    assert difference.mean_h > -1.0
    assert not difference.is_cheaper


def test_few_days_decide_nothing_however_clear_they_are() -> None:
    for days in (1, FEWEST_DAYS - 1, 10):
        verdict = judge_challenge(outcomes(BETTER, days=days, noise_h=0.0))
        assert not verdict.is_better, days
        assert verdict.is_open
        assert decide_challenge(verdict, 1) is Judgement.OPEN
    assert judge_challenge(outcomes(BETTER, days=12, noise_h=0.0)).is_better


def test_a_gain_that_may_be_luck_stands_for_some_judgements_and_a_loss_for_none() -> None:
    likely = judge_challenge(outcomes(BETTER | {"champion": 1.2}, days=14, noise_h=1.0))
    assert likely.is_open
    assert not likely.is_better
    assert decide_challenge(likely, 1) is Judgement.OPEN
    assert decide_challenge(likely, MOST_JUDGEMENTS - 1) is Judgement.OPEN
    assert decide_challenge(likely, MOST_JUDGEMENTS) is Judgement.NO_BETTER
    dearer = judge_challenge(outcomes(BETTER | {"challenger": 2.5}))
    assert decide_challenge(dearer, 1) is Judgement.NO_BETTER


def test_a_judgement_is_due_once_each_fortnight() -> None:
    due = [
        is_judgement_due(proposed_at=0, judgements=judged, shadow_s=14 * DAY_S, now=day * DAY_S)
        for judged, day in ((0, 13), (0, 14), (1, 14), (1, 27), (1, 28))
    ]
    assert due == [False, True, False, False, True]


def test_a_champion_is_compared_with_the_better_rule() -> None:
    worse = judge_champion(outcomes({"champion": 3.0, "twin": 2.5, "quantile": 2.0}, days=21))
    assert (worse.rule, worse.is_worse) == ("quantile", True)
    better = judge_champion(outcomes({"champion": 1.0, "twin": 2.5, "quantile": 2.0}, days=21))
    assert not better.is_worse
    equal = judge_champion(outcomes({"champion": 2.0, "quantile": 2.0}, days=21))
    assert not equal.is_worse


def test_hand_overs_without_a_cost_are_left_out_of_every_mean() -> None:
    made = outcomes(BETTER)
    twin: Floats = made.cost_h["twin"].copy()
    twin[:90] = np.nan
    kept = ChallengeOutcomes(
        start_point=made.start_point, owner=made.owner, cost_h={**made.cost_h, "twin": twin}
    )
    verdict = judge_challenge(kept)
    assert verdict.differences["champion"].handovers == len(twin) - 90
    everything = {name: np.full(len(twin), np.nan) for name in BETTER}
    with pytest.raises(InputError, match="known under each policy"):
        judge_challenge(
            ChallengeOutcomes(start_point=made.start_point, owner=made.owner, cost_h=everything)
        )


@pytest.mark.parametrize("missing", ["challenger", "champion"])
def test_costs_that_are_missing_are_named(missing: str) -> None:
    costs = {name: cost for name, cost in BETTER.items() if name != missing}
    with pytest.raises(InputError, match=f"no costs of {missing}"):
        judge_challenge(outcomes(costs))
    with pytest.raises(InputError, match="no costs of twin or quantile"):
        judge_challenge(outcomes({"challenger": 1.0, "champion": 2.0}))


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [
        (0.975, 1.0, 12.706),
        (0.975, 4.0, 2.776),
        (0.999, 4.0, 7.173),
        (0.999, 13.0, 3.852),
        (0.995, 30.0, 2.750),
        (0.999, 1e4, 3.0911),
        (0.5, 5.0, 0.0),
    ],
)
def test_the_quantiles_of_students_t_are_those_of_the_tables(
    level: float, freedom: float, expected: float
) -> None:
    assert compute_t_quantile(level, freedom) == pytest.approx(expected, rel=1e-3, abs=1e-9)


def test_the_evidence_is_json_and_says_it_in_words() -> None:
    verdict = judge_challenge(outcomes(BETTER, days=2))
    evidence = verdict.build_evidence()
    assert evidence["against"]["twin"]["difference_h_ci"] == [None, None]
    full = judge_challenge(outcomes(BETTER)).build_evidence()
    low, high = full["against"]["champion"]["difference_h_ci"]
    assert low < full["against"]["champion"]["difference_h"] < high < 0.0
    assert full["cost_h"]["challenger"] < full["cost_h"]["champion"]
    assert f"{100 - 200 * ERROR:g} % interval" in verdict.explain()
