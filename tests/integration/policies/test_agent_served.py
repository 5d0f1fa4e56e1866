"""An agent decides where it can be asked, at the price of the view."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mirage.domain.decision import Action, PolicyView
from mirage.errors import UnfitModel
from mirage.judging import policy_runner
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, Artefact
from mirage.policies.models.model_policy import ModelPolicy
from tests.support.policies.views import view, waits
from tests.support.training.agents_trained import named, save
from tests.support.training.queue_tables import LEFT_S, queue_table, training_table

SERVED = [("dqn", "mlp"), ("policy-gradient", "transformer")]


@pytest.fixture(scope="module", params=SERVED, ids=named)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    under = tmp_path_factory.mktemp("models")
    family, encoder = request.param
    return save(under / "made" / "1", family, encoder, scratch=under / "scratch")


def seen(episode: int, instant: int, **fields: object) -> PolicyView:
    run = training_table().observations[episode]
    told = {"observation": run[instant], "window": run[: instant + 1], "jobs": waits([7200] * 30)}
    told["time_limit_s"] = training_table().metadata.time_limit_s
    return view(int(LEFT_S[instant]), **told | fields)


def test_it_costs_less_than_plain_slurm(served: ModelPolicy) -> None:
    table = queue_table(40, seed=8)
    chosen = policy_runner.run_policy(table, served, 0.5)
    rows = np.arange(len(table))

    def cost(at: policy_runner.ChosenInstants) -> float:
        x = table.outcome_h[rows, at]
        return float((np.maximum(x, 0.0) + 0.5 * np.maximum(-x, 0.0)).mean())

    assert cost(chosen) < cost(policy_runner.choose_reactive(table))
    assert len(set(chosen.tolist())) > 3


def test_the_reason_names_the_price(served: ModelPolicy) -> None:
    decision = served.decide(seen(40, 12, overlap_price=0.7))
    assert decision.policy == "models/made/1"
    assert "at overlap price 0.7" in decision.reason
    assert decision.forecast is None


def test_a_cheaper_overlap_frees_more(served: ModelPolicy) -> None:
    frees = [
        sum(served.decide(seen(e, 6, overlap_price=p)).action is Action.FREE for e in range(60))
        for p in (0.1, 2.0)
    ]
    assert frees[0] > frees[1]


@pytest.mark.parametrize("price", [0.01, 5.0])
def test_another_price_than_those_learned_from_is_not_asked_about(
    served: ModelPolicy, price: float
) -> None:
    view = seen(40, 12, overlap_price=price)
    decision = served.decide(view)
    assert f"the overlap price {price:g} lies outside the model's training range" in decision.reason
    assert decision.action is registry.POLICIES["quantile"].decide(view).action
    assert served.explain_unfit(view) is not None, "nobody takes the rule's figures for the model's"


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (None, "no window"),
        (np.full((3, training_table().observations.shape[2]), np.nan), "not finite"),
    ],
    ids=["none", "nan"],
)
def test_without_its_window_a_rule_decides(
    served: ModelPolicy, window: np.ndarray[tuple[int, int], np.dtype[np.float32]] | None, why: str
) -> None:
    decision = served.decide(seen(40, 12, window=window))
    looks_back = served.artefact.card["advantage"]["window"] > 0
    assert (why in decision.reason) == looks_back
    assert ("quantile decides" in decision.reason) == looks_back


def test_zeros_and_what_is_far_from_all_that_it_saw_are_not_asked_about(
    served: ModelPolicy,
) -> None:
    far = training_table().observations[40, 12] + np.float32(9.0)
    assert "far from all" in served.decide(seen(40, 12, observation=far)).reason


_ASKED = """
import sys
from pathlib import Path
from mirage.policies.models.artefact import Artefact
Artefact.load(Path(sys.argv[1]))
print(*sorted({"torch", "stable_baselines3", "gymnasium", "sklearn", "onnx"} & set(sys.modules)))
"""


def test_a_served_agent_loads_nothing_that_only_training_needs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASKED, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("advantage", "why"),
    [
        ({}, "cannot be loaded"),
        ({"unit": "miles", "prices": [0.1, 2], "window": 0}, "cannot be loaded"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    folder: Path, tmp_path: Path, advantage: dict[str, object], why: str
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "policy.onnx").write_bytes((folder / "policy.onnx").read_bytes())
    read = json.loads((folder / CARD).read_text())
    (copy / CARD).write_text(json.dumps(read | {"advantage": advantage}))
    with pytest.raises(UnfitModel, match=why):
        Artefact.load(copy)
