"""Trained models as people are shown them: which there are, where they come from, which is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mirage.errors import UnfitModel
from mirage.policy import registry
from mirage.policy.models.artefact import CARD, check_graph, read_card


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A version, in the columns of `mirage models list`."""

    model: str
    family: str | None
    promoted: bool
    trained_on: str | None
    gap_closed: float | None
    """Of the gap between plain Slurm and the best there could be, on later weeks."""
    fault: str | None
    """Why it is not used; None: it can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A version with its card, and why versions of its name were promoted."""

    line: Line
    card: Mapping[str, Any]
    """Empty where it does not read."""
    promotions: tuple[Mapping[str, Any], ...]
    """Newest first."""


_LONG = ("seen", "metrics", "judged", "trained_on")
"""The bounds of each number, and each hand-over, say nothing to a reader."""


def listed(under: Path) -> list[Line]:
    """All versions of all names."""
    return [_line(folder) for folder in registry.list_model_folders(under)]


def whole(model: str, under: Path) -> Whole:
    """Raises InputError where there is none."""
    folder = registry.resolve_folder(model, under)
    try:
        card = {k: v for k, v in read_card(folder).items() if k not in _LONG}
    except (UnfitModel, OSError, ValueError):
        card = {}
    records = registry.list_promotions(folder.parent)
    return Whole(line=_line(folder), card=card, promotions=tuple(records))


def _load(table: Mapping[str, Any]) -> str:
    return "" if table.get("load", 1.0) == 1.0 else f" at {table['load']} times the load"


def summary(card: Mapping[str, Any]) -> dict[str, Any]:
    """Where it comes from, and how much of the gap it closed on later weeks. Raises UnfitModel."""
    learned = card.get("trained_on", [])
    spans = (
        f"{t['trace']} {t['nodes']} node(s) {_day(t['since'])} to {_day(t['until'])}{_load(t)}"
        for t in (learned if isinstance(learned, list) else [])
    )
    try:
        told = "; ".join(spans)
        judged = card.get("metrics", {}).get("policies", {}).get(card["family"], {}).get("all", {})
        return {"trained_on": told, "gap_closed": judged.get("gap_closed")}
    # A card may hold anything.
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        why = f"{CARD} does not tell what it was trained on, or how it was judged"
        raise UnfitModel(why) from error


def _line(folder: Path) -> Line:
    """A card that does not read is told, not skipped."""
    promoted = registry.find_promoted_version(folder.parent) == folder.name
    try:
        card = read_card(folder)
        told = summary(card)
        check_graph(folder, card)
    except UnfitModel as error:
        return _faulty(folder, promoted, str(error))
    return Line(
        model=registry.format_model_name(folder),
        family=str(card["family"]),
        promoted=promoted,
        fault=None,
        **told,
    )


def _faulty(folder: Path, promoted: bool, why: str) -> Line:
    return Line(
        model=registry.format_model_name(folder),
        family=None,
        promoted=promoted,
        trained_on=None,
        gap_closed=None,
        fault=why,
    )


def _day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
