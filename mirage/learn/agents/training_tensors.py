"""Runs as an agent learns from them and is asked about them: tensors, outcomes and their costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mirage.domain.arrays import Floats
from mirage.learn.agents.networks import Net, NetInput
from mirage.learn.agents.trajectories import Trajectories
from mirage.learn.trees import stopping
from mirage.policy.models.agent_model import AdvantageUnit

PRICES = (0.15, 0.5, 1.5)
"""At which agents are compared while they learn."""

_AT_ONCE = 8192
_LEAST_COST_H = 0.5
"""What an idle cluster's hand-over is taken to cost: nothing would divide by nothing."""


@dataclass(frozen=True, slots=True)
class TrainingTensors:
    """E runs of D decisions and their ends."""

    sight: NetInput
    """Of the E x (D + 1) instants."""
    outcome_h: Tensor
    """[E, D + 1], signed hours."""
    left_h: Tensor
    """[D + 1], 0 at the end."""

    @classmethod
    def from_trajectories(cls, runs: Trajectories, part: int) -> Self:
        left_h = np.append(runs.rows.left_h, 0.0)
        outcome_h = torch.from_numpy(runs.rows.outcome_h.astype(np.float32))
        return cls(runs.build_input(part), outcome_h, torch.from_numpy(left_h.astype(np.float32)))

    def __len__(self) -> int:
        return len(self.outcome_h)

    def index_rows(self, episodes: Tensor) -> Tensor:
        """[B x (D + 1)]: their instants among all."""
        instants = self.outcome_h.shape[1]
        return (episodes[:, None] * instants + torch.arange(instants)).reshape(-1)


def compute_cost(outcome_h: Tensor, price: Tensor | float) -> Tensor:
    """Interruption + price x overlap, hours."""
    return outcome_h.clamp(min=0.0) + price * (-outcome_h).clamp(min=0.0)


def compute_advantages(
    net: Net, lesson: TrainingTensors, prices: Sequence[float], unit: AdvantageUnit
) -> Floats:
    """[P, E, D]: above 0 where the agent frees; the ends are no decisions."""
    net.eval()
    found: list[Tensor] = []
    with torch.no_grad():
        for rows in torch.split(torch.arange(len(lesson.sight)), _AT_ONCE):
            hidden, _ = net.encode(lesson.sight.select_rows(rows))
            answers = (net.apply_heads(hidden, torch.full((len(rows),), p)) for p in prices)
            chosen = [
                a.preference if unit is AdvantageUnit.LOG_ODDS else a.free - a.hold for a in answers
            ]
            found.append(torch.stack(chosen))
    every = torch.cat(found, dim=1).reshape(len(prices), *lesson.outcome_h.shape)
    return every[:, :, :-1].numpy().astype(np.float64)


def choose_instants(
    net: Net, lesson: TrainingTensors, price: float, unit: AdvantageUnit
) -> NDArray[np.int64]:
    """[E]: the instant at which it frees each successor; D for never."""
    return stopping.find_first_free(compute_advantages(net, lesson, (price,), unit)[0] > 0.0)


def score_net(net: Net, lesson: TrainingTensors, unit: AdvantageUnit) -> float:
    """Return the net's cost as a share of plain Slurm's cost, mean of PRICES; less is better."""
    cost_h = stopping.compute_costs(lesson.outcome_h.numpy().astype(np.float64), PRICES)
    reactive = np.maximum(cost_h[:, -1].mean(axis=0), _LEAST_COST_H)
    episodes = np.arange(len(lesson))
    frees = compute_advantages(net, lesson, PRICES, unit) > 0.0
    spent = [cost_h[episodes, stopping.find_first_free(f), p].mean() for p, f in enumerate(frees)]
    return float(np.mean(np.array(spent) / reactive))
