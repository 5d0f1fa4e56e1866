"""Trains each kind of model."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mirage.errors import InputError
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.dataset import Rows, choose_step
from mirage.lab.training.metrics.time_splits import NEWER

if TYPE_CHECKING:
    from mirage.lab.training.agents.checkpoints import TrainingCheckpoints
    from mirage.lab.training.trees.tree_families import Family

TREES, TORCH = "trees", "train"
"""The extras with the packages that trees and agents are trained with."""


@dataclass(frozen=True, slots=True)
class TrainedArtefact:
    """The contents of an artefact's folder."""

    graph: bytes
    card: dict[str, Any]
    weights: bytes | None = None
    judging_s: float = 0.0
    """How long the windows were played for the card; seconds."""


class FamilyName(StrEnum):
    FOREST = "forest"
    XGBOOST = "xgboost"
    ENSEMBLE = "ensemble"
    DQN = "dqn"
    POLICY_GRADIENT = "policy-gradient"


AGENTS = (FamilyName.DQN, FamilyName.POLICY_GRADIENT)


class EncoderName(StrEnum):
    MLP = "mlp"
    TRANSFORMER = "transformer"
    MOE = "moe"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRequest:
    """A request to train a model."""

    family: FamilyName
    paths: Sequence[Path]
    """The files of the episode tables."""
    out: Path
    """The folder of the new model. It does not exist yet."""
    find_models: Callable[[], Path]
    """Returns the folder of models, which contains `init`. Called once `out` and the tables are
    checked."""
    encoder: EncoderName | None = None
    init: str | None = None
    """An agent from which the training continues."""
    settings: Path | None = None
    """A file of hyper-parameters that replace the defaults."""
    twin: bool | None = None
    """Whether to learn from the twin's forecasts. None: yes if all tables have them."""
    windows: int = 3
    """The number of windows of later weeks on which the model is judged."""
    judged_share: float = NEWER
    """The newest share of the hand-overs, from which the windows are cut."""
    seed: int = 0
    note: str = ""


class InterruptedTraining(KeyboardInterrupt):
    """Raised when Ctrl-C ends a training. Its finished stages are kept, and the same training
    can go on from them."""

    def __init__(self, stages: int) -> None:
        super().__init__()
        self.stages = stages


class Trainer(Protocol):
    """One kind of model."""

    def train_model(
        self, tables: Sequence[EpisodeTable], request: TrainingRequest, output: StudyOutput
    ) -> TrainedArtefact: ...

    def clean_up(self) -> None:
        """Remove the kept stages. Called once the model is saved."""


class TreeTrainer:
    """Trains a forest, xgboost, or both."""

    def __init__(
        self, family: str, settings: Mapping[str, Any], seed: int, *, twin: bool = False
    ) -> None:
        """`twin`: whether to learn from the twin's forecasts. Raises InputError if the packages
        are missing."""
        self._family: Family
        try:
            import onnxmltools  # noqa: F401, PLC0415 - an extra
            import skl2onnx  # noqa: F401, PLC0415 - an extra

            from mirage.lab.training.trees.ensemble import create_family as create  # noqa: PLC0415 - an extra
        except ImportError:
            raise make_packages_error(TREES) from None
        self._family = create(family, settings, seed)
        self._twin = twin

    def train_model(
        self, tables: Sequence[EpisodeTable], request: TrainingRequest, output: StudyOutput
    ) -> TrainedArtefact:
        from mirage.lab.training.artefact import model_card  # noqa: PLC0415 - an extra
        from mirage.lab.training.artefact.holdout_judge import HoldoutJudge, JudgedWindow  # noqa: PLC0415
        from mirage.lab.training.trees import tree_export, tree_training  # noqa: PLC0415 - an extra

        family = self._family
        every = choose_step(len(tables[0].instant_s))
        rows = Rows.from_tables(tables, every, twin=self._twin)
        with output.show_progress(
            family.name, (request.windows + 1) * tree_training.STEPS
        ) as on_step:
            fits = list(
                tree_training.fit_windows(
                    rows, family, request.windows, on_step, request.judged_share
                )
            )
            fitted = tree_training.fit_policy(rows, family, on_step)
        graph = tree_export.export_trees(fitted.wait, rows.flat.shape[1])
        parity = tree_export.measure_parity(graph, fitted.wait, rows.flat)
        windows = [
            JudgedWindow(
                fit.window,
                {
                    family.name: model_card.serve_trees(
                        fit.policy, family, rows.select_episodes(fit.past), tables
                    )
                },
            )
            for fit in fits
        ]
        begun = time.perf_counter()
        judge = HoldoutJudge(tables, windows, output)
        forecasts = [fit.measure_forecast(rows, request.seed) for fit in fits]
        figures = {
            "seed": request.seed,
            "every": every,
            "parity": parity,
            "metrics": judge.build_metrics() | {"forecast": forecasts},
            "judged": judge.list_results(),
            "operating_points": judge.list_operating_points(),
        }
        judging_s = time.perf_counter() - begun
        card = model_card.build_tree_card(fitted, family, rows, tables, **figures)
        return TrainedArtefact(graph, card, judging_s=judging_s)

    def clean_up(self) -> None:
        """Do nothing: no stages were kept."""


