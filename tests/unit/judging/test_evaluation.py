"""Figures on hand-made hand-overs, worked out by hand."""

import numpy as np
import pytest

from mirage.judging import day_bootstrap, policy_runner
from mirage.judging.evaluation import (
    Figures,
    HandoverOutcomes,
    build_class_masks,
    evaluate_policies,
)
from mirage.judging.table.episode_table import EpisodeTable
from tests.support.episodes.tables import DAY_S, MONDAY, table

OUTCOMES = [
    [-0.2, 0.5, 1.0],  # light
    [-1.0, 2.0, 6.0],  # medium
    [-2.0, 5.0, 20.0],  # heavy
    [-4.0, 1.0, 14.0],  # heavy
]


def figures(made: EpisodeTable, price: float = 0.5, startup_h: float = 0.0) -> Figures:
    judged = {
        "reactive": policy_runner.choose_reactive(made),
        "middle": np.ones(len(made), dtype=np.int64),
        "oracle": policy_runner.choose_oracle(made, price, startup_h),
    }
    handovers = {
        name: HandoverOutcomes.from_choices(made, c, startup_h) for name, c in judged.items()
    }
    masks = build_class_masks(
        HandoverOutcomes.from_choices(made, judged["reactive"]).interruption_h
    )
    return evaluate_policies(handovers, masks, price)


def test_figures_by_class() -> None:
    told = figures(table(OUTCOMES))
    reactive, middle, oracle = (told[n] for n in ("reactive", "middle", "oracle"))
    assert {c: reactive[c]["episodes"] for c in reactive} == {
        "all": 4, "light": 1, "medium": 1, "heavy": 2,
    }  # fmt: skip
    assert reactive["all"]["interruption_h"] == 41 / 4
    assert reactive["all"]["overlap_h"] == 0.0
    assert reactive["all"]["gap_closed"] == 0.0
    assert middle["heavy"]["interruption_h"] == 3.0
    # The oracle takes 2 h of overlap in the one, and an hour late in the other.
    assert oracle["heavy"]["cost_h"] == 1.0
    assert oracle["heavy"]["gap_closed"] == 1.0
    assert middle["heavy"]["gap_closed"] == pytest.approx((17 - 3) / (17 - 1))
    assert oracle["all"]["zero_interruption_pct"] == 75.0
    assert middle["all"]["zero_interruption_pct"] == 0.0


def test_overlap_is_charged_at_its_price() -> None:
    made = table([[-2.0, -2.0, 14.0]])
    assert figures(made, price=0.5)["middle"]["all"]["cost_h"] == 1.0
    assert figures(made, price=2.0)["middle"]["all"]["cost_h"] == 4.0


def test_gap_closed_is_null_where_there_is_no_gap() -> None:
    told = figures(table([[0.05, 0.0, 0.09], [0.02, 0.1, 0.1]]))
    assert told["middle"]["all"]["gap_closed"] is None
    assert told["oracle"]["all"]["gap_closed_ci"] is None
    # 0.1 h is enough.
    assert figures(table([[0.0, 0.0, 0.1]]))["oracle"]["all"]["gap_closed"] == 1.0


def test_a_class_without_episodes_has_no_figures() -> None:
    heavy = figures(table([[0.0, 1.0, 1.5]]))["middle"]["heavy"]
    assert heavy["episodes"] == 0
    assert {v for k, v in heavy.items() if k != "episodes"} == {None}


@pytest.mark.parametrize(
    ("hours", "load"), [(2.0, "light"), (2.01, "medium"), (12.0, "medium"), (12.01, "heavy")]
)
def test_bounds_of_the_load_classes(hours: float, load: str) -> None:
    masks = build_class_masks(np.array([hours]))
    assert [name for name, mask in masks.items() if mask[0]] == ["all", load]


def test_startup_time_counts_as_interruption_and_moves_no_class() -> None:
    told = figures(table([[-2.0, 1.0, 1.75]]), startup_h=0.5)
    assert told["reactive"]["light"]["interruption_h"] == 2.25
    assert told["middle"]["light"]["interruption_h"] == 1.5
    assert told["oracle"]["light"]["overlap_h"] == 1.5


def test_an_interval_holds_the_mean_and_is_a_point_where_days_are_alike() -> None:
    days = [MONDAY + d * DAY_S for d in range(8)]
    alike = figures(table([[0.0, 1.0, 6.0]] * 8, start_points=days))["middle"]["all"]
    assert alike["interruption_h_ci"] == (1.0, 1.0)
    assert alike["gap_closed_ci"] == pytest.approx((5 / 6, 5 / 6))
    differ = [[0.0, float(d), 12.0] for d in range(8)]
    low, high = figures(table(differ, start_points=days))["middle"]["all"]["interruption_h_ci"]
    assert 1.0 < low < 3.5 < high < 6.0


def test_episodes_of_a_day_are_drawn_together() -> None:
    starts = np.array([MONDAY, MONDAY + 3600, MONDAY + DAY_S], dtype=np.int64)
    counts = day_bootstrap.draw_day_counts(starts, draws=500)
    assert (counts[:, 0] == counts[:, 1]).all()
    assert (counts[:, 0] + counts[:, 2] == 2).all()
    assert 200 < (counts[:, 0] == 1).sum() < 300
    assert (day_bootstrap.draw_day_counts(starts, draws=500) == counts).all()


def test_the_interval_is_that_of_a_mean_over_days() -> None:
    # Of n independent days the bootstrap's interval is close to mean +- 1.96 s / sqrt(n).
    values = np.random.default_rng(3).normal(10.0, 2.0, size=200)
    starts = MONDAY + DAY_S * np.arange(200, dtype=np.int64)
    ends = day_bootstrap.compute_interval(
        day_bootstrap.compute_means(day_bootstrap.draw_day_counts(starts), values)
    )
    assert ends is not None
    half = 1.96 * values.std() / np.sqrt(200)
    assert ends[0] == pytest.approx(values.mean() - half, abs=0.06)
    assert ends[1] == pytest.approx(values.mean() + half, abs=0.06)


def test_tables_are_judged_together() -> None:
    first, second = table(OUTCOMES), table([[0.0, 0.0, 100.0]])
    both = [
        HandoverOutcomes.from_choices(t, policy_runner.choose_reactive(t)) for t in (first, second)
    ]
    assert HandoverOutcomes.join_outcomes(both).interruption_h.tolist() == [
        1.0,
        6.0,
        20.0,
        14.0,
        100.0,
    ]
