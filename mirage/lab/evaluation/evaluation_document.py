"""An evaluation as one document: what `mirage evaluate` writes, shows and plots."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mirage.domain.time_units import HOUR_S
from mirage.judging import day_bootstrap
from mirage.judging.evaluation import Figures, build_class_masks, evaluate_policies
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table_set import count_clusters
from mirage.lab.evaluation.policy_evaluation import Evaluation, EvaluationRequest, join_handovers
from mirage.lab.study_output import StudyOutput
from mirage.policies.registry import AUTO


def compute_figures(evaluation: Evaluation, overlap_price: float) -> Figures:
    """Return the figures of each judged policy by load class.

    The figures of `auto` also say who decided for it.
    """
    handovers = {name: evaluation.collect_handovers(name) for name in evaluation.played_handovers}
    figures = evaluate_policies(
        handovers, build_class_masks(evaluation.compute_reactive_h()), overlap_price
    )
    if AUTO in figures:
        figures[AUTO]["all"] |= evaluation.auto_choices.summarize_choices()
    return figures


def evaluate_constant_leads(
    tables: Sequence[EpisodeTable], startup_h: float
) -> list[tuple[float, float]]:
    """Compute (overlap, interruption), mean hours, of each constant lead that all tables have.

    Instants are counted back from the predecessor's end, since tables differ in their number.
    """
    shortest = min(table.outcome_s.shape[1] for table in tables)
    points = []
    for steps_back in range(1, shortest + 1):
        instants = [
            np.full(len(t), t.outcome_s.shape[1] - steps_back, dtype=np.int64) for t in tables
        ]
        handovers = join_handovers(tables, instants, startup_h)
        points.append((float(handovers.overlap_h.mean()), float(handovers.interruption_h.mean())))
    return points


def build_document(figures: Figures, request: EvaluationRequest) -> dict[str, Any]:
    """Build the document: the figures, and the inputs that they were computed from."""
    tables = request.tables
    return {
        "policies": figures,
        "overlap_price": request.overlap_price,
        "startup_time_s": round(request.startup_h * HOUR_S),
        "most_returns": request.most_returns,
        "guarded": request.guarded,
        "tables": [
            _describe_table(path, table) for path, table in zip(request.paths, tables, strict=True)
        ],
        "clusters": count_clusters([table.metadata for table in tables]),
        "bootstrap": {
            "block": "day",
            "draws": day_bootstrap.DRAWS,
            "seed": day_bootstrap.SEED,
            "level_pct": day_bootstrap.LEVEL_PCT,
        },
    }


def _describe_table(path: Path, table: EpisodeTable) -> dict[str, Any]:
    metadata = table.metadata
    return {
        "file": str(path),
        "trace": metadata.trace,
        "cluster": metadata.cluster.get("name"),
        "nodes": metadata.nodes,
        "time_limit_s": metadata.time_limit_s,
        "load": metadata.load,
        "episodes": len(table),
    }


def warn_if_pooled(tables: Sequence[EpisodeTable], output: StudyOutput) -> None:
    """Warn if figures pool unlike hand-overs: of several clusters, or at other loads than 1."""
    count = count_clusters([table.metadata for table in tables])
    if count > 1:
        names = ", ".join(dict.fromkeys(str(t.metadata.cluster.get("name")) for t in tables))
        output.warn(
            f"the figures are means over hand-overs of {count} different clusters ({names})"
        )
    loads = sorted({t.metadata.load for t in tables})
    if loads != [1.0]:
        names = ", ".join(f"{load:g}" for load in loads)
        output.warn(f"the hand-overs were simulated at {names} times the trace's load")