class AgentTrainer:
    """Trains DQN or a policy gradient. Finished stages are kept until the training is complete."""

    def __init__(
        self,
        family: str,
        encoder: str,
        settings: Mapping[str, Any],
        seed: int,
        *,
        init: Path | None = None,
        twin: bool = False,
    ) -> None:
        """`twin`: whether to learn from the twin's forecasts. The agent `init` must agree in that.

        Raises InputError if the packages are missing, or the settings or `init` do not fit.
        """
        try:
            import stable_baselines3  # noqa: F401, PLC0415 - an extra

            from mirage.lab.training.agents.agent_card import StartingAgent  # noqa: PLC0415 - an extra
            from mirage.lab.training.agents.agent_training import AgentPlan  # noqa: PLC0415 - an extra
        except ImportError:
            raise make_packages_error(TORCH) from None
        self._start: StartingAgent | None = None
        if init is not None:
            self._start = StartingAgent.from_folder(init, family, encoder, twin=twin)
        self._twin = twin
        plan = AgentPlan(family, encoder, settings, seed)
        if self._start is not None:
            plan = replace(plan, start=self._start.weights, start_until=self._start.until)
        self._plan: AgentPlan = plan
        self._stages: TrainingCheckpoints | None = None
        self._every = 1

    def train_model(
        self, tables: Sequence[EpisodeTable], request: TrainingRequest, output: StudyOutput
    ) -> TrainedArtefact:
        """Train the agent. Ctrl-C keeps the finished stages and raises InterruptedTraining."""
        self._every = choose_step(len(tables[0].instant_s))
        self._stages = self._open_stages(tables, request)
        try:
            return self._train_and_export(tables, request, self._stages, output)
        except KeyboardInterrupt:
            raise InterruptedTraining(len(self._stages)) from None

    def clean_up(self) -> None:
        if self._stages is not None:
            self._stages.delete_folder()

    def _train_and_export(
        self,
        tables: Sequence[EpisodeTable],
        request: TrainingRequest,
        stages: "TrainingCheckpoints",
        output: StudyOutput,
    ) -> TrainedArtefact:
        import torch  # noqa: PLC0415 - an extra

        from mirage.lab.training.agents import agent_card, agent_export, agent_training  # noqa: PLC0415 - an extra
        from mirage.lab.training.agents.trajectories import Trajectories  # noqa: PLC0415
        from mirage.lab.training.artefact import safetensors_io  # noqa: PLC0415
        from mirage.lab.training.artefact.holdout_judge import HoldoutJudge  # noqa: PLC0415

        # One core is enough for small networks, and the same numbers come out on every machine.
        torch.set_num_threads(1)
        plan = self._plan
        runs = Trajectories.from_tables(tables, self._every, twin=self._twin)
        name = f"{plan.family} {plan.encoder}"
        with output.show_progress(name, (request.windows + 1) * agent_training.STAGES) as on_stage:
            stages = replace(stages, on_stage=on_stage)
            fits = list(
                agent_training.fit_windows(
                    runs, plan, request.windows, stages, request.judged_share
                )
            )
            agent = agent_training.fit_agent(runs, plan, stages, "all")
        graph = agent_export.export_net(agent.net, plan.unit, plan.part)
        parity = agent_export.measure_parity(graph, agent.net, plan.unit, plan.part, runs)
        windows = [agent_card.serve_window(fit, runs, plan, tables, self._start) for fit in fits]
        begun = time.perf_counter()
        judge = HoldoutJudge(tables, windows, output, agent_training.PRICES)
        figures = {
            "seed": request.seed,
            "every": self._every,
            "parity": parity,
            "metrics": judge.build_metrics() | {"fits": [fit.describe(runs) for fit in fits]},
            "judged": judge.list_results(),
            "operating_points": judge.list_operating_points(),
        }
        judging_s = time.perf_counter() - begun
        card = agent_card.build_agent_card(
            plan, runs, tables, self._start, fit=agent.facts, **figures
        )
        weights = safetensors_io.pack_weights(
            agent_training.dump_weights(agent.net), {"encoder": plan.encoder}
        )
        return TrainedArtefact(graph, card, weights, judging_s)

    def _open_stages(
        self, tables: Sequence[EpisodeTable], request: TrainingRequest
    ) -> "TrainingCheckpoints":
        from mirage.lab.training.agents.checkpoints import TrainingCheckpoints  # noqa: PLC0415
        from mirage.lab.training.artefact import model_card  # noqa: PLC0415 - an extra

        return TrainingCheckpoints.open_beside(
            request.out,
            {
                "kind": [self._plan.family, self._plan.encoder],
                "settings": self._plan.used_settings,
                "seed": request.seed,
                "windows": [request.windows, request.judged_share],
                "every": self._every,
                "tables": [hashlib.sha256(path.read_bytes()).hexdigest() for path in request.paths],
                "twin": [_hash_twin_forecasts(table) for table in tables] if self._twin else None,
                "start": None if self._start is None else self._start.card["weights_sha256"],
                "versions": model_card.list_versions(),
            },
        )


def _hash_twin_forecasts(table: EpisodeTable) -> str | None:
    """Return the SHA-256 of the twin's forecasts; None without any.

    The forecasts are in a file of their own.
    """
    if table.twins is None:
        return None
    return hashlib.sha256(table.twins.quantile_s.tobytes()).hexdigest()


def make_packages_error(extra: str) -> InputError:
    """Make the error that names the extra with the missing packages: TREES or TORCH."""
    return InputError(f"training needs more packages: pip install 'mirage-provisioner[{extra}]'")
