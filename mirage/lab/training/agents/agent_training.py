"""Trains agents from runs. The newest days decide when to stop; then an agent learns from all days.

A fit has four stages. The first trains offline on the older days until the newest days no longer
gain. The second adds rounds of the algorithm in the same way. The last two repeat both, for as
long, on all days: otherwise the agent would not know a load that rose in the newest days.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from mirage.domain.arrays import Flags
from mirage.errors import InputError, UnfitModel
from mirage.lab.training.agents import networks, offline_training, training_tensors
from mirage.lab.training.agents.algorithms import AGENTS, ALGORITHMS, Dqn, PolicyGradient
from mirage.lab.training.agents.checkpoints import Stage, TrainingCheckpoints
from mirage.lab.training.agents.networks import Net
from mirage.lab.training.agents.training_tensors import TrainingTensors
from mirage.lab.training.agents.trajectories import WINDOW, Trajectories
from mirage.lab.training.artefact.safetensors_io import Weights
from mirage.lab.training.metrics import operating_points, time_splits
from mirage.lab.training.settings import Hyperparameters
from mirage.policies.models.agent_model import AdvantageUnit

STAGES = 4
"""The stages of one fit."""
PRICES = tuple(price for price in operating_points.PRICES if price <= networks.PRICES[1])
"""The overlap prices among which an agent's operating points are searched: those within its
training range."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Everything that defines an agent before its training: family, encoder, settings, seed and
    start."""

    family: str
    encoder: str
    settings: Mapping[str, Hyperparameters]
    seed: int
    start: Weights | None = None
    """The weights of an agent of the same kind from which training continues."""
    start_until: int = 0
    """The end of that agent's training data, epoch seconds."""

    def __post_init__(self) -> None:
        """Raises InputError for settings that do not fit together."""
        shape, family_settings = self.settings[self.encoder], self.settings[self.family]
        if shape.get("asked", 0) > shape.get("experts", 0):
            raise InputError(
                "`asked` is larger than `experts`: no more experts can be asked than there are"
            )
        is_undivided = not shape.get("part", 1) or WINDOW % shape.get("part", 1)
        if is_undivided or shape["width"] % shape.get("heads", 1):
            raise InputError(f"`part` must divide {WINDOW}, and `heads` must divide `width`")
        if family_settings.get("algorithm", "ppo") not in ALGORITHMS:
            raise InputError(f"`algorithm` must be one of {', '.join(ALGORITHMS)}")
        offline = self.settings["offline"]
        # An agent that continues from another one has weights already.
        if self.start is None and offline["epochs"] < max(1, offline["least"]):
            raise InputError(
                f"[offline] epochs is {offline['epochs']}: it should be at least 1, and at least"
                f" `least`, {offline['least']}, before which no epoch is kept"
            )

    @property
    def unit(self) -> AdvantageUnit:
        return AGENTS[self.family][1]

    @property
    def part(self) -> int:
        """Return the instants in one part of the window; 0 if the encoder sees no past."""
        return int(self.settings[self.encoder].get("part", 0))

    @property
    def used_settings(self) -> dict[str, Hyperparameters]:
        """Return the tables of settings that this agent uses."""
        return {name: self.settings[name] for name in (self.encoder, "offline", self.family)}

    def create_net(self, features: int) -> Net:
        """Create a network with random weights."""
        torch.manual_seed(self.seed)
        left_out = ("part", "balance")
        shape = {k: v for k, v in self.settings[self.encoder].items() if k not in left_out}
        if self.part:
            shape["parts"] = WINDOW // self.part
        return Net(self.encoder, features, blind=self.settings["offline"]["blind"], **shape)

    def create_algorithm(self, net: Net, tensors: TrainingTensors) -> Dqn | PolicyGradient:
        """Create the agent's algorithm, which trains a copy of the network."""
        return AGENTS[self.family][0](net, tensors, self.settings[self.family], self.seed)

    def prepare_net(self, runs: Trajectories) -> Net:
        """Build the network with which training on these runs begins.

        Raises UnfitModel if the starting weights belong to another network.
        """
        net = self.create_net(runs.rows.observations.shape[2])
        net.fit_scale(runs.rows.flat, runs.rows.outcome_h, self.settings["offline"]["cut"])
        if self.start is not None:
            low, high = net.scaled.low.clone(), net.scaled.high.clone()
            restore_weights(net, self.start)
            net.scaled.extend_range(low, high)
        return net


@dataclass(frozen=True, slots=True)
class Agent:
    net: Net
    offline_net: Net
    """The network before its algorithm, after offline training."""
    facts: dict[str, Any]


