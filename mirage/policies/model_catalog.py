"""Lists trained models for people: name, origin, results, and whether a model is in use."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mirage.errors import UnfitModel
from mirage.policies import registry
from mirage.policies.models.artefact import CARD, check_graph, read_card


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """A version, in the columns of `mirage models list`."""

    model: str
    family: str | None
    promoted: bool
    trained_on: str | None
    gap_closed: float | None
    """The share of the gap between plain Slurm and the oracle that it closed on later weeks."""
    fault: str | None
    """Why the version cannot be used; None if it can."""


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
    """Return what a model was trained on, and how much of the gap it closed on later weeks.

    Raises UnfitModel if the card lacks these.
    """
    tables = card.get("trained_on", [])
    spans = (
        f"{t['trace']} {t['nodes']} node(s) "
        f"{_format_day(t['since'])} to {_format_day(t['until'])}{_format_load(t)}"
        for t in (tables if isinstance(tables, list) else [])
    )
    try:
        trained_on = "; ".join(spans)
        figures = card.get("metrics", {}).get("policies", {}).get(card["family"], {}).get("all", {})
        return {"trained_on": trained_on, "gap_closed": figures.get("gap_closed")}
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
