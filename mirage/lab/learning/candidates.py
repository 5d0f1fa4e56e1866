"""Trains the candidates of a run, and judges them on the newest weeks beside what decides today."""

import importlib.util
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError, MirageError
from mirage.judging.challenge import RULES
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.blocks.block_executor import BlockExecutor
from mirage.lab.evaluation.evaluation_document import compute_figures
from mirage.lab.evaluation.policy_evaluation import (
    ORACLE,
    EvaluationRequest,
    has_learned_since,
    run_evaluation,
)
from mirage.lab.learning.deadline import UntilDeadline
from mirage.lab.learning.run_budget import (
    CANDIDATE_CARD_DAYS,
    FINAL_CARD_DAYS,
    TREES,
    Paces,
)
from mirage.lab.study_output import StudyOutput
from mirage.lab.training.artefact_training import train_artefact
from mirage.lab.training.metrics.time_splits import NEWER
from mirage.lab.training.trainers import AGENTS, FamilyName, TrainingRequest
from mirage.lab.training.training_blocks import train_models
from mirage.policies import registry
from mirage.policies.models.artefact import read_card
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.registry import AUTO, MODELS
from mirage.policies.results.card_results import MODEL, parse_card
from mirage.policies.results.comparison import Weighing, explain_beaten

JUDGED = ("reactive", "quantile", "twin", AUTO, ORACLE)
"""What candidates are judged beside; `auto` is with the models that are promoted today."""
_TREES_NEED = ("sklearn", "xgboost", "skl2onnx", "onnxmltools")
_AGENTS_NEED = ("torch", "stable_baselines3", "gymnasium")
_CANDIDATE = "candidate-"
_FIGURES = ("interruption_h", "overlap_h", "cost_h")


def list_families() -> list[FamilyName]:
    """List the families whose packages are installed, in the order in which they are wanted."""
    trees = TREES if _are_installed(_TREES_NEED) else ()
    agents = AGENTS if _are_installed((*_AGENTS_NEED, "onnx")) else ()
    return [*trees, *agents]


def check_packages(
    requested: Sequence[FamilyName] = (), *, is_local: bool = True
) -> list[FamilyName]:
    """Return the families that can be trained, of those that are wanted; none are named: all.

    `is_local`: whether this machine trains. If not, what is wanted is taken to be possible there.
    Raises InputError if there is none.
    """
    if requested and not is_local:
        return list(requested)
    families = [family for family in list_families() if not requested or family in requested]
    if not families:
        raise InputError(
            "learning needs packages that are not installed: pip install "
            "'mirage-provisioner[trees]', or the Debian package mirage-learn"
        )
    return families


def _are_installed(names: Sequence[str]) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateTraining:
    """Where candidates are trained, and from what."""

    models: Path
    """A folder named `models`, which candidates come into."""
    version: str
    tables: Mapping[Path, EpisodeTable]
    """The tables to learn from, one for each shape of chain."""
    note: str

    def get_name(self, family: FamilyName) -> str:
        return f"{MODELS}/{_CANDIDATE}{family}/{self.version}"

    def get_folder(self, family: FamilyName) -> Path:
        return self.models / f"{_CANDIDATE}{family}" / self.version

    def build_request(self, family: FamilyName) -> TrainingRequest:
        """Build the request to train a family, judged on one window of its own for the card."""
        out = self.get_folder(family)
        return build_request(family, self.tables, out, is_final=False, note=self.note)


def train_candidates(
    training: CandidateTraining,
    families: Sequence[FamilyName],
    output: StudyOutput,
    *,
    paces: Paces,
    deadline: float,
    executor: BlockExecutor,
) -> list[FamilyName]:
    """Train the families, and return those that were trained; a finished one stays.

    Jobs of another machine train all at once. Raises BudgetSpent if they are not done by then.
    Here one comes after the other: a family for which no time is left until `deadline`
    (`time.monotonic`) is left out, with a note; the first one is always trained.
    """
    if not executor.is_local:
        new = [family for family in families if not training.get_folder(family).exists()]
        requests = [training.build_request(family) for family in new]
        train_models(train_artefact, requests, output, UntilDeadline(executor, deadline))
        return list(families)
    trained: list[FamilyName] = []
    handovers = sum(map(len, training.tables.values()))
    share = compute_judged_share(training.tables.values(), CANDIDATE_CARD_DAYS)
    judged = round(share * count_instants(training.tables.values()))
    for family in families:
        left_s = deadline - time.monotonic()
        if trained and paces.seconds[family] * handovers > left_s:
            output.warn(f"{family} is not trained: the budget of time is spent")
            continue
        begun = time.monotonic()
        is_new = not training.get_folder(family).exists()
        if is_new:
            train_artefact(training.build_request(family), output)
        trained.append(family)
        if is_new:
            judging_s = read_card(training.get_folder(family))["judging_s"]
            paces.measure(family, time.monotonic() - begun - judging_s, handovers)
            paces.measure_card(judging_s, judged)
    return trained