def fit_agent(runs: Trajectories, plan: AgentPlan, stages: TrainingCheckpoints, name: str) -> Agent:
    """Fit an agent in four stages, as the module describes.

    Stages that `stages` has are loaded, not repeated. Raises InputError if there are too few runs.
    """
    masks = time_splits.split_newest(runs.rows, plan.settings["offline"]["held_back"])
    earlier_tensors, newest_tensors = (
        TrainingTensors.from_trajectories(runs.select_episodes(mask), plan.part) for mask in masks
    )
    judge = partial(training_tensors.score_net, tensors=newest_tensors, unit=plan.unit)
    start_net = plan.prepare_net(runs.select_episodes(masks[0]))
    weights, offline_facts = stages.load_or_make(
        f"{name}-stop", partial(_train_offline, start_net, earlier_tensors, plan, judge)
    )
    tune = partial(
        _train_until_best, _copy_with_weights(start_net, weights), earlier_tensors, plan, judge
    )
    _, tuning_facts = stages.load_or_make(f"{name}-stop-tuned", tune)
    all_tensors, start_net = (
        TrainingTensors.from_trajectories(runs, plan.part),
        plan.prepare_net(runs),
    )
    retrain = partial(_train_offline, start_net, all_tensors, plan, None, offline_facts["epochs"])
    weights, _ = stages.load_or_make(name, retrain)
    offline_net = _copy_with_weights(start_net, weights)
    tune = partial(_train_rounds, offline_net, all_tensors, plan, tuning_facts["rounds"])
    weights, _ = stages.load_or_make(f"{name}-tuned", tune)
    return Agent(_copy_with_weights(start_net, weights), offline_net, offline_facts | tuning_facts)


def _train_offline(
    net: Net,
    tensors: TrainingTensors,
    plan: AgentPlan,
    judge: Callable[[Net], float] | None,
    epochs: int | None = None,
) -> Stage:
    offline_settings = plan.settings["offline"]
    settings = (
        offline_settings if plan.start is None else {**offline_settings, "warm": 0, "least": 0}
    )
    balance = plan.settings[plan.encoder].get("balance", 0.0)
    result = offline_training.train_offline(
        copy.deepcopy(net),
        tensors,
        settings,
        plan.unit,
        plan.seed,
        balance=balance,
        judge=judge,
        epochs=epochs,
    )
    return dump_weights(result.net), {
        "epochs": result.epochs,
        "offline": result.score if judge else None,
    }


def _train_until_best(
    net: Net, tensors: TrainingTensors, plan: AgentPlan, judge: Callable[[Net], float]
) -> Stage:
    """Train round by round. Returns the weights of the best round, or the weights at the beginning
    if no round was better."""
    agent = plan.create_algorithm(net, tensors)
    best_weights, best_round, best_score = dump_weights(net), 0, judge(net)
    for round_number in range(1, plan.settings[plan.family]["rounds"] + 1):
        agent.train_round()
        # `judge` switches a network to evaluation mode, so it gets a copy.
        score = judge(copy.deepcopy(agent.net))
        if score < best_score:
            best_weights, best_round, best_score = dump_weights(agent.net), round_number, score
    return best_weights, {"rounds": best_round, "tuned": best_score}


def _train_rounds(net: Net, tensors: TrainingTensors, plan: AgentPlan, rounds: int) -> Stage:
    agent = plan.create_algorithm(net, tensors)
    for _ in range(rounds):
        agent.train_round()
    return dump_weights(agent.net), {"rounds": rounds}


@dataclass(frozen=True, slots=True)
class FittedWindow:
    """A window of later weeks, and the agent of what was known before it."""

    past: Flags
    """[E]: the runs that the agent learned from."""
    window: Flags
    """[E]: the runs of the window."""
    agent: Agent

    def describe(self, runs: Trajectories) -> dict[str, Any]:
        """Describe the window and the agent's training, for the card. `runs` are all runs."""
        start_point = runs.rows.start_point[self.window]
        return {"since": int(start_point[0]), "until": int(start_point[-1])} | self.agent.facts


def fit_windows(
    runs: Trajectories,
    plan: AgentPlan,
    windows: int,
    stages: TrainingCheckpoints,
    share: float = time_splits.NEWER,
) -> Iterator[FittedWindow]:
    """Fit an agent for each rolling window of the newest `share` of the runs, to what was known
    before the window began.

    If the agent continues from another one, windows that begin before that one's last day are left
    out. Raises InputError for too few runs.
    """
    for i, (past, window) in enumerate(time_splits.split_rolling(runs.rows, windows, share)):
        if int(runs.rows.start_point[window][0]) < plan.start_until:
            continue
        agent = fit_agent(runs.select_episodes(past), plan, stages, f"window-{i}")
        yield FittedWindow(past, window, agent)


def dump_weights(net: Net) -> Weights:
    return {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}


def restore_weights(net: Net, weights: Weights) -> None:
    """Load weights into a network. Raises UnfitModel for weights of another network."""
    try:
        net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise UnfitModel("the weights belong to another network") from error


def _copy_with_weights(net_to_copy: Net, weights: Weights) -> Net:
    net = copy.deepcopy(net_to_copy)
    restore_weights(net, weights)
    return net
