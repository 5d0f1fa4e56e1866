"""Small agents trained on hand-made tables, once a test run."""

from functools import cache
from pathlib import Path
from typing import Any

import torch

from mirage.domain.arrays import Ints
from mirage.lab.training import settings
from mirage.lab.training.agents import agent_card, agent_export, agent_training, training_tensors
from mirage.lab.training.agents.agent_training import Agent, AgentPlan
from mirage.lab.training.agents.checkpoints import TrainingCheckpoints
from mirage.lab.training.agents.networks import Net
from mirage.lab.training.agents.training_tensors import TrainingTensors
from mirage.lab.training.agents.trajectories import Trajectories
from mirage.lab.training.artefact import model_card, safetensors_io
from mirage.lab.training.metrics.handover_costs import find_first_free
from tests.support.training.queue_tables import add_forecasts, training_table

# As `mirage train` has it: threads wait for each other more than they work.
torch.set_num_threads(1)

Changed = dict[str, dict[str, Any]]

KINDS = [
    (family, encoder)
    for family in ("dqn", "policy-gradient")
    for encoder in ("mlp", "transformer", "moe")
]
EVERY = 3

QUICK: Changed = {
    "mlp": {"width": 24},
    "moe": {"width": 12, "experts": 3},
    "transformer": {"width": 8, "depth": 1, "part": 24},
    "offline": {"epochs": 30, "warm": 6, "least": 15, "rate": 4e-3, "patience": 15, "blind": 0.3},
    "dqn": {"rounds": 1, "steps": 1024, "envs": 32, "buffer": 2048, "updates": 16},
    "policy-gradient": {"rounds": 1, "envs": 32, "n_steps": 16, "batch": 256},
}
"""Less to learn, in fewer steps."""
BRIEF: Changed = {"offline": {"epochs": 6, "warm": 2, "least": 3}}
"""Where it does not matter how much was learned."""


def named(family_and_encoder: tuple[str, str]) -> str:
    return "-".join(family_and_encoder)


def plan(
    family: str, encoder: str, *, changes: Changed | None = None, **plan_fields: Any
) -> AgentPlan:
    """Build a plan of a small agent. `changes`: of settings; `plan_fields`: fields of the plan."""
    all_settings = {
        name: {**defaults, **QUICK.get(name, {})}
        for name, defaults in settings.load_defaults().items()
    }
    for name, values in (changes or {}).items():
        all_settings[name] |= values
    return AgentPlan(
        **{"family": family, "encoder": encoder, "settings": all_settings, "seed": 0, **plan_fields}
    )


@cache
def runs(*, twin: bool = False) -> Trajectories:
    return Trajectories.from_tables(
        [add_forecasts(training_table()) if twin else training_table()], EVERY, twin=twin
    )


def fit(agent_plan: AgentPlan, folder: Path, trajectories: Trajectories | None = None) -> Agent:
    return agent_training.fit_agent(
        trajectories or runs(), agent_plan, TrainingCheckpoints(folder), "all"
    )


def choose_instants(
    net: Net, trajectories: Trajectories, price: float, agent_plan: AgentPlan
) -> Ints:
    """Choose the decision [E] at which the network frees each successor; the last for never."""
    tensors = TrainingTensors.from_trajectories(trajectories, agent_plan.part)
    advantages = training_tensors.compute_advantages(net, tensors, (price,), agent_plan.unit)
    return find_first_free(advantages[0] > 0.0)


def save(
    folder: Path,
    family: str,
    encoder: str,
    scratch: Path,
    *,
    twin: bool = False,
    changes: Changed | None = None,
) -> Path:
    """Train an agent, and save its artefact in `folder`."""
    agent_plan, trajectories = plan(family, encoder, changes=changes), runs(twin=twin)
    agent = fit(agent_plan, scratch, trajectories)
    graph = agent_export.export_net(agent.net, agent_plan.unit, agent_plan.part)
    card = agent_card.build_agent_card(agent_plan, trajectories, [training_table()], None)
    model_card.save_artefact(
        folder,
        card,
        graph,
        safetensors_io.pack_weights(agent_training.dump_weights(agent.net), {}),
    )
    return folder