def build_request(
    family: FamilyName,
    tables: Mapping[Path, EpisodeTable],
    out: Path,
    *,
    is_final: bool,
    note: str,
) -> TrainingRequest:
    """Build the request to train a model into the folder `out`, models/NAME/VERSION, which does not
    exist yet. The card of a final model is judged on more days than a candidate's."""
    days = FINAL_CARD_DAYS if is_final else CANDIDATE_CARD_DAYS
    return TrainingRequest(
        family=family,
        paths=list(tables),
        out=out,
        find_models=lambda: out.parent.parent,
        windows=3 if is_final else 1,
        judged_share=compute_judged_share(tables.values(), days),
        note=note,
    )


def compute_judged_share(tables: Iterable[EpisodeTable], days: int) -> float:
    """Compute the share of the hand-overs that begin in the newest days, at most NEWER."""
    start_point = np.concatenate([table.start_point for table in tables])
    newest = start_point > start_point.max() - days * DAY_S
    return min(NEWER, float(newest.mean()))


def count_instants(tables: Iterable[EpisodeTable]) -> int:
    return sum(table.outcome_s.size for table in tables)


def explain_dearer(folder: Path) -> str | None:
    """Explain why `auto` would never ask a model: a rule beats it on its own card, for each shape
    of chain. None: `auto` would ask it, or it was judged on nothing."""
    reasons = [
        explain_beaten(
            MODEL,
            RULES,
            shape.get_results_at(OVERLAP_PRICE, MODEL),
            OVERLAP_PRICE,
            Weighing().fewest_days,
        )
        for shape in parse_card(read_card(folder))
    ]
    return reasons[0] if reasons and all(reasons) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPolicies:
    """The figures of each policy on the newest weeks."""

    figures: Mapping[str, Mapping[str, Any]]
    """By policy: means a hand-over in hours, and `ci`, the 95 % interval of the cost."""
    handovers: int
    familiar: Sequence[str] = ()
    """Models that have learned from these weeks: their figures are too good."""

    def get_cost_h(self, name: str) -> float:
        return float(self.figures[name]["cost_h"])

    def find_best(self, names: Sequence[str]) -> str:
        """Return the cheapest of some policies."""
        return min(names, key=self.get_cost_h)


def judge_candidates(
    candidates: Sequence[str],
    shipped: Path,
    models: Path,
    tables: Mapping[Path, EpisodeTable],
    output: StudyOutput,
) -> JudgedPolicies:
    """Judge candidates on tables of days that they have not seen, as `mirage evaluate` judges.

    They are judged beside JUDGED, and beside the models in use in the folder `shipped` that fit the
    chains; the champion is one of them. `models` is the folder of the candidates; the models in use
    are linked into it.
    """
    in_use = _link_models_in_use(shipped, models)
    fitting = [name for name in in_use if _fits_chains(name, models, tables, output)]
    names = [*JUDGED, *fitting, *candidates]
    request = EvaluationRequest(
        paths=list(tables),
        tables=list(tables.values()),
        names=names,
        models=models,
        overlap_price=OVERLAP_PRICE,
    )
    figures = compute_figures(run_evaluation(request, output), OVERLAP_PRICE)
    familiar = [name for name in fitting if _has_learned_from(name, models, tables)]
    return JudgedPolicies(
        figures={name: _pick_figures(figures[name]["all"]) for name in names},
        handovers=sum(map(len, tables.values())),
        familiar=tuple(familiar),
    )


def _link_models_in_use(shipped: Path, models: Path) -> list[str]:
    """Link the folder of each name with a promoted version into `models`; return their names."""
    names = []
    for promoted in sorted(shipped.glob(f"*/{registry.PROMOTED}")):
        link = models / promoted.parent.name
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(promoted.parent.absolute(), target_is_directory=True)
        except OSError as error:
            raise InputError(f"{link} cannot be written: {error.strerror}") from error
        names.append(f"{MODELS}/{promoted.parent.name}")
    return names


def _fits_chains(
    name: str, models: Path, tables: Mapping[Path, EpisodeTable], output: StudyOutput
) -> bool:
    """Return whether a model can be asked about the chains of all tables; a broken one cannot."""
    try:
        model = registry.load_model(name, models)
    except MirageError as error:
        output.warn(f"{name} is not judged: {error}")
        return False
    scope = model.artefact.scope
    outside = (
        scope.explain_outside(t.metadata.nodes, t.metadata.time_limit_s) for t in tables.values()
    )
    return all(why is None for why in outside)


def _has_learned_from(name: str, models: Path, tables: Mapping[Path, EpisodeTable]) -> bool:
    model: ModelPolicy = registry.load_model(name, models)
    return any(
        has_learned_since(model, str(table.metadata.cluster.get("name", "")), table.metadata.since)
        for table in tables.values()
    )


def _pick_figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: figures[name] for name in _FIGURES} | {"ci": figures["cost_h_ci"]}
