"""Agents that learn from what the twin foretells: their graphs, cards and beginnings."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from mirage.errors import InputError, UnfitModel
from mirage.lab.training.agents import agent_export
from mirage.lab.training.agents.agent_card import StartingAgent
from mirage.lab.training.agents.networks import NetInput
from mirage.observation import spec
from mirage.policies.models.artefact import CARD, Artefact
from mirage.twin import twin_features
from tests.support.training.agents_trained import BRIEF, fit, plan, runs, save

KIND = ("dqn", "mlp")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    under = tmp_path_factory.mktemp("models")
    return save(under / "made" / "1", *KIND, under / "scratch", twin=True, changes=BRIEF)


@pytest.mark.parametrize("encoder", ["mlp", "moe", "transformer"])
def test_its_graph_says_what_the_network_says(encoder: str, tmp_path: Path) -> None:
    made, of = plan("policy-gradient", encoder, changes=BRIEF), runs(twin=True)
    agent = fit(made, tmp_path, of)
    assert len(agent.net.scaled.low) == len(spec.FEATURE_NAMES) + len(twin_features.FEATURE_NAMES)
    graph = agent_export.export_net(agent.net, made.unit, made.part)
    apart = agent_export.measure_parity(graph, agent.net, made.unit, made.part, of)
    assert max(apart.values()) < 1e-4


def test_it_begins_with_the_odds_of_being_late_that_the_twin_gives() -> None:
    net = (
        plan("dqn", "mlp")
        .create_net(len(spec.FEATURE_NAMES) + len(twin_features.FEATURE_NAMES))
        .eval()
    )
    now = torch.zeros(2, len(spec.FEATURE_NAMES) + len(twin_features.FEATURE_NAMES))
    now[:, -1] = torch.tensor([0.1, 0.9])
    # What the encoder makes of it besides is the same.
    net.scaled.deviation[-1] = torch.inf
    sight = NetInput(now, torch.zeros(2, 0, len(spec.FEATURE_NAMES)), torch.zeros(2, 0))
    late = net(sight, torch.full((2,), 0.5)).late.detach()
    assert float(late[1] - late[0]) == pytest.approx(2 * np.log(9), rel=1e-4)


def test_its_card_names_the_twins_numbers(folder: Path, tmp_path: Path) -> None:
    card = json.loads((folder / CARD).read_text())
    assert card["twin"] == twin_features.FINGERPRINT
    assert len(card["seen"]["low"]) == len(spec.FEATURE_NAMES) + len(twin_features.FEATURE_NAMES)
    other = damaged(folder, tmp_path, twin="0" * 64)
    with pytest.raises(UnfitModel, match="other numbers of the twin than this program's"):
        Artefact.load(other)
    with pytest.raises(UnfitModel, match="other numbers of the twin than this program's"):
        StartingAgent.from_folder(other, *KIND, twin=True)


def test_an_agent_goes_on_only_with_what_it_knows(folder: Path, tmp_path: Path) -> None:
    assert (
        StartingAgent.from_folder(folder, *KIND, twin=True).card["twin"]
        == twin_features.FINGERPRINT
    )
    with pytest.raises(InputError, match="was trained with the twin: go on from it with --twin"):
        StartingAgent.from_folder(folder, *KIND, twin=False)
    plain = damaged(folder, tmp_path, twin=None)
    with pytest.raises(InputError, match="without the twin: go on from it with --no-twin"):
        StartingAgent.from_folder(plain, *KIND, twin=True)


def damaged(folder: Path, tmp_path: Path, **card: object) -> Path:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    told = json.loads((copy / CARD).read_text())
    (copy / CARD).write_text(json.dumps(told | card))
    return copy
