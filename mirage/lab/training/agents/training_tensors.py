"""Runs of predecessors as tensors for training and judging, with outcomes and their costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from mirage.domain.arrays import Floats
from mirage.lab.training.agents.networks import Net, NetInput
from mirage.lab.training.agents.trajectories import Trajectories
from mirage.lab.training.metrics.handover_costs import compute_costs, find_first_free
from mirage.policies.models.agent_model import AdvantageUnit

PRICES = (0.15, 0.5, 1.5)
"""The overlap prices at which agents are compared during training."""

_AT_ONCE = 8192
_LEAST_COST_H = 0.5
"""The least cost of plain Slurm, hours: on an idle cluster it is 0, and other costs are divided by
it."""


@dataclass(frozen=True, slots=True)
class TrainingTensors:
    """E runs, each with D decisions and its end."""

    net_input: NetInput
    """The inputs at the E x (D + 1) instants."""
    outcome_h: Tensor
    """[E, D + 1]: outcome of freeing at each instant, hours; above 0 interruption, below 0
    overlap."""
    left_h: Tensor
    """[D + 1]: hours left until the predecessor's end; 0 at the end."""

    @classmethod
    def from_trajectories(cls, runs: Trajectories, part: int) -> Self:
        left_h = np.append(runs.rows.left_h, 0.0)
        outcome_h = torch.from_numpy(runs.rows.outcome_h.astype(np.float32))
        return cls(runs.build_input(part), outcome_h, torch.from_numpy(left_h.astype(np.float32)))

    def __len__(self) -> int:
        return len(self.outcome_h)

    def index_rows(self, episodes: Tensor) -> Tensor:
        """Return the rows [B x (D + 1)] of these episodes among all instants."""
        instants = self.outcome_h.shape[1]
        return (episodes[:, None] * instants + torch.arange(instants)).reshape(-1)


def compute_cost(outcome_h: Tensor, price: Tensor | float) -> Tensor:
    """Compute interruption + price x overlap, hours."""
    return outcome_h.clamp(min=0.0) + price * (-outcome_h).clamp(min=0.0)


def compute_advantages(
    net: Net, tensors: TrainingTensors, prices: Sequence[float], unit: AdvantageUnit
) -> Floats:
    """Compute the advantages [P, E, D] of freeing; above 0 the agent frees. The ends are left out,
    since they are no decisions."""
    net.eval()
    batches: list[Tensor] = []
    with torch.no_grad():
        for rows in torch.split(torch.arange(len(tensors.net_input)), _AT_ONCE):
            hidden, _ = net.encode(tensors.net_input.select_rows(rows))
            answers = (net.apply_heads(hidden, torch.full((len(rows),), p)) for p in prices)
            advantages = [
                a.preference if unit is AdvantageUnit.LOG_ODDS else a.free - a.hold for a in answers
            ]
            batches.append(torch.stack(advantages))
    joined = torch.cat(batches, dim=1).reshape(len(prices), *tensors.outcome_h.shape)
    return joined[:, :, :-1].numpy().astype(np.float64)


def score_net(net: Net, tensors: TrainingTensors, unit: AdvantageUnit) -> float:
    """Compute the net's cost as a share of plain Slurm's cost, mean over PRICES; less is better."""
    cost_h = compute_costs(tensors.outcome_h.numpy().astype(np.float64), PRICES)
    reactive = np.maximum(cost_h[:, -1].mean(axis=0), _LEAST_COST_H)
    episodes = np.arange(len(tensors))
    decisions = compute_advantages(net, tensors, PRICES, unit) > 0.0
    mean_costs = [
        cost_h[episodes, find_first_free(chosen), p].mean() for p, chosen in enumerate(decisions)
    ]
    return float(np.mean(np.array(mean_costs) / reactive))
