"""Writes an agent's card, and loads a saved agent so that training can continue from it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from mirage.errors import InputError, UnfitModel
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.training.agents import agent_export
from mirage.lab.training.agents.agent_training import AgentPlan, FittedWindow
from mirage.lab.training.agents.networks import PRICES
from mirage.lab.training.agents.trajectories import WINDOW, Trajectories
from mirage.lab.training.artefact import safetensors_io
from mirage.lab.training.artefact.holdout_judge import JudgedWindow
from mirage.lab.training.artefact.model_card import (
    WEIGHTS,
    build_card_header,
    describe_training_data,
    serve_model,
)
from mirage.lab.training.artefact.safetensors_io import Weights
from mirage.policies.models.artefact import read_card
from mirage.policies.models.model_input import has_twin_inputs
from mirage.policies.models.onnx_session import ADVANTAGE


@dataclass(frozen=True, slots=True)
class StartingAgent:
    """A saved agent from which training continues."""

    weights: Weights
    card: Mapping[str, Any]

    @classmethod
    def from_folder(cls, folder: Path, family: str, encoder: str, *, twin: bool = False) -> Self:
        """Load a saved agent. `twin`: whether the new agent learns from the twin's forecasts.

        Raises UnfitModel for an agent that is damaged or was trained on other features, InputError
        for another kind of model.
        """
        card = read_card(folder)
        if (card["family"], card.get("encoder")) != (family, encoder):
            raise InputError(f"{folder} is no {family} agent with the encoder {encoder}")
        _check_twin(folder, card, twin=twin)
        weights, _ = safetensors_io.load_weights(folder / WEIGHTS)
        data = (folder / WEIGHTS).read_bytes()
        if hashlib.sha256(data).hexdigest() != card.get("weights_sha256"):
            raise UnfitModel(f"{folder}: {WEIGHTS} is not the file that its card describes")
        return cls(weights, card)

    @property
    def until(self) -> int:
        """Return the end of the agent's training data, epoch seconds: all its hand-overs were
        submitted before."""
        return max(int(table["until"]) for table in self.card["trained_on"])


def _check_twin(folder: Path, card: Mapping[str, Any], *, twin: bool) -> None:
    try:
        is_with_twin = has_twin_inputs(card)
    except ValueError as error:
        raise UnfitModel(f"{folder}: {error}") from error
    if is_with_twin is not twin:
        wording, option = ("with", "--twin") if is_with_twin else ("without", "--no-twin")
        raise InputError(f"{folder} was trained {wording} the twin: go on from it with {option}")


def build_agent_card(
    plan: AgentPlan,
    runs: Trajectories,
    tables: Sequence[EpisodeTable],
    start: StartingAgent | None,
    **figures: Any,
) -> dict[str, Any]:
    """Build the card, except the sha256. `figures`: figures of the training run."""
    card = {
        **build_card_header(plan.family),
        "encoder": plan.encoder,
        ADVANTAGE: {"unit": plan.unit, "prices": PRICES, "window": WINDOW if plan.part else 0},
        "settings": plan.used_settings,
        **figures,
        **describe_training_data(runs.rows, tables),
    }
    if start is not None:
        start_card, ranges = start.card, card["seen"]
        card["trained_on"] = [*start_card["trained_on"], *card["trained_on"]]
        card["seen"] = {
            "low": np.minimum(start_card["seen"]["low"], ranges["low"]).tolist(),
            "high": np.maximum(start_card["seen"]["high"], ranges["high"]).tolist(),
        }
    return card


def serve_window(
    fit: FittedWindow,
    runs: Trajectories,
    plan: AgentPlan,
    tables: Sequence[EpisodeTable],
    start: StartingAgent | None,
) -> JudgedWindow:
    """Build the policies that a service makes of a window's agent: as it is, and as it was after
    offline training. `runs` are all runs of the tables."""
    card = build_agent_card(plan, runs.select_episodes(fit.past), tables, start)
    nets = {plan.family: fit.agent.net, f"{plan.family} offline": fit.agent.offline_net}
    return JudgedWindow(
        fit.window,
        {
            name: serve_model(name, card, agent_export.export_net(net, plan.unit, plan.part))
            for name, net in nets.items()
        },
    )
