"""Reports what a site has learned: its runs, its champion, and the model that challenges it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.challenges import Challenge
from mirage.database.learning.learning_runs import LearningRun, RunState
from mirage.database.schema.engine import Transaction
from mirage.errors import InputError
from mirage.policies import registry, site_models
from mirage.policies.models.artefact import read_card
from mirage.policies.models.card_notes import PROMOTED_AT, WHY

RECENT = 20
"""Runs and challenges that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """The model of the site that is in use."""

    model: str
    family: str
    promoted_at: int | None
    """None: its card does not say."""
    why: str
    previous: str | None
    """The version that comes back if it is taken back; None: the rules decide then."""
    not_asked: str
    """A sentence on why it decides nothing, and what to do; empty: it decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningStatus:
    champion: Champion | None
    challenger: Challenge | None
    """The model that decides in shadow, or waits for an admin."""
    runs: Sequence[LearningRun]
    """Newest first, RECENT at most."""
    challenges: Sequence[Challenge]
    """Newest first, RECENT at most."""

    @property
    def figures(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the figures of the newest run that has any, by policy: mean hours a hand-over."""
        return next((f for run in self.runs if (f := read_figures(run))), {})


def read_learning_status(
    tx: Transaction, cluster_id: int, cluster: str, models_dir: Path | None
) -> LearningStatus:
    """Read the state of learning; `models_dir` is None if there is no folder of models."""
    runs = learning_runs.read_runs(tx, cluster_id, most=RECENT)
    return LearningStatus(
        champion=None if models_dir is None else _read_champion(cluster, models_dir, runs),
        challenger=challenges.find_standing_challenge(tx, cluster_id),
        runs=runs,
        challenges=challenges.read_challenges(tx, cluster_id, most=RECENT),
    )


def read_figures(run: LearningRun) -> dict[str, dict[str, Any]]:
    """Return a run's figures by policy; a policy without both means is left out."""
    figures = run.document.get("figures")
    if not isinstance(figures, dict):
        return {}
    return {
        str(policy): dict(values)
        for policy, values in figures.items()
        if isinstance(values, dict) and all(_is_number(values.get(name)) for name in _MEANS)
    }


_MEANS = ("interruption_h", "overlap_h")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_champion(cluster: str, models_dir: Path, runs: Sequence[LearningRun]) -> Champion | None:
    model = site_models.find_champion(cluster, models_dir)
    if model is None:
        return None
    not_asked = site_models.explain_damage(model, models_dir) or _read_not_asked(model, runs)
    try:
        folder = registry.resolve_folder(model, models_dir)
        card = read_card(folder)
    except InputError:
        return Champion(
            model=model, family="", promoted_at=None, why="", previous=None, not_asked=not_asked
        )
    promoted_at = card.get(PROMOTED_AT)
    previous = registry.read_previous_version(folder)
    return Champion(
        model=model,
        family=str(card["family"]),
        promoted_at=promoted_at if isinstance(promoted_at, int) else None,
        why=str(card.get(WHY) or ""),
        previous=None if previous is None else f"{registry.MODELS}/{folder.parent.name}/{previous}",
        not_asked=not_asked,
    )


def _read_not_asked(model: str, runs: Sequence[LearningRun]) -> str:
    """Return what the newest look said of the model in use if it decides nothing; else empty."""
    documents = (run.document for run in runs)
    newest = next((d["not_asked"] for d in documents if "not_asked" in d), None)
    if not isinstance(newest, dict) or newest.get("model") != model:
        return ""
    return str(newest.get("why", ""))


def explain_run(run: LearningRun) -> str:
    """Return what came of a run, in a sentence."""
    error, sentence = run.document.get("error"), run.document.get("sentence")
    match run.state:
        case RunState.RUNNING:
            return "it goes on"
        case RunState.FAILED:
            return f"it failed: {error or 'nobody knows why'}"
        case RunState.INTERRUPTED:
            return str(sentence or "The run was interrupted, and the next run goes on.")
        case RunState.NOTHING_TO_DO:
            return str(sentence or "there was no reason to learn")
    return str(sentence or "it ended")


def describe_material(run: LearningRun) -> str:
    """Return what a run learned from; empty if it came to no training."""
    plan = run.document.get("plan")
    if not isinstance(plan, dict) or not all(_is_number(plan.get(n)) for n in _MATERIAL):
        return ""
    return f"{plan['weeks']} weeks, {plan['handovers']:,} hand-overs"


_MATERIAL = ("weeks", "handovers")
