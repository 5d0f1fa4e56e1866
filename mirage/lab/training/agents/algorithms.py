"""DQN and policy gradient by Stable-Baselines3, on ChainEnv over tables.

An observation of the environment is the number of an instant, and the price. The network looks up
the inputs of that instant. A replay buffer therefore holds numbers instead of windows.
"""

import copy
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from mirage.lab.training.agents.networks import PRICES, Net, NetInput
from mirage.lab.training.agents.training_tensors import TrainingTensors
from mirage.lab.training.environment.sb3_vec_env import ChainVecEnv
from mirage.lab.training.environment.table_library import TableLibrary
from mirage.lab.training.settings import Hyperparameters
from mirage.policies.models.agent_model import AdvantageUnit

_STEEPEST = 1.0


class Dqn:
    """DQN with replay, a target network, and returns over several steps."""

    def __init__(
        self, net: Net, tensors: TrainingTensors, settings: Hyperparameters, seed: int
    ) -> None:
        self._steps = settings["steps"]
        envs = settings["envs"]
        self._model = DQN(
            _QPolicy,
            create_environment(tensors, envs, float(net.unit_h)),
            learning_rate=settings["rate"],
            buffer_size=settings["buffer"],
            learning_starts=self._steps // 2,
            batch_size=settings["batch"],
            gamma=1.0,
            train_freq=(max(1, self._steps // envs // _TURNS), "step"),
            gradient_steps=max(1, settings["updates"] // _TURNS),
            n_steps=settings["n_steps"],
            # Stable-Baselines3 counts steps of all environments together.
            target_update_interval=settings["target_every"],
            exploration_initial_eps=settings["exploration"],
            exploration_final_eps=settings["exploration"],
            max_grad_norm=_STEEPEST,
            policy_kwargs=_build_policy_arguments(net, tensors.net_input),
            seed=seed,
            device="cpu",
        )
        self._model.set_logger(_create_silent_logger())

    @property
    def net(self) -> Net:
        return _get_net(self._model.policy.q_net.features_extractor)

    def train_round(self) -> None:
        self._model.learn(self._steps, reset_num_timesteps=False)


_TURNS = 16
"""How often in a round a DQN learns from its replay buffer."""


class PolicyGradient:
    """PPO or A2C. The critic is the mean of both values, weighted by the policy."""

    def __init__(
        self, net: Net, tensors: TrainingTensors, settings: Hyperparameters, seed: int
    ) -> None:
        self._steps = settings["n_steps"] * settings["envs"]
        ppo_settings = {"batch_size": settings["batch"], "n_epochs": settings["epochs"]}
        kind = ALGORITHMS[settings["algorithm"]]
        self._model = kind(
            _ActorCritic,
            create_environment(tensors, settings["envs"], float(net.unit_h)),
            learning_rate=settings["rate"],
            n_steps=settings["n_steps"],
            gamma=1.0,
            gae_lambda=settings["gae"],
            ent_coef=settings["entropy"],
            max_grad_norm=_STEEPEST,
            policy_kwargs=_build_policy_arguments(net, tensors.net_input) | {"ortho_init": False},
            seed=seed,
            device="cpu",
            **(ppo_settings if kind is PPO else {}),
        )
        self._model.set_logger(_create_silent_logger())

    @property
    def net(self) -> Net:
        return _get_net(self._model.policy.features_extractor)

    def train_round(self) -> None:
        self._model.learn(self._steps, reset_num_timesteps=False)


ALGORITHMS: dict[str, Any] = {"ppo": PPO, "a2c": A2C}


def _create_silent_logger() -> Logger:
    """Create a logger that writes nothing. By default SB3 leaves a folder in /tmp for each
    agent."""
    return Logger(None, [])


def create_environment(tensors: TrainingTensors, envs: int, unit_h: float) -> ChainVecEnv:
    """Create the environment: the hand-overs of a lesson, each with its own price. Rewards are in
    units of `unit_h` hours."""
    outcome_h = tensors.outcome_h.numpy().astype(np.float64)
    rows = np.arange(outcome_h.size, dtype=np.float32).reshape(*outcome_h.shape, 1)
    library = TableLibrary(zip(rows, outcome_h, strict=True), ("row",))
    return ChainVecEnv(library, envs, PRICES, unit_h)


def _build_policy_arguments(net: Net, net_input: NetInput) -> dict[str, Any]:
    """Build SB3's arguments for a policy that uses the network as feature extractor."""
    return {
        "net_arch": [],
        "features_extractor_class": _NetExtractor,
        "features_extractor_kwargs": {"net": net, "net_input": net_input},
    }


class _NetExtractor(BaseFeaturesExtractor):
    """Maps rows and prices [B, 2] to [B, 4]: value of holding, value of freeing, preference,
    critic."""

    def __init__(self, space: spaces.Box, net: Net, net_input: NetInput) -> None:
        super().__init__(space, features_dim=4)
        self.net = copy.deepcopy(net)
        self._net_input = net_input
        for module in self.net.modules():
            if isinstance(module, nn.Dropout):
                # Without dropout, learning sees the same outputs as the decision did.
                module.p = 0.0
        self.net.blind = 0.0

    def forward(self, observations: Tensor) -> Tensor:
        net_input = self._net_input.select_rows(observations[:, 0].long())
        answer = self.net(net_input, observations[:, 1])
        chance = torch.sigmoid(answer.preference)
        critic = chance * answer.free + (1.0 - chance) * answer.hold
        # A decision to hold teaches nothing about freeing, so no gradient flows there.
        hold = answer.hold - answer.free + answer.free.detach()
        return torch.stack([hold, answer.free, answer.preference, critic], dim=1)


class _QPolicy(DQNPolicy):
    def make_q_net(self) -> QNetwork:
        q_network: QNetwork = super().make_q_net()
        q_network.q_net = _Columns(0, 2)
        return q_network


class _ActorCritic(ActorCriticPolicy):
    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = _PreferenceLogits()
        self.value_net = _Columns(3, 4)  # type: ignore[assignment]  # any module will do
        # Optimise the remaining weights; SB3's own last layers were replaced.
        self.optimizer = torch.optim.Adam(self.parameters(), lr=lr_schedule(1))


class _Columns(nn.Sequential):
    """Selects some of the columns of `_NetExtractor`. (A Sequential, since SB3 prints its
    layers.)"""

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self._columns = slice(first, last)

    def forward(self, extracted: Tensor) -> Tensor:
        return extracted[:, self._columns]


class _PreferenceLogits(nn.Module):
    """Turns the preference into the logits of holding and of freeing."""

    def forward(self, extracted: Tensor) -> Tensor:
        preference = extracted[:, 2]
        return torch.stack([torch.zeros_like(preference), preference], dim=1)


def _get_net(extractor: Any) -> Net:
    net: Net = extractor.net
    return net


AGENTS: dict[str, tuple[type[Dqn] | type[PolicyGradient], AdvantageUnit]] = {
    "dqn": (Dqn, AdvantageUnit.HOURS),
    "policy-gradient": (PolicyGradient, AdvantageUnit.LOG_ODDS),
}
"""The algorithm of each family, with the unit of its advantage."""
