"""Trains an agent from tables alone. A table has the outcome of a release at every instant, so the
agent needs no trials.

The warm epochs learn the result of freeing: late or not, and the wait. Later epochs also learn both
values. The value of freeing is regressed on its outcome. The value of holding is regressed on the
cost of the network's own later decisions: fitted value iteration, at every instant at once. A
policy also descends the expected cost of whole hand-overs, which has a closed form: the policy
gradient without sampling.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log

import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.errors import InputError
from mirage.lab.training.agents.networks import PRICES, Net, NetOutput
from mirage.lab.training.agents.training_tensors import TrainingTensors, compute_cost
from mirage.lab.training.settings import Hyperparameters
from mirage.policies.models.agent_model import AdvantageUnit

_SLOW = 0.99
"""The share of the averaged weights that one step keeps."""
_BESIDE = 0.3
"""The weight of the losses of late and wait after the warm epochs."""
_FEWEST = 12
"""The fewest steps in an epoch, if there are as many hand-overs."""
_STEEPEST = 1.0
"""The largest norm of a gradient."""


@dataclass(frozen=True, slots=True)
class OfflineResult:
    net: Net
    epochs: int
    score: float
    """The score on the held-back days; infinite without a judge."""


def train_offline(  # noqa: PLR0913 - each is another thing
    net: Net,
    tensors: TrainingTensors,
    settings: Hyperparameters,
    unit: AdvantageUnit,
    seed: int,
    *,
    balance: float = 0.0,
    judge: Callable[[Net], float] | None = None,
    epochs: int | None = None,
) -> OfflineResult:
    """Train a network. Returns the mean of its weights over the last steps, of the best epoch by
    `judge` if there is one.

    `net` itself changes during training; use the returned network instead. Raises InputError if no
    epoch had a finite score.
    """
    torch.manual_seed(seed)
    learner = _OfflineLearner(net, tensors, settings, unit, balance)
    # Only a network that was trained before can be good at epoch 0.
    best = OfflineResult(
        copy.deepcopy(net), 0, judge(net) if judge and not settings["least"] else inf
    )
    for epoch in range(settings["epochs"] if epochs is None else epochs):
        learner.train_epoch(warm=epoch < settings["warm"])
        if judge is None:
            best = OfflineResult(learner.slow, epoch + 1, inf)
            continue
        if epoch + 1 < settings["least"]:
            continue
        score = judge(learner.slow)
        if score < best.score:
            best = OfflineResult(copy.deepcopy(learner.slow), epoch + 1, score)
        if epoch + 1 - max(best.epochs, settings["least"]) >= settings["patience"]:
            break
    if judge is not None and not isfinite(best.score):
        raise InputError(
            "no epoch had a finite cost on the days that judge it: lower the learning rate `rate`"
        )
    return best


class _OfflineLearner:
    """A network, its optimiser, and the running mean of its weights."""

    def __init__(
        self,
        net: Net,
        tensors: TrainingTensors,
        settings: Hyperparameters,
        unit: AdvantageUnit,
        balance: float,
    ) -> None:
        self._net = net
        self._tensors = tensors
        self._batch = settings["batch"]
        self._unit = unit
        self._balance = balance
        self._steps = 0
        self.slow = copy.deepcopy(net)
        self._optimizer = torch.optim.AdamW(
            net.parameters(), lr=settings["rate"], weight_decay=settings["decay"]
        )

    def train_epoch(self, *, warm: bool) -> None:
        self._net.train()
        episodes = len(self._tensors)
        batches = min(max(episodes // self._batch, _FEWEST), episodes)
        for batch in torch.randperm(episodes).tensor_split(batches):
            loss = self._compute_loss(batch, warm=warm)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._net.parameters(), _STEEPEST)
            self._optimizer.step()
            self._update_average()

    def _compute_loss(self, episodes: Tensor, *, warm: bool) -> Tensor:
        tensors = self._tensors
        shape = (len(episodes), tensors.outcome_h.shape[1])
        price = torch.exp(torch.empty(shape[0], 1).uniform_(log(PRICES[0]), log(PRICES[1])))
        hidden, imbalance = self._net.encode(
            tensors.net_input.select_rows(tensors.index_rows(episodes))
        )
        answer = self._net.apply_heads(hidden, price.expand(shape).reshape(-1))
        outcome_h = tensors.outcome_h[episodes]
        loss = _compute_outcome_loss(answer, outcome_h, tensors.left_h) + self._balance * imbalance
        if warm:
            return loss
        cost = compute_cost(outcome_h, price) / self._net.unit_h
        loss = _BESIDE * loss + _compute_value_loss(answer, cost, self._unit)
        if self._unit is AdvantageUnit.LOG_ODDS:
            # Let all prices weigh alike: where overlap is dear, hand-overs cost more by about this
            # factor.
            loss = loss + compute_expected_cost(
                answer.preference.reshape(shape), cost / (0.5 + price) ** 0.5
            )
        return loss

    def _update_average(self) -> None:
        """Update the running mean of weights. The first steps average over fewer steps."""
        self._steps += 1
        kept_share = min(_SLOW, self._steps / (self._steps + 9.0))
        with torch.no_grad():
            pairs = zip(self.slow.parameters(), self._net.parameters(), strict=True)
            for average, weight in pairs:
                average.lerp_(weight, 1.0 - kept_share)


def _compute_outcome_loss(answer: NetOutput, outcome_h: Tensor, left_h: Tensor) -> Tensor:
    """Compute the loss of two predictions: late or not, and the wait."""
    late = (outcome_h > 0.0).to(outcome_h.dtype).reshape(-1)
    wait = torch.log1p((outcome_h + left_h).clamp(min=0.0)).reshape(-1)
    late_loss = functional.binary_cross_entropy_with_logits(answer.late, late)
    return late_loss + _BESIDE * functional.smooth_l1_loss(answer.wait, wait)


def _compute_value_loss(answer: NetOutput, cost: Tensor, unit: AdvantageUnit) -> Tensor:
    """Compute the loss of both values and of their difference; `cost` [B, D + 1], in its unit."""
    decisions = (
        answer.preference > 0.0 if unit is AdvantageUnit.LOG_ODDS else answer.free > answer.hold
    )
    waiting_cost = compute_cost_of_waiting(cost, decisions.reshape(cost.shape))
    free, hold = answer.free.reshape(cost.shape), answer.hold.reshape(cost.shape)
    loss = functional.smooth_l1_loss(free, -cost) + functional.smooth_l1_loss(hold, -waiting_cost)
    return loss + functional.smooth_l1_loss(free - hold, waiting_cost - cost)


def compute_cost_of_waiting(cost: Tensor, frees: Tensor) -> Tensor:
    """Compute the cost [B, D + 1] of waiting at each instant, if `frees` decides from the next
    instant on."""
    waiting_cost = torch.empty_like(cost)
    next_cost = cost[:, -1]
    for k in range(cost.shape[1] - 1, -1, -1):
        waiting_cost[:, k] = next_cost
        next_cost = torch.where(frees[:, k], cost[:, k], next_cost)
    return waiting_cost


def compute_expected_cost(preference: Tensor, cost: Tensor) -> Tensor:
    """Compute the policy's expected cost, mean over hand-overs. `preference` [B, D + 1]: log-odds
    of freeing.

    The preference at the end does not matter: there the successor starts without a decision.
    """
    log_held = functional.logsigmoid(-preference[:, :-1]).cumsum(1)
    log_reached = torch.cat([torch.zeros_like(log_held[:, :1]), log_held], dim=1)
    free_chance = torch.exp(log_reached[:, :-1] + functional.logsigmoid(preference[:, :-1]))
    chances = torch.cat([free_chance, torch.exp(log_held[:, -1:])], dim=1)
    return (chances * cost).sum(1).mean()
