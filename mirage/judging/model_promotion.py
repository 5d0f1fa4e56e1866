"""Decides whether a model may go in use, on days that it was not trained on.

It has to beat the version in use, which was not trained on these days either. The first version of
a name has to beat the better of the twin and `quantile`, which decide without it.

The command and the API both call `judge_promotion`, and then carry the promotion out themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.ports import Policy
from mirage.errors import InputError
from mirage.judging import policy_runner
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.paired_test import FEWEST_DAYS, PairedDifference
from mirage.judging.table.episode_table import EpisodeTable
from mirage.observation import spec
from mirage.policies import registry
from mirage.policies.models.model_policy import ModelPolicy
from mirage.policies.registry import FORECASTS, POLICIES, RULES, is_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The costs of the new version and of what decides without it, on the same hand-overs.

    The costs are means per hand-over in hours, at the default overlap price.
    """

    new: str
    old: str
    """The version in use, or the rule that decides without one."""
    cost_h: float
    cost_before_h: float
    difference: PairedDifference

    def build_figures(self) -> dict[str, Any]:
        """Return the figures for --json. Costs are means per hand-over.

        `difference_h` is the cost of the new version less that of the old one.
        """
        difference = self.difference
        return {
            "compared_with": self.old,
            "cost_h": self.cost_h,
            "cost_before_h": self.cost_before_h,
            "difference_h": difference.mean_h,
            "difference_h_ci": difference.interval_h,
            "episodes": difference.handovers,
            "days": difference.days,
        }

    def __str__(self) -> str:
        mean_h, (low_h, high_h) = self.difference.mean_h, self.difference.interval_h
        handovers, days = self.difference.handovers, self.difference.days
        return (
            f"{self.new} costs {self.cost_h:.3f} h a hand-over and {self.old} "
            f"{self.cost_before_h:.3f} h, a difference of {mean_h:+.3f} h (95 % interval "
            f"{low_h:+.3f} to {high_h:+.3f} h; {handovers} hand-overs of {days} days)"
        )

    def explain_refusal(self) -> str | None:
        """Return why the new version may not be promoted, and what to do; None if it may."""
        difference = self.difference
        if difference.is_cheaper:
            return None
        if difference.days < FEWEST_DAYS:
            reason = f"fewer than {FEWEST_DAYS} days are too few to compare"
        elif difference.mean_h >= 0.0:
            reason = "the new version is not cheaper"
        else:
            reason = "that may be luck"
        stays = f"{self.old} stays in use" if is_model(self.old) else f"{self.new} is not promoted"
        return f"{self}: {reason}; {stays}: give tables of more days, or --force"


_RULES = tuple(POLICIES[name] for name in (*FORECASTS, RULES[0]))
"""The twin and `quantile`."""

TwinTableFiller = Callable[[Sequence[Policy], Sequence[Path], Sequence[EpisodeTable]], None]
"""Adds the twin's answers to tables if one of the policies wants them; raises InputError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionReview:
    """The result of judging a promotion: whether to promote, and the evidence."""

    folder: Path
    """The new version's folder."""
    new: str
    before: str | None
    """The version in use until now; None if there was none."""
    comparison: Comparison | None
    """None if the promotion is forced, or if the version is in use already."""
    forced: bool

    @property
    def refusal(self) -> str | None:
        return None if self.comparison is None else self.comparison.explain_refusal()

    def build_evidence(self) -> dict[str, Any]:
        """Return the evidence for --json, the API and the record beside the model."""
        evidence = {"model": self.new, "before": self.before, "promoted": self.refusal is None}
        if self.comparison is None:
            return evidence | {"why": "nothing was compared"}
        return evidence | self.comparison.build_figures() | {"why": str(self.comparison)}


def judge_promotion(
    model: str, under: Path, paths: Sequence[Path], *, force: bool, fill_twin: TwinTableFiller
) -> PromotionReview:
    """Judge whether models/NAME/VERSION may go in use. Changes nothing.

    `under` is the folder of models; `paths` are the episode tables to compare on. With `force` the
    version may go in use, and nothing is compared. Raises InputError if there is no such
    model, if a model cannot be used, or if tables are missing or unsuitable.
    """
    new = registry.load_model(model, under)
    folder = registry.resolve_folder(model, under)
    before = registry.find_promoted_version(folder.parent)
    comparison = None
    if before != folder.name and not force:
        old = None if before is None else f"{registry.MODELS}/{folder.parent.name}/{before}"
        rivals = _RULES if old is None else (registry.load_model(old, under),)
        comparison = compare_policies(new, rivals, paths, fill_twin)
    return PromotionReview(
        folder=folder, new=new.name, before=before, comparison=comparison, forced=force
    )


def compare_policies(
    new: ModelPolicy, rivals: Sequence[Policy], paths: Sequence[Path], fill_twin: TwinTableFiller
) -> Comparison:
    """Compare a model with the cheapest of its rivals on the tables of `paths`.

    Raises InputError if there is no table, or if one cannot be used.
    """
    if not paths:
        names = " or ".join(rival.name for rival in rivals)
        raise InputError(
            f"{names} decides now: give episode tables of newer days to compare on, or --force"
        )
    models = [rival for rival in rivals if isinstance(rival, ModelPolicy)]
    tables = [load_unseen_table(path, new, *models) for path in paths]
    fill_twin((new, *rivals), paths, tables)
    after = _collect_handovers(new, tables)
    outcomes = {rival.name: _collect_handovers(rival, tables) for rival in rivals}
    costs_h = {name: _compute_mean_cost_h(handovers) for name, handovers in outcomes.items()}
    old = min(costs_h, key=lambda name: costs_h[name])
    return Comparison(
        new=new.name,
        old=old,
        cost_h=_compute_mean_cost_h(after),
        cost_before_h=costs_h[old],
        difference=PairedDifference.from_outcomes(after, outcomes[old], OVERLAP_PRICE),
    )


def _compute_mean_cost_h(handovers: HandoverOutcomes) -> float:
    return float(handovers.compute_cost_h(OVERLAP_PRICE).mean())


def load_unseen_table(path: Path, model: ModelPolicy, *others: ModelPolicy) -> EpisodeTable:
    """Load an episode table to compare models on.

    Raises InputError if one of the models was trained on the table's days or later ones, if `model`
    is not for such chains (its fallback would be compared), or if the load was scaled.
    """
    table = EpisodeTable.load(path)
    if not len(table) or table.about.features_fingerprint != spec.FINGERPRINT:
        raise InputError(
            f"{path} has no episodes, or was made with other features than this release's: "
            "make it again with `mirage episodes`"
        )
    about = table.about
    if not about.has_logged_load:
        raise InputError(
            f"{path} was made at {about.load} times the logged load: give a table made without it"
        )
    outside = model.artefact.scope.explain_outside(about.nodes, about.time_limit_s)
    if outside is not None:
        raise InputError(f"{path} has no chains that {model.name} decides for: {outside}")
    cluster = str(about.cluster.get("name", ""))
    for compared in (model, *others):
        if compared.artefact.scope.was_trained_after(cluster, about.since):
            raise InputError(
                f"{path} has days that {compared.name} was trained on: give a table of later days"
            )
    return table


def _collect_handovers(policy: Policy, tables: Sequence[EpisodeTable]) -> HandoverOutcomes:
    parts = [
        HandoverOutcomes.from_choices(t, policy_runner.run_policy(t, policy, OVERLAP_PRICE))
        for t in tables
    ]
    return HandoverOutcomes.join_outcomes(parts)
