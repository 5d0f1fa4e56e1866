"""An agent that learned from the twin decides by its answer, and not without it."""

from pathlib import Path

import numpy as np
import pytest

from mirage.domain.decision import Action, PolicyView
from mirage.judging import policy_runner
from mirage.lab.training.agents.trajectories import Trajectories
from mirage.lab.training.metrics.handover_costs import find_first_free
from mirage.policies import registry
from mirage.policies.models.model_policy import ModelPolicy
from tests.support.policies.views import view, waits
from tests.support.training.agents_trained import (
    EVERY,
    choose_instants,
    fit,
    named,
    plan,
    runs,
    save,
)
from tests.support.training.costs import compute_mean_cost_h
from tests.support.training.queue_tables import LEFT_S, add_forecasts, queue_table

LATER = add_forecasts(queue_table(40, seed=8))


KINDS = [("dqn", "mlp"), ("policy-gradient", "transformer")]


@pytest.fixture(scope="module", params=KINDS, ids=named)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beside it are the stages that it was made in."""
    under = tmp_path_factory.mktemp("models")
    family, encoder = request.param
    return save(under / "made" / "1", family, encoder, under / "made" / "stages", twin=True)


def test_it_costs_less_than_plain_slurm_and_asks_the_twin(served: ModelPolicy) -> None:
    assert served.needs.twin
    chosen = policy_runner.run_policy(LATER, served, 0.5)
    assert compute_mean_cost_h(LATER, chosen) < 0.5 * compute_mean_cost_h(
        LATER, policy_runner.choose_reactive(LATER)
    )


def seen(episode: int, instant: int, **fields: object) -> PolicyView:
    run, twins = LATER.observations[episode], LATER.twins
    assert twins is not None
    told = {"observation": run[instant], "window": run[: instant + 1], "jobs": waits([7200] * 30)}
    told |= {
        "twin_s": twins.get_forecast(episode, instant),
        "time_limit_s": LATER.metadata.time_limit_s,
    }
    return view(int(LEFT_S[instant]), **told | fields)


def test_it_chooses_what_the_network_chooses(folder: Path, served: ModelPolicy) -> None:
    made = plan(served.artefact.card["family"], served.artefact.card["encoder"])
    agent = fit(made, folder.with_name("stages"), runs(twin=True))
    later = Trajectories.from_tables([LATER], EVERY, twin=True)
    wanted = choose_instants(agent.net, later, 0.5, made)
    decided = [
        [served.decide(seen(e, k)).action for k in later.decision_instants[:-1]] for e in range(40)
    ]
    assert find_first_free(np.array(decided) == Action.FREE).tolist() == wanted.tolist()
    assert len(set(wanted.tolist())) > 3


def test_without_an_answer_of_the_twin_a_rule_decides_and_says_so(served: ModelPolicy) -> None:
    shown = seen(30, 12, twin_s=None)
    decision = served.decide(shown)
    rule = registry.POLICIES["quantile"].decide(shown)
    assert (decision.action, decision.policy) == (rule.action, "models/made/1")
    assert decision.reason.startswith("the twin was not asked, so quantile decides")


def test_what_is_far_from_all_that_it_saw_is_not_asked_about(served: ModelPolicy) -> None:
    """Of the twin only the observation is held against what was learned from, as for trees."""
    far = LATER.observations[30, 12] + np.float32(9.0)
    assert "far from all" in served.decide(seen(30, 12, observation=far)).reason
    month = np.full(19, 30 * 86400, dtype=np.int32)
    assert "at overlap price" in served.decide(seen(30, 12, twin_s=month)).reason


def test_a_longer_wait_is_freed_earlier(served: ModelPolicy) -> None:
    frees = [
        sum(
            served.decide(seen(e, 6, twin_s=np.full(19, wait_s, dtype=np.int32))).action
            is Action.FREE
            for e in range(40)
        )
        for wait_s in (0, 14400)
    ]
    assert frees[0] < frees[1]
