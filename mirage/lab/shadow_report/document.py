"""The shadow report as one document, which the JSON, the terminal tables and the page all show."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mirage.judging import day_bootstrap, policy_runner
from mirage.judging.evaluation import HandoverOutcomes, build_class_masks, evaluate_policies
from mirage.judging.paired_test import PairedDifference
from mirage.judging.policy_runner import OWN_PLAN
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.evaluation.policy_evaluation import Evaluation
from mirage.lab.shadow_report.handover_pairs import HandoverPair
from mirage.policies.registry import AUTO
from mirage.reports.recommendation import (
    EARLY,
    REACTIVE,
    SWITCH,
    LogWaits,
    RecommendationEvidence,
    build_too_little,
    choose_recommendation,
)

Document = dict[str, Any]

_PRICED = ("cost_h", "cost_h_ci", "gap_closed", "gap_closed_ci")
"""The figures that depend on the price of overlap."""
BASELINES = (REACTIVE, EARLY, OWN_PLAN, "fixed-lead", "average", "slurm-estimate")


@dataclass(frozen=True, slots=True)
class _TableGroup:
    """Tables that are judged as one set."""

    by: str
    """all, partition, user or pair."""
    name: str
    places: tuple[int, ...]


def build_document(
    pairs: Sequence[HandoverPair],
    evaluation: Evaluation,
    overlap_price: float,
    waits: Mapping[str, LogWaits],
) -> Document:
    """Build everything that the report says about its tables. There is one table for each pair.

    `waits`: by partition, where the log has waits to compare.
    """
    groups = [
        _build_group(group, evaluation, overlap_price, _select_waits(group, pairs, waits))
        for group in _group_pairs(pairs)
    ]
    groups[0]["policies"][AUTO]["all"] |= evaluation.auto_choices.summarize_choices()
    return {
        "recommendation": groups[0]["recommendation"],
        "from": _format_instant(min(pair.settings.since for pair in pairs)),
        "until": _format_instant(max(pair.settings.until for pair in pairs)),
        "pairs": [_describe_pair(p, t) for p, t in zip(pairs, evaluation.tables, strict=True)],
        "groups": groups,
        "waits": [asdict(log_waits) | {"agrees": log_waits.agrees} for log_waits in waits.values()],
        "bootstrap": {
            "block": "day",
            "draws": day_bootstrap.DRAWS,
            "seed": day_bootstrap.SEED,
            "level_pct": day_bootstrap.LEVEL_PCT,
        },
    }


def build_empty_document(days: int) -> Document:
    """Return the document for a log that offers no hand-over to ask about."""
    recommendation = asdict(build_too_little(days))
    return {
        "recommendation": recommendation,
        "from": None,
        "until": None,
        "pairs": [],
        "groups": [],
        "waits": [],
    }


def compute_early_handovers(table: EpisodeTable) -> HandoverOutcomes:
    """Return the outcomes of plain Slurm (`afterany`) on the same site under ACCRUE_ALWAYS."""
    reactive = HandoverOutcomes.from_choices(table, policy_runner.choose_reactive(table))
    return replace(reactive, x_h=table.outcome_aged_h[:, -1])


def _group_pairs(pairs: Sequence[HandoverPair]) -> list[_TableGroup]:
    """Group the pairs. The group of all pairs comes first; other groups only if they differ from
    every group before."""
    groups = [_TableGroup("all", "all", tuple(range(len(pairs))))]
    for by, names in (
        ("partition", [pair.settings.partition for pair in pairs]),
        ("user", [pair.user_class for pair in pairs]),
        ("pair", [pair.name for pair in pairs]),
    ):
        for name in dict.fromkeys(names):
            places = tuple(place for place, other_name in enumerate(names) if other_name == name)
            if places not in {group.places for group in groups}:
                groups.append(_TableGroup(by, name, places))
    return groups


def _select_waits(
    group: _TableGroup, pairs: Sequence[HandoverPair], waits: Mapping[str, LogWaits]
) -> list[LogWaits]:
    names = dict.fromkeys(pairs[place].settings.partition for place in group.places)
    return [waits[name] for name in names if name in waits]


def _build_group(
    group: _TableGroup, evaluation: Evaluation, overlap_price: float, waits: Sequence[LogWaits]
) -> Document:
    handovers = {
        name: evaluation.collect_handovers(name, group.places)
        for name in evaluation.played_handovers
    }
    handovers[EARLY] = HandoverOutcomes.join_outcomes(
        compute_early_handovers(evaluation.tables[k]) for k in group.places
    )
    masks = build_class_masks(evaluation.compute_reactive_h(group.places))
    auto_handovers = handovers[AUTO]
    policies = evaluate_policies(handovers, masks, overlap_price)
    # The report's price is that of nodes held by overlap, and a switch chain holds none.
    for of_class in policies[SWITCH]:
        policies[SWITCH][of_class] |= dict.fromkeys(_PRICED)
    return {
        "by": group.by,
        "name": group.name,
        "recommendation": asdict(
            choose_recommendation(
                RecommendationEvidence.from_handovers(handovers, overlap_price, waits)
            )
        ),
        "days": day_bootstrap.count_days(auto_handovers.start_point),
        "policies": policies,
        "against": {
            baseline: _compare_with_baseline(auto_handovers, handovers[baseline], overlap_price)
            for baseline in BASELINES
        },
    }


def _compare_with_baseline(
    auto_handovers: HandoverOutcomes, baseline: HandoverOutcomes, overlap_price: float
) -> dict[str, Any]:
    """Return the savings of `auto` against a baseline.

    They are given in hours per hand-over, and as a sum over the judged hand-overs.
    """
    count = len(auto_handovers.x_h)
    interruption = PairedDifference.from_outcomes(auto_handovers, baseline, 0.0)
    cost = PairedDifference.from_outcomes(auto_handovers, baseline, overlap_price)
    interval = _invert_interval(interruption)
    return {
        "interruption_saved_h": -interruption.mean_h,
        "interruption_saved_h_ci": interval,
        "interruption_saved_sum_h": -interruption.mean_h * count,
        "interruption_saved_sum_h_ci": [end * count for end in interval],
        "cost_saved_h": -cost.mean_h,
        "cost_saved_h_ci": _invert_interval(cost),
    }


def _invert_interval(difference: PairedDifference) -> list[float]:
    """Return the interval of the savings."""
    return sorted(float(-end) for end in np.asarray(difference.interval_h))


def _describe_pair(pair: HandoverPair, table: EpisodeTable) -> dict[str, Any]:
    """Describe a pair without its user's name, because reports are passed around."""
    return {
        "name": pair.name,
        "partition": pair.settings.partition,
        "nodes": pair.settings.nodes,
        "time_limit_s": pair.settings.time_limit_s,
        "every_s": pair.settings.every_s,
        "user_class": pair.user_class,
        "why": pair.reason,
        "episodes": len(table),
        "left_out": table.metadata.left_out,
        "beyond_trace": table.metadata.beyond_trace,
    }


def _format_instant(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
