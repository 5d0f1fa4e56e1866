"""Judges a challenger, which decided in shadow, and the champion, which is in use.

Both are judged on the same hand-overs as the rules, on days that were used neither for training nor
for choosing (docs/decisions/0041-models-of-the-site.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from mirage.domain.arrays import Floats, Ints
from mirage.errors import InputError
from mirage.judging.owner_weighed_test import ERROR, WeighedDifference, weigh_by_owner

CHALLENGER, CHAMPION = "challenger", "champion"
RULES = ("twin", "quantile")
"""What decides without a model. The better of the two is the rule that a model has to beat."""
TAKE_BACK_ERROR = 0.01
"""How often a champion that is as good as the rule may seem worse in one look. Taking it back costs
nothing then; a worse one that stays costs hours at each hand-over."""
MOST_JUDGEMENTS = 4
"""A challenger that is cheaper so far, but not beyond luck, stands for so many judgements."""


class Judgement(StrEnum):
    BETTER = "better"
    """Cheaper beyond luck: it may be promoted."""
    OPEN = "open"
    """Cheaper so far, or too few days to tell: it stands until the next judgement."""
    NO_BETTER = "no-better"
    """Not cheaper, or not shown to be so in time: it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeOutcomes:
    """The hand-overs of some days under each policy."""

    start_point: Ints
    """[E]: epoch seconds."""
    owner: Ints
    """[E]: a number for each owner; sample hand-overs have an owner of their own."""
    cost_h: Mapping[str, Floats]
    """[E] by policy: `challenger`, `champion`, `twin`, `quantile`. `champion` is what decides at
    present: the promoted model, or what `auto` chooses without one. NaN: not known."""

    def compute_means(self) -> dict[str, float]:
        """Return the weighed mean cost of each policy, in hours, where all costs are known."""
        outcomes = self.select_known()
        weights = weigh_by_owner(outcomes.start_point, outcomes.owner)
        total = weights.sum()
        return {name: float(weights @ cost / total) for name, cost in outcomes.cost_h.items()}

    def select_known(self) -> "ChallengeOutcomes":
        """Select the hand-overs of which the cost under each policy is known."""
        rows = np.ones(len(self.start_point), dtype=bool)
        for cost in self.cost_h.values():
            rows &= np.isfinite(cost)
        return ChallengeOutcomes(
            start_point=np.asarray(self.start_point)[rows],
            owner=np.asarray(self.owner)[rows],
            cost_h={name: np.asarray(cost)[rows] for name, cost in self.cost_h.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChallengeVerdict:
    """What the hand-overs say about one policy."""

    judged: str
    """`challenger` or `champion`."""
    rule: str
    """The better of `twin` and `quantile` on these hand-overs."""
    cost_h: Mapping[str, float]
    """The weighed mean cost a hand-over of each policy."""
    differences: Mapping[str, WeighedDifference]
    """The judged policy's cost less that of each policy that it has to beat, by its name."""

    @property
    def is_better(self) -> bool:
        """Return whether the policy is cheaper than each of the others, beyond luck."""
        return all(difference.is_cheaper for difference in self.differences.values())

    @property
    def is_worse(self) -> bool:
        """Return whether the policy is dearer than the rule, beyond luck."""
        return self.differences[self.rule].is_dearer

    @property
    def is_open(self) -> bool:
        """Return whether more days may show that the policy is cheaper."""
        return all(d.mean_h < 0.0 or not d.is_decisive for d in self.differences.values())

    def build_evidence(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return {
            "rule": self.rule,
            "cost_h": dict(self.cost_h),
            "against": {name: d.build_figures() for name, d in self.differences.items()},
        }

    def explain(self) -> str:
        """Return a sentence with the figures, for people."""
        parts = [f"than {name}: {difference}" for name, difference in self.differences.items()]
        return f"costs more (+) or less (-) {'; '.join(parts)}"


def judge_challenge(outcomes: ChallengeOutcomes) -> ChallengeVerdict:
    """Judge the challenger against the champion, and against the better of twin and `quantile`.

    Raises InputError without a hand-over, or without the costs of `champion` and of a rule.
    """
    return _judge(outcomes, CHALLENGER, (CHAMPION,), ERROR)


def judge_champion(outcomes: ChallengeOutcomes) -> ChallengeVerdict:
    """Judge the champion against the better of twin and `quantile`. Raises InputError as above."""
    return _judge(outcomes, CHAMPION, (), TAKE_BACK_ERROR)


def _judge(
    outcomes: ChallengeOutcomes, judged: str, others: tuple[str, ...], error: float
) -> ChallengeVerdict:
    names = [judged, *others, *(name for name in RULES if name in outcomes.cost_h)]
    missing = [name for name in names if name not in outcomes.cost_h]
    if missing or not set(names) & set(RULES):
        raise InputError(f"no costs of {', '.join(missing) or ' or '.join(RULES)} to judge by")
    compared = ChallengeOutcomes(
        start_point=outcomes.start_point,
        owner=outcomes.owner,
        cost_h={name: outcomes.cost_h[name] for name in names},
    ).select_known()
    if not len(compared.start_point):
        raise InputError("there is no hand-over whose cost is known under each policy")
    means = compared.compute_means()
    rule = min((name for name in RULES if name in means), key=lambda name: means[name])
    differences = {
        name: WeighedDifference.from_differences(
            compared.start_point,
            compared.owner,
            compared.cost_h[judged] - compared.cost_h[name],
            error=error,
        )
        for name in (*others, rule)
    }
    return ChallengeVerdict(judged=judged, rule=rule, cost_h=means, differences=differences)


def decide_challenge(verdict: ChallengeVerdict, judgements: int) -> Judgement:
    """Decide what becomes of the challenger at its judgement number `judgements`, from 1.

    Each judgement of a year may err with `ERROR`, of whichever challenger it is, so that standing
    for several judgements costs no more errors than new challengers would.
    """
    if verdict.is_better:
        return Judgement.BETTER
    if verdict.is_open and judgements < MOST_JUDGEMENTS:
        return Judgement.OPEN
    return Judgement.NO_BETTER


def is_judgement_due(*, proposed_at: int, judgements: int, shadow_s: int, now: int) -> bool:
    """Return whether the next judgement of a challenger is due: one each `shadow_s` seconds."""
    return now >= proposed_at + (judgements + 1) * shadow_s
