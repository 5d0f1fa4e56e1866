"""Lists trained models for people: name, origin, results, and whether a model is in use."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any

from mirage.errors import UnfitModel
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, check_graph, read_card


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """A version of a model, as `mirage models list --json` has it."""

    model: str
    family: str | None
    promoted: bool
    trained_on: str | None
    gap_closed: float | None
    """The share of the gap between plain Slurm and the oracle that it closed on later weeks."""
    fault: str | None
    """Why the version cannot be used; None if it can."""
    gap_closed_ci: tuple[float, float] | None = None
    """The 95 % interval of `gap_closed` over days."""
    cost_h: float | None = None
    """The mean cost of a hand-over on later weeks, hours."""
    cluster: str | None = None
    """The cluster that it was trained on."""
    trained_until: str | None = None
    """The day on which its training data end."""
    as_evaluate: bool = False
    """Whether it was judged by the code of `mirage evaluate`. Older releases decided once an hour,
    without returns."""

    @property
    def name(self) -> str:
        """Return the name of the model without its version."""
        return self.model.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.model.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A model in one row: the version in use, or else the newest."""

    line: ModelVersion
    versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDetail:
    """A version with its card, and the promotions of its name with their evidence."""

    line: ModelVersion
    card: Mapping[str, Any]
    """The model card; empty if it cannot be read."""
    promotions: tuple[Mapping[str, Any], ...]
    """Newest first."""


_HIDDEN_KEYS = ("seen", "metrics", "judged", "trained_on")
"""Long parts of a card that are of no use to a reader: ranges of inputs, and single hand-overs."""


def list_versions(under: Path) -> list[ModelVersion]:
    """Return all versions of all models."""
    return [_load_version_line(folder) for folder in registry.list_model_folders(under)]


def summarize_models(lines: Sequence[ModelVersion], under: Path) -> list[ModelSummary]:
    """Summarize the versions of each name. For each cluster the cheapest model comes first.

    Costs of different clusters do not compare, and what cannot be used comes last.
    """
    summaries = []
    for name, group in groupby(sorted(lines, key=lambda line: line.name), lambda line: line.name):
        versions = sort_versions(list(group))
        promoted = [line for line in versions if line.promoted]
        line = _tell_missing_version(promoted[0] if promoted else versions[0], name, under)
        summaries.append(ModelSummary(line=line, versions=len(versions)))
    return sorted(summaries, key=lambda summary: _rank_line(summary.line))


def sort_versions(lines: Sequence[ModelVersion]) -> list[ModelVersion]:
    """Sort the versions of one name, the newest first: 10 is newer than 9."""
    return sorted(lines, key=lambda line: _split_version(line.version), reverse=True)


def _split_version(version: str) -> list[tuple[bool, int, str]]:
    parts = re.findall(r"\d+|\D+", version)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _rank_line(line: ModelVersion) -> tuple[bool, str, float, str]:
    cost_h = inf if line.cost_h is None else line.cost_h
    return line.fault is not None, line.cluster or "", cost_h, line.model


def _tell_missing_version(line: ModelVersion, name: str, under: Path) -> ModelVersion:
    """Return the line, with a fault if the name stands for a version that is not there."""
    promoted = registry.find_promoted_version(under / name.rpartition("/")[2])
    if line.promoted or promoted is None:
        return line
    return replace(line, fault=f"version {promoted} is promoted, and its folder is gone")


def load_version(model: str, under: Path) -> ModelDetail:
    """Return a version with its card. Raises InputError if there is no such version."""
    folder = registry.resolve_folder(model, under)
    try:
        card = {k: v for k, v in read_card(folder).items() if k not in _HIDDEN_KEYS}
    except (UnfitModel, OSError, ValueError):
        card = {}
    records = registry.list_promotions(folder.parent)
    return ModelDetail(line=_load_version_line(folder), card=card, promotions=tuple(records))


def _format_load(table: Mapping[str, Any]) -> str:
    return "" if table.get("load", 1.0) == 1.0 else f" at {table['load']} times the load"


def summarize_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model was trained on, and its cost and gap closed on later weeks.

    Raises UnfitModel if the card lacks these.
    """
    tables = card.get("trained_on")
    tables = tables if isinstance(tables, list) else []
    spans = (
        f"{t['trace']} {t['nodes']} node(s) "
        f"{_format_day(t['since'])} to {_format_day(t['until'])}{_format_load(t)}"
        for t in tables
    )
    try:
        trained_on = "; ".join(spans)
        metrics = card.get("metrics", {})
        figures = metrics.get("policies", {}).get(card["family"], {}).get("all", {})
        interval = figures.get("gap_closed_ci")
        return {
            "trained_on": trained_on,
            "gap_closed": figures.get("gap_closed"),
            "gap_closed_ci": None if interval is None else tuple(interval),
            "cost_h": figures.get("cost_h"),
            "cluster": str(tables[0]["cluster"].get("name", "")) if tables else None,
            "trained_until": _format_day(max(t["until"] for t in tables)) if tables else None,
            "as_evaluate": "most_returns" in metrics,
        }
    # A card may hold anything.
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        message = f"{CARD} does not tell what it was trained on, or how it was judged"
        raise UnfitModel(message) from error


def _load_version_line(folder: Path) -> ModelVersion:
    """Return a version's line; if its card cannot be read, the line has the fault."""
    promoted = registry.find_promoted_version(folder.parent) == folder.name
    try:
        card = read_card(folder)
        summary = summarize_card(card)
        check_graph(folder, card)
    except UnfitModel as error:
        return _build_faulty_line(folder, promoted, str(error))
    return ModelVersion(
        model=registry.format_model_name(folder),
        family=str(card["family"]),
        promoted=promoted,
        fault=None,
        **summary,
    )


def _build_faulty_line(folder: Path, promoted: bool, fault: str) -> ModelVersion:
    return ModelVersion(
        model=registry.format_model_name(folder),
        family=None,
        promoted=promoted,
        trained_on=None,
        gap_closed=None,
        fault=fault,
    )


def _format_day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
