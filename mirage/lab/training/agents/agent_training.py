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
        shape, own = self.settings[self.encoder], self.settings[self.family]
        if shape.get("asked", 0) > shape.get("experts", 0):
            raise InputError(
                "`asked` is larger than `experts`: no more experts can be asked than there are"
            )
        divided = not shape.get("part", 1) or WINDOW % shape.get("part", 1)
        if divided or shape["width"] % shape.get("heads", 1):
            raise InputError(f"`part` must divide {WINDOW}, and `heads` must divide `width`")
        if own.get("algorithm", "ppo") not in ALGORITHMS:
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

    def create_algorithm(self, net: Net, learned: TrainingTensors) -> Dqn | PolicyGradient:
        """Create the agent's algorithm, which trains a copy of the network."""
        return AGENTS[self.family][0](net, learned, self.settings[self.family], self.seed)

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
    untuned: Net
    """The network before its algorithm, after offline training."""
    facts: dict[str, Any]


def fit_agent(runs: Trajectories, plan: AgentPlan, stages: TrainingCheckpoints, name: str) -> Agent:
    """Fit an agent in four stages, as the module describes.

    Stages that `stages` has are loaded, not repeated. Raises InputError if there are too few runs.
    """
    masks = time_splits.split_newest(runs.rows, plan.settings["offline"]["held_back"])
    earlier, newest = (
        TrainingTensors.from_trajectories(runs.select_episodes(which), plan.part) for which in masks
    )
    judge = partial(training_tensors.score_net, lesson=newest, unit=plan.unit)
    begun = plan.prepare_net(runs.select_episodes(masks[0]))
    kept, first = stages.load_or_make(
        f"{name}-stop", partial(_train_offline, begun, earlier, plan, judge)
    )
    tuned = partial(_train_until_best, _copy_with_weights(begun, kept), earlier, plan, judge)
    _, second = stages.load_or_make(f"{name}-stop-tuned", tuned)
    every, begun = TrainingTensors.from_trajectories(runs, plan.part), plan.prepare_net(runs)
    again = partial(_train_offline, begun, every, plan, None, first["epochs"])
    kept, _ = stages.load_or_make(name, again)
    untuned = _copy_with_weights(begun, kept)
    tuned = partial(_train_rounds, untuned, every, plan, second["rounds"])
    kept, _ = stages.load_or_make(f"{name}-tuned", tuned)
    return Agent(_copy_with_weights(begun, kept), untuned, first | second)


def _train_offline(
    net: Net,
    learned: TrainingTensors,
    plan: AgentPlan,
    judge: Callable[[Net], float] | None,
    epochs: int | None = None,
) -> Stage:
    own = plan.settings["offline"]
    settings = own if plan.start is None else {**own, "warm": 0, "least": 0}
    balance = plan.settings[plan.encoder].get("balance", 0.0)
    found = offline_training.train_offline(
        copy.deepcopy(net),
        learned,
        settings,
        plan.unit,
        plan.seed,
        balance=balance,
        judge=judge,
        epochs=epochs,
    )
    return dump_weights(found.net), {
        "epochs": found.epochs,
        "offline": found.score if judge else None,
    }


def _train_until_best(
    net: Net, learned: TrainingTensors, plan: AgentPlan, judge: Callable[[Net], float]
) -> Stage:
    """Train round by round. Returns the weights of the best round, or the weights at the beginning
    if no round was better."""
    agent = plan.create_algorithm(net, learned)
    best, at, least = dump_weights(net), 0, judge(net)
    for done in range(1, plan.settings[plan.family]["rounds"] + 1):
        agent.train_round()
        # `judge` switches a network to evaluation mode, so it gets a copy.
        reached = judge(copy.deepcopy(agent.net))
        if reached < least:
            best, at, least = dump_weights(agent.net), done, reached
    return best, {"rounds": at, "tuned": least}


def _train_rounds(net: Net, learned: TrainingTensors, plan: AgentPlan, rounds: int) -> Stage:
    agent = plan.create_algorithm(net, learned)
    for _ in range(rounds):
        agent.train_round()
    return dump_weights(agent.net), {"rounds": rounds}


@dataclass(frozen=True, slots=True)
class FittedWindow:
    """A window of later weeks, and the agent of what was known before it."""

    learned: Flags
    """[E]: the runs that the agent learned from."""
    window: Flags
    """[E]: the runs of the window."""
    agent: Agent

    def describe(self, runs: Trajectories) -> dict[str, Any]:
        """Describe the window and the agent's training, for the card. `runs` are all runs."""
        start_point = runs.rows.start_point[self.window]
        return {"since": int(start_point[0]), "until": int(start_point[-1])} | self.agent.facts


def fit_windows(
    runs: Trajectories, plan: AgentPlan, windows: int, stages: TrainingCheckpoints
) -> Iterator[FittedWindow]:
    """Fit an agent for each rolling window, to what was known before the window began.

    If the agent continues from another one, windows that begin before that one's last day are left
    out. Raises InputError for too few runs.
    """
    for i, (learned, window) in enumerate(time_splits.split_rolling(runs.rows, windows)):
        if int(runs.rows.start_point[window][0]) < plan.start_until:
            continue
        agent = fit_agent(runs.select_episodes(learned), plan, stages, f"window-{i}")
        yield FittedWindow(learned, window, agent)


def dump_weights(net: Net) -> Weights:
    return {name: tensor.numpy().copy() for name, tensor in net.state_dict().items()}


def restore_weights(net: Net, weights: Weights) -> None:
    """Load weights into a network. Raises UnfitModel for weights of another network."""
    try:
        net.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        raise UnfitModel("the weights belong to another network") from error


def _copy_with_weights(like: Net, weights: Weights) -> Net:
    net = copy.deepcopy(like)
    restore_weights(net, weights)
    return net
