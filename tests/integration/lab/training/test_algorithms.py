"""Agents learn what there is to learn, and nothing where there is nothing."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from mirage.judging import policy_runner
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.agents import agent_export, agent_training
from mirage.lab.training.agents.agent_training import Agent, AgentPlan
from mirage.lab.training.agents.checkpoints import TrainingCheckpoints
from mirage.lab.training.agents.trajectories import Trajectories
from tests.support.episodes.tables import MONDAY
from tests.support.training.agents_trained import (
    BRIEF,
    EVERY,
    KINDS,
    choose_instants,
    fit,
    named,
    plan,
    runs,
)
from tests.support.training.costs import PRICE, compute_mean_cost_h, find_best_constant
from tests.support.training.queue_tables import (
    EPISODES,
    queue_table,
    shuffle_outcomes,
    training_table,
)

LATER = queue_table(seed=5, first=MONDAY + EPISODES * 4 * 3600 + 86400)


def agent_cost_h(agent: Agent, made: AgentPlan) -> float:
    seen = Trajectories.from_tables([LATER], EVERY)
    chosen = choose_instants(agent.net, seen, PRICE, made)
    return compute_mean_cost_h(LATER, seen.decision_instants[chosen])


def fixed_lead_cost_h(table: EpisodeTable) -> float:
    chosen = np.full(len(LATER), find_best_constant(table), dtype=np.int64)
    return compute_mean_cost_h(LATER, chosen)


@pytest.fixture(params=KINDS, ids=named)
def made(request: pytest.FixtureRequest) -> AgentPlan:
    return plan(*request.param)


def test_it_learns_closes_most_of_the_gap_and_its_graph_says_the_same(
    made: AgentPlan, tmp_path: Path
) -> None:
    agent = fit(made, tmp_path)
    reactive, oracle = (
        compute_mean_cost_h(LATER, chosen)
        for chosen in (
            policy_runner.choose_reactive(LATER),
            policy_runner.choose_oracle(LATER, PRICE),
        )
    )
    spent = agent_cost_h(agent, made)
    assert spent < fixed_lead_cost_h(training_table())
    assert (reactive - spent) / (reactive - oracle) > 0.5
    graph = agent_export.export_net(agent.net, made.unit, made.part)
    apart = agent_export.measure_parity(graph, agent.net, made.unit, made.part, runs())
    assert max(apart.values()) < 1e-4
    assert len(graph) < 1_000_000


def test_shuffled_labels_teach_no_more_than_a_constant_lead(
    made: AgentPlan, tmp_path: Path
) -> None:
    nonsense = shuffle_outcomes(training_table())
    agent = fit(made, tmp_path, Trajectories.from_tables([nonsense], EVERY))
    assert agent_cost_h(agent, made) > fixed_lead_cost_h(nonsense) - 0.05


@pytest.mark.parametrize("family", ["dqn", "policy-gradient"])
def test_the_same_seed_gives_the_same_figures(family: str, tmp_path: Path) -> None:
    made = plan(family, "mlp", changes=BRIEF)
    first, second = (
        next(agent_training.fit_windows(runs(), made, 1, TrainingCheckpoints(tmp_path / turn)))
        for turn in ("first", "second")
    )
    assert first.describe(runs()) == second.describe(runs())
    weights = agent_training.dump_weights(second.agent.net)
    for name, array in agent_training.dump_weights(first.agent.net).items():
        np.testing.assert_array_equal(array, weights[name])


@pytest.mark.parametrize("family", ["dqn", "policy-gradient"])
def test_it_leaves_nothing_in_tmp(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_all = tmp_path / "tmp"
    for_all.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(for_all))
    fit(plan(family, "mlp", changes=BRIEF), tmp_path / "kept")
    assert not list(for_all.iterdir())


def test_a_dearer_overlap_frees_later(tmp_path: Path) -> None:
    made = plan("policy-gradient", "mlp")
    agent = fit(made, tmp_path)
    seen = Trajectories.from_tables([LATER], EVERY)
    cheap, dear = (choose_instants(agent.net, seen, price, made).mean() for price in (0.1, 2.0))
    assert cheap < dear


def test_a2c_learns_too(tmp_path: Path) -> None:
    made = plan("policy-gradient", "mlp", changes={"policy-gradient": {"algorithm": "a2c"}})
    assert agent_cost_h(fit(made, tmp_path), made) < fixed_lead_cost_h(training_table())


def test_it_goes_on_from_weights_that_were_kept(tmp_path: Path) -> None:
    first = fit(plan("policy-gradient", "mlp", changes=BRIEF), tmp_path / "first")
    weights = agent_training.dump_weights(first.net)
    on = plan("policy-gradient", "mlp", changes=BRIEF, start=weights)
    begun = on.prepare_net(runs())
    for name, array in agent_training.dump_weights(begun).items():
        np.testing.assert_array_equal(array, weights[name])
    again = fit(on, tmp_path / "second")
    assert again.facts["tuned"] <= again.facts["offline"]


def test_windows_that_it_has_learned_from_do_not_judge_it(tmp_path: Path) -> None:
    until = int(runs().rows.start_point[-1]) + 1
    on = plan(
        "dqn", "mlp", start=agent_training.dump_weights(plan("dqn", "mlp").prepare_net(runs()))
    )
    late = plan("dqn", "mlp", start=on.start, start_until=until)
    assert not list(agent_training.fit_windows(runs(), late, 2, TrainingCheckpoints(tmp_path)))
