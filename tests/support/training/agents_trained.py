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
from tests.support.training.queue_tables import foretold, learned

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


def named(kind: tuple[str, str]) -> str:
    return "-".join(kind)


def plan(family: str, encoder: str, *, changed: Changed | None = None, **more: Any) -> AgentPlan:
    """`changed` are settings, `more` are the plan's own."""
    made = {
        name: {**kept, **QUICK.get(name, {})} for name, kept in settings.load_defaults().items()
    }
    for name, values in (changed or {}).items():
        made[name] |= values
    return AgentPlan(**{"family": family, "encoder": encoder, "settings": made, "seed": 0, **more})


@cache
def runs(*, twin: bool = False) -> Trajectories:
    return Trajectories.from_tables([foretold(learned()) if twin else learned()], EVERY, twin=twin)


def fit(made: AgentPlan, folder: Path, of: Trajectories | None = None) -> Agent:
    return agent_training.fit_agent(of or runs(), made, TrainingCheckpoints(folder), "all")


def choose_instants(net: Net, seen: Trajectories, price: float, made: AgentPlan) -> Ints:
    """Choose the decision [E] at which the network frees each successor; the last for never."""
    tensors = TrainingTensors.from_trajectories(seen, made.part)
    advantages = training_tensors.compute_advantages(net, tensors, (price,), made.unit)
    return find_first_free(advantages[0] > 0.0)


def save(
    folder: Path,
    family: str,
    encoder: str,
    scratch: Path,
    *,
    twin: bool = False,
    changed: Changed | None = None,
) -> Path:
    """An artefact."""
    made, of = plan(family, encoder, changed=changed), runs(twin=twin)
    agent = fit(made, scratch, of)
    graph = agent_export.export_net(agent.net, made.unit, made.part)
    described = agent_card.build_agent_card(made, of, [learned()], None)
    model_card.save_artefact(
        folder,
        described,
        graph,
        safetensors_io.pack_weights(agent_training.dump_weights(agent.net), {}),
    )
    return folder
