"""Chooses the advice of the shadow report by rules with stated thresholds. It has no effects.

Doubt counts against Mirage. Mirage is recommended only if it is cheaper than plain Slurm, and
than Slurm with one flag set. Mirage must be cheaper by more than luck, and by enough for people to
notice.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from mirage.judging.day_bootstrap import count_days
from mirage.judging.evaluation import HandoverOutcomes
from mirage.judging.paired_test import PairedDifference
from mirage.judging.policy_runner import OWN_PLAN
from mirage.policies.rules.switch_price import SwitchQuantile

LEAST_DAYS = 14
"""Days with start points that are needed for any advice: two of each day of the week."""
LEAST_HANDOVERS = 20
"""Hand-overs that are needed for any advice."""
SHORT_H = 0.5
"""Hours of mean interruption under plain afterany. Below this, no change is worth the effort."""
LEAST_GAIN_H = 0.25
"""Hours of mean cost per hand-over by which Mirage must be cheaper, its whole interval below 0.
A policy counts as at most as good if its whole interval shows no more gain than that."""

UNLIKE_TIMES = 2.0
"""The replay does not follow the log if the mean waits differ by more than this factor, and by
SHORT_H."""

REACTIVE, EARLY, OURS = "reactive", "accrue-always", "auto"
"""Plain afterany; the same on a site with PriorityFlags=ACCRUE_ALWAYS; Mirage's default."""
SWITCH = SwitchQuantile.name
"""A switch chain. Its overlap holds no nodes, so its overlap and cost compare with no other's."""

LABELS = {
    REACTIVE: "afterany (reactive)",
    EARLY: "with ACCRUE_ALWAYS",
    OURS: "Mirage (auto)",
    OWN_PLAN: "no service, own plan",
    SWITCH: "switch chain",
    "oracle": "best (oracle)",
}
"""The names that people read. A policy that is missing here keeps its own name."""
ORDER = (
    OURS,
    REACTIVE,
    EARLY,
    OWN_PLAN,
    SWITCH,
    "fixed-lead",
    "average",
    "slurm-estimate",
    "oracle",
)
"""The order in which policies are shown."""


def list_plotted(policies: Mapping[str, Any]) -> list[str]:
    """Return the names of the policies whose overlaps can be compared, in their order."""
    return [name for name in list_shown(policies) if name != SWITCH]


def list_shown(policies: Mapping[str, Any]) -> list[str]:
    """Return the names of a report's group in their order; an older report lacks some."""
    return [name for name in ORDER if name in policies]


