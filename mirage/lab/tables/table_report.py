"""Reports on an episode table that was made."""

from pathlib import Path
from typing import Any

from mirage.judging.evaluation import CLASSES, HandoverOutcomes, build_class_masks
from mirage.judging.policy_runner import choose_reactive
from mirage.judging.table.episode_table import EpisodeTable
from mirage.lab.episodes.generation.resumable_build import BuiltTable


def build_table_report(out: Path, built: BuiltTable, wall_s: float) -> dict[str, Any]:
    """`wall_s`: how long it took, without what an earlier command had made."""
    table = built.table
    new_points = len(table) + table.metadata.left_out - built.kept_points
    return {
        "out": str(out),
        "episodes": len(table),
        "instants": int(table.outcome_s.size),
        "left_out": table.metadata.left_out,
        "beyond_trace": table.metadata.beyond_trace,
        "resumed": built.kept_points,
        "wall_s": round(wall_s, 3),
        "episodes_per_s": round(new_points / wall_s, 3),
        "reactive": _summarize_reactive(table),
    }


def _summarize_reactive(table: EpisodeTable) -> dict[str, Any]:
    """Return plain Slurm's mean interruption in hours: of all episodes and by load class."""
    hours = HandoverOutcomes.from_choices(table, choose_reactive(table)).interruption_h
    masks = build_class_masks(hours)
    return {
        "interruption_h": float(hours.mean()),
        "by_class": {
            load: {
                "episodes": int(masks[load].sum()),
                "interruption_h": float(hours[masks[load]].mean()) if masks[load].any() else None,
            }
            for load in CLASSES[1:]
        },
    }
