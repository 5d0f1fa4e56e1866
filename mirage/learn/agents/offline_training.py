"""Learning from tables alone: their outcomes are exact, so nothing need be tried out.

First what freeing brings: late or not, and the wait. Then what it is worth: the value of freeing is
regressed on its outcome, that of waiting on what the network's own decisions later come to (fitted
value iteration, on every instant at once). A policy besides descends the expected cost of whole
hand-overs, which is known in closed form: the policy gradient without its sampling.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log

import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.errors import InputError
from mirage.learn.agents.networks import PRICES, Net, NetOutput
from mirage.learn.agents.training_tensors import TrainingTensors, compute_cost
from mirage.learn.settings import Hyperparameters
from mirage.policy.models.agent_model import AdvantageUnit

_SLOW = 0.99
"""Of the mean of weights over steps that is kept."""
_BESIDE = 0.3
"""Weight of late and wait, once there is more to learn."""
_FEWEST = 12
"""Steps in an epoch, where there are so many hand-overs."""
_STEEPEST = 1.0
"""Norm of a gradient, at most."""


@dataclass(frozen=True, slots=True)
class OfflineResult:
    net: Net
    epochs: int
    score: float
    """On the held-back days, where there were some."""


def train_offline(  # noqa: PLR0913 - each is another thing
    net: Net,
    lesson: TrainingTensors,
    settings: Hyperparameters,
    unit: AdvantageUnit,
    seed: int,
    *,
    balance: float = 0.0,
    judge: Callable[[Net], float] | None = None,
    epochs: int | None = None,
    told: Callable[[], None] = lambda: None,
) -> OfflineResult:
    """The mean of the weights over the last steps; of the best epoch, where `judge` scores them.

    `net` itself is trained on, and not what is to be used.
    """
    torch.manual_seed(seed)
    student = _OfflineLearner(net, lesson, settings, unit, balance)
    # Only what has learned something before can be good already.
    best = OfflineResult(
        copy.deepcopy(net), 0, judge(net) if judge and not settings["least"] else inf
    )
    for epoch in range(settings["epochs"] if epochs is None else epochs):
        student.train_epoch(warm=epoch < settings["warm"])
        told()
        if judge is None:
            best = OfflineResult(student.slow, epoch + 1, inf)
            continue
        if epoch + 1 < settings["least"]:
            continue
        reached = judge(student.slow)
        if reached < best.score:
            best = OfflineResult(copy.deepcopy(student.slow), epoch + 1, reached)
        if epoch + 1 - max(best.epochs, settings["least"]) >= settings["patience"]:
            break
    if judge is not None and not isfinite(best.score):
        raise InputError(
            "no epoch had a finite cost on the days that judge it: lower the learning rate `rate`"
        )
    return best


class _OfflineLearner:
    """A network, its optimiser, and the mean of its weights."""

    def __init__(
        self,
        net: Net,
        lesson: TrainingTensors,
        settings: Hyperparameters,
        unit: AdvantageUnit,
        balance: float,
    ) -> None:
        self._net = net
        self._lesson = lesson
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
        episodes = len(self._lesson)
        batches = min(max(episodes // self._batch, _FEWEST), episodes)
        for some in torch.randperm(episodes).tensor_split(batches):
            loss = self._compute_loss(some, warm=warm)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._net.parameters(), _STEEPEST)
            self._optimizer.step()
            self._update_average()

    def _compute_loss(self, episodes: Tensor, *, warm: bool) -> Tensor:
        lesson = self._lesson
        shape = (len(episodes), lesson.outcome_h.shape[1])
        price = torch.exp(torch.empty(shape[0], 1).uniform_(log(PRICES[0]), log(PRICES[1])))
        hidden, imbalance = self._net.encode(lesson.sight.select_rows(lesson.index_rows(episodes)))
        answer = self._net.apply_heads(hidden, price.expand(shape).reshape(-1))
        outcome_h = lesson.outcome_h[episodes]
        loss = _compute_outcome_loss(answer, outcome_h, lesson.left_h) + self._balance * imbalance
        if warm:
            return loss
        spent = compute_cost(outcome_h, price) / self._net.unit_h
        loss = _BESIDE * loss + _compute_value_loss(answer, spent, self._unit)
        if self._unit is AdvantageUnit.LOG_ODDS:
            # Prices weigh alike: hand-overs cost about so much more where overlap is dear.
            loss = loss + compute_expected_cost(
                answer.preference.reshape(shape), spent / (0.5 + price) ** 0.5
            )
        return loss

    def _update_average(self) -> None:
        """Fewer steps are averaged at first."""
        self._steps += 1
        kept = min(_SLOW, self._steps / (self._steps + 9.0))
        with torch.no_grad():
            pairs = zip(self.slow.parameters(), self._net.parameters(), strict=True)
            for mean, now in pairs:
                mean.lerp_(now, 1.0 - kept)


def _compute_outcome_loss(answer: NetOutput, outcome_h: Tensor, left_h: Tensor) -> Tensor:
    """Compute the loss of two predictions: late or not, and the wait."""
    late = (outcome_h > 0.0).to(outcome_h.dtype).reshape(-1)
    wait = torch.log1p((outcome_h + left_h).clamp(min=0.0)).reshape(-1)
    wrong = functional.binary_cross_entropy_with_logits(answer.late, late)
    return wrong + _BESIDE * functional.smooth_l1_loss(answer.wait, wait)


def _compute_value_loss(answer: NetOutput, spent: Tensor, unit: AdvantageUnit) -> Tensor:
    """Compute the loss of both values and of their difference; `spent` [B, D + 1], in its unit."""
    frees = answer.preference > 0.0 if unit is AdvantageUnit.LOG_ODDS else answer.free > answer.hold
    later = compute_cost_of_waiting(spent, frees.reshape(spent.shape))
    free, hold = answer.free.reshape(spent.shape), answer.hold.reshape(spent.shape)
    wrong = functional.smooth_l1_loss(free, -spent) + functional.smooth_l1_loss(hold, -later)
    return wrong + functional.smooth_l1_loss(free - hold, later - spent)


def compute_cost_of_waiting(spent: Tensor, frees: Tensor) -> Tensor:
    """[B, D + 1]: what waiting at each instant comes to, if `frees` decides from the next on."""
    found = torch.empty_like(spent)
    later = spent[:, -1]
    for k in range(spent.shape[1] - 1, -1, -1):
        found[:, k] = later
        later = torch.where(frees[:, k], spent[:, k], later)
    return found


def compute_expected_cost(preference: Tensor, spent: Tensor) -> Tensor:
    """Mean over hand-overs of what the policy is expected to spend; log-odds [B, D + 1].

    What it prefers at the end does not matter: there the successor goes by itself.
    """
    held = functional.logsigmoid(-preference[:, :-1]).cumsum(1)
    reached = torch.cat([torch.zeros_like(held[:, :1]), held], dim=1)
    frees = torch.exp(reached[:, :-1] + functional.logsigmoid(preference[:, :-1]))
    chance = torch.cat([frees, torch.exp(held[:, -1:])], dim=1)
    return (chance * spent).sum(1).mean()
