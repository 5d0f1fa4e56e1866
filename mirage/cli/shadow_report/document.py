"""The shadow report as one document: what its JSON, its terminal tables and its page all show."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mirage.cli.policies.evaluation import Judged
from mirage.cli.shadow_report.handover_pairs import Pair
from mirage.episodes.judge import day_bootstrap, policy_runner
from mirage.episodes.judge.evaluation import HandoverOutcomes, build_class_masks, evaluate_policies
from mirage.episodes.judge.paired_test import PairedDifference
from mirage.episodes.table.episode_table import EpisodeTable
from mirage.policy.registry import AUTO
from mirage.services.reports.recommendation import (
    EARLY,
    REACTIVE,
    Evidence,
    build_too_little,
    choose_recommendation,
)

Document = dict[str, Any]

BASELINES = (REACTIVE, EARLY, "fixed-lead", "average", "slurm-estimate")


@dataclass(frozen=True, slots=True)
class _Group:
    """Tables that are judged as one set."""

    by: str
    """all, partition, user or pair."""
    name: str
    places: tuple[int, ...]


def document(pairs: Sequence[Pair], judged: Judged, overlap_price: float) -> Document:
    """Everything the report says of tables, one for each pair."""
    groups = [_told(group, judged, overlap_price) for group in _groups(pairs)]
    groups[0]["policies"][AUTO]["all"] |= judged.heard.figures()
    return {
        "recommendation": groups[0]["recommendation"],
        "from": _day(min(pair.settings.since for pair in pairs)),
        "until": _day(max(pair.settings.until for pair in pairs)),
        "pairs": [_pair(p, t) for p, t in zip(pairs, judged.tables, strict=True)],
        "groups": groups,
        "bootstrap": {
            "block": "day",
            "draws": day_bootstrap.DRAWS,
            "seed": day_bootstrap.SEED,
            "level_pct": day_bootstrap.LEVEL_PCT,
        },
    }


def nothing_to_tell(days: int) -> Document:
    """Of a log in which no hand-over can be asked about."""
    advised = asdict(build_too_little(days))
    return {"recommendation": advised, "from": None, "until": None, "pairs": [], "groups": []}


def early(table: EpisodeTable) -> HandoverOutcomes:
    """What afterany comes to on the same site under ACCRUE_ALWAYS."""
    plain = HandoverOutcomes.from_choices(table, policy_runner.choose_reactive(table))
    return replace(plain, x_h=table.outcome_aged_h[:, -1])


def _groups(pairs: Sequence[Pair]) -> list[_Group]:
    """All first; others only where they say something else than a group before them."""
    found = [_Group("all", "all", tuple(range(len(pairs))))]
    for by, names in (
        ("partition", [pair.settings.partition for pair in pairs]),
        ("user", [pair.user_class for pair in pairs]),
        ("pair", [pair.name for pair in pairs]),
    ):
        for name in dict.fromkeys(names):
            places = tuple(k for k, other in enumerate(names) if other == name)
            if places not in {group.places for group in found}:
                found.append(_Group(by, name, places))
    return found


def _told(group: _Group, judged: Judged, overlap_price: float) -> Document:
    handovers = {name: judged.handovers(name, group.places) for name in judged.chosen}
    handovers[EARLY] = HandoverOutcomes.join_outcomes(early(judged.tables[k]) for k in group.places)
    load = build_class_masks(judged.reactive_h(group.places))
    ours = handovers[AUTO]
    return {
        "by": group.by,
        "name": group.name,
        "recommendation": asdict(
            choose_recommendation(Evidence.from_handovers(handovers, overlap_price))
        ),
        "days": day_bootstrap.count_days(ours.start_point),
        "policies": evaluate_policies(handovers, load, overlap_price),
        "against": {b: _against(ours, handovers[b], overlap_price) for b in BASELINES},
    }


def _against(
    ours: HandoverOutcomes, baseline: HandoverOutcomes, overlap_price: float
) -> dict[str, Any]:
    """What `auto` saves against a baseline: hours a hand-over, and in sum over those judged."""
    count = len(ours.x_h)
    saved = PairedDifference.from_outcomes(ours, baseline, 0.0)
    cheaper = PairedDifference.from_outcomes(ours, baseline, overlap_price)
    ends = _less(saved)
    return {
        "interruption_saved_h": -saved.mean_h,
        "interruption_saved_h_ci": ends,
        "interruption_saved_sum_h": -saved.mean_h * count,
        "interruption_saved_sum_h_ci": [end * count for end in ends],
        "cost_saved_h": -cheaper.mean_h,
        "cost_saved_h_ci": _less(cheaper),
    }


def _less(difference: PairedDifference) -> list[float]:
    """The interval of what is saved."""
    return sorted(float(-end) for end in np.asarray(difference.interval_h))


def _pair(pair: Pair, table: EpisodeTable) -> dict[str, Any]:
    """Without the user's name: a report is shown around."""
    return {
        "name": pair.name,
        "partition": pair.settings.partition,
        "nodes": pair.settings.nodes,
        "time_limit_s": pair.settings.time_limit_s,
        "every_s": pair.settings.every_s,
        "user_class": pair.user_class,
        "why": pair.why,
        "episodes": len(table),
        "left_out": table.about.left_out,
        "beyond_trace": table.about.beyond_trace,
    }


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