class ReportVerdict(StrEnum):
    TOO_LITTLE = "too-little-data"
    UNLIKE_LOG = "replay-unlike-log"
    SHORT_WAITS = "waits-too-short"
    EARLY_DEPENDENCY = "early-dependency"
    UNDECIDED = "undecided"
    NO_GAIN = "no-gain"
    SAVES = "saves"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWaits:
    """The mean waits of a partition's jobs in the log and in its replay, in hours."""

    partition: str
    jobs: int
    logged_h: float
    replayed_h: float

    @property
    def gap_h(self) -> float:
        return abs(self.logged_h - self.replayed_h)

    @property
    def agrees(self) -> bool:
        """Whether the replay waits about as long as the log."""
        low, high = sorted((self.logged_h, self.replayed_h))
        return self.gap_h < SHORT_H or high <= UNLIKE_TIMES * low


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationEvidence:
    """The evidence that the rules go by.

    Differences are means per hand-over, over the very same hand-overs.
    """

    days: int
    """Days that have start points."""
    handovers: int
    reactive_h: float
    """Mean interruption under plain afterany."""
    overlap_h: float
    """Mean overlap under Mirage."""
    saved: PairedDifference
    """Interruption under Mirage minus that under plain afterany; negative: Mirage saves."""
    on_reactive: PairedDifference
    """Cost of Mirage minus that of plain afterany."""
    on_early: PairedDifference
    """Cost of Mirage minus that of afterany under ACCRUE_ALWAYS."""
    early_on_reactive: PairedDifference
    """Cost of afterany under ACCRUE_ALWAYS minus that of plain afterany."""
    waits: tuple[LogWaits, ...] = ()
    """Of the partitions of the hand-overs; empty: the log has no waits to compare."""

    @classmethod
    def from_handovers(
        cls,
        handovers: Mapping[str, HandoverOutcomes],
        overlap_price: float,
        waits: Iterable[LogWaits] = (),
    ) -> Self:
        """Build the evidence from the outcomes of REACTIVE, EARLY and OURS on the same hand-overs.

        At least one hand-over is needed.
        """
        reactive, early, mirage = (handovers[name] for name in (REACTIVE, EARLY, OURS))
        return cls(
            days=count_days(reactive.start_point),
            handovers=len(reactive.x_h),
            reactive_h=float(reactive.interruption_h.mean()),
            overlap_h=float(mirage.overlap_h.mean()),
            saved=PairedDifference.from_outcomes(mirage, reactive, 0.0),
            on_reactive=PairedDifference.from_outcomes(mirage, reactive, overlap_price),
            on_early=PairedDifference.from_outcomes(mirage, early, overlap_price),
            early_on_reactive=PairedDifference.from_outcomes(early, reactive, overlap_price),
            waits=tuple(waits),
        )


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The verdict, with a sentence of advice and a sentence of reasons."""

    verdict: ReportVerdict
    advice: str
    reason: str


def choose_recommendation(evidence: RecommendationEvidence) -> Recommendation:
    """Return the advice of the first rule that applies, in the order of docs/admin/report.md."""
    if evidence.days < LEAST_DAYS or evidence.handovers < LEAST_HANDOVERS:
        return build_too_little(evidence.days, evidence.handovers)
    disagreeing = [waits for waits in evidence.waits if not waits.agrees]
    if disagreeing:
        return _build_unlike_log(max(disagreeing, key=lambda waits: waits.gap_h))
    if evidence.reactive_h < SHORT_H:
        return _build_short_waits(evidence)
    helps, early_helps = (
        is_worthwhile(evidence.on_reactive),
        is_worthwhile(evidence.early_on_reactive),
    )
    if not helps and not early_helps:
        return _build_no_gain(evidence)
    if helps and is_worthwhile(evidence.on_early):
        return _build_saving(evidence)
    return (
        _build_early_dependency(evidence)
        if is_at_most_as_good(evidence.on_early)
        else _build_undecided(evidence)
    )


def is_worthwhile(difference: PairedDifference) -> bool:
    """Return whether the new policy is cheaper by LEAST_GAIN_H in the mean, and not by luck."""
    return difference.is_cheaper and -difference.mean_h >= LEAST_GAIN_H


def is_at_most_as_good(new: PairedDifference) -> bool:
    """Return whether the new policy is, by its whole interval, cheaper by LEAST_GAIN_H at most."""
    return new.interval_h[0] >= -LEAST_GAIN_H


def build_too_little(days: int, handovers: int = 0) -> Recommendation:
    return Recommendation(
        ReportVerdict.TOO_LITTLE,
        f"Too little data: {days} days with {handovers} hand-overs.",
        f"At least {LEAST_DAYS} days and {LEAST_HANDOVERS} hand-overs are needed to tell a gain "
        "from luck. The first six days of a log and its last two time limits give no hand-overs.",
    )


def _build_unlike_log(waits: LogWaits) -> Recommendation:
    return Recommendation(
        ReportVerdict.UNLIKE_LOG,
        "No advice: the replay does not wait as long as the log says that jobs waited.",
        f"In partition {waits.partition} {waits.jobs:,} jobs waited {waits.logged_h:.2f} h on "
        f"average in the log, and {waits.replayed_h:.2f} h in the replay. What a policy saves in "
        "such a replay says nothing of this site. Look at the rows that were replayed with an "
        "assumption, then correct the cluster file (`mirage simulate`, `mirage calibrate`).",
    )


def _build_short_waits(evidence: RecommendationEvidence) -> Recommendation:
    return Recommendation(
        ReportVerdict.SHORT_WAITS,
        "Waits are too short to matter: you do not need Mirage here.",
        f"A plain afterany dependency interrupts a chain by {evidence.reactive_h:.2f} h per "
        f"hand-over. Below {SHORT_H:g} h no change is worth the effort.",
    )


def _build_no_gain(evidence: RecommendationEvidence) -> Recommendation:
    return Recommendation(
        ReportVerdict.NO_GAIN,
        "No gain is shown: keep plain afterany dependencies.",
        f"Compared with plain afterany, Mirage's cost per hand-over differs by "
        f"{_format_signed(evidence.on_reactive)} h, and that of ACCRUE_ALWAYS by "
        f"{_format_signed(evidence.early_on_reactive)} h. {_describe_threshold()}",
    )


def _build_early_dependency(evidence: RecommendationEvidence) -> Recommendation:
    low, high = evidence.on_early.interval_h
    rating = "better" if low > 0.0 else "as good" if high <= LEAST_GAIN_H else "as good or better"
    return Recommendation(
        ReportVerdict.EARLY_DEPENDENCY,
        f"A plain early dependency (PriorityFlags=ACCRUE_ALWAYS) is {rating} here: you do not need "
        "Mirage.",
        f"Compared with it, Mirage's cost per hand-over differs by "
        f"{_format_signed(evidence.on_early)} h; compared with afterany without the flag, by "
        f"{_format_signed(evidence.on_reactive)} h. {_describe_threshold()}",
    )


def _build_undecided(evidence: RecommendationEvidence) -> Recommendation:
    """Advise for the case that one of the two helps and that the history cannot tell which."""
    return Recommendation(
        ReportVerdict.UNDECIDED,
        "This history cannot tell Mirage from a plain early dependency "
        "(PriorityFlags=ACCRUE_ALWAYS): try the flag first, and "
        "repeat the report with more history.",
        f"Mirage's cost per hand-over differs by {_format_signed(evidence.on_early)} h from "
        f"afterany with the flag, and by {_format_signed(evidence.on_reactive)} h from afterany "
        "without it. Between the two, the flag changes the cost by "
        f"{_format_signed(evidence.early_on_reactive)} h. {_describe_threshold()} "
        f"{_estimate_needed_history(evidence.on_early)}",
    )


def _estimate_needed_history(difference: PairedDifference) -> str:
    """Estimate how much history is enough: an interval narrows with the root of the history."""
    low, high = difference.interval_h
    times = ((high - low) / (2 * LEAST_GAIN_H)) ** 2
    if times <= 1.0:
        return f"The difference is close to the {LEAST_GAIN_H:g} h that a gain needs."
    more_days = math.ceil(difference.days * (times - 1))
    more_handovers = math.ceil(difference.handovers * (times - 1))
    return (
        f"For an interval of {LEAST_GAIN_H:g} h to each side, about {more_days:,} more days with "
        f"{more_handovers:,} more hand-overs would be needed if they are like these."
    )


def _build_saving(evidence: RecommendationEvidence) -> Recommendation:
    low, high = sorted(-end for end in evidence.saved.interval_h)
    return Recommendation(
        ReportVerdict.SAVES,
        f"Mirage would save {-evidence.saved.mean_h:.2f} [{low:.2f}, {high:.2f}] h of interruption "
        f"per hand-over, for {evidence.overlap_h:.2f} h of overlap.",
        f"Plain afterany interrupts a chain by {evidence.reactive_h:.2f} h per hand-over. Mirage's "
        f"cost differs by {_format_signed(evidence.on_reactive)} h from it, and by "
        f"{_format_signed(evidence.on_early)} h from afterany with ACCRUE_ALWAYS. "
        f"{_describe_threshold()}",
    )


def _describe_threshold() -> str:
    return f"A gain is at least {LEAST_GAIN_H:g} h, with its whole interval below 0."


def _format_signed(difference: PairedDifference) -> str:
    low, high = difference.interval_h
    return f"{difference.mean_h:+.2f} [{low:+.2f}, {high:+.2f}]"
