"""Training learns what there is to learn, and nothing where there is nothing."""

import numpy as np
import pytest

from mirage.judging import policy_runner
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.artefact import model_card
from mirage.lab.training.dataset import Rows
from mirage.lab.training.trees import tree_export, tree_training
from mirage.policies.models.model_policy import ModelPolicy
from tests.support.episodes.tables import MONDAY
from tests.support.training.costs import PRICE, compute_mean_cost_h, find_best_constant
from tests.support.training.queue_tables import (
    EPISODES,
    LEFT_S,
    queue_table,
    shuffle_outcomes,
    training_table,
)
from tests.support.training.trained import FAMILIES, Kind, fitted, served

LATER = queue_table(seed=5, first=MONDAY + EPISODES * 4 * 3600 + 86400)


def named(family: Kind) -> str:
    return family.name


def policy_cost_h(policy: ModelPolicy) -> float:
    return compute_mean_cost_h(LATER, policy_runner.run_policy(LATER, policy, PRICE))


def fixed_lead_cost_h() -> float:
    best = find_best_constant(training_table())
    return compute_mean_cost_h(LATER, np.full(len(LATER), best, dtype=np.int64))


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_most_of_the_gap_is_closed_where_the_plan_tells_it(family: Kind) -> None:
    reactive, oracle = (
        compute_mean_cost_h(LATER, chosen)
        for chosen in (
            policy_runner.choose_reactive(LATER),
            policy_runner.choose_oracle(LATER, PRICE),
        )
    )
    learned_cost = policy_cost_h(served(family))
    assert learned_cost < fixed_lead_cost_h()
    assert (reactive - learned_cost) / (reactive - oracle) > 0.6


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_shuffled_labels_teach_no_more_than_a_constant_lead(family: Kind) -> None:
    nonsense = shuffle_outcomes(training_table())
    rows = Rows.from_tables([nonsense])
    made = tree_training.fit_policy(rows, family)
    policy = model_card.serve_trees(made, family, rows, [nonsense])
    assert policy_cost_h(policy) > fixed_lead_cost_h() - 0.05


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_a_dearer_overlap_frees_later(family: Kind) -> None:
    few = LATER.select_episodes(np.arange(0, len(LATER), 3))
    cheap, dear = (policy_runner.run_policy(few, served(family), price) for price in (0.1, 2.0))
    assert (cheap <= dear).all()
    assert cheap.mean() < dear.mean()


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_the_forecast_beats_the_empirical_quantiles(family: Kind) -> None:
    rows = Rows.from_tables([training_table()], every=3)
    fits = list(tree_training.fit_windows(rows, family, windows=2))
    assert len(fits) == 2
    for fit in fits:
        window = fit.measure_forecast(rows, seed=0)
        assert window["pinball_h"] < 0.7 * window["pinball_empirical_h"]
        assert window["learned_from"] + window["episodes"] <= EPISODES


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_the_same_seed_gives_the_same_policy(family: Kind) -> None:
    rows = Rows.from_tables([training_table()])
    again = tree_training.fit_policy(rows, family)
    np.testing.assert_array_equal(again.predict_wait_h(rows), fitted(family).predict_wait_h(rows))


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_an_idle_cluster_teaches_not_to_act(family: Kind) -> None:
    made = queue_table(60)
    at_once = np.tile((-LEFT_S).astype(np.int32), (len(made), 1))
    idle = EpisodeTable(made.metadata, {**made._columns, "outcome_s": at_once})
    rows = Rows.from_tables([idle], every=3)
    never = tree_training.fit_policy(rows, family)
    policy = model_card.serve_trees(never, family, rows, [idle])
    chosen = policy_runner.run_policy(idle, policy, PRICE)
    assert chosen.tolist() == policy_runner.choose_reactive(idle).tolist()
    assert never.predict_wait_h(rows).max() == 0.0
    data = tree_export.export_trees(never.wait, rows.flat.shape[1])
    assert max(tree_export.measure_parity(data, never.wait, rows.flat).values()) == 0.0
